"""The rules: pure functions, tested without a database, a clock or a network."""
