"""The commands of social-RL runs."""
