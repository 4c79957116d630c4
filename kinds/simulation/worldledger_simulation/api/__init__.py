"""Simulations over HTTP and WebSocket."""
