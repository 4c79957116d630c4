"""The engine of the projections: it feeds, rebuilds and checks them, here or in a process beside the service."""
