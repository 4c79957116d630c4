"""Packages of others that add to Worldledger, built and installed as theirs are."""
