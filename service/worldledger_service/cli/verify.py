"""``worldledger verify``: find what was changed in logs, or with --file in an export."""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import AsyncIterator, Callable, Iterator, Sequence
from contextlib import nullcontext
from dataclasses import replace
from typing import TYPE_CHECKING, Annotated, Any

import typer

from worldledger.errors import FileRefusedError
from worldledger_service.cli.connect import database, target, work
from worldledger_service.cli.log import check_file, open_export
from worldledger_service.cli.naming import not_found, whole_names
from worldledger_service.cli.options import DatabaseUrl, Home, Json
from worldledger_service.cli.output import Tell, counted, failed_check, json_list, progress_bar, put, say, say_line
from worldledger_service.cli.workers import open_reader, processors, share_out
from worldledger_service.running import relax_gc, run_blocking

if TYPE_CHECKING:
    from worldledger.chain import Inherited, Position, Verdict
    from worldledger.exports import CheckedExport
    from worldledger_service.settings import Settings
    from worldledger_service.store import Store
    from worldledger_service.store.spans import Hear, Span


#: Worlds that are verified at the same time: while one is computed, the others' rows are on their way.
_AT_ONCE = 4
#: Processes for a long log: so many fit into 300 MiB with all that they remember.
PROCESSES = 2
#: Findings that are repeated at the end of a long list.
_REPEATED = 100


def verify(
    ctx: typer.Context,
    worlds: Annotated[
        list[str] | None, typer.Argument(metavar="WORLD", help="Worlds' names.", show_default=False)
    ] = None,
    every: Annotated[bool, typer.Option("--all", help="Verify every world of the database.")] = False,
    heads: Annotated[
        list[str] | None,
        typer.Option(
            "--head",
            metavar="SEQ:CHECKSUM",
            help="A head noted earlier, through which the chain must pass; may be given several times.",
            show_default=False,
        ),
    ] = None,
    start: Annotated[
        str | None,
        typer.Option(
            "--from", metavar="SEQ:CHECKSUM", help="A position known to be good: look only at what came since."
        ),
    ] = None,
    file: Annotated[
        str | None,
        typer.Option("--file", metavar="FILE", help="Verify an exported file instead, without any database."),
    ] = None,
    full: Annotated[
        bool,
        typer.Option(
            "--full",
            help="Also hold every text to the canonical profile and every effect to its shape, as --file always does.",
        ),
    ] = False,
    own: Annotated[
        bool, typer.Option("--own", help="Of a fork only its own log, not what it has from its ancestors.")
    ] = False,
    jobs: Annotated[
        int | None,
        typer.Option(
            "--jobs",
            metavar="N",
            min=1,
            max=256,
            help="At most this many processes for a long log, of about 70 MiB each; one is enough for short ones.",
            show_default="2, where there are as many processors",
        ),
    ] = None,
    as_json: Json = False,
    quiet: Annotated[bool, typer.Option("--quiet", "-q", help="Print only what is not verified.")] = False,
    database_url: DatabaseUrl = None,
    home: Home = None,
) -> None:
    """Verify worlds: chain, query columns, order, requests, genesis and head.

    Order: times never go back, causes lie in the past, no uuid and no req_id comes again. Of a fork its ancestors are
    verified, too, each up to the fork point; one that is verified by the same command is only compared there.
    The exit code is 0 if everything holds, 1 if something was tampered with (world, seq and what differs are named)
    or an ancestor is not there, 2 if a check could not be run. Keep what is printed as head elsewhere: given as
    --head later, it finds even a log that was rewritten or cut off as a whole.

    Examples:
        worldledger verify --all
        worldledger verify my-world --head 120:6f2c…   (as an earlier run printed it)
        worldledger verify my-world --from 120:6f2c…   (only what came since)
        worldledger verify --all --full
        worldledger verify --file my-world.ndjson
    """
    import uvloop  # noqa: PLC0415

    from worldledger.chain import ORIGIN, Position  # noqa: PLC0415

    names = list(dict.fromkeys(worlds or []))
    _check_usage(names, every=every, noted=bool(heads or start), start=start, file=file)
    noted = [Position.parse(head) for head in heads or []]
    trusted = ORIGIN if start is None else Position.parse(start)
    if any(head.global_seq < trusted.global_seq for head in noted):
        raise typer.BadParameter("a --head lies before --from, where nothing is looked at")
    where = target(ctx, database_url, home)
    if file is not None:
        verify_file(file, noted, max_effect_bytes=where.settings.max_effect_bytes, as_json=as_json, quiet=quiet)
        return
    with progress_bar("verifying", quiet=quiet or as_json) as tell, database(where) as url:
        workers = SpanWorkers(url, where.settings, min(PROCESSES, processors()) if jobs is None else jobs)
        run = _Run(names, noted, trusted, tell, is_full=full, is_own=own, workers=workers)
        with json_list() if as_json else nullcontext() as item:

            def put_verdict(verdict: Verdict) -> None:
                if item is not None:
                    item(_object(verdict))
                elif not (quiet and verdict.verified):
                    put(_sentence(verdict, trusted))
                    for part in () if quiet else verdict.inherited:
                        put(_inherited(part))

            done = work(url, where.settings, lambda store: run.verify(store, put_verdict))
            run_blocking(done, loop_factory=uvloop.new_event_loop)
    if not quiet:
        _sum_up(run, findings=not as_json)
    if run.code:
        raise typer.Exit(run.code)


def _check_usage(names: list[str], *, every: bool, noted: bool, start: str | None, file: str | None) -> None:
    if sum((bool(names), every, file is not None)) != 1:
        raise typer.BadParameter("name the worlds to verify, or give --all, or --file FILE")
    if noted and (every or len(names) > 1):
        raise typer.BadParameter("--head and --from are about one world: name just that one")
    if start is not None and file is not None:
        raise typer.BadParameter("a file is always verified as a whole: --from is of no use with --file")


class SpanWorkers:
    """Other processes that verify spans of one world at a time."""

    def __init__(self, url: str, settings: Settings, jobs: int) -> None:
        self.jobs = jobs
        self._url = url
        self._settings = settings
        self._lock = asyncio.Lock()

    async def hold(self, spans: Sequence[Span], hear: Hear) -> bool:
        """Return True if everything in the spans holds; False also if a process could not finish its check."""
        from worldledger.errors import SimulationError  # noqa: PLC0415
        from worldledger_service.store.spans import Used, verify_span  # noqa: PLC0415

        outcomes: list[bool] = []

        def heard(message: Any) -> None:
            used = Used(*message)
            hear(used)
            if used.holds is not None:
                outcomes.append(used.holds)

        try:
            async with self._lock:
                await share_out(self._url, self._settings, open_reader, verify_span, spans, len(spans), heard)
        except SimulationError:  # it shows again where one process does it all
            return False
        return all(outcomes)


class _Run:
    """Verifies worlds, a few at a time, and writes the verdicts in the order of the worlds."""

    def __init__(
        self,
        names: list[str],
        noted: list[Position],
        start: Position,
        tell: Tell,
        *,
        is_full: bool,
        is_own: bool,
        workers: SpanWorkers,
    ) -> None:
        self._names = names
        self._all: frozenset[str] = frozenset()
        self._noted = noted
        self._start = start
        self._is_full = is_full
        self._is_own = is_own
        self._tell = tell
        self._workers = workers
        self._running: dict[str, asyncio.Task[Verdict | None]] = {}
        #: What was found of worlds that were told of; None if they hold, or are not there.
        self._ended: dict[str, Verdict | None] = {}
        self._done: dict[str, int] = {}
        self._totals: dict[str, int] = {}
        self.verified = 0
        self.tampered = 0
        self.unchecked = 0
        self.absent = 0
        #: Worlds whose check ended with an error that nobody expects.
        self.failed: set[str] = set()
        self.findings: list[str] = []

    @property
    def count(self) -> int:
        """The number of worlds to verify."""
        return self.verified + self.tampered + self.unchecked + self.absent + len(self.failed)

    @property
    def code(self) -> int:
        """The exit code; a finding outweighs a world that could not be checked."""
        return 1 if self.tampered or self.unchecked else 2 if self.absent or self.failed else 0

    async def verify(self, store: Store, put_verdict: Callable[[Verdict], None]) -> None:
        from worldledger.chain import ORIGIN, Verdict  # noqa: PLC0415
        from worldledger_service.store.verification import every_world, without_world  # noqa: PLC0415

        relax_gc()
        names = self._names if self._noted or self._start.global_seq else await whole_names(store, self._names)
        names = names or [name async for name in every_world(store.reader)]
        self._all = frozenset(names)
        self._totals = await store.reader.head_seqs(names)
        async for verdict in self._verdicts(store, names):
            self._take(verdict, put_verdict)
        for finding in [] if self._names else await without_world(store.reader):
            self._take(Verdict(finding.world_id, ORIGIN, 0, finding), put_verdict)
        self.absent -= len(self.failed)

    def _take(self, verdict: Verdict | None, put_verdict: Callable[[Verdict], None]) -> None:
        if verdict is None:
            self.absent += 1
            return
        put_verdict(verdict)
        if verdict.verified:
            self.verified += 1
            return
        if verdict.first_finding is None:
            self.unchecked += 1
        else:
            self.tampered += 1
        if len(self.findings) < _REPEATED:
            self.findings.append(_sentence(verdict, self._start))

    async def _verdicts(self, store: Store, names: list[str]) -> AsyncIterator[Verdict | None]:
        waiting: deque[str] = deque()
        try:
            for name in names:
                self._begin(store, name)
                waiting.append(name)
                if len(waiting) == _AT_ONCE:
                    yield await self._end(waiting.popleft())
            while waiting:
                yield await self._end(waiting.popleft())
        finally:
            tasks = [*self._running.values()]
            for task in tasks:
                task.cancel()
            await asyncio.gather(*tasks, return_exceptions=True)

    def _begin(self, store: Store, name: str) -> asyncio.Task[Verdict | None]:
        if name not in self._running:
            self._running[name] = asyncio.create_task(self._verdict(store, name))
        return self._running[name]

    async def _end(self, name: str) -> Verdict | None:
        verdict = await self._running[name]
        del self._running[name]
        self._ended[name] = None if verdict is None or verdict.verified else verdict
        return verdict

    async def _verdict(self, store: Store, name: str) -> Verdict | None:
        """Verify one world; a fork of another of these holds only if that one does, up to the fork point."""
        verdict = await self._verified(store, name, self._all)
        if verdict is None or not verdict.inherited or (last := verdict.inherited[-1]).state != "compared":
            return verdict
        parent = last.world_id
        bad = self._ended[parent] if parent in self._ended else await self._begin(store, parent)
        if parent in self.failed:
            return await self._verified(store, name, frozenset())
        if bad is None or bad.verified:
            return verdict
        if bad.finding is None or bad.only_requests:
            if all(part.finding is None and part.state != "missing" for part in bad.inherited):
                return verdict
            # It is a fork as well, and what it has inherited does not hold, or is not there.
            return replace(verdict, inherited=(*verdict.inherited, *bad.inherited))
        if bad.finding.global_seq <= last.until.global_seq:
            last = replace(last, state="tampered", finding=bad.finding)
            return replace(verdict, inherited=(*verdict.inherited[:-1], last))
        return await self._verified(store, name, frozenset())

    async def _verified(self, store: Store, name: str, elsewhere: frozenset[str]) -> Verdict | None:
        """Verify one world; return None if it does not exist, or cannot be checked. Raises StoreUnavailableError."""
        from worldledger.chain import ORIGIN, Finding, Verdict  # noqa: PLC0415
        from worldledger.errors import (  # noqa: PLC0415
            InvalidNameError,
            StoreUnavailableError,
            TamperedError,
            WorldNotFoundError,
        )
        from worldledger_service.store.verification import verify_world  # noqa: PLC0415

        try:
            return await verify_world(
                store.reader,
                name,
                start=self._start,
                noted=self._noted,
                is_full=self._is_full,
                start_name="--from",
                progress=lambda done, total: self._advance(name, done, total),
                workers=self._workers,
                is_own=self._is_own,
                elsewhere=elsewhere,
            )
        except InvalidNameError as error:
            say(error.message)
            return None
        except WorldNotFoundError:
            say(await not_found(store, name))
            return None
        except TamperedError as error:
            finding = Finding(name, error.details["global_seq"], error.details["what"])
            return Verdict(name, ORIGIN, 0, finding)
        except StoreUnavailableError:
            raise
        except Exception as error:  # noqa: BLE001 - whatever it is, other worlds are checked
            if name not in self.failed:
                say(failed_check(name, error))
            self.failed.add(name)
            return None

    def _advance(self, name: str, done: int, total: int) -> None:
        self._done[name] = done
        self._totals[name] = total
        checked = sum(self._done.values())
        self._tell(checked, sum(self._totals.values()), f"{checked} effects")


def _sum_up(run: _Run, *, findings: bool) -> None:
    """Write the summary of several worlds; findings are repeated, so that they are not lost in the list."""
    if run.count == 0:
        say("there are no worlds to verify")
    elif run.count > 1:
        bad = run.tampered + run.unchecked
        if findings and run.count > bad:
            for finding in run.findings:
                say_line(finding)
            if bad > len(run.findings):
                say(f"… and {bad - len(run.findings)} more, see above")
        unchecked = f", {run.unchecked} not checked to their beginning" if run.unchecked else ""
        unchecked += f", {len(run.failed)} not checked" if run.failed else ""
        absent = f", {run.absent} not found" if run.absent else ""
        say(f"{run.verified} verified, {run.tampered} tampered{unchecked}{absent}")


def _sentence(verdict: Verdict, start: Position) -> str:
    finding = verdict.first_finding
    if finding is not None:
        before = "" if verdict.finding is not None else f" before its fork point, in {finding.world_id}"
        return f"TAMPERED {verdict.world_id or 'rows of no world'}{before} at seq {finding.global_seq}: {finding.what}"
    since = f" since seq {start.global_seq}" if start.global_seq else ""
    own = f"{verdict.effects} effects{since}"
    if verdict.missing is not None:
        parent, until = verdict.missing.world_id, verdict.missing.until.global_seq
        what = f"not checked: what {verdict.world_id} has from {parent}, which is not there up to seq {until}"
        return f"{what}; its own {own} hold, head {verdict.position}"
    return f"verified {verdict.world_id} {own}, head {verdict.position}"


def _inherited(part: Inherited) -> str:
    what = {
        "verified": f"verified {counted(part.effects, 'effect')}",
        "compared": "compared the fork point",
        "left out": "left out, not checked",
        "missing": "not checked",
        "tampered": "tampered",
    }[part.state]
    return f"  inherited from {part.world_id}: {what}, up to {part.until}"


def _object(verdict: Verdict) -> dict[str, Any]:
    finding, head, reached = verdict.finding, verdict.head, verdict.position
    return {
        "world_id": verdict.world_id or None,
        "verified": verdict.verified,
        "effects": verdict.effects,
        "head_seq": None if head is None else head.global_seq,
        "head_checksum": None if head is None or not head.checksum else head.checksum.hex(),
        "verified_through": reached.global_seq,
        "position": str(reached) if reached.global_seq else None,
        "finding": None if finding is None else {"global_seq": finding.global_seq, "what": finding.what},
        "inherited": [part.told() for part in verdict.inherited],
    }


# -- --file --------------------------------------------------------------------------------------------------

#: Facts that are not reported of a file that does not verify.
_UNKNOWN = dict.fromkeys(("effects", "head_seq", "head_checksum", "verified_through", "position"))


def verify_file(file: str, noted: list[Position], *, max_effect_bytes: int, as_json: bool, quiet: bool) -> None:
    """Verify an export; a refused file is a finding, one that cannot be read or checked is not.

    Raises typer.Exit for the one, FileRefusedError for the other.
    """
    from worldledger.exports import MAX_LINE  # noqa: PLC0415

    limit = max(max_effect_bytes, MAX_LINE)  # the limit of the service that wrote the file is not known here
    try:
        with open_export(file) as stream:
            logs = check_file(stream, file, noted=noted, max_effect_bytes=limit, quiet=quiet or as_json)
    except FileRefusedError as error:
        line = error.details.get("line")
        if line is None:
            raise
        if error.details.get("unchecked"):
            raise FileRefusedError(f"could not check: {error.reason}", file=file, line=line) from None
        if as_json:
            seq = error.details.get("global_seq")
            finding = {"line": line, "global_seq": seq, "what": error.reason}
            world_id = error.details.get("world_id")
            with json_list() as item:
                item({"file": file, "world_id": world_id, "verified": False, **_UNKNOWN, "finding": finding})
        else:
            put(f"{_verdict(error)}: {error.reason}")
        raise typer.Exit(1) from None
    checked = logs[-1]
    head = checked.trailer.head
    inherited = [*_inherited_in_file(logs)]
    if as_json:
        with json_list() as item:
            item(
                {
                    "file": file,
                    "world_id": checked.world.world_id,
                    "verified": True,
                    "effects": checked.trailer.count,
                    "head_seq": head.global_seq,
                    "head_checksum": head.checksum.hex(),
                    "verified_through": head.global_seq,
                    "position": str(head),
                    "finding": None,
                    "inherited": [part.told() for part in inherited],
                }
            )
    elif not quiet:
        put(f"verified {file}: {checked.world.world_id} {checked.trailer.count} effects, head {head}")
        for part in inherited:
            put(_inherited(part))


def _inherited_in_file(logs: Sequence[CheckedExport]) -> Iterator[Inherited]:
    """Return what a fork has from its ancestors: those in the file are verified; there may be one that is not in it."""
    from worldledger.chain import Inherited, Position  # noqa: PLC0415

    for log in reversed(logs[:-1]):
        yield Inherited(log.world.world_id, log.trailer.head, "verified", log.trailer.count)
    point = logs[0].world.fork_of
    if point is not None:
        until = Position(point.global_seq, bytes.fromhex(point.checksum))
        yield Inherited(point.world_id, until, "left out")


def _verdict(error: FileRefusedError) -> str:
    place = f"{error.details['file']} at line {error.details['line']}"
    world_id = error.details.get("world_id")
    return f"REFUSED {place}" if world_id is None else f"TAMPERED {place} (world {world_id})"
