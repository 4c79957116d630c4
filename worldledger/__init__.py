"""The rules of Worldledger: pure, synchronous, without I/O. Authors of simulations import this package."""
