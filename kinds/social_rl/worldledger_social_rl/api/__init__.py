"""Social-RL runs over HTTP and WebSocket."""
