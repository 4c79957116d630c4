"""Tests of the arena: live games of chess."""
