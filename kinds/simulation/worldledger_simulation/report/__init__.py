"""What a report says of simulations."""
