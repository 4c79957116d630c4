"""Tests that talk to a service in their own process can be stopped like any others."""

from __future__ import annotations

import signal
import sys
from pathlib import Path

import pytest

from tests.cli.helpers import Running

_PYTEST = Path(sys.executable).with_name("pytest")
_COMMAND = ("-s", "--assert=plain", "-p", "no:cacheprovider", "tests/client/forever.py")


def test_sigterm_ends_the_tests(server_url: str) -> None:
    """SIGTERM ends pytest while a service of its own is served and a test waits, whatever that test swallows."""
    with Running(*_COMMAND, program=_PYTEST, WORLDLEDGER_TEST_DATABASE_URL=server_url) as running:
        while not (said := running.line()).startswith("connected"):
            pass
        assert said == "connected to town"
        code, rest, _ = running.end(signal.SIGTERM)
        assert code == pytest.ExitCode.INTERRUPTED, rest
        assert "1 passed" in rest
        assert "another" not in rest
