"""``pytest --workers N``: run the tests in N processes that are forked once everything is collected.

To import and collect thousands of tests takes as long as a tenth of them, so it is done once, by the parent. It then
hands out portions of the tests, one whenever a worker comes to the end of its own, and reports what the workers tell
it as if it had run the tests itself. A worker that dies fails the test that it ran; another one takes its place.

Tests that share something are one portion: those with the same mark ``group``, and those that run on the loop of
their module. The other tests of a file come in portions of a few, so that what they share is made for few workers.
"""

from __future__ import annotations

import atexit
import multiprocessing
import os
import signal
import threading
import traceback
from collections import deque
from collections.abc import Sequence
from contextlib import suppress
from multiprocessing.connection import wait
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, NoReturn

import pytest
from _pytest.reports import TestReport

if TYPE_CHECKING:
    from multiprocessing.connection import Connection

#: Tests of one file that a worker gets at a time, unless they belong together.
_PORTION: Final = 8
#: Seconds that workers have to end by themselves.
_END_SECONDS: Final = 60.0


def group_of(item: pytest.Item) -> str | None:
    """Return the name of what a test shares with others, if it does."""
    mark, loop = item.get_closest_marker("group"), item.get_closest_marker("asyncio")
    if mark is not None:
        return str(mark.args[0])
    if loop is not None and loop.kwargs.get("loop_scope") == "module":
        return str(item.path)
    return None


def portions(items: Sequence[pytest.Item], single: Sequence[str] = ()) -> list[list[int]]:
    """Divide tests, by their places: first marked groups, the largest first; then the others in their order.

    Tests in the folders named by ``single`` take long, and come one by one.
    """
    shared: dict[str, list[int]] = {}
    marked: list[list[int]] = []
    others: list[list[int]] = []
    filling: list[int] = []
    for place, item in enumerate(items):
        name = group_of(item)
        if name is None:
            is_single = item.nodeid.split("/")[1] in single
            if not filling or is_single or len(filling) == _PORTION or items[filling[0]].path != item.path:
                filling = []
                others.append(filling)
            filling.append(place)
            continue
        if name not in shared:
            shared[name] = []
            (others if item.get_closest_marker("group") is None else marked).append(shared[name])
        shared[name].append(place)
    return [*sorted(marked, key=len, reverse=True), *others]


class Workers:
    """The plugin that runs the tests in workers."""

    def __init__(self, config: pytest.Config, count: int, single: Sequence[str]) -> None:
        self._config = config
        self._count = count
        self._single = single
        self._left: deque[list[int]] = deque()
        self._running: dict[Connection, _Worker] = {}
        #: the name of the worker that this process is
        self.name: str | None = None

    @pytest.hookimpl(tryfirst=True)
    def pytest_runtestloop(self, session: pytest.Session) -> bool | None:
        """Run all tests."""
        if session.testsfailed or self._config.option.collectonly:
            return None  # as usual
        reporter: Any = self._config.pluginmanager.getplugin("terminalreporter")
        reporter.showfspath = False
        self._config._tmp_path_factory.getbasetemp()  # type: ignore[attr-defined] # one for all
        self._left.extend(portions(session.items, self._single))
        try:
            for number in range(min(self._count, len(self._left))):
                self._start(session, f"w{number}")
            while self._running:
                for connection in wait([*self._running]):
                    self._hear(session, self._running[connection])  # type: ignore[index]
                if session.shouldfail:
                    raise session.Failed(session.shouldfail)
                if session.shouldstop:
                    raise session.Interrupted(session.shouldstop)
        finally:
            self._end()
        return True

    def _start(self, session: pytest.Session, name: str) -> None:
        ours, theirs = multiprocessing.Pipe()
        pid = os.fork()
        if not pid:
            for connection in (ours, *self._running):
                connection.close()
            self.name = name
            _be_worker(session, theirs, name)
        theirs.close()
        self._running[ours] = _Worker(ours, pid, name)

    def _hear(self, session: pytest.Session, worker: _Worker) -> None:
        """Do what a worker's next message says."""
        try:
            what, value = worker.connection.recv()
        except (EOFError, OSError):
            what, value = "ended", None
        hook = self._config.hook
        if what == "ended":
            self._bury(session, worker)
        elif what == "wants":
            portion = self._left.popleft() if self._left else []
            worker.portion += portion
            with suppress(OSError):  # it has just died
                worker.connection.send(portion)
        elif what == "ran":
            worker.portion.remove(value)
            item = session.items[value]
            hook.pytest_runtest_logfinish(nodeid=item.nodeid, location=item.location)
        elif what == "report":
            report = hook.pytest_report_from_serializable(config=self._config, data=value)
            hook.pytest_runtest_logreport(report=report)
        else:  # what broke pytest itself
            raise RuntimeError(value)

    def _bury(self, session: pytest.Session, worker: _Worker) -> None:
        """Fail the test in which a worker died, if it did; have another one run the rest of its portion."""
        del self._running[worker.connection]
        worker.connection.close()
        _, status = os.waitpid(worker.pid, 0)
        code = os.waitstatus_to_exitcode(status)
        if not worker.portion and code == 0:
            return
        place, *rest = worker.portion or [len(session.items) - 1]
        item = session.items[place]
        when = "while it ran this test" if worker.portion else "after its last test"
        said = f"the worker {worker.name} ended with {code} {when}"
        died = TestReport(item.nodeid, item.location, {}, "failed", said, "call")
        self._config.hook.pytest_runtest_logreport(report=died)
        self._config.hook.pytest_runtest_logfinish(nodeid=item.nodeid, location=item.location)
        if rest:
            self._left.appendleft(rest)
        if self._left:
            self._start(session, f"{worker.name}+")

    def _end(self) -> None:
        """Leave no worker behind."""
        if not self._running:
            return
        for worker in self._running.values():
            with suppress(ProcessLookupError):
                os.kill(worker.pid, signal.SIGTERM)
            worker.connection.close()
        timer = threading.Timer(_END_SECONDS, self._kill)
        timer.start()
        for worker in self._running.values():
            os.waitpid(worker.pid, 0)
        timer.cancel()
        self._running.clear()

    def _kill(self) -> None:
        for worker in self._running.values():
            with suppress(ProcessLookupError):
                os.kill(worker.pid, signal.SIGKILL)


class _Worker:
    """A worker, as its parent knows it."""

    def __init__(self, connection: Connection, pid: int, name: str) -> None:
        self.connection = connection
        self.pid = pid
        self.name = name
        #: places of the tests that it was given and has not ended
        self.portion: list[int] = []


# -- in a worker -----------------------------------------------------------------------------------------------


class _Reporting:
    """Tells the parent about each test."""

    def __init__(self, config: pytest.Config, connection: Connection) -> None:
        self._config = config
        self._connection = connection

    def tell(self, what: str, value: object = None) -> None:
        with suppress(OSError):  # the parent is gone
            self._connection.send((what, value))

    @pytest.hookimpl(trylast=True)  # a test whose subtests failed fails when its status is asked for
    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        self.tell("report", self._config.hook.pytest_report_to_serializable(config=self._config, report=report))

    def next_portion(self) -> list[int]:
        """Return the places of the next tests; none at the end."""
        self.tell("wants")
        try:
            found: list[int] = self._connection.recv()
        except (EOFError, OSError):
            return []
        return found


def _be_worker(session: pytest.Session, connection: Connection, name: str) -> NoReturn:
    """Run portions of the tests until there are no more, and end the process."""
    atexit._clear()  # what stands there is the parent's to do
    code = 1
    reporting = _Reporting(session.config, connection)
    try:
        _settle_in(session.config, name)
        session.config.pluginmanager.register(reporting)
        _run(session, reporting)
        code = 0
    except (KeyboardInterrupt, SystemExit, pytest.exit.Exception):
        pass  # as the parent ends, too
    except BaseException:  # noqa: BLE001 - the parent raises it
        reporting.tell("broke", traceback.format_exc())
    finally:
        try:
            session._setupstate.teardown_exact(None)
            threading._shutdown()  # type: ignore[attr-defined]
            atexit._run_exitfuncs()
        finally:
            reporting.tell("ended")  # a process that this one has left behind may keep the connection open
            os._exit(code)


def _settle_in(config: pytest.Config, name: str) -> None:
    """Have a terminal, files for captured output and a folder for temporary files that are not the parent's."""
    capturing: Any = config.pluginmanager.getplugin("capturemanager")
    capturing.stop_global_capturing()
    capturing.start_global_capturing()
    capturing.suspend_global_capture()
    reporter: Any = config.pluginmanager.getplugin("terminalreporter")
    reporter._tw._file = Path(os.devnull).open("w")  # noqa: SIM115 - as long as the process
    factory = config._tmp_path_factory  # type: ignore[attr-defined]
    factory._basetemp = factory.getbasetemp() / name
    factory._basetemp.mkdir(mode=0o700)


def _run(session: pytest.Session, reporting: _Reporting) -> None:
    hook = session.config.hook
    left = deque(reporting.next_portion())
    while left:
        place = left.popleft()
        if not left:  # what is shared with the next test is kept for it
            left.extend(reporting.next_portion())
        following = session.items[left[0]] if left else None
        hook.pytest_runtest_protocol(item=session.items[place], nextitem=following)
        reporting.tell("ran", place)
        if session.shouldfail or session.shouldstop:
            return
