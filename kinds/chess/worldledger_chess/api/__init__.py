"""Games of chess over HTTP and WebSocket."""
