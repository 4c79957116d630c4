"""The embedded server: set up, shared, killed, revived and stopped, with real processes."""
