"""Have the process of tests/warm.py run a program of Python as if it had been started here; itself run as a script.

``python -IS asking.py REQUESTS PROGRAM ARGUMENT…``: ``REQUESTS`` is the descriptor of the socket that takes requests.
The program has this script's arguments, folder, environment, standard streams and the signals that it is sent.
"""

import json
import os
import signal
import socket
import sys


def main() -> int:
    """Have the program run; return its exit code."""
    requests, *argv = sys.argv[1:]
    folder = os.getcwd()  # noqa: PTH109 - pathlib takes longer to load than all of this
    request = {"argv": argv, "env": dict(os.environ), "cwd": folder, "session": False}
    report, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    with theirs:
        forker = socket.socket(fileno=int(requests))
        socket.send_fds(forker, [json.dumps(request).encode()], [0, 1, 2, theirs.fileno()])
    pid = int(report.recv(16))
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, lambda number, _: os.kill(pid, number))
    code = int(report.recv(16))
    return code if code >= 0 else 128 - code


sys.exit(main())
