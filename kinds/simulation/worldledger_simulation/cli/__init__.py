"""The commands of simulations."""
