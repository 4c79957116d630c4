"""The process that delivers a spool: ``python -m worldledger_recorder.writer PREFIX`` (`worldledger.client.recording`).

Any input on stdin means that there is more to deliver; the end of stdin, that the program has ended. What it has done
it says on stdout, one line of JSON at a time, and to people only once the program cannot any more.

Each block is delivered once. Before a block is sent, ``PREFIX.at`` says where it begins and ends; after it, that it is
done. A process that finds a block begun sends the same bytes under the same id, and the world knows it or writes it.

What programs that have ended left for a world is delivered in the order in which they began, and before what this one
has recorded there. While it cannot be, this spool waits behind it. Who delivers a spool holds ``PREFIX.writer`` locked;
only those of later spools wait for that, so no two processes wait for each other.
"""

from __future__ import annotations

import asyncio
import fcntl
import os
import subprocess
import sys
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import AbstractAsyncContextManager, asynccontextmanager, suppress
from itertools import accumulate
from pathlib import Path
from typing import Any, Final, Protocol

import orjson

from worldledger.aio import Backoff, running
from worldledger.client.recording import Waiting, spools_in
from worldledger.client.transport import BlockingTransport, path_of
from worldledger.errors import (
    EffectTooLargeError,
    EmbeddedServerError,
    InvalidEffectError,
    RecoveryAction,
    SimulationError,
    WorldExistsError,
)
from worldledger_recorder.rules import RULESET

#: Most lines, and about the most bytes, of one block.
_LINES: Final = 5000
_BYTES: Final = 2 * 1024 * 1024
#: Seconds between two attempts, from the first to the last.
_PAUSES: Final = (0.1, 5.0)
#: Seconds for which a server that is away is tried after the program's end.
_PATIENCE: Final = 30.0
#: Seconds after which the spool is looked at without being asked to.
_LOOK_SECONDS: Final = 1.0
#: Seconds after which it is looked again whether another process has delivered an earlier spool.
_OTHER_SECONDS: Final = 0.1
#: The exit code where a spool is kept for later.
_GAVE_UP: Final = 3
#: Most other worlds for which the spools of earlier programs are delivered, too.
_MOST_LEFT: Final = 8
#: The codes of a service's refusals of a body, with the settings by which it and too large an effect may be allowed.
_TOO_LARGE: Final = {
    "body_too_large": "WORLDLEDGER_MAX_BODY_BYTES",
    "too_many_values": "WORLDLEDGER_MAX_BODY_VALUES",
}
_ADVICE: Final = {**_TOO_LARGE, EffectTooLargeError.code: "WORLDLEDGER_MAX_EFFECT_BYTES"}
#: The event that says that a recording did not end in order.
CUT: Final = "RecordingCut"


class Goal(Protocol):
    """Where blocks are brought."""

    async def begin(self, about: dict[str, Any]) -> dict[str, Any]:
        """Make the world of a recording unless it is there; return its ``sim_time`` and its last ``step``'s number."""
        ...

    async def write(self, block_id: str, lines: Sequence[bytes], base: float) -> None:
        """Write a block, once."""
        ...

    def served_at(self) -> str | None:
        """Return the address of a service that serves the world now, if one is known."""
        ...

    async def end(self) -> None:
        """Leave a digest of the world's state in its log, with which replays are compared."""
        ...


class Service:
    """A service, over HTTP."""

    def __init__(self, about: dict[str, Any]) -> None:
        self._address: str = about["url"]
        self._transport = BlockingTransport(self._address, timeout=60.0, patience=0.0)
        self._world = path_of("v1", "worlds", about["world"])
        self._path = f"{self._world}/blocks"

    async def begin(self, about: dict[str, Any]) -> dict[str, Any]:
        """Make the world unless it is there, and ask where its recording goes on."""
        with suppress(WorldExistsError):
            await asyncio.to_thread(self._transport.call, "POST", "/v1/worlds", body=new_world(about))
        found: dict[str, Any] = await asyncio.to_thread(self._transport.call, "GET", self._path)
        return found

    async def write(self, block_id: str, lines: Sequence[bytes], base: float) -> None:
        """Post a block."""
        body = orjson.Fragment(b"[%b]" % b",".join(lines))
        await asyncio.to_thread(
            self._transport.call, "POST", self._path, body=body, params={"base": repr(base)}, key=block_id
        )

    def served_at(self) -> str:
        """Return its address."""
        return self._address

    async def end(self) -> None:
        """Have a snapshot taken."""
        await asyncio.to_thread(self._transport.call, "POST", f"{self._world}/snapshots")

    def close(self) -> None:
        """Close the connections."""
        self._transport.close()


class Database:
    """A database, without a service."""

    def __init__(self, store: Any, about: dict[str, Any], home: Path | None) -> None:
        self._store = store
        self._home = home
        self._world: str = about["world"]

    async def begin(self, about: dict[str, Any]) -> dict[str, Any]:
        """Make the world unless it is there, and look where its recording goes on."""
        from worldledger.genesis import NewWorld  # noqa: PLC0415 - a service needs none of these
        from worldledger_recorder.store import begin  # noqa: PLC0415

        await self._store.ensure_world(NewWorld(**new_world(about)))
        return (await begin(self._store, self._world))._asdict()

    async def write(self, block_id: str, lines: Sequence[bytes], base: float) -> None:
        """Write a block."""
        from worldledger_recorder.store import write_block  # noqa: PLC0415 - as above

        await write_block(self._store, self._world, block_id, orjson.loads(b"[%b]" % b",".join(lines)), base=base)

    def served_at(self) -> str | None:
        """Return the address of the service that serves the embedded database, if there is one."""
        from worldledger_service.database.embedded.home import served_at  # noqa: PLC0415 - as above

        return None if self._home is None else served_at(self._home)

    async def end(self) -> None:
        """Take a snapshot."""
        await self._store.snapshot(self._world)


def new_world(about: dict[str, Any]) -> dict[str, Any]:
    """Return the world that a recording makes, by what its spool says about it."""
    return {
        "world_id": about["world"],
        "ruleset": RULESET.name,
        "experiment": about["experiment"],
        "time_authority": "client",
        "config": {"tags": about["tags"]} if about["tags"] else {},
    }


def goal(about: dict[str, Any]) -> AbstractAsyncContextManager[Goal]:
    """Return where the blocks of a recording are brought, while the block runs."""
    return _service(about) if about["url"] is not None else _database(about)


@asynccontextmanager
async def _service(about: dict[str, Any]) -> AsyncIterator[Goal]:
    found = Service(about)
    try:
        yield found
    finally:
        found.close()


@asynccontextmanager
async def _database(about: dict[str, Any]) -> AsyncIterator[Goal]:
    from worldledger_service.cli.connect import Target, database, opened  # noqa: PLC0415 - slow to load
    from worldledger_service.running import relax_gc  # noqa: PLC0415
    from worldledger_service.settings import Settings  # noqa: PLC0415

    settings = Settings(home=Path(about["home"]))
    named = settings.database_url
    relax_gc()
    with database(Target(None if named is None else named.get_secret_value(), settings)) as url:
        async with opened(url, settings) as store:
            yield Database(store, about, settings.home if named is None else None)


# -- the spool, as it is delivered -----------------------------------------------------------------------------------


class Place:
    """How far a spool is delivered: the file ``PREFIX.at``."""

    def __init__(self, prefix: str) -> None:
        self._fd = os.open(f"{prefix}.at", os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
        said = os.pread(self._fd, 1024, 0)
        found = orjson.loads(said) if said.strip() else {}
        self.segment: int = found.get("segment", 1)
        self.offset: int = found.get("offset", 0)
        #: the end of a block that may have been written, 0 for none
        self.tried: int = found.get("tried", 0)
        self.lines: int = found.get("lines", 0)
        self.bytes: int = found.get("bytes", 0)
        #: the world's time when the recording began; None before that is known
        self.base: float | None = found.get("base")

    def close(self) -> None:
        """Close the file."""
        os.close(self._fd)

    def keep(self) -> None:
        """Write it down: in one piece, so that no kill leaves half of it."""
        names = ("segment", "offset", "tried", "lines", "bytes", "base")
        os.pwrite(self._fd, orjson.dumps({name: getattr(self, name) for name in names}).ljust(512), 0)


def _to_stderr(text: str) -> None:
    sys.stderr.write(f"worldledger: {text}\n")


class Writer:
    """Delivers one spool, after those that came before it. ``tell`` tells people where no program listens."""

    def __init__(self, prefix: str, *, has_program: bool, tell: Callable[[str], object] = _to_stderr) -> None:
        self.prefix = prefix
        self._tell = tell
        #: whether a program has begun it, and whether that has closed the recording or ended since
        self.has_program, self.is_alone = has_program, not has_program
        self.woken = asyncio.Event()
        self._is_away = False
        first = sorted(Path(prefix).parent.glob(f"{Path(prefix).name}.*.spool"))
        if not first:
            raise FileNotFoundError(prefix)
        with first[0].open("rb") as file:
            self.about: dict[str, Any] = orjson.loads(file.readline())
        self.place = Place(prefix)
        self._fd = -1

    def say(self, **said: Any) -> None:
        """Tell the program, or people if there is no program any more."""
        if self.has_program:
            with suppress(OSError):  # it is gone
                os.write(1, orjson.dumps(said) + b"\n")
                return
        for name in ("failed", "away", "refused", "told"):
            if name in said:
                self._tell(f"recording of {self.about['world']}: {said[name]}")

    async def run(self) -> bool:
        """Deliver until the program has ended and nothing is left; return whether all was delivered."""
        backoff = Backoff(*_PAUSES)
        loop = asyncio.get_running_loop()
        alone_since: float | None = None
        while True:
            try:
                async with goal(self.about) as found:
                    await self._deliver_earlier(found)
                    await self._begin(found)
                    backoff.reset()
                    await self._deliver(found)
                    await self._leave_digest(found)
                    self.say(served_at=found.served_at())
                    _delete(self.prefix)
                    return True
            except (SimulationError, OSError, ImportError) as error:
                if not _may_pass(error):
                    needs = "; the embedded server needs the extra `server`: pip install 'worldledger[server]'"
                    why = f"{error}{needs if isinstance(error, ImportError) else ''}"
                    self.say(failed=f"{why}; what was recorded is kept in {self.prefix}.*")
                    _set_aside(self.prefix)
                    return False
                if not self._is_away:
                    self._is_away = True
                    self.say(away=str(error))
            if self.is_alone:
                alone_since = loop.time() if alone_since is None else alone_since
                if loop.time() - alone_since > _PATIENCE:
                    kept = f"what was recorded is kept in {self.prefix}.*, and the next recording delivers it"
                    self.say(told=kept)
                    return False
            await backoff.wait()

    async def _deliver_earlier(self, found: Goal) -> None:
        """Deliver what ended programs have left for this world, of those that began before this one.

        Raises what may pass; what comes later has to wait then. What can never be delivered is told, and set aside.
        """
        own = Waiting(self.about["began"], self.prefix, self.about)
        for each in spools_in(Path(self.prefix).parent):
            if each[:2] >= own[:2] or _target(each) != _target(own) or not _has_ended(each.prefix):
                continue
            try:
                await found.begin(each.about)  # before waiting for another process: the server may be away
                await self._deliver_one(found, each.prefix)
            except (SimulationError, OSError, ValueError) as error:
                if _may_pass(error):
                    raise
                self.say(told=f"what an earlier program has recorded is kept in {each.prefix}.*: {error}")
                _set_aside(each.prefix)

    async def _deliver_one(self, found: Goal, prefix: str) -> None:
        """Deliver an earlier spool, or wait until another process has, and tell of it."""
        has_waited = False
        while (lock := _locked(f"{prefix}.writer")) is None:
            has_waited = True
            await asyncio.sleep(_OTHER_SECONDS)
        try:
            earlier = Writer(prefix, has_program=False, tell=lambda text: self.say(told=f"earlier {text}"))
        except FileNotFoundError:
            _delete(prefix)  # what is there are the files that were made just now
            self.say(earlier=[int(has_waited), 0])
            os.close(lock)
            return
        before, is_over = earlier.place.lines, False
        try:
            await earlier._begin(found)
            await earlier._deliver(found)
            _delete(prefix)
            is_over = True
        finally:
            self.say(earlier=[int(is_over), earlier.place.lines - before])
            earlier.close()
            os.close(lock)

    async def _leave_digest(self, found: Goal) -> None:
        """Leave a digest of the state at the end of the recording, if there is anything in it."""
        if self.place.lines:
            try:
                await found.end()
            except SimulationError as error:
                self.say(told=f"the log has no digest of its end: {error}")

    def close(self) -> None:
        """Close the files."""
        self.place.close()
        if self._fd >= 0:
            os.close(self._fd)

    async def _begin(self, found: Goal) -> None:
        begun = await found.begin(self.about)
        if self.place.base is None:
            self.place.base = float(begun["sim_time"])
            self.place.keep()
        self._is_away = False
        done = [self.place.lines, self.place.bytes]
        self.say(ready={"step": begun["step"]}, done=done, served_at=found.served_at())

    async def _deliver(self, found: Goal) -> None:
        while True:
            ended = self.is_alone  # read before the spool: nothing comes after it
            self.woken.clear()
            lines = self._next()
            if lines:
                await self._write(found, lines)
                continue
            control = self._control()
            if control.get("next"):
                os.close(self._fd)
                self._fd = -1
                done, self.place.segment, self.place.offset = self._path(), self.place.segment + 1, 0
                self.place.keep()
                done.unlink(missing_ok=True)
            elif control.get("end") or ended:
                if not control.get("end"):
                    await self._note_cut(found)
                return
            else:
                with suppress(TimeoutError):
                    await asyncio.wait_for(self.woken.wait(), _LOOK_SECONDS)

    async def _write(self, found: Goal, lines: list[bytes]) -> None:
        """Write a block, or the first half of one that is too large. A line that is refused is left out, and told."""
        place = self.place
        block_id = f"{self.about['token']}-{place.segment}-{place.offset}"
        every_end = [*accumulate((len(line) + 1 for line in lines), initial=place.offset)][1:]
        ends, end = every_end.copy(), every_end[-1]
        while lines:
            if place.tried != end:
                place.tried = end
                place.keep()
            try:
                await found.write(block_id, lines, place.base or 0.0)
                break
            except SimulationError as error:
                at: int | None = None
                if isinstance(error, InvalidEffectError):
                    at = error.index
                elif error.code in _TOO_LARGE and len(lines) > 1:
                    del lines[len(lines) // 2 :], ends[len(ends) // 2 :]
                    end = ends[-1]
                    continue
                elif error.code in _TOO_LARGE:
                    at = 0
                if at is None or not 0 <= at < len(lines):
                    raise
                self._refuse(error, lines[at])
                del lines[at], ends[at]
        place.lines += every_end.index(end) + 1
        place.bytes += end - place.offset
        place.offset, place.tried = end, 0
        place.keep()
        self.say(done=[place.lines, place.bytes])

    def _refuse(self, error: SimulationError, line: bytes) -> None:
        """Report a line that is left out."""
        why = f"{error.reason} ({error.path})" if isinstance(error, InvalidEffectError) else error.message
        if error.code in _ADVICE:
            why = f"{why}; {_ADVICE[error.code]} of the server may be set to more"
        self.say(refused=f"{why}: {line[:200].decode(errors='replace')}")

    async def _note_cut(self, found: Goal) -> None:
        """Record that the program ended without closing its recording."""
        self.say(told="the program ended without closing its recording: what it had not flushed is missing")
        facts = {"pid": self.about["pid"], "lines": self.place.lines, "sees": []}
        line = orjson.dumps([CUT, None, None, facts])
        await found.write(f"{self.about['token']}-cut", [line], self.place.base or 0.0)

    def _path(self) -> Path:
        return Path(f"{self.prefix}.{self.place.segment:06d}.spool")

    def _read(self, size: int) -> bytes:
        if self._fd < 0:
            self._fd = os.open(self._path(), os.O_RDONLY | os.O_CLOEXEC)
        if not self.place.offset:
            self.place.offset = len(os.pread(self._fd, _BYTES, 0).split(b"\n", 1)[0]) + 1
        return os.pread(self._fd, size, self.place.offset)

    def _next(self) -> list[bytes]:
        """Return the lines of the next block; none if they are not whole yet, or something else comes."""
        data = self._read(self.place.tried - self.place.offset) if self.place.tried else self._read_lines()
        lines = data.split(b"\n")[:-1][:_LINES]
        for at, line in enumerate(lines):
            if line.startswith(b"{"):
                return lines[:at]
        return lines

    def _read_lines(self) -> bytes:
        """Return about _BYTES of whole lines, or one that is longer."""
        size = _BYTES
        while True:
            data = self._read(size)
            end = data.rfind(b"\n") + 1
            if end or len(data) < size:
                return data[:end]
            size *= 2

    def _control(self) -> dict[str, Any]:
        """Return what the spool says about itself next; nothing if it does not."""
        line, whole, _ = self._read(64).partition(b"\n")
        found: dict[str, Any] = orjson.loads(line) if whole and line.startswith(b"{") else {}
        return found


def _may_pass(error: Exception) -> bool:
    """Return whether something may succeed later."""
    if isinstance(error, SimulationError):
        waits = {RecoveryAction.RETRY, RecoveryAction.RETRY_WITH_DELAY}
        return error.recovery in waits or isinstance(error, EmbeddedServerError)
    return isinstance(error, OSError) and not isinstance(error, FileNotFoundError)


# -- the process -----------------------------------------------------------------------------------------------------


def _locked(path: str, *, wait: bool = False) -> int | None:
    """Take the lock of a file; None if another process holds it."""
    fd = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
    try:
        fcntl.flock(fd, fcntl.LOCK_EX if wait else fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError:
        os.close(fd)
        return None
    return fd


def _delete(prefix: str) -> None:
    """Delete the files of a spool."""
    for path in Path(prefix).parent.glob(f"{Path(prefix).name}.*"):
        path.unlink(missing_ok=True)


def _set_aside(prefix: str) -> None:
    """Keep a spool where no other recording tries to deliver it again."""
    Path(f"{prefix}.live").unlink(missing_ok=True)


def _target(spool: Waiting) -> tuple[str, str | None]:
    """Return where a spool is delivered: its world, and the service if it is one."""
    return spool.about["world"], spool.about.get("url")


def _has_ended(prefix: str) -> bool:
    """Return whether the program of a spool has ended, such as one that was killed."""
    try:
        fd = os.open(f"{prefix}.live", os.O_RDONLY | os.O_CLOEXEC)
    except FileNotFoundError:
        return True
    try:
        fcntl.flock(fd, fcntl.LOCK_SH | fcntl.LOCK_NB)  # shared: others may be asking as well
    except BlockingIOError:
        return False
    finally:
        os.close(fd)
    return True


def deliver_others(prefix: str, about: dict[str, Any]) -> list[str]:
    """Have what ended programs have left for other worlds delivered, by a process for each; return their names.

    Each gets the world's newest spool, and delivers the others before it.
    """
    own = Waiting(about["began"], prefix, about)
    left = [each for each in spools_in(Path(prefix).parent) if each.prefix != prefix and _has_ended(each.prefix)]
    newest = {_target(each): each for each in left}
    if _target(own) in newest and newest[_target(own)][:2] < own[:2]:
        del newest[_target(own)]  # it comes before this one's own
    others = list(newest.values())[:_MOST_LEFT]
    for other in others:
        nothing = subprocess.DEVNULL
        command = [sys.executable, "-P", "-W", "ignore", "-m", "worldledger_recorder.writer", other.prefix]
        subprocess.Popen(command, stdin=nothing, stdout=nothing, start_new_session=True)  # noqa: S603 - itself
    return [other.about["world"] for other in others]


async def _run(prefix: str, *, has_program: bool) -> bool:
    writer = Writer(prefix, has_program=has_program)
    if not has_program:
        return await writer.run()
    async with running(_listen(writer)):
        others = deliver_others(prefix, writer.about)
        if others:
            writer.say(others=others)
        return await writer.run()


async def _listen(writer: Writer) -> None:
    """Wake the writer on any input; once stdin has ended it is alone."""
    news = asyncio.StreamReader()
    await asyncio.get_running_loop().connect_read_pipe(lambda: asyncio.StreamReaderProtocol(news), sys.stdin)
    while await news.read(65536):
        writer.woken.set()
    writer.is_alone = True
    writer.woken.set()


def main() -> None:
    """Deliver the spool that the command line names."""
    prefix = sys.argv[1]
    has_program = not os.path.samestat(os.fstat(0), os.stat(os.devnull))  # noqa: PTH116 - of an open file
    if not has_program and not _has_ended(prefix):
        return  # that has its own process
    if _locked(f"{prefix}.writer", wait=has_program) is None:
        return  # another process delivers it
    try:
        delivered = asyncio.run(_run(prefix, has_program=has_program))
    except FileNotFoundError:
        _delete(prefix)  # it is delivered: what is there are the files that were made just now
        return
    sys.exit(0 if delivered else _GAVE_UP)


if __name__ == "__main__":
    main()
