"""Record a program that already runs: `record` opens a recording, and a `Recording` takes what happens.

What happens is written as JSON before a call returns, and gathered in memory. Every `FLUSH_SECONDS`, or as soon as
`FLUSH_BYTES` are together, it is appended to a file, the spool. A process beside the program reads the spool and brings
it into the world: into the embedded database, or to a service. So the program neither waits for a database nor computes
for it, its end loses at most what was not flushed, and while a server is away the spool grows.

The spool of a recording is a row of files ``NAME-TOKEN.000001.spool`` …: one JSON value a line, an object about the
recording first, then lines as the service takes them in blocks, and an object at the end that says what comes then.
"""

from __future__ import annotations

import asyncio
import atexit
import fcntl
import html
import logging
import os
import secrets
import shlex
import subprocess
import sys
import threading
import time
import weakref
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import suppress
from multiprocessing import parent_process
from multiprocessing.util import Finalize
from pathlib import Path
from types import TracebackType
from typing import Any, Final, Literal, NamedTuple, Self, TypeAlias
from urllib.parse import quote

import orjson

from worldledger.canonical import child, gate
from worldledger.client.plain import Unknown, to_plain, too_large, type_name
from worldledger.client.transport import checked_address
from worldledger.drafts import MAX_WORD, check_sim_time
from worldledger.effects import SERVICE_SOURCE, is_system_kind
from worldledger.errors import InvalidEffectError, ReservedKindError, SimulationError
from worldledger.genesis import check_world_name
from worldledger.observation import ObservationPolicy
from worldledger.policies import policy_spec
from worldledger.protocols import ObservationPolicyProtocol

#: What becomes of a problem: it is logged once (`warn`), raised, ignored, or given to a function.
OnError: TypeAlias = Literal["warn", "raise", "ignore"] | Callable[[Exception], object]

#: Seconds for which, and bytes up to which, what happens is gathered in memory.
FLUSH_SECONDS: Final = 0.1
FLUSH_BYTES: Final = 64 * 1024
#: Most bytes that are gathered where the spool cannot be written.
_MOST_GATHERED: Final = 16 * 1024 * 1024
#: Bytes after which the spool goes on in another file, so that what is delivered can be deleted.
_SEGMENT_BYTES: Final = 64 * 1024 * 1024
#: Largest payload in bytes, unless a program says otherwise: an effect has at most 1 MiB, its other members included.
MOST_PAYLOAD: Final = 1024 * 1024 - 4096
#: The most that a program may say: a quarter of the longest value that PostgreSQL has.
_LARGEST_PAYLOAD: Final = 256 * 1024 * 1024
#: The module that delivers a spool, as a process.
_DELIVERING: Final = "worldledger_recorder.writer"
#: Seconds for which a program waits at its end for a server that is away.
_AWAY_SECONDS: Final = 2.0
#: The exit codes of a process that has delivered all there is, or has given up.
_ENDED: Final = (0, 3)
#: How often the process that delivers is started again after it ended by itself.
_MOST_STARTS: Final = 5
#: How many different problems are logged, how many are counted, and how many the end tells, as of conversions.
_MOST_TOLD: Final = 20
_MOST_COUNTED: Final = 1000
_MOST_SUMMED_UP: Final = 5
#: Seconds by which a spool is at least later than those that wait, whatever the clock says.
_LATER_SECONDS: Final = 1e-6
#: Most names of kinds and agents that are remembered.
_MOST_HEADS: Final = 10_000

log = logging.getLogger("worldledger.recording")


class RecordingError(SimulationError):
    """A recording that cannot be made, or that has lost something; the message says what, and what to do."""

    code = "recording"


class NotDurableError(RecordingError):
    """What was recorded with ``durable`` waits on disk: the server has not answered in time."""

    code = "not_durable"


def record(
    name: str,
    *,
    experiment: str | None = None,
    tags: Mapping[str, Any] | None = None,
    url: str | None = None,
    home: str | os.PathLike[str] | None = None,
    on_error: OnError = "warn",
    unknown: Unknown = "refuse",
    durable: bool = False,
    quiet: bool = False,
    start_timeout: float = 60.0,
    close_timeout: float = 60.0,
    spool_bytes: int = 1024**3,
    payload_bytes: int = MOST_PAYLOAD,
) -> Recording:
    """Return a recording of this program in the world ``name``, which is made if there is none: a context manager.

    The same name again goes on with the same recording, from any process.

    - ``experiment``, ``tags``: of a world that is made. Tags are in its configuration.
    - ``url``: the service to record to; without it that of ``WORLDLEDGER_URL``, or else the embedded server of
      ``home`` (``WORLDLEDGER_HOME``, ``~/.worldledger``), or the database of ``WORLDLEDGER_DATABASE_URL``.
    - ``on_error``: problems are logged by default, so that no recording ends its program; ``raise`` raises them,
      ``ignore`` counts them alone, and a function is called with them.
    - ``unknown``: whether a value that is no JSON and cannot be converted is refused, or recorded as its ``repr``.
    - ``durable``: whether each call waits until what it records is durable.
    - ``quiet``: whether nothing is said at the end.
    - ``start_timeout``, ``close_timeout``: seconds to wait for the server at the beginning, and at the end for what is
      under way; then the program goes on, and what was recorded is delivered when the server answers.
    - ``spool_bytes``: most bytes that wait on disk to be delivered. What comes then is lost, and counted.
    - ``payload_bytes``: most bytes of one payload as JSON. A larger one is refused, before it is copied. For more than
      the default the server needs a larger ``WORLDLEDGER_MAX_EFFECT_BYTES``, and from 32 MiB on a service a larger
      ``WORLDLEDGER_MAX_BODY_BYTES``.

    Raises InvalidNameError, ValueError and InvalidEffectError for a name, an address, a size or tags that cannot be
    used.
    """
    if not 0 < payload_bytes <= _LARGEST_PAYLOAD:
        raise ValueError(f"payload_bytes is at most {_LARGEST_PAYLOAD:,}, not {payload_bytes:,}")
    address = url or os.environ.get("WORLDLEDGER_URL") or None
    folder = home or os.environ.get("WORLDLEDGER_HOME") or "~/.worldledger"
    settings = {
        "name": check_world_name(name),
        "experiment": experiment,
        "tags": _tags(tags),
        "url": None if address is None else checked_address(address),
        "home": str(Path(folder).expanduser().absolute()),
        "on_error": on_error,
        "unknown": unknown,
        "durable": durable,
        "quiet": quiet,
        "start_timeout": start_timeout,
        "close_timeout": close_timeout,
        "spool_bytes": spool_bytes,
        "payload_bytes": payload_bytes,
    }
    return Recording(settings)


# -- the spool, as the program writes it -----------------------------------------------------------------------------


class Waiting(NamedTuple):
    """A spool that is to be delivered: when it was begun, the prefix of its files, and what its first line says."""

    began: float
    prefix: str
    about: dict[str, Any]


def spools_in(folder: Path) -> list[Waiting]:
    """Return the spools of a folder that are to be delivered, in the order in which they were begun."""
    found: list[Waiting] = []
    for live in folder.glob("*.live"):
        with suppress(OSError, ValueError, LookupError):  # it is being begun, or was delivered just now
            first = min(folder.glob(f"{live.stem}.*.spool"))
            with first.open("rb") as file:
                about = orjson.loads(file.readline())
            found.append(Waiting(about["began"], str(live.with_suffix("")), about))
    return sorted(found, key=lambda each: each[:2])


class Spool:
    """What one process has recorded and not delivered, on disk. Not safe for threads."""

    def __init__(self, folder: Path, about: Mapping[str, Any]) -> None:
        """Begin a spool. Raises OSError."""
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        self.token = secrets.token_hex(8)
        self.prefix = folder / f"{about['world']}-{self.token}"
        began = max([time.time(), *(each.began + _LATER_SECONDS for each in spools_in(folder))])
        self._about = orjson.dumps({**about, "token": self.token, "began": began}) + b"\n"
        self._segment = 0
        self._size = 0
        self._fd = -1
        # Held as long as this process lives: whoever can take it knows that nothing more will come.
        self._alive = os.open(f"{self.prefix}.live", os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
        fcntl.flock(self._alive, fcntl.LOCK_EX)
        self._next()

    def write(self, data: bytes) -> None:
        """Append whole lines. Raises OSError; then none of them counts."""
        if self._size > _SEGMENT_BYTES:
            before = self._fd
            self._next()
            with suppress(OSError):
                self._append(before, b'{"next":true}\n')
            os.close(before)
        try:
            self._append(self._fd, data)
        except OSError:
            with suppress(OSError):
                os.ftruncate(self._fd, self._size)
            raise
        self._size += len(data)

    def end(self) -> None:
        """Note that the recording has ended in order, and close the file. Raises OSError."""
        self._append(self._fd, b'{"end":true}\n')
        self.forget()

    def forget(self) -> None:
        """Close the files without a word; a lock that a forked parent holds stays."""
        for fd in (self._fd, self._alive):
            with suppress(OSError):
                os.close(fd)

    def _next(self) -> None:
        path = f"{self.prefix}.{self._segment + 1:06d}.spool"
        fd = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_APPEND | os.O_CLOEXEC, 0o600)
        try:
            self._append(fd, self._about)
        except OSError:
            os.close(fd)
            raise
        self._fd, self._size = fd, len(self._about)
        self._segment += 1

    @staticmethod
    def _append(fd: int, data: bytes) -> None:
        rest = memoryview(data)
        while rest:
            rest = rest[os.write(fd, rest) :]


class Delivery:
    """The process that delivers a spool, and what it has told: kept running by a thread."""

    def __init__(self, prefix: Path, told: Callable[[str], object]) -> None:
        # Neither modules in the program's folder nor its filter of warnings are for this process.
        self._command = [sys.executable, "-P", "-W", "ignore", "-m", _DELIVERING, str(prefix)]
        self._told = told
        self._process: subprocess.Popen[bytes] | None = None
        self.changed = threading.Condition()
        self.is_ready = False
        #: why nothing is delivered at the moment; why nothing will be
        self.away: str | None = None
        self.failed: str | None = None
        #: whether the world takes nothing of this recording
        self.is_refused = False
        #: what is delivered
        self.lines = self.bytes = 0
        #: lines that the world has refused
        self.refused = 0
        #: where the recording has gone on: the number of the last step
        self.step = 0
        #: the address of a service that serves the world; None if none is known
        self.served_at: str | None = None
        #: of how many earlier programs something was delivered first, and how many lines as far as they were counted
        self.earlier_programs = self.earlier_lines = 0
        #: other worlds for which something of earlier programs is being delivered
        self.others: list[str] = []
        self._closing = self.has_ended = False
        self._thread = threading.Thread(target=self._keep, name="worldledger-delivery", daemon=True)
        self._thread.start()

    def wake(self) -> None:
        """Tell the process that there is more to deliver."""
        process = self._process
        if process is not None and process.stdin is not None:
            with suppress(OSError, ValueError):  # it may just have ended
                process.stdin.write(b"\n")

    def close(self) -> None:
        """Let the process end once all is delivered."""
        with self.changed:
            self._closing = True
            self._hang_up()

    def forget(self) -> None:
        """Let go of the process: in a forked child it is the parent's."""
        process = self._process
        if process is not None:
            process.returncode = 0
            for pipe in (process.stdin, process.stdout):
                if pipe is not None:
                    with suppress(OSError):
                        pipe.close()

    def wait(self, reached: Callable[[], bool], timeout: float) -> bool:
        """Wait until something is reached, or cannot be reached; return whether it is."""
        with self.changed:
            self.changed.wait_for(
                lambda: reached() or self.failed is not None or self.away is not None or self.has_ended, timeout
            )
            return reached()

    def _keep(self) -> None:
        for start in range(_MOST_STARTS):
            if start:
                time.sleep(0.1 * 2**start)
            with self.changed:
                self._process = process = self._start()
                if self._closing:
                    self._hang_up()
            if process is None:
                break
            assert process.stdout is not None  # noqa: S101 - asked for
            with process:
                for line in process.stdout:
                    self._hear(line)
            if process.returncode in _ENDED or self.failed is not None:
                break
        with self.changed:
            if not self._closing and self.failed is None:
                self.failed = "the process that delivers cannot be kept running"
                self._told(self.failed)
            self.has_ended = True
            self.changed.notify_all()

    def _start(self) -> subprocess.Popen[bytes] | None:
        try:
            # A session of its own: keys typed at the terminal are for the program.
            process = subprocess.Popen(  # noqa: S603 - this very interpreter
                self._command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, start_new_session=True, bufsize=0
            )
        except OSError as error:
            self.failed = f"the process that delivers cannot be started: {error}"
            self._told(self.failed)
            return None
        assert process.stdin is not None  # noqa: S101 - asked for
        os.set_blocking(process.stdin.fileno(), False)
        return process

    def _hang_up(self) -> None:
        process = self._process
        if process is not None and process.stdin is not None:
            with suppress(OSError):
                process.stdin.close()

    def _hear(self, line: bytes) -> None:
        try:
            said = orjson.loads(line)
        except orjson.JSONDecodeError:
            return
        for name in ("away", "failed", "refused", "told"):  # before those who wait for it go on
            if name in said:
                self._told(said[name])
        with self.changed:
            if "ready" in said:
                self.is_ready, self.away, self.step = True, None, said["ready"]["step"]
            if "done" in said:
                self.lines, self.bytes = said["done"]
                self.away = None
            if "served_at" in said:
                self.served_at = said["served_at"]
            if "refused" in said:
                self.refused += 1
            if "away" in said:
                self.away = said["away"]
            if "failed" in said:
                self.failed, self.is_refused = said["failed"], True
            programs, lines = said.get("earlier", (0, 0))
            self.earlier_programs += programs
            self.earlier_lines += lines
            self.others = said.get("others", self.others)
            self.changed.notify_all()


# -- the recording ---------------------------------------------------------------------------------------------------

_OPEN: Final[weakref.WeakSet[Recording]] = weakref.WeakSet()


class Recording:
    """A recording of this program; make it with `record`, and use it from any thread, task or process.

    Its methods return at once, unless it is ``durable``. A forked process goes on with it, and so does one that it is
    sent to (it can be pickled): each process has a spool of its own, and its effects are in the order in which it
    made them.
    """

    def __init__(self, settings: dict[str, Any]) -> None:
        self._settings = settings
        self._on_error: OnError = settings["on_error"]
        self._unknown: Unknown = settings["unknown"]
        self._durable: bool = settings["durable"]
        self._most: int = settings["payload_bytes"]
        #: what was recorded by this process: effects, entities that were set or removed, and steps
        self.effects = 0
        #: how often a value was converted, by how
        self.converted: Counter[str] = Counter()
        self._lost = 0
        self._heads: dict[tuple[Any, Any], bytes] = {}
        self._told: set[str] = set()
        #: why something could not be recorded, and how much
        self._reasons: Counter[str] = Counter()
        self._steps = 0
        self._began = time.monotonic()
        self._has_own_time = False
        self._closed = False
        self._reset()
        _OPEN.add(self)

    def _reset(self) -> None:
        """Be as a recording that has recorded nothing yet in this process."""
        self._lock = threading.RLock()
        self._lines: list[bytes] = []
        self._size = 0
        self._written = self._written_bytes = 0
        self._due = threading.Event()
        self._spool: Spool | None = None
        self._delivery: Delivery | None = None

    @property
    def name(self) -> str:
        """The world's name."""
        name: str = self._settings["name"]
        return name

    @property
    def lost(self) -> int:
        """How much this process could not record, or the world has refused."""
        return self._lost + (0 if self._delivery is None else self._delivery.refused)

    # -- what a program calls ------------------------------------------------------------------------------

    def effect(
        self,
        kind: str,
        agent: str | None = None,
        *,
        sees: Iterable[str] | None = None,
        time: float | None = None,
        payload: Mapping[str, Any] | None = None,
        **fields: Any,
    ) -> None:
        """Record that something happened: an effect of any kind, with these fields as its payload.

        - ``agent``: who did it.
        - ``sees``: the agents that alone observe it, besides the one who did it; without it their policies say so.
        - ``time``: the world's own time, where the program has one. It never goes back. Without it, it is the seconds
          for which the world has been recorded.
        - ``payload``: more fields, such as those whose names are parameters here.
        """
        try:
            if payload is not None:
                fields = {**payload, **fields}
            if sees is not None:
                fields["sees"] = _audience([sees] if isinstance(sees, str) else sees)
            self._add(self._head_of(kind, agent), fields, time)
        except Exception as error:  # noqa: BLE001 - a recording does not end its program
            self._lose(error)

    def set(self, entity: str, values: Mapping[str, Any] | None = None, /, **fields: Any) -> None:
        """Record that an entity has these values now; others stay. Its ``position`` places it in space."""
        try:
            given = fields if values is None else {**values, **fields}
            self._add(self._head_of(".set", entity), given, None)
        except Exception as error:  # noqa: BLE001 - as above
            self._lose(error)

    def agent(self, name: str, policy: ObservationPolicyProtocol | None = None) -> None:
        """Record that there is an agent, and what it observes: by this policy, or by the default one.

        Whoever acts or is named in ``sees`` is an agent without it.
        """
        try:
            spec = policy_spec(ObservationPolicy() if policy is None else policy)
            self._add(self._head_of(".agent", name), {"policy": spec}, None)
        except Exception as error:  # noqa: BLE001 - as above
            self._lose(error)

    def remove(self, entity: str) -> None:
        """Record that an entity is no more."""
        try:
            self._add(self._head_of(".remove", entity), {}, None)
        except Exception as error:  # noqa: BLE001 - as above
            self._lose(error)

    def step(self, number: int | None = None, *, time: float | None = None) -> int:
        """Record that the next step begins, or the one of this number; return the number.

        What is recorded before the first one is step 0. Let one process count: steps of several are numbered in the
        order in which they arrive. While the server is away, the number goes on from what is known of the world.
        """
        try:
            given = {} if number is None else {"step": _step_number(number)}
            self._add(self._head_of(".step", None), given, time)
            with self._lock:
                self._steps = self._steps + 1 if number is None else number - self._step_before()
                return self._step_before() + self._steps
        except Exception as error:  # noqa: BLE001 - as above
            self._lose(error)
            return self._step_before() + self._steps

    def flush(self, timeout: float = 60.0) -> bool:
        """Wait until everything that this process has recorded is durable in the world; return whether it is."""
        delivery = self._delivery
        with self._lock:
            self._write_out()
            wanted, rest = self._written, len(self._lines)
        if delivery is None:
            return not wanted
        return delivery.wait(lambda: delivery.lines >= wanted, timeout) and not rest

    async def flushed(self, timeout: float = 60.0) -> bool:
        """Wait as `flush` does, and let other tasks run meanwhile."""
        return await asyncio.to_thread(self.flush, timeout)

    def nested(self, name: str, *, tags: Mapping[str, Any] | None = None) -> Recording:
        """Return a recording of a part of this run, in a world of its own, ``THIS-NAME``, which says so in its tags."""
        of = {**self._settings["tags"], "part_of": self.name, "from_step": self._step_before() + self._steps}
        settings = {**self._settings, "name": check_world_name(f"{self.name}-{name}"), "tags": {**of, **_tags(tags)}}
        return Recording(settings)

    @property
    def link(self) -> str:
        """The address at which the console shows the world, while a service serves it."""
        return f"{self._service or 'http://127.0.0.1:8000'}/#/w/{quote(self.name, safe='')}"

    @property
    def _service(self) -> str | None:
        """The address of the service that serves the world; None if none is known."""
        url: str | None = self._settings["url"]
        return url or (None if self._delivery is None else self._delivery.served_at)

    def close(self) -> None:
        """End the recording in this process, and wait until everything is delivered. A second call does nothing."""
        with self._lock:
            if self._closed:
                return
            self._closed = True
            spool, delivery = self._spool, self._delivery
            self._write_out()
            if spool is None or delivery is None:
                return
            self._spool = None
            try:
                spool.end()
            except OSError as error:
                self._tell(error)
        self._due.set()
        delivery.close()
        if not delivery.wait(lambda: delivery.has_ended, self._settings["close_timeout"]) and delivery.away is not None:
            with delivery.changed:
                delivery.changed.wait_for(lambda: delivery.has_ended, _AWAY_SECONDS)
        _OPEN.discard(self)
        if not self._settings["quiet"]:
            sys.stderr.write(self._summary(delivery))

    def __enter__(self) -> Self:
        with self._guarded():
            self._open(wait=True)
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        with self._guarded():
            self.close()

    async def __aenter__(self) -> Self:
        return await asyncio.to_thread(self.__enter__)

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        await asyncio.to_thread(self.__exit__, kind, error, traceback)

    def __reduce__(self) -> tuple[Any, ...]:
        return Recording, (self._settings,)

    def __repr__(self) -> str:
        lost = f", {self.lost} lost" if self.lost else ""
        return f"<recording of {self.name}: {self.effects} effects{lost}; {self.link}>"

    def _repr_html_(self) -> str:
        lost = f", <b>{self.lost} lost</b>" if self.lost else ""
        link = f'<a href="{html.escape(self.link)}" target="_blank">{html.escape(self.name)}</a>'
        return f"recording of {link}: {self.effects} effects{lost}"

    # -- inside --------------------------------------------------------------------------------------------

    def _add(self, head: bytes, payload: Mapping[str, Any], own_time: float | None) -> None:
        """Take a line, written before this returns."""
        if self._spool is None:
            self._open(wait=False)
        if self._delivery is not None and self._delivery.is_refused:
            raise RecordingError(self._why_not())
        most = self._most
        for name, value in payload.items():
            if type(value) is str and len(value) > most:  # writing it would take as much memory again
                raise too_large(len(value), most, child("$.payload", name))
        try:
            text = gate(payload, path="$.payload", level=2)
        except InvalidEffectError:
            plain = to_plain(payload, self._note, unknown=self._unknown, path="$.payload", level=2, most=most)
            text = gate(plain, path="$.payload", level=2)
        if len(text) > most:
            raise too_large(len(text), most, "$.payload")
        if own_time is not None:
            self._has_own_time = True
            stated = orjson.dumps(_stated_time(own_time))
            line = b"%bnull,%b,%b]\n" % (head, text, stated)
        elif self._has_own_time:
            line = b"%bnull,%b]\n" % (head, text)
        else:
            # As orjson writes it: a service reads a body in no time that it would write the same.
            clock = orjson.dumps(round(time.monotonic() - self._began, 6))
            line = b"%b%b,%b]\n" % (head, clock, text)
        with self._lock:
            if self._spool is None:  # closed meanwhile
                self._open(wait=False)
            lines = self._lines
            if not lines:
                self._due.set()
            lines.append(line)
            self._size += len(line)
            self.effects += 1
            if self._size >= FLUSH_BYTES:
                self._write_out()
        if self._durable and not self.flush():
            raise NotDurableError(f"it waits on disk and is not durable yet: {self._why_not()}")

    def _head_of(self, kind: Any, agent: Any) -> bytes:
        """Return how the lines of a kind and an agent begin."""
        try:
            known = self._heads.get((kind, agent))
        except TypeError:  # it has no hash: a list, a dataclass that is not frozen
            path, value = ("$.agent", agent) if type(kind) is str else ("$.kind", kind)
            raise InvalidEffectError(f"{type_name(value)} is no name; give a text", path) from None
        return known or self._head(kind, agent)

    def _head(self, kind: Any, agent: Any) -> bytes:
        """Make how the lines of a kind and an agent begin."""
        if type(kind) is not str or not 0 < len(kind) <= MAX_WORD:
            raise InvalidEffectError(f"a kind is a text of 1 to {MAX_WORD} characters", "$.kind")
        is_own = kind in {".set", ".remove", ".step", ".agent"}
        if (kind[0] == "." and not is_own) or is_system_kind(kind):
            what = f"{kind!r} is a name for the service's own effects, which begin with a dot, World, Intent …"
            raise ReservedKindError(what, "$.kind")
        has_name = agent is not None or (is_own and kind != ".step")
        name = _name_of("" if agent is None else agent, "$.agent") if has_name else None
        if name == SERVICE_SOURCE:
            raise ReservedKindError(f"{SERVICE_SOURCE!r} is the service's own name", "$.agent")
        head = b"[%b,%b," % (gate(kind, path="$.kind"), gate(name, path="$.agent"))
        if len(self._heads) >= _MOST_HEADS:
            self._heads.clear()
        self._heads[kind, agent] = head
        return head

    def _open(self, *, wait: bool) -> None:
        """Begin the spool of this process, and the process that delivers it."""
        with self._lock:
            if self._closed:
                raise RecordingError(f"the recording of {self.name} is closed")
            if self._spool is None:
                given = self._settings
                about = {name: given[name] for name in ("experiment", "tags", "url", "home")}
                about |= {"world": self.name, "pid": os.getpid()}
                self._spool = Spool(Path(given["home"] + "-recordings"), about)
                self._delivery = Delivery(self._spool.prefix, self._tell)
                self._began = time.monotonic()
                threading.Thread(target=self._flush_when_due, name="worldledger-flush", daemon=True).start()
                if parent_process() is not None:  # its end runs no functions of atexit
                    Finalize(self, Recording.close, args=(self,), exitpriority=10)
        delivery = self._delivery
        if not wait or delivery is None:
            return
        is_ready = delivery.wait(lambda: delivery.is_ready, self._settings["start_timeout"])
        if not self.effects:
            self._began = time.monotonic()
        if is_ready:
            return
        if self._on_error == "raise" or (delivery.away is None and delivery.failed is None):  # else it was told
            raise RecordingError(f"{self._why_not()}; what is recorded is kept on disk until it can be delivered")

    def _write_out(self) -> None:
        """Write what was gathered to the spool. The lock is held."""
        self._due.clear()
        if not self._lines or self._spool is None:
            return
        data = b"".join(self._lines)
        lines, most = data.count(b"\n"), self._settings["spool_bytes"]
        delivered = 0 if self._delivery is None else self._delivery.bytes
        self._lines, self._size = [], 0
        if self._written_bytes - delivered + len(data) > most:
            self._drop(lines, RecordingError(f"{most:,} bytes wait to be delivered; what comes now is lost"))
            return
        try:
            self._spool.write(data)
        except OSError as error:
            if len(data) >= _MOST_GATHERED:
                self._drop(lines, error)
            else:  # it is tried again
                self._lines = [data]
                self._due.set()
                self._tell(error)
            return
        self._written += lines
        self._written_bytes += len(data)
        if self._delivery is not None:
            self._delivery.wake()

    def _drop(self, lines: int, error: Exception) -> None:
        self._lost += lines
        self.effects -= lines
        self._count(error, lines)
        self._tell(error)

    def _flush_when_due(self) -> None:
        due, spool = self._due, self._spool
        while True:
            due.wait()
            time.sleep(FLUSH_SECONDS)
            with self._lock:
                if self._spool is not spool:
                    return
                self._write_out()

    def _step_before(self) -> int:
        return 0 if self._delivery is None else self._delivery.step

    def _note(self, how: str) -> None:
        self.converted[how] += 1

    def _guarded(self) -> _Guarded:
        return _Guarded(self)

    def _lose(self, error: Exception) -> None:
        """Count what could not be recorded, and do with the problem as the program wants."""
        if not isinstance(error, NotDurableError):
            self._lost += 1
            self._count(error, 1)
        self._tell(error)
        if self._on_error == "raise":
            raise error

    def _count(self, error: Exception, lines: int) -> None:
        """Count why something was lost."""
        why = _shown(error)
        self._reasons[why if why in self._reasons or len(self._reasons) < _MOST_COUNTED else "other reasons"] += lines

    def _tell(self, problem: Exception | str) -> None:
        """Tell of a problem once, unless the program wants it raised where it can be."""
        if callable(self._on_error):
            with suppress(Exception):
                self._on_error(problem if isinstance(problem, Exception) else RecordingError(problem))
            return
        text = _shown(problem)
        if self._on_error != "warn" or text in self._told or len(self._told) >= _MOST_TOLD:
            return
        self._told.add(text)
        log.warning("recording of %s: %s", self.name, text)

    def _why_not(self) -> str:
        delivery = self._delivery
        why = None if delivery is None else delivery.failed or delivery.away
        return why or "the server has not answered in time"

    def _summary(self, delivery: Delivery) -> str:
        """Return what is said at the end."""
        if delivery.is_refused:
            what = "not all of this" if delivery.lines else "nothing of this"
            return f"worldledger: {what} was recorded in {self.name}\n  {delivery.failed}\n"
        home, usual = self._settings["home"], os.environ.get("WORLDLEDGER_HOME") or "~/.worldledger"
        is_usual = home == str(Path(usual).expanduser().absolute()) or "WORLDLEDGER_DATABASE_URL" in os.environ
        beside = "" if is_usual else f" --home {shlex.quote(home)}"
        said = [f"worldledger: recorded {self.name}: {self.effects:,} effects"]
        before = self._step_before()
        if before:
            said[0] += f", after the {before:,} step{'' if before == 1 else 's'} that it had"
        if delivery.earlier_programs:
            lines = f": {delivery.earlier_lines:,} effects" if delivery.earlier_lines else ""
            several = "" if delivery.earlier_programs == 1 else "s"
            what = f"what {delivery.earlier_programs} earlier program{several} had left on disk for it"
            said.append(f"  delivered before it: {what}{lines}")
        if delivery.others:
            said.append(
                f"  being delivered besides: what earlier programs had left on disk for {_some(delivery.others)}"
            )
        if self.lost:
            said.append(f"  {self.lost:,} could not be recorded")
            said += _most("lost", self._reasons)
        waiting = self._written - delivery.lines
        if waiting > 0:
            said.append(f"  {waiting:,} of them wait on disk to be delivered: {self._why_not()}")
        said += _most("converted", self.converted)
        if self._service is not None:
            said.append(f"  look at it: {self.link}")
        else:
            at = before + self._steps
            said.append(f"  look at it: worldledger state {self.name} --at step:{at}{beside}")
            said.append(f"              worldledger serve{beside}, then {self.link}")
        return "\n".join(said) + "\n"

    def _forked(self) -> None:
        """Begin anew in a forked process: files and process are its parent's."""
        spool, delivery = self._spool, self._delivery
        self.effects = self._lost = self._steps = 0
        self._reasons.clear()
        self._reset()
        if spool is not None:
            spool.forget()
        if delivery is not None:
            delivery.forget()


class _Guarded:
    """Keeps problems of a recording from its program, unless that wants them raised."""

    def __init__(self, recording: Recording) -> None:
        self._recording = recording

    def __enter__(self) -> None:
        return None

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> bool:
        if not isinstance(error, Exception):
            return False
        self._recording._tell(error)  # noqa: SLF001 - its own
        return self._recording._on_error != "raise"  # noqa: SLF001


def _tags(tags: Mapping[str, Any] | None) -> dict[str, Any]:
    """Return tags as they stand in a world's configuration. Raises InvalidEffectError."""
    plain: dict[str, Any] = to_plain({} if tags is None else dict(tags), lambda _: None, path="$.tags", level=3)
    return plain


def _name_of(value: Any, path: str) -> str:
    """Return the name that a value is for an agent or entity. Raises InvalidEffectError."""
    if value is None or type(value).__hash__ is None:
        raise InvalidEffectError(f"{type_name(value)} is no name; give a text", path)
    name = value if type(value) is str else str(value)
    if not 0 < len(name) <= MAX_WORD:
        raise InvalidEffectError(f"an agent or entity has a name of 1 to {MAX_WORD} characters, not {len(name)}", path)
    return name


def _audience(sees: Any) -> list[str]:
    """Return the names of those who see an effect, as those of agents. Raises InvalidEffectError."""
    try:
        named = list(sees)
    except TypeError:
        raise InvalidEffectError(f"a list of agents, not {type_name(sees)}", "$.sees") from None
    return [_name_of(each, f"$.sees[{at}]") for at, each in enumerate(named)]


def _stated_time(given: Any) -> float:
    """Return the time that a program states, in seconds. Raises InvalidEffectError."""
    try:
        return check_sim_time(float(given))
    except (TypeError, ValueError, OverflowError):
        raise InvalidEffectError("a time is a finite number of seconds", "$.time") from None
    except InvalidEffectError as error:
        raise InvalidEffectError(error.reason, "$.time") from None


def _shown(problem: Exception | str) -> str:
    """Return a problem in words."""
    return str(problem) if isinstance(problem, SimulationError | str) else f"{type(problem).__name__}: {problem}"


def _some(names: Sequence[str]) -> str:
    """Return the first of some names, and how many more there are."""
    more = len(names) - _MOST_SUMMED_UP
    return ", ".join(names[:_MOST_SUMMED_UP]) + (f" and {more:,} more" if more > 0 else "")


def _most(what: str, counted: Counter[str]) -> list[str]:
    """Return lines of the end about what happened most, and how many other sorts there were."""
    most = counted.most_common(_MOST_SUMMED_UP)
    lines = [f"  {what} {times:,} time{'' if times == 1 else 's'}: {how}" for how, times in most]
    times, sorts = counted.total() - sum(times for _, times in most), len(counted) - len(most)
    return [*lines, f"  {what} {times:,} more, of {sorts:,} other sort{'' if sorts == 1 else 's'}"] if sorts else lines


def _step_number(number: Any) -> int:
    if type(number) is not int or number < 1:
        raise InvalidEffectError("a step has a whole number from 1 on", "$.step")
    return number


def _after_fork() -> None:
    for recording in list(_OPEN):
        recording._forked()  # noqa: SLF001 - its own


def _close_all() -> None:
    for recording in list(_OPEN):
        with recording._guarded():  # noqa: SLF001 - its own
            recording.close()


os.register_at_fork(after_in_child=_after_fork)
atexit.register(_close_all)
