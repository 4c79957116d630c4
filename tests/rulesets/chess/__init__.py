"""Tests of the seed's entities of chess, of live games, and of what the rules write."""
