"""What a report says of social-RL runs."""
