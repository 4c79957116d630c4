"""Importing simulations into the store, and finding parts of them."""
