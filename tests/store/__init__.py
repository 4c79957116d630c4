"""The store: appending, reading and verifying on real servers, the newest and the oldest that are supported."""
