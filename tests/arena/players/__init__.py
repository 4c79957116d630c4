"""Tests of the players that the service moves for."""
