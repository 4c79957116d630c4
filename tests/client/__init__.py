"""Tests of the client and the facades: the same bodies in process and against a served world where possible."""
