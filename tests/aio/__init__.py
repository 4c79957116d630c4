"""Tests of the asyncio primitives, on an event loop with a clock of its own."""
