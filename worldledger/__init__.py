"""Worldledger's rules: pure, synchronous, without I/O. What a simulation author imports."""
