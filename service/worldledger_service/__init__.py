"""What runs: the store, the HTTP service and the command line."""
