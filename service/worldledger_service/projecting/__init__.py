"""The engine of the projections: it feeds, rebuilds and checks them, in this process or in one beside the service."""
