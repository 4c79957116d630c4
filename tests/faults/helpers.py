"""Tools of these tests: the service in a process of its own, and waiting for something to be true."""

from __future__ import annotations

import os
import socket
import urllib.error
import urllib.request
from pathlib import Path

from tests.warm import Process

ROOT = Path(__file__).resolve().parents[2]


def free_port() -> int:
    """Return a port that nobody listens on at the moment."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port: int = probe.getsockname()[1]
        return port


def environment() -> dict[str, str]:
    """Return an environment in which no setting of ours is made: the product's own are what is tested."""
    kept = {name: value for name, value in os.environ.items() if not name.startswith(("WORLDLEDGER_", "PG"))}
    return {**kept, "PYTHONPATH": str(ROOT)}


class Service:
    """``worldledger serve`` on the embedded server of a home; it can be killed and started again on its port."""

    def __init__(self, home: Path, *options: str) -> None:
        self.port = free_port()
        self._home = home
        self._options = options
        self._log = home.with_name("service.log").open("ab")
        self.process = self._start()

    def _start(self) -> Process:
        arguments = ["serve", "--home", str(self._home), "--port", str(self.port), *self._options]
        with open(os.devnull, "rb") as nothing:  # noqa: PTH123 - no path of ours
            streams = (nothing.fileno(), self._log.fileno(), self._log.fileno())
            self.process = Process(arguments, streams, environment())
        return self.process

    def is_ready(self) -> bool:
        """Tell whether it answers and can use its database."""
        assert self.process.poll() is None, Path(self._log.name).read_text()
        try:
            with urllib.request.urlopen(f"http://127.0.0.1:{self.port}/readyz", timeout=10) as answer:
                return bool(answer.status == 200)
        except (urllib.error.URLError, OSError):
            return False

    def kill(self) -> None:
        """Kill it with SIGKILL."""
        self.process.end()

    def start_again(self) -> None:
        """Start it anew after `kill`."""
        self._start()

    def close(self) -> None:
        """Leave no process behind."""
        if self.process.poll() is None:
            self.kill()
        self._log.close()
