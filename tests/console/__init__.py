"""The console: how it is built and served, its units, and its pages in a real browser."""
