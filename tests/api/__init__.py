"""The HTTP API, on a real PostgreSQL."""
