"""The program ``worldledger`` in processes that begin warm, for to start Python and load the commands takes a second.

One process per test worker loads what the program loads; it then forks for each process that is wanted, and the child
runs the environment's console script as a fresh interpreter would: with its own streams, environment, signals and end.
What is forked is the program alone: what this starts itself (servers, feeders, workers) starts as always. Variables
that modules read while they are loaded are not seen here; a test of those starts the script itself.
"""

from __future__ import annotations

import atexit
import functools
import gc
import importlib
import json
import os
import pkgutil
import re
import runpy
import selectors
import signal
import socket
import subprocess
import sys
import threading
from collections.abc import Mapping, Sequence
from contextlib import suppress
from functools import cache
from pathlib import Path
from tempfile import TemporaryFile
from typing import Any

#: The console script of the environment that runs the tests.
SCRIPT = Path(sys.executable).with_name("worldledger")
#: What few commands need, and which is large: a larger process takes longer to fork.
_LEFT_OUT = re.compile(r"__main__|\.arrow|\.llm|\.pettingzoo|\.report\.(svg|drawing)")
#: The longest request: arguments and environment.
_LONGEST = 1 << 20


class Process:
    """A program of Python with these arguments, file descriptors and environment, begun like `subprocess.Popen`."""

    def __init__(
        self,
        arguments: Sequence[str],
        streams: tuple[int, int, int],
        env: Mapping[str, str],
        *,
        program: Path = SCRIPT,
        python: str = sys.executable,
        cwd: Path | None = None,
        start_new_session: bool = False,
    ) -> None:
        self._report, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        request = {
            "argv": [str(program), *arguments],
            "env": dict(env),
            "cwd": str(cwd or Path.cwd()),
            "session": start_new_session,
        }
        try:
            with theirs:
                message = [json.dumps(request).encode()]
                socket.send_fds(forker(python), message, [*streams, theirs.fileno()])
            self.pid: int = self._receive()
        except BaseException:
            self._report.close()
            raise
        self.returncode: int | None = None

    def _receive(self) -> int:
        said = self._report.recv(16)
        assert said, "the process that forks has ended"
        return int(said)

    def poll(self) -> int | None:
        """Tell how it ended, or None while it runs."""
        with suppress(TimeoutError):
            return self.wait(0.0)
        return None

    def wait(self, timeout: float | None = None) -> int:
        """Wait for its end; tell its exit code, or minus the signal that ended it."""
        if self.returncode is None:
            self._report.settimeout(timeout)
            try:
                self.returncode = self._receive()
            except BlockingIOError as error:
                raise TimeoutError from error
            self._report.close()
        return self.returncode

    def send_signal(self, number: int) -> None:
        """Send it a signal, if it runs."""
        if self.poll() is None:
            os.kill(self.pid, number)

    def terminate(self) -> None:
        """Send it SIGTERM, if it runs."""
        self.send_signal(signal.SIGTERM)

    def kill(self) -> None:
        """Send it SIGKILL, if it runs."""
        self.send_signal(signal.SIGKILL)

    def end(self) -> None:
        """Leave none behind."""
        self.kill()
        self.wait()


def run(arguments: Sequence[str], env: Mapping[str, str], **how: Any) -> subprocess.CompletedProcess[str]:
    """Run a program to its end, with nothing on stdin; ``how`` is as for `Process`."""
    with TemporaryFile() as out, TemporaryFile() as err, Path(os.devnull).open("rb") as nothing:
        code = Process(arguments, (nothing.fileno(), out.fileno(), err.fileno()), env, **how).wait(120)
        for stream in (out, err):
            stream.seek(0)
        return subprocess.CompletedProcess(arguments, code, out.read().decode(), err.read().decode())


@cache
def forker(python: str = sys.executable) -> socket.socket:
    """Start the process that forks, once a test worker; it ends when nobody can ask it any more.

    An environment of a test's own has one of its own, named by its interpreter. What is installed there may change:
    each fork of it looks for kinds of worlds by itself.
    """
    ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    ours.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, _LONGEST)
    kept = {name: value for name, value in os.environ.items() if not name.startswith(("WORLDLEDGER_", "PG"))}
    kept["OPENBLAS_NUM_THREADS"] = "1"  # threads do not live on in a child
    if python == sys.executable:
        kept["PYTHONPATH"] = os.pathsep.join(sys.path)
    else:
        kept.pop("PYTHONPATH", None)
    with theirs:
        process = subprocess.Popen(
            [python, "-m", __name__, str(theirs.fileno()), *(["afresh"] if python != sys.executable else [])],
            cwd=Path(__file__).parents[1],
            stdin=subprocess.DEVNULL,
            pass_fds=[theirs.fileno()],
            env=kept,
        )

    def end() -> None:
        ours.close()
        process.wait()

    atexit.register(end)
    return ours


# -- the process that forks ----------------------------------------------------------------------------------


def _serve(requests: socket.socket) -> dict[str, Any] | None:
    """Fork for each request and report each end; return the request in the child, and None when there are no more.

    Ends are read like requests, and not told by SIGCHLD: Python runs a handler between two steps of its own, so one
    that comes as the wait for a request begins waits with it.
    """
    ctrl_c = signal.signal(signal.SIGINT, signal.SIG_IGN)  # as a terminal sends it: this process ends after the tests
    ends: dict[int, tuple[int, socket.socket]] = {}
    selector = selectors.DefaultSelector()
    selector.register(requests, selectors.EVENT_READ)
    while True:
        for key, _ in selector.select():
            if key.fileobj is not requests:
                selector.unregister(key.fd)
                os.close(key.fd)
                pid, report = ends.pop(key.fd)
                with report, suppress(OSError):
                    report.send(str(os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])).encode())
                continue
            message, descriptors, _, _ = socket.recv_fds(requests, _LONGEST, 4)
            if not message:
                return None
            *streams, number = descriptors
            report = socket.socket(fileno=number)
            if not (pid := os.fork()):
                signal.signal(signal.SIGINT, ctrl_c)
                for descriptor, (_, others) in ends.items():
                    os.close(descriptor)
                    others.close()
                for ours in (report, requests, selector):
                    ours.close()
                for place, stream in enumerate(streams):
                    os.dup2(stream, place)
                    os.close(stream)
                return dict(json.loads(message))
            for stream in streams:
                os.close(stream)
            report.send(str(pid).encode())
            ends[end := os.pidfd_open(pid)] = pid, report
            selector.register(end, selectors.EVENT_READ)


def _begin(request: dict[str, Any]) -> None:
    """Make this process what a fresh interpreter is when it comes to the script."""
    if request["session"]:
        os.setsid()
    os.chdir(request["cwd"])
    os.environ.clear()
    os.environ.update(request["env"])
    sys.argv[:] = request["argv"]
    sys.path.insert(0, str(Path(sys.argv[0]).resolve().parent))
    sys.stdin = sys.__stdin__ = open(0, closefd=False)  # type: ignore[misc] # noqa: SIM115
    at_once = 1 if request["env"].get("PYTHONUNBUFFERED") else -1
    sys.stdout = sys.__stdout__ = open(1, "w", buffering=at_once, closefd=False)  # type: ignore[misc] # noqa: SIM115
    sys.stderr = sys.__stderr__ = open(2, "w", buffering=1, errors="backslashreplace", closefd=False)  # type: ignore[misc] # noqa: SIM115


def _end(code: object) -> None:
    """End as the interpreter does, but take nothing apart of what was loaded: that takes longer than most commands."""
    if not isinstance(code, int | None):
        sys.stderr.write(f"{code}\n")
        code = 1
    threading._shutdown()  # type: ignore[attr-defined]
    atexit._run_exitfuncs()
    gc.collect()  # what was left open says so now
    try:
        if not sys.stdout.closed:
            sys.stdout.flush()
    except OSError:
        code = 120  # as Python/pylifecycle.c has it
    os._exit(code or 0)


def _load() -> None:
    """Load what the commands and a service load, also what they load only where it is needed."""
    import worldledger_service.app  # noqa: F401, PLC0415 - the first, for kinds' parts are loaded by what they import
    from worldledger_projections.registry import known  # noqa: PLC0415

    from worldledger.kinds import parts  # noqa: PLC0415

    for part in ("commands", "routes", "serves"):
        parts(part)
    known()
    for name in sorted({module.partition(".")[0] for module in sys.modules if module.startswith("worldledger")}):
        for found in pkgutil.walk_packages(sys.modules[name].__path__, f"{name}."):
            if not _LEFT_OUT.search(found.name):
                importlib.import_module(found.name)


def _put_together() -> None:
    """Put all commands together, with what reads their options, which else each command does for itself."""
    import typer.main  # noqa: PLC0415
    from worldledger_service.cli import main  # noqa: PLC0415

    program: Any = typer.main.get_command(main.make_app())
    left = [program]
    for command in left:
        left += getattr(command, "commands", {}).values()
        for parameter in command.params:
            if isinstance(parameter, typer.core._TyperParameter):
                parameter.get_runtime_param()
    main.app_for = lambda arguments: program


def _forget_kinds() -> None:
    """Forget which kinds of worlds there are, and what was made of them; their modules stay loaded."""
    for remembered in (made for made in gc.get_objects() if isinstance(made, functools._lru_cache_wrapper)):
        if str(remembered.__module__).startswith("worldledger"):
            remembered.cache_clear()


if __name__ == "__main__":
    sys.path[:] = [entry for entry in sys.path if entry]
    _load()
    if sys.argv[2:] == ["afresh"]:
        _forget_kinds()
    else:
        _put_together()
    gc.collect()
    gc.freeze()
    wanted = _serve(socket.socket(fileno=int(sys.argv[1])))
    if wanted is not None:
        _begin(wanted)
        try:
            runpy.run_path(wanted["argv"][0], run_name="__main__")
        except SystemExit as end:
            _end(end.code)
        _end(0)
