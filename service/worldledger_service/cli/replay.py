"""``worldledger replay``: a world's history at its own pace, or with --check computed again and compared."""

from __future__ import annotations

import asyncio
import json
import math
import time
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from contextlib import nullcontext
from enum import Enum
from typing import TYPE_CHECKING, Annotated, Any, Final, NamedTuple, TypeAlias

import typer

from worldledger.aio import all_of
from worldledger.errors import EffectNotFoundError, StoreUnavailableError, TamperedError
from worldledger_service.cli.connect import Target, database, opened, target, typed, with_store
from worldledger_service.cli.log import read_effect
from worldledger_service.cli.moments import (
    Moment,
    first_place_from,
    moment_rule,
    place_of,
    read_moment,
    shown_duration,
    shown_wall_time,
)
from worldledger_service.cli.naming import find_world, not_found, whole_names
from worldledger_service.cli.options import DatabaseUrl, Home
from worldledger_service.cli.output import (
    Piece,
    Tell,
    counted,
    failed_check,
    json_list,
    plain,
    progress_bar,
    put,
    put_bytes,
    put_lines,
    say,
    say_line,
    screen_width,
    shown,
)
from worldledger_service.cli.workers import CONNECTIONS, open_store, processors, share_out
from worldledger_service.running import run_blocking

if TYPE_CHECKING:
    from worldledger.chain import StoredEffect, Verifier
    from worldledger_service.store import Store, WorldRecord
    from worldledger_service.store.replaying import ReplayVerdict


_PACED = {"start": "--from", "end": "--to", "speed": "--speed", "clock": "--clock"}
_CHECKED = {"every": "--all", "jobs": "--jobs"}


class Clock(Enum):
    """The time that paces a replay."""

    SIM = "sim"
    WALL = "wall"


def replay(
    ctx: typer.Context,
    worlds: Annotated[
        list[str] | None,
        typer.Argument(metavar="WORLD", help="A world's name; with --check any number of them.", show_default=False),
    ] = None,
    start: Annotated[
        str | None,
        typer.Option(
            "--from",
            metavar="A",
            help=f"Begin with the first effect at or after this moment: {moment_rule()}.",
            show_default="the beginning of its history",
        ),
    ] = None,
    end: Annotated[
        str, typer.Option("--to", metavar="B", help="End with the last effect at or before this moment.")
    ] = "head",
    speed: Annotated[
        str,
        typer.Option("--speed", metavar="X", help="How many times as fast as it happened; 0 or max: without pauses."),
    ] = "1",
    clock: Annotated[
        Clock, typer.Option("--clock", help="Which time sets the pace: sim_time, or the wall_time of recording.")
    ] = Clock.SIM,
    checking: Annotated[
        bool, typer.Option("--check", help="Show no effects; compute every recorded state again and compare.")
    ] = False,
    every: Annotated[bool, typer.Option("--all", help="With --check: every world of the database.")] = False,
    jobs: Annotated[
        int | None,
        typer.Option(
            "--jobs",
            metavar="N",
            min=1,
            max=256,
            help="With --check: at most this many processes at the same time.",
            show_default="one for each processor",
        ),
    ] = None,
    as_json: Annotated[
        bool,
        typer.Option("--json", help="Write the effects exactly as stored, one a line; with --check a list of objects."),
    ] = False,
    quiet: Annotated[
        bool,
        typer.Option("--quiet", "-q", help="Show no progress and no remarks; with --check only what does not agree."),
    ] = False,
    database_url: DatabaseUrl = None,
    home: Home = None,
) -> None:
    """Write a world's effects to stdout at the pace at which they happened. Ctrl-C stops it.

    A replay only reads the log: no agent is asked again, and nothing is written to the world. The history of a fork
    begins with its ancestors' effects; --from 1 begins with its own. It ends before the first effect that does not
    match its checksum, which is named; the exit code is 1 then.

    With --check, compute the states of worlds again from their logs, without output, and compare them with the state
    digests in the log and with the snapshots. The exit code is 0 if all agree, 1 if something differs (the world, the
    first seq and the difference are named), 2 if a check could not be run.

    Examples:
        worldledger replay my-world
        worldledger replay my-world --from 100 --to sim:60 --speed 10
        worldledger replay my-world --clock wall --speed max --json | jq .kind
        worldledger replay my-world --check
        worldledger replay --check --all
    """
    names = list(dict.fromkeys(worlds or []))
    wrong = _PACED if checking else _CHECKED
    for name, option in wrong.items():
        if typed(ctx, name):
            raise typer.BadParameter(f"{option} is of no use {'with' if checking else 'without'} --check")
    where = target(ctx, database_url, home)
    if checking:
        if bool(names) == every:
            raise typer.BadParameter("name the worlds to check, or give --all")
        check(where, names, jobs=jobs, as_json=as_json, quiet=quiet)
        return
    if len(names) != 1:
        raise typer.BadParameter("name one world to replay; several at once are for --check")
    pace = Pace(_speed(speed), wall=clock is Clock.WALL)
    moments = None if start is None else read_moment(start, "--from"), read_moment(end, "--to")
    with_store(where, lambda store: Paced(store, names[0], pace, as_json=as_json, quiet=quiet).run(*moments))


def _speed(text: str) -> float:
    """Read a speed; infinite means without pauses. Raises BadParameter."""
    from worldledger.moments import UnreadableMomentError, parse_number  # noqa: PLC0415

    rule = "give a number from 0 on, or max (0 and max leave the pauses out)"
    try:
        speed = math.inf if text == "max" else parse_number(text)
    except UnreadableMomentError as error:
        raise typer.BadParameter(f"{error}: {rule}", param_hint="'--speed'") from None
    if speed < 0:
        raise typer.BadParameter(f"time goes forward only: {rule}", param_hint="'--speed'")
    return speed or math.inf


# -- with pauses ---------------------------------------------------------------------------------------------

#: Replays and pauses that take longer than this many seconds are announced.
_LONG: Final = 60.0
#: Seconds below which a pause is no pause.
_SHORTEST: Final = 0.002
#: Seconds that a replay may be late before it gives up catching up.
_MOST_LATE: Final = 1.0
#: Seconds between two attempts while the database is away.
_PAUSE: Final = 0.5
#: Width of a line if stdout is no terminal.
_WIDTH: Final = 160


class Pace:
    """The pace of a replay: ``speed`` times as fast as by the world's clock.

    An infinite speed has no pauses. ``now`` gives seconds that never go back.
    """

    def __init__(self, speed: float, *, wall: bool, now: Callable[[], float] = time.monotonic) -> None:
        self.speed = speed
        self.clock = "wall_time" if wall else "sim_time"
        self._now = now
        self._due: float | None = None
        self._last = 0.0

    def time_of(self, effect: dict[str, Any]) -> float:
        """Return the effect's time by the world's clock."""
        found = effect.get(self.clock)
        return float(found) if isinstance(found, int | float) else self._last

    def between(self, first: float, last: float) -> float:
        """Return how many seconds pass here while that much passes in the world."""
        return max(last - first, 0.0) / self.speed if math.isfinite(self.speed) else 0.0

    def pause(self, at: float) -> float:
        """Return how many seconds to wait before the next effect, whose time this is.

        Each is due a fixed time after the first, so that what is lost in between adds up to nothing; after a longer
        hold-up (the database was away, say) it goes on from there.
        """
        now = self._now()
        if self._due is None:
            self._due = now
        else:
            self._due += self.between(self._last, at)
        self._last = at
        if now - self._due > _MOST_LATE:
            self._due = now
        wait = self._due - now
        return wait if wait > _SHORTEST else 0.0


class _Stretch(NamedTuple):
    """Effects of one world, both ends included."""

    world: str
    first: int
    last: int


class Paced:
    """A paced replay of one world."""

    def __init__(self, store: Store, world: str, pace: Pace, *, as_json: bool, quiet: bool) -> None:
        self._store = store
        self._world = world
        self._pace = pace
        self._as_json = as_json
        self._quiet = quiet
        self._waiting: list[bytes | list[Piece]] = []
        self._position = 0
        self._widths = (0, 0)

    async def run(self, start: Moment | None, end: Moment) -> None:
        """Write the effects from one moment to the other; without ``start``, from the beginning of the history on."""
        world = await find_world(self._store, self._world)
        line = await self._store.states.line(world)
        names = [record.world_id for record in line]
        begin, first = (line[0], 1) if start is None else await first_place_from(self._store, world, start)
        until, last = await place_of(self._store, world, end)
        of_begin, of_until = names.index(begin.world_id), names.index(until.world_id)
        if (of_begin, first) > (of_until, last):
            shown = f"--from is seq {first}{self._of(world, begin)}, which lies behind --to, seq {last}"
            raise typer.BadParameter(f"{shown}{self._of(world, until)}")
        stretches = [
            _Stretch(
                record.world_id,
                first if record.world_id == begin.world_id else 1,
                last if record.world_id == until.world_id else record.head_seq,
            )
            for record in line[of_begin : of_until + 1]
        ]
        await self._look_ahead(stretches, sum(record.head_seq for record in line))
        for self._world, first, last in stretches:
            self._position = first - 1
            await self._write(await self._chain(), last)

    @staticmethod
    def _of(world: WorldRecord, other: WorldRecord) -> str:
        return "" if other.world_id == world.world_id else f" of {other.world_id!r}"

    async def _chain(self) -> Verifier:
        """Return what checks the links from the position on; it trusts the stored checksum there."""
        from worldledger.chain import Position, Verifier  # noqa: PLC0415

        seq = self._position
        checksum = (await self._stored(self._world, seq)).checksum if seq else b""
        return Verifier(self._world, start=Position(seq, checksum))

    async def _stored(self, world: str, seq: int) -> StoredEffect:
        """Return an effect that has to be there."""
        try:
            return await self._store.reader.effect(world, seq)
        except EffectNotFoundError:
            raise _missing(world, seq) from None

    async def _write(self, chain: Verifier, last: int) -> None:
        """Write the effects up to ``last``; wait while the database is away."""
        told = False
        while self._position < last:
            try:
                await self._write_rows(chain, last)
            except StoreUnavailableError as error:
                if not told:
                    say(f"{error.message}; waiting for it")
                    told = True
                await asyncio.sleep(_PAUSE)

    async def _look_ahead(self, stretches: Sequence[_Stretch], in_all: int) -> None:
        """Announce the duration of a long replay; work out the widths of columns."""
        ends = [
            read_effect(world, await self._stored(world, seq))
            for world, seq in ((stretches[0].world, stretches[0].first), (stretches[-1].world, stretches[-1].last))
        ]
        times = [self._pace.time_of(effect) for effect in ends]
        self._widths = (
            max(len(str(each.last)) for each in stretches),
            max(len(self._shown_time(effect)) for effect in ends),
        )
        count = sum(each.last - each.first + 1 for each in stretches)
        seconds = self._pace.between(*times)
        if seconds > _LONG and not self._quiet:
            say(
                f"replaying {count} of {in_all} effects takes {shown_duration(seconds)}; "
                "a higher --speed makes it shorter, --speed max leaves the pauses out"
            )

    async def _write_rows(self, chain: Verifier, last: int) -> None:
        from worldledger_service.store.prefetch import prefetch  # noqa: PLC0415

        rows = self._store.reader.batches(self._world, after_seq=self._position, until_seq=last)
        async with prefetch(rows) as batches:
            async for batch in batches:
                chain.feed_chain(batch)
                for row in batch[: chain.position.global_seq - self._position]:
                    await self._next(row)
                self._flush()
                if chain.finding is not None:
                    raise chain.finding.error()
        if self._position < last:
            raise _missing(self._world, self._position + 1)

    async def _next(self, row: StoredEffect) -> None:
        try:
            effect = read_effect(self._world, row)
        except TamperedError:
            self._flush()
            raise
        pause = self._pace.pause(self._pace.time_of(effect))
        if pause:
            self._flush()
            if pause > _LONG and not self._quiet:
                say(f"seq {row.global_seq} comes in {shown_duration(pause)}")
            await asyncio.sleep(pause)
        self._waiting.append(row.text if self._as_json else self._line(row.global_seq, effect))

    def _flush(self) -> None:
        """Write what is due."""
        waiting, self._waiting = self._waiting, []
        if self._as_json:
            put_bytes(b"".join(line + b"\n" for line in waiting if isinstance(line, bytes)))
        else:
            put_lines(line for line in waiting if isinstance(line, list))
        self._position += len(waiting)

    def _line(self, seq: int, effect: dict[str, Any]) -> list[Piece]:
        seq_width, time_width = self._widths
        who = f"{self._shown_time(effect).rjust(time_width)}  "
        kind = f"{plain(str(effect.get('kind'))).ljust(14)}  "
        source = f"{plain(str(effect.get('source_id'))).ljust(14)}  "
        used = seq_width + 2 + len(who) + len(kind) + len(source)
        room = max((screen_width() or _WIDTH) - used, 20)
        return [
            (f"{seq:>{seq_width}}  ", "dim"),
            (who, ""),
            (kind, "bold"),
            (source, "cyan"),
            (shown(_telling(effect.get("payload")), room), ""),
        ]

    def _shown_time(self, effect: dict[str, Any]) -> str:
        found = effect.get(self._pace.clock)
        return shown_wall_time(found) if self._pace.clock == "wall_time" else json.dumps(found)


def _missing(world: str, seq: int) -> TamperedError:
    from worldledger.chain import Finding  # noqa: PLC0415

    return Finding(world, seq, "missing from the log").error()


def _telling(payload: Any) -> Any:
    """Return a payload without null, false and empty values, so that a line has room for the others."""
    if not isinstance(payload, dict):
        return payload
    return {
        name: value
        for name, value in payload.items()
        if value not in (None, False, "", [], {}) or (value == 0 and value is not False)
    }


# -- --check -------------------------------------------------------------------------------------------------

#: Effects from which on it pays to start further processes.
SPAWN_FROM: Final = 100_000
#: Effects that one process is given at a time, if they are of several worlds.
_JOB: Final = 5_000
#: Worlds that one process replays at the same time: while one is computed, the others' rows are on their way.
_AT_ONCE: Final = CONNECTIONS
#: Findings that are repeated at the end of a long list.
_REPEATED: Final = 100

_WORDS: Final = {
    "tampered": "TAMPERED",
    "ruleset_changed": "RULESET CHANGED",
    "diverged": "DIVERGED",
    "view_differs": "VIEW DIFFERS",
    "snapshot": "DAMAGED",
    "failed": "FAILED",
}


class News(NamedTuple):
    """Progress of a world that is being replayed: how many effects are done, and at the end the outcome."""

    place: int
    done: int
    outcome: Outcome | None = None


#: A verdict, or why there can be none.
Outcome: TypeAlias = "ReplayVerdict | str"
#: Some worlds, each with its place among all that are to be checked.
Job: TypeAlias = Sequence[tuple[int, str]]


def check(where: Target, names: list[str], *, jobs: int | None, as_json: bool, quiet: bool) -> None:
    """Replay worlds (without names, all), compare each with what was recorded, and end with the exit code."""
    bar = progress_bar("replaying", quiet=quiet or as_json)
    with bar as tell, json_list() if as_json else nullcontext() as item, database(where) as url:
        run = _Check(tell, _in_words(quiet=quiet) if item is None else lambda verdict: item(_object(verdict)))
        run_blocking(run.check(where, url, names, jobs or processors()))
    if not quiet:
        run.sum_up(findings=not as_json)
    if run.code:
        raise typer.Exit(run.code)


class _Check:
    """Collects the news of all worlds, and writes the verdicts in their order."""

    def __init__(self, tell: Tell, put_verdict: Callable[[ReplayVerdict], None]) -> None:
        self._tell = tell
        self._put = put_verdict
        self._done: dict[int, int] = {}
        self._all_done = 0
        self._total = 0
        self._outcomes: dict[int, Outcome] = {}
        self._next = 0
        self._agreed = 0
        self._not_compared = 0
        self._found = 0
        self._unchecked = 0
        self._unchecked_views = 0
        self._findings: list[str] = []

    @property
    def code(self) -> int:
        """The exit code; a finding outweighs a world that could not be checked."""
        return 1 if self._found else 2 if self._unchecked else 0

    async def check(self, where: Target, url: str, names: list[str], jobs: int) -> None:
        async with opened(url, where.settings) as store:
            from worldledger_service.store.verification import every_world  # noqa: PLC0415

            names = await whole_names(store, names) or [name async for name in every_world(store.reader)]
            sizes = await store.reader.head_seqs(names)
            self._total = sum(sizes.values())
            shares = list(_shares(names, sizes))
            jobs = min(jobs, len(shares))
            if jobs < 2 or self._total < SPAWN_FROM:
                await replay_worlds(store, list(enumerate(names)), self._hear)
                return
        await share_out(url, where.settings, open_store, replay_worlds, shares, jobs, self._hear)

    def _hear(self, news: News) -> None:
        self._all_done += news.done - self._done.get(news.place, 0)
        self._done[news.place] = news.done
        self._tell(self._all_done, self._total, f"{self._all_done} effects")
        if news.outcome is None:
            return
        del self._done[news.place]
        self._outcomes[news.place] = news.outcome
        while (outcome := self._outcomes.pop(self._next, None)) is not None:
            self._next += 1
            self._take(outcome)

    def _take(self, outcome: Outcome) -> None:
        if isinstance(outcome, str):
            self._unchecked += 1
            say_line(outcome)
            return
        self._put(outcome)
        self._unchecked_views += outcome.unchecked_views
        if outcome.finding is None:
            self._agreed += outcome.agreed is True
            self._not_compared += outcome.agreed is None
            return
        self._found += 1
        if len(self._findings) < _REPEATED:
            self._findings.append(_sentence(outcome))

    def sum_up(self, *, findings: bool) -> None:
        """Write the summary of several worlds; findings are repeated, so that they are not lost in the list."""
        count = self._agreed + self._not_compared + self._found + self._unchecked
        if count == 0:
            say("there are no worlds to replay")
        elif count > 1:
            if findings and count > self._found:
                for finding in self._findings:
                    say_line(finding)
                if self._found > len(self._findings):
                    say(f"… and {self._found - len(self._findings)} more, see above")
            compared = f", {self._not_compared} with nothing to compare with" if self._not_compared else ""
            unchecked = f", {self._unchecked} not checked" if self._unchecked else ""
            views = f", {counted(self._unchecked_views, 'unchecked view')}" if self._unchecked_views else ""
            say(f"{self._agreed} agreed, {self._found} did not{compared}{unchecked}{views}")


def _shares(names: list[str], sizes: dict[str, int]) -> Iterator[Job]:
    """Divide worlds into jobs, the largest first: a large world is one job, small ones share one."""
    small: list[tuple[int, str]] = []
    effects = 0
    for place, name in sorted(enumerate(names), key=lambda each: sizes.get(each[1], 0), reverse=True):
        size = sizes.get(name, 0)
        if effects + size > _JOB and small:
            yield small
            small, effects = [], 0
        small.append((place, name))
        effects += size
    if small:
        yield small


async def replay_worlds(store: Store, job: Job, tell: Callable[[News], None]) -> None:
    """Replay some worlds, a few at a time. Raises StoreUnavailableError."""
    waiting = deque(job)

    async def one_after_another() -> None:
        while waiting:
            place, name = waiting.popleft()
            done = 0

            def progress(count: int, _: int, place: int = place) -> None:
                nonlocal done
                done = count
                tell(News(place, count))

            outcome = await _replay(store, name, progress)
            tell(News(place, done if isinstance(outcome, str) else outcome.effects, outcome))

    await all_of(one_after_another() for _ in range(min(_AT_ONCE, len(job))))


async def _replay(store: Store, name: str, progress: Callable[[int, int], None]) -> Outcome:
    """Replay one world; return the verdict, or the reason why there can be none."""
    from worldledger.errors import (  # noqa: PLC0415
        FoldError,
        InvalidNameError,
        ParentMissingError,
        TamperedError,
        UnknownRulesetError,
        WorldNotFoundError,
    )
    from worldledger.rulesets import load_ruleset  # noqa: PLC0415
    from worldledger_service.store.replaying import Divergence, ReplayVerdict, check_replay  # noqa: PLC0415
    from worldledger_service.store.verification import verify_world  # noqa: PLC0415

    try:
        try:
            world = await store.world(name)
        except WorldNotFoundError:
            # Of a world whose row is gone the log may still be there: then there is a finding.
            verdict = await verify_world(store.reader, name)
            if verdict.finding is None:
                raise
            raise verdict.finding.error() from None
        ruleset = load_ruleset(world.ruleset)
        beginning = await store.states.beginning(world.world_id, ruleset)
        return await check_replay(store.reader, world, ruleset, progress, beginning=beginning)
    except TamperedError as error:
        finding = Divergence("tampered", error.details["global_seq"], error.details["what"])
        return ReplayVerdict(name, 0, 0, 0, 0, finding)
    except WorldNotFoundError:
        return await not_found(store, name)
    except (ParentMissingError, FoldError) as error:  # what a fork has from its parent, which has a line of its own
        return f"not checked: {name}: {error.message}"
    except (InvalidNameError, UnknownRulesetError) as error:
        return error.message
    except StoreUnavailableError:
        raise
    except Exception as error:  # noqa: BLE001 - whatever it is, other worlds are checked
        return failed_check(name, error)


def _in_words(*, quiet: bool) -> Callable[[ReplayVerdict], None]:
    return lambda verdict: None if quiet and verdict.finding is None else put(_sentence(verdict))


def _sentence(verdict: ReplayVerdict) -> str:
    finding = verdict.finding
    if finding is not None:
        return f"{_WORDS[finding.kind]} {verdict.world_id} at seq {finding.global_seq}: {finding.what}"
    views = [counted(verdict.views, "view")] if verdict.views else []
    if verdict.unchecked_views:
        views.append(f"{counted(verdict.unchecked_views, 'unchecked view')}: {verdict.unchecked_because}")
    beside = "".join(f"; {each}" for each in views)
    if not verdict.agreed_seq:
        if not verdict.views:
            return f"replayed {verdict.world_id} {verdict.effects} effects, nothing to compare with{beside}"
        return f"agreed {verdict.world_id} {verdict.effects} effects{beside}"
    compared = " and ".join(
        counted(count, what) for count, what in ((verdict.digests, "digest"), (verdict.snapshots, "snapshot")) if count
    )
    return (
        f"agreed {verdict.world_id} {verdict.effects} effects, {compared}, the last at seq {verdict.agreed_seq}{beside}"
    )


def _object(verdict: ReplayVerdict) -> dict[str, Any]:
    finding = verdict.finding
    return {
        "world_id": verdict.world_id,
        "agreed": verdict.agreed,
        "effects": verdict.effects,
        "digests": verdict.digests,
        "snapshots": verdict.snapshots,
        "views": verdict.views,
        "unchecked_views": verdict.unchecked_views,
        "unchecked_because": verdict.unchecked_because,
        "agreed_seq": verdict.agreed_seq,
        "finding": None
        if finding is None
        else {"kind": finding.kind, "global_seq": finding.global_seq, "what": finding.what},
    }
