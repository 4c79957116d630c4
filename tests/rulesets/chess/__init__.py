"""Tests of the entities of chess, of live games, and of what the rules write."""
