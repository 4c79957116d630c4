"""The lowest layer: what is no HTTP is refused like everything else, though no application ever sees it."""

from __future__ import annotations

import logging

import httptools
from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol

from service.api.errors import BadRequestError
from service.api.problems import problem_response

_log = logging.getLogger(__name__)


class Protocol(HttpToolsProtocol):
    """uvicorn's protocol, which answers what it cannot read with a problem, and says so to no one but a debugger."""

    def data_received(self, data: bytes) -> None:
        """Read on; a connection on which no HTTP comes is answered and closed."""
        self._unset_keepalive_if_required()
        try:
            self.parser.feed_data(data)
        except httptools.HttpParserUpgrade:
            if self._should_upgrade():
                self.handle_websocket_upgrade()
            else:
                _log.debug("%s asks for another protocol and gets HTTP/1.1", self.client)
        except httptools.HttpParserError as error:
            reason = error.__context__ if isinstance(error, httptools.HttpParserCallbackError) else error
            _log.debug("%s sent what is no HTTP request: %s", self.client, reason)
            if isinstance(reason, httptools.HttpParserInvalidURLError):
                self.send_400_response("the URL cannot be read, or is longer than 65,535 bytes")
            else:
                self.send_400_response(f"this is no HTTP/1.1 request: {str(error).lower()}")

    def _should_upgrade(self) -> bool:
        """Tell whether this is a WebSocket's handshake; an offer without its key is declined like any other.

        So is one that does not wait for the answer to the request before it.
        """
        offered = any(name == b"sec-websocket-key" for name, _ in self.headers)
        idle = getattr(self.cycle, "response_complete", True)
        return offered and idle and self.parser.get_method() == b"GET" and super()._should_upgrade()

    def send_400_response(self, msg: str) -> None:
        """Answer with a problem and close; where another answer is on its way, only close."""
        idle = getattr(self.cycle, "response_complete", True)  # a connection has no cycle before its first request
        if idle or (self.cycle.more_body and not self.cycle.response_started and not self.pipeline):
            self.transport.write(bad_request(msg, getattr(self, "url", b""), self.server_state.default_headers))
        self.transport.close()


def bad_request(reason: str, url: bytes, headers: list[tuple[bytes, bytes]]) -> bytes:
    """Give the whole answer to what is no HTTP request, or no WebSocket handshake."""
    response = problem_response({"type": "http", "raw_path": url}, BadRequestError(reason))
    lines = [b"%b: %b\r\n" % header for header in (*headers, *response.raw_headers, (b"connection", b"close"))]
    return b"HTTP/1.1 400 Bad Request\r\n" + b"".join(lines) + b"\r\n" + response.body
