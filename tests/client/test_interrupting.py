"""Tests that talk to a service in their own process can be stopped like any others."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

_COMMAND = (sys.executable, "-m", "pytest", "-s", "-p", "no:cacheprovider", "tests/client/forever.py")


def test_sigterm_ends_the_tests(server_url: str) -> None:
    """SIGTERM ends pytest while a service of its own is served and a test waits, whatever that test swallows."""
    with subprocess.Popen(
        _COMMAND,
        cwd=Path(__file__).resolve().parents[2],
        env={**os.environ, "WORLDLEDGER_TEST_DATABASE_URL": server_url},
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
    ) as process:
        assert process.stdout is not None
        try:
            said = next((line for line in process.stdout if line.startswith("connected")), "it ended")
            assert said == "connected to town\n"
            process.send_signal(signal.SIGTERM)
            rest = process.stdout.read()
            assert process.wait(120) == pytest.ExitCode.INTERRUPTED, rest
            assert "1 passed" in rest
            assert "another" not in rest
        finally:
            process.kill()
