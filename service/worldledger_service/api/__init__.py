"""The HTTP door: thin routers over the store. `problems` is the one table from error to status."""
