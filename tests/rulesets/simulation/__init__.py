"""Simulations, as their ruleset has them."""
