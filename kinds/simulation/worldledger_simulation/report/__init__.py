"""The part of reports about simulations."""
