"""Social-RL runs in the store: importing them, and finding parts of them."""
