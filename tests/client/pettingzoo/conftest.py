"""Environments, which block, of a service in a thread; and a go-between that loses answers."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any, TypeAlias

import httpx2
import pytest
from pettingzoo.utils.wrappers import OrderEnforcingWrapper
from worldledger_chess.pettingzoo import chess_env

MakeEnv: TypeAlias = Callable[..., OrderEnforcingWrapper[str, Any, Any]]


@pytest.fixture
def http(service: str) -> Iterator[httpx2.Client]:
    """Talk to the service by hand."""
    with httpx2.Client(base_url=service) as client:
        yield client


@pytest.fixture
def make_env(service: str) -> Iterator[MakeEnv]:
    """Return a maker of environments, which are closed after the test."""
    made: list[OrderEnforcingWrapper[str, Any, Any]] = []

    def make(url: str = service, **settings: Any) -> OrderEnforcingWrapper[str, Any, Any]:
        made.append(chess_env.env(url, **settings))
        return made[-1]

    yield make
    for env in made:
        env.close()


class GoBetween(ThreadingHTTPServer):
    """Hands requests on to a service, and loses answers and refuses requests, as many as it is told to."""

    def __init__(self, service: str) -> None:
        super().__init__(("127.0.0.1", 0), _Handler)
        self.service = service
        self.url = f"http://127.0.0.1:{self.server_address[1]}"
        self.lose = 0
        self.refuse = 0


class _Handler(BaseHTTPRequestHandler):
    server: GoBetween

    def do_GET(self) -> None:
        body = self.rfile.read(int(self.headers.get("Content-Length", 0)))
        if self.server.refuse:
            self.server.refuse -= 1
            self._answer(429, b'{"code": "rate_limited", "detail": "too often", "retry_after_s": 0.05}')
            return
        names = ("Content-Type", "Idempotency-Key")
        headers = {name: self.headers[name] for name in names if name in self.headers}
        answer = httpx2.request(self.command, self.server.service + self.path, content=body, headers=headers)
        if self.server.lose:
            self.server.lose -= 1
            return  # HTTP/1.0: the connection is closed
        self._answer(answer.status_code, answer.content)

    def _answer(self, status: int, content: bytes) -> None:
        self.send_response(status)
        self.send_header("Content-Length", str(len(content)))
        self.end_headers()
        self.wfile.write(content)

    do_POST = do_GET  # noqa: N815 - as the library names it

    def log_message(self, format: str, *arguments: Any) -> None:  # noqa: A002 - as the library names it
        """Keep quiet."""


@pytest.fixture
def between(service: str) -> Iterator[GoBetween]:
    """Stand between environments and the service."""
    with GoBetween(service) as made:
        thread = threading.Thread(target=made.serve_forever, kwargs={"poll_interval": 0.01})
        thread.start()
        yield made
        made.shutdown()
        thread.join()
