"""Taking the address that the service listens on."""

from __future__ import annotations

import errno
import os
import socket
from typing import Final

from worldledger.errors import SimulationError

#: Why a port is refused that something else listens on.
TAKEN: Final = "another program uses it; stop that one, or choose another port (--port, WORLDLEDGER_PORT)"
_WHY: Final = {
    errno.EADDRINUSE: TAKEN,
    errno.EADDRNOTAVAIL: "it is no address of this machine; check --host (WORLDLEDGER_HOST)",
    errno.EDESTADDRREQ: "no host is named; 0.0.0.0 stands for all addresses of this machine",
    errno.EACCES: "it is not allowed here; ports below 1024 need privileges",
}
#: Connections that may wait to be accepted.
_BACKLOG: Final = 2048


class ListenError(SimulationError):
    """The address to listen on cannot be had: taken, not allowed, not this machine's, or none; details: host, port."""

    code = "cannot_listen"

    def __init__(self, host: str, port: int, why: str) -> None:
        super().__init__(f"cannot listen on {host or repr(host)} port {port}: {why}", host=host, port=port)


def listen(host: str, port: int) -> socket.socket:
    """Take the address; with port 0 any free one. Raises ListenError."""
    try:
        return _listen(host, port)
    except OSError as error:
        raise _refused(host, port, error) from error


def check_address(host: str, port: int) -> None:
    """Raise ListenError for a host that is not this machine's, whoever listens on the port there."""
    try:
        _listen(host, 0).close()
    except OSError as error:
        raise _refused(host, port, error) from error


def _listen(host: str, port: int) -> socket.socket:
    if not host:  # to the system that is all addresses; a variable that a shell has left empty is not meant so
        raise OSError(errno.EDESTADDRREQ, os.strerror(errno.EDESTADDRREQ))
    found = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE)
    family, *_, address = min(found, key=lambda each: each[0] != socket.AF_INET)
    listener = socket.create_server((str(address[0]), int(address[1])), family=family, backlog=_BACKLOG)
    # asyncio sets it for sockets that it makes itself; without it answers wait for the client's acknowledgement.
    listener.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    return listener


def _refused(host: str, port: int, error: OSError) -> ListenError:
    other = f"{error.strerror or error}; check --host and --port"
    return ListenError(host, port, _WHY.get(error.errno or 0, other))
