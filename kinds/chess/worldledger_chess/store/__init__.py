"""Games of chess in the store: importing them, and finding parts of them."""
