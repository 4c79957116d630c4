"""Rulesets: what each kind of world makes of what happens in it."""
