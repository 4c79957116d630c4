"""Verifying worlds in the database with the library's Verifier: chain, query columns, requests, genesis and head."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Container, Iterable, Sequence
from contextlib import AsyncExitStack, aclosing, asynccontextmanager, closing
from dataclasses import replace
from itertools import pairwise
from tempfile import TemporaryFile
from typing import TYPE_CHECKING, Final, NamedTuple

import orjson

from worldledger.chain import ORIGIN, Finding, Inherited, InheritedState, Position, Verdict, Verifier, told_apart
from worldledger.errors import EffectNotFoundError, ParentMissingError, TamperedError, WorldNotFoundError
from worldledger.genesis import MAX_DEPTH, ForkPoint, check_world_name, genesis_problem
from worldledger.log_rules import FORK_DIGEST_RULE, FORK_DIGEST_SEQ, Heard, begins_fork
from worldledger.repeats import KEY_BYTES, Repeats
from worldledger_service.store import statements
from worldledger_service.store.lineage import check_inherited, check_parent, read_fork_point
from worldledger_service.store.prefetch import prefetch
from worldledger_service.store.records import MEND_NULL, WorldRecord
from worldledger_service.store.request_rows import RequestRows, RequestsDigest, each_has_one_row
from worldledger_service.store.spans import Span, Used, Workers, has_begun

if TYPE_CHECKING:
    import asyncpg

    from worldledger_service.store.reader import Reader

#: Told how many effects were checked, and how many there are.
Progress = Callable[[int, int], None]

#: Fewest effects for which another process is worth its start.
_SPAN: Final = 100_000
#: Effects that this process has verified about when another one has started.
_HEAD_START: Final = 20_000
#: Effects among which a place is looked for where a log can be cut: the largest request has fewer, as a rule.
_NEAR_A_CUT: Final = 1000
#: What to do about rows that the schema's keys would have refused.
_MEND_KEY: Final = "delete what is wrong, then `worldledger db upgrade` makes the key again"


async def verify_world(
    reader: Reader,
    world_id: str,
    *,
    start: Position = ORIGIN,
    noted: Iterable[Position] = (),
    is_full: bool = False,
    progress: Progress | None = None,
    start_name: str = "from",
    workers: Workers | None = None,
    is_own: bool = False,
    elsewhere: Container[str] = (),
) -> Verdict:
    """Verify one world from ``start`` to the head it has when the check begins; of a fork also what it has inherited.

    Looked at are every link of the chain, every query column, what each log obeys (`worldledger.log_rules`), the
    world's row against its genesis, its requests against the effects, the head against the last effect, and that
    nothing stands beyond the head. ``noted`` are positions that someone kept: the chain must pass through each.
    ``is_full`` also holds each text to the canonical profile and each effect to its shape, as a check of the world's
    export would. ``start_name`` is what findings call ``start``. ``workers`` share the work where the log is long.

    Of each ancestor of a fork its uuid, the effect at the fork point, and its log and genesis up to there are verified.
    With ``is_own``, or from a ``start`` on, they are left out. Of an ancestor in ``elsewhere``, which the caller
    verifies for itself, only the uuid and the effect at the fork point are compared.
    Raises WorldNotFoundError if there is no trace of the world, and nobody kept a position of it.
    """
    verdict = await _verify_own(
        reader,
        world_id,
        start=start,
        noted=noted,
        is_full=is_full,
        progress=progress,
        start_name=start_name,
        workers=workers,
    )
    if verdict.finding is not None and not verdict.only_requests:
        return verdict
    ancestors = _Ancestors(reader, is_full=is_full, progress=progress, before=verdict.effects)
    return await ancestors.verified(verdict, elsewhere, left_out=is_own or start != ORIGIN)


async def _verify_own(
    reader: Reader,
    world_id: str,
    *,
    start: Position,
    noted: Iterable[Position],
    is_full: bool,
    progress: Progress | None,
    start_name: str,
    workers: Workers | None,
) -> Verdict:
    """Verify a world's own log; see `verify_world`."""
    log = _Log(reader, world_id, start, start_name, list(noted), is_full=is_full)
    verdict = await log.quickly(progress, workers)
    if verdict is not None:
        return verdict
    # Something does not hold: what it is, and where, is found by another look, by one process, from the start on.
    async with log.verified(None) as (verdict, rows):
        if verdict.finding is None and (problem := await rows.problem()) is not None:
            return replace(verdict, finding=problem, only_requests=True)
        return verdict


@asynccontextmanager
async def verified_log(
    reader: Reader, world_id: str, progress: Progress | None = None
) -> AsyncIterator[tuple[Verdict, RequestRows]]:
    """Verify all of a world but its requests; lend the verdict, and the rows to compare with the log's requests."""
    async with _Log(reader, world_id, ORIGIN, "from", [], is_full=False).verified(progress) as found:
        yield found


class _Begun(NamedTuple):
    """What is known of a log before its effects are read; ``before`` is the text of the effect at the start."""

    end: Position
    extent: asyncpg.Record
    world: WorldRecord
    before: bytes | None
    #: whether an effect up to the start is of another source than the service
    has_begun: bool = False


class _Log:
    """One world's log, from a trusted position on."""

    def __init__(
        self, reader: Reader, world_id: str, start: Position, start_name: str, noted: list[Position], *, is_full: bool
    ) -> None:
        self._reader = reader
        self._world_id = world_id
        self._start = start
        self._start_name = start_name
        self._noted = noted
        self._is_full = is_full

    async def quickly(self, progress: Progress | None, workers: Workers | None) -> Verdict | None:
        """Verify the log and its requests; None if something does not hold."""
        begun = await self._begin()
        if isinstance(begun, Verdict):
            return begun
        parts = 1 if workers is None else min(workers.jobs, (begun.end.global_seq - self._start.global_seq) // _SPAN)
        spans = await self._spans(begun.end, parts)
        return await self._in_spans(begun, spans, workers, progress)

    async def _spans(self, end: Position, parts: int) -> list[Span]:
        """Cut the log; return the spans behind the first cut, none if there is no place to cut it."""
        start = self._start.global_seq
        share = (end.global_seq - start - _HEAD_START) // max(parts, 1)
        cuts: list[Position] = []
        for part in range(1, parts):
            cut = await self._cut(start + _HEAD_START + part * share)
            if cut is not None and (not cuts or cut.global_seq > cuts[-1].global_seq):
                cuts.append(cut)
        return [
            Span(
                self._world_id,
                first,
                last,
                [each for each in self._noted if first.global_seq < each.global_seq <= last.global_seq],
                self._is_full,
            )
            for first, last in pairwise([*cuts, end])
        ]

    async def _cut(self, seq: int) -> Position | None:
        """Return a position from ``seq`` on that lies inside of no request; None if none is near, or to be told."""
        rows: list[asyncpg.Record] = []
        async for batch in self._reader.records(self._world_id, after_seq=seq - 1, limit=_NEAR_A_CUT):
            rows += batch
        try:
            for row, following in pairwise(rows):
                if _asked(following["text"]) is None or _asked(following["text"]) != _asked(row["text"]):
                    return Position(row["global_seq"], row["checksum"])
        except (ValueError, TypeError, AttributeError):
            pass
        return None

    async def _in_spans(
        self, begun: _Begun, spans: Sequence[Span], workers: Workers | None, progress: Progress | None
    ) -> Verdict | None:
        """Verify all, the spans by workers; None if something does not hold."""
        end = begun.end
        mine = begun._replace(end=spans[0].start) if spans else begun
        noted = [each for each in self._noted if not any(each in span.noted for span in spans)]
        uuids = Repeats(TemporaryFile)
        done = [0, 0]

        def tell(place: int, effects: int) -> None:
            done[place] = effects
            if progress is not None:
                progress(sum(done), max(end.global_seq - self._start.global_seq, 0))

        def hear(used: Used) -> None:
            count = len(used.uuids) // KEY_BYTES
            uuids.add(used.uuids, range(used.last_seq - count + 1, used.last_seq + 1))
            tell(1, done[1] + count)

        async with AsyncExitStack() as stack:
            requests = await stack.enter_async_context(aclosing(RequestsDigest(*self._compared(mine))))
            verifier = stack.enter_context(closing(self._verifier(mine, noted, requests.hear, uuids)))
            unique = asyncio.create_task(each_has_one_row(self._reader, self._world_id, self._start.global_seq))
            stack.push_async_callback(_cancelled, unique)
            others: asyncio.Future[bool] | None = None
            if spans and workers is not None:
                others = asyncio.ensure_future(workers.hold(spans, hear))
                stack.push_async_callback(_cancelled, others)
            last, problem = await self._feed(verifier, mine, lambda effects, _: tell(0, effects))
            if problem is not None or verifier.finding is not None or not (others is None or await others):
                return None
            verdict = await asyncio.to_thread(verifier.finish, mine.end)
            if spans:
                last = (await self._reader.effect(self._world_id, end.global_seq)).text
            if not verdict.verified or _ending_problem(self._world_id, begun.extent, last) is not None:
                return None
            if not (await requests.agree() and await unique):
                return None
            effects = verdict.effects + end.global_seq - mine.end.global_seq
            return Verdict(self._world_id, end, effects, None, end)

    @asynccontextmanager
    async def verified(self, progress: Progress | None) -> AsyncIterator[tuple[Verdict, RequestRows]]:
        """Verify all but the requests; lend the verdict, and the rows to compare with the log's requests."""
        begun = await self._begin()
        with closing(RequestRows(*self._compared(begun))) as rows:
            yield begun if isinstance(begun, Verdict) else await self._read(begun, rows, progress), rows

    def _compared(self, begun: _Begun | Verdict) -> tuple[Reader, str, int, int, tuple[str, str] | None]:
        """Return which requests are compared with their rows, as `RequestRows` takes it."""
        if isinstance(begun, _Begun):
            until, skipped = begun.end, _asked(begun.before)
        else:
            until, skipped = begun.head or ORIGIN, None
        return self._reader, self._world_id, until.global_seq, self._start.global_seq, skipped

    async def _begin(self) -> _Begun | Verdict:
        """Look at what is there besides the effects; return the verdict if nothing else needs to be looked at."""
        world_id, start = self._world_id, self._start
        extent, *more = await self._reader.fetch(statements.EXTENT, world_id)
        rows = await self._reader.fetch(statements.WORLD, world_id)
        row = next(iter(rows), None)
        if more or len(rows) > 1:  # the schema's keys are lost
            table, count = ("heads", len(more) + 1) if more else ("worlds", len(rows))
            what = f"the table {table} has {count} rows of this world; {_MEND_KEY}"
            return Verdict(world_id, ORIGIN, 0, Finding(world_id, 1, what))
        end = None if extent["head_seq"] is None else Position(extent["head_seq"], extent["head_checksum"])
        is_named = extent["last_seq"] is not None or extent["has_requests"] or extent["is_prefix"]
        if row is None and end is None and not is_named:
            return _nothing_left(world_id, start, self._noted, self._start_name)
        if end is None and extent["has_head"]:
            what = f"head_seq is NULL in this world's row of the table heads; {MEND_NULL}"
            return Verdict(world_id, ORIGIN, 0, Finding(world_id, 1, what))
        if row is None or end is None:
            missing = "worlds" if row is None else "heads"
            what = f"the row of this world is missing from the table {missing}"
            return Verdict(world_id, ORIGIN, 0, Finding(world_id, 1, what), end)
        world = WorldRecord.of(row)
        if isinstance(world, Finding):
            return Verdict(world_id, ORIGIN, 0, world, end)
        begun = _Begun(end, extent, world, None)
        if start == ORIGIN:
            return begun
        before = await _at_start(self._reader, world_id, start, end, self._start_name)
        if isinstance(before, Finding):
            return Verdict(world_id, ORIGIN, 0, before, end)
        return begun._replace(before=before, has_begun=await has_begun(self._reader, world_id, start))

    def _verifier(
        self,
        begun: _Begun,
        noted: list[Position],
        heard: Heard,
        uuids: Repeats | None = None,
    ) -> Verifier:
        """Return the verifier of effects; with ``uuids``, requests that occur twice are found in their rows."""
        return Verifier(
            self._world_id,
            start=self._start,
            heads=noted,
            before=begun.before,
            has_begun=begun.has_begun,
            is_full=self._is_full,
            spill=TemporaryFile,
            heard=heard,
            uuids=uuids,
            hears_repeats=uuids is not None,
        )

    async def up_to(self, end: Position, progress: Progress | None) -> Verdict:
        """Verify the effects up to a seq, which must have this checksum, and the genesis; nothing else."""
        begun = await self._begin()
        if isinstance(begun, Verdict):
            return begun
        verdict, _ = await self._read_effects(begun._replace(end=end), lambda _: None, progress)
        return verdict

    async def _read(self, begun: _Begun, requests: RequestRows, progress: Progress | None) -> Verdict:
        verdict, last = await self._read_effects(begun, requests.hear, progress)
        return replace(verdict, finding=verdict.finding or _ending_problem(self._world_id, begun.extent, last))

    async def _read_effects(
        self, begun: _Begun, heard: Heard, progress: Progress | None
    ) -> tuple[Verdict, bytes | None]:
        """Verify the effects and the genesis; return the last text, too."""
        end = begun.end
        with closing(self._verifier(begun, self._noted, heard)) as verifier:
            last, problem = await self._feed(verifier, begun, progress)
            if problem is not None:
                return Verdict(self._world_id, ORIGIN, 0, problem, end), last
            return await asyncio.to_thread(verifier.finish, end), last

    async def _feed(
        self, verifier: Verifier, begun: _Begun, progress: Progress | None
    ) -> tuple[bytes | None, Finding | None]:
        """Feed the effects up to ``begun.end``; return the last text, and what is wrong with the genesis."""
        world_id, start = self._world_id, self._start
        end, world = begun.end, begun.world
        total = max(end.global_seq - start.global_seq, 0)
        last: bytes | None = None
        rows = self._reader.records(world_id, after_seq=start.global_seq, until_seq=end.global_seq)
        async with prefetch(rows) as batches:
            async for batch in batches:
                holds = verifier.feed(batch)
                if last is None and start == ORIGIN and verifier.position.global_seq > 0:
                    problem = genesis_problem(batch[0]["text"], world.genesis_columns())
                    if problem is not None:
                        return last, Finding(world_id, 1, problem)
                if not holds:
                    break
                last = batch[-1]["text"]
                if progress is not None:
                    progress(verifier.effects, total)
        return last, None


class _Ancestors:
    """Verifies what forks have from their ancestors. ``before`` effects were read when it begins."""

    def __init__(self, reader: Reader, *, is_full: bool, progress: Progress | None, before: int) -> None:
        self._reader = reader
        self._is_full = is_full
        self._progress = progress
        self._before = before

    async def verified(self, verdict: Verdict, elsewhere: Container[str], *, left_out: bool) -> Verdict:
        """Add to the verdict on a fork's own log those on its ancestors, until one is not there or does not hold."""
        parts: list[Inherited] = []
        world_id, depth = verdict.world_id, MAX_DEPTH
        while (point := await self._fork_point(world_id)) is not None:
            until = Position(point.global_seq, bytes.fromhex(point.checksum))
            part = Inherited(point.world_id, until, "left out")
            if not left_out:
                try:
                    if point.depth > depth:
                        raise Finding(world_id, 1, "it has as many ancestors as its fork, or more").error()
                    await check_parent(self._reader, world_id, point)
                    part = await self._part(part, elsewhere)
                    if part.state != "tampered":
                        await check_inherited(self._reader, world_id)
                except ParentMissingError:
                    part = replace(part, state="missing")
                except TamperedError as error:
                    finding = Finding(world_id, error.details["global_seq"], error.details["what"])
                    if world_id == verdict.world_id:
                        return replace(verdict, finding=finding, only_requests=False)
                    part = replace(part, state="tampered", finding=finding)
            parts.append(part)
            if part.state != "verified":
                break
            world_id, depth = point.world_id, point.depth - 1
        return replace(verdict, inherited=tuple(parts))

    async def _part(self, part: Inherited, elsewhere: Container[str]) -> Inherited:
        if part.world_id in elsewhere:
            return replace(part, state="compared")
        log = _Log(self._reader, part.world_id, ORIGIN, "from", [], is_full=self._is_full)
        verdict = await log.up_to(part.until, self._tell)
        self._before += verdict.effects
        state: InheritedState = "verified" if verdict.finding is None else "tampered"
        return replace(part, state=state, effects=verdict.effects, finding=verdict.finding)

    def _tell(self, done: int, total: int) -> None:
        if self._progress is not None:
            self._progress(self._before + done, self._before + total)

    async def _fork_point(self, world_id: str) -> ForkPoint | None:
        for row in await self._reader.fetch(statements.WORLD_RULES, [world_id]):
            return read_fork_point(world_id, row["fork_of"])
        return None


async def _cancelled(task: asyncio.Future[bool]) -> None:
    task.cancel()
    await asyncio.gather(task, return_exceptions=True)


def _nothing_left(world_id: str, start: Position, noted: list[Position], start_name: str) -> Verdict:
    """Judge a world without a trace: whoever kept a position of it knows that it was there."""
    kept = [(f"the given {start_name}", start)] if start != ORIGIN else []
    kept = [*(("the given head", position) for position in noted), *kept]
    if not kept:
        raise WorldNotFoundError(f"no world named {world_id!r}", world_id=world_id)
    check_world_name(world_id)
    who, position = max(kept, key=lambda each: each[1])
    what = f"nothing of it is left; {who} names seq {position.global_seq}"
    return Verdict(world_id, ORIGIN, 0, Finding(world_id, 1, what))


async def _at_start(reader: Reader, world_id: str, start: Position, end: Position, start_name: str) -> bytes | Finding:
    """Return the text of the effect at a trusted position; a finding if another stands there, or none."""
    seq = start.global_seq
    if seq > end.global_seq:
        what = f"the log ends at seq {end.global_seq}, before the given {start_name} {seq}"
        return Finding(world_id, end.global_seq + 1, what)
    try:
        row = await reader.effect(world_id, seq)
    except EffectNotFoundError:
        return Finding(world_id, seq, f"missing: there is no effect where the given {start_name} names one")
    if row.checksum != start.checksum:
        ours, told = told_apart((row.checksum or b"").hex() or "NULL", start.checksum.hex())
        return Finding(world_id, seq, f"the checksum at seq {seq} is {ours}, {start_name} says {told}")
    try:
        effect = orjson.loads(row.text)
        if all(type(effect[name]) in {int, float} for name in ("sim_time", "wall_time")):
            return row.text
    except (ValueError, TypeError, KeyError):
        pass
    return Finding(world_id, seq, f"the text at the given {start_name} is not an effect")


def _asked(text: bytes | None) -> tuple[str, str] | None:
    """Return the request of an effect."""
    if text is None:
        return None
    effect = orjson.loads(text)
    return None if effect.get("req_id") is None else (effect.get("source_id"), effect["req_id"])


def _ending_problem(world_id: str, extent: asyncpg.Record, last: bytes | None) -> Finding | None:
    """Look at what the chain does not tell: the head's clocks, rows beyond the head, a fork of one effect."""
    head_seq, wrong = extent["head_seq"], extent["wrong_place"]
    if wrong is not None:
        seqs = f"several rows of seq {wrong}" if wrong else "a row of which global_seq is NULL"
        return Finding(world_id, max(wrong, 1), f"the table effects has {seqs}; {_MEND_KEY}")
    if extent["last_seq"] is not None and extent["last_seq"] > head_seq:
        return Finding(world_id, head_seq + 1, f"the log goes on beyond its head (seq {head_seq})")
    if extent["first_seq"] is not None and extent["first_seq"] < 1:
        return Finding(world_id, extent["first_seq"], "an effect stands before seq 1")
    if last is not None:
        effect = orjson.loads(last)
        for name in ("sim_time", "wall_time"):
            if effect[name] != extent[name]:
                said = "NULL" if extent[name] is None else repr(extent[name])
                what = f"the head's {name} is {said}, the last effect's is {effect[name]!r}"
                return Finding(world_id, head_seq, what)
        if head_seq < FORK_DIGEST_SEQ and begins_fork(effect) and not extent["is_prefix"]:
            return Finding(world_id, FORK_DIGEST_SEQ, f"missing: {FORK_DIGEST_RULE}")
    return None


async def without_world(reader: Reader) -> list[Finding]:
    """Return a finding, of the world ``""``, for each table of the log with rows that belong to no world."""
    return [
        Finding("", 1, f"the table {table} has {count} of which world_id is NULL; {_MEND_KEY}")
        for table, rows in await reader.fetch(statements.WITHOUT_WORLD)
        if (count := "a row" if rows == 1 else f"{rows} rows") and rows
    ]


async def every_world(reader: Reader) -> AsyncIterator[str]:
    """Return every name that stands anywhere in the log's tables, so that no orphan escapes verification."""
    position = ""
    while True:
        names = [row["world_id"] for row in await reader.fetch(statements.EVERY_WORLD, position)]
        for name in names:
            yield name
        if not names:
            return
        position = names[-1] + "\x01"  # the next text: no text has a zero character
