"""The check of ``worldledger replay --check``: every state digest computed anew, several worlds at the same time."""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from contextlib import nullcontext
from typing import TYPE_CHECKING, Any, Final, NamedTuple, TypeAlias

import typer

from worldledger_service.cli.connect import Target, database, opened
from worldledger_service.cli.naming import not_found, whole_names
from worldledger_service.cli.output import json_list, put, say
from worldledger_service.cli.progress import Tell, progress_bar
from worldledger_service.cli.workers import CONNECTIONS, processors, share_out
from worldledger_service.running import run_blocking

if TYPE_CHECKING:
    from worldledger_service.store import Store
    from worldledger_service.store.replaying import ReplayVerdict

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
    """What is told of a world that is being replayed: how many effects are done, and in the end the outcome."""

    place: int
    done: int
    outcome: Outcome | None = None


#: A verdict, or why there can be none.
Outcome: TypeAlias = "ReplayVerdict | str"
#: Some worlds, each with its place among all that are to be checked.
Job: TypeAlias = Sequence[tuple[int, str]]


def check(where: Target, names: list[str], *, jobs: int | None, as_json: bool, quiet: bool) -> None:
    """Replay worlds (where none is named, all) and say whether they came out as recorded; end with the exit code."""
    bar = progress_bar("replaying", quiet=quiet or as_json)
    with bar as tell, json_list() if as_json else nullcontext() as item, database(where) as url:
        run = _Run(tell, _in_words(quiet=quiet) if item is None else lambda verdict: item(_object(verdict)))
        run_blocking(run.check(where, url, names, jobs or processors()))
    if not quiet:
        run.sum_up(findings=not as_json)
    if run.code:
        raise typer.Exit(run.code)


class _Run:
    """Hears of all worlds, and tells the verdicts in their order."""

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
        """The exit code; a finding outweighs what could not be looked at."""
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
        await share_out(url, where.settings, replay_worlds, shares, jobs, self._hear)

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
            say(outcome)
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
        """Close a run over several worlds: what was found is repeated, so that it is not lost in the list."""
        count = self._agreed + self._not_compared + self._found + self._unchecked
        if count == 0:
            say("there are no worlds to replay")
        elif count > 1:
            if findings and count > self._found:
                for finding in self._findings:
                    say(finding)
                if self._found > len(self._findings):
                    say(f"… and {self._found - len(self._findings)} more, see above")
            compared = f", {self._not_compared} with nothing to compare with" if self._not_compared else ""
            unchecked = f", {self._unchecked} not checked" if self._unchecked else ""
            views = f", {_counted(self._unchecked_views, 'unchecked view')}" if self._unchecked_views else ""
            say(f"{self._agreed} agreed, {self._found} did not{compared}{unchecked}{views}")


def _shares(names: list[str], sizes: dict[str, int]) -> Iterator[Job]:
    """Share worlds out: a large one is a job of its own, small ones are bundled; the largest first."""
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

    tasks = [asyncio.create_task(one_after_another()) for _ in range(min(_AT_ONCE, len(job)))]
    try:
        await asyncio.gather(*tasks)
    finally:
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)


async def _replay(store: Store, name: str, progress: Callable[[int, int], None]) -> Outcome:
    """Replay one world; give why not where that cannot be done."""
    from worldledger.errors import (  # noqa: PLC0415
        InvalidNameError,
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
        return await check_replay(store.reader, world, load_ruleset(world.ruleset), progress)
    except TamperedError as error:
        finding = Divergence("tampered", error.details["global_seq"], error.details["what"])
        return ReplayVerdict(name, 0, 0, 0, 0, finding)
    except WorldNotFoundError:
        return await not_found(store, name)
    except (InvalidNameError, UnknownRulesetError) as error:
        return error.message


def _in_words(*, quiet: bool) -> Callable[[ReplayVerdict], None]:
    return lambda verdict: None if quiet and verdict.finding is None else put(_sentence(verdict))


def _sentence(verdict: ReplayVerdict) -> str:
    finding = verdict.finding
    if finding is not None:
        return f"{_WORDS[finding.kind]} {verdict.world_id} at seq {finding.global_seq}: {finding.what}"
    views = [_counted(verdict.views, "view")] if verdict.views else []
    if verdict.unchecked_views:
        views.append(f"{_counted(verdict.unchecked_views, 'unchecked view')}: {verdict.unchecked_because}")
    beside = "".join(f"; {each}" for each in views)
    if not verdict.agreed_seq:
        if not verdict.views:
            return f"replayed {verdict.world_id} {verdict.effects} effects, nothing to compare with{beside}"
        return f"agreed {verdict.world_id} {verdict.effects} effects{beside}"
    compared = " and ".join(
        _counted(count, what) for count, what in ((verdict.digests, "digest"), (verdict.snapshots, "snapshot")) if count
    )
    return (
        f"agreed {verdict.world_id} {verdict.effects} effects, {compared}, the last at seq {verdict.agreed_seq}{beside}"
    )


def _counted(count: int, what: str) -> str:
    return f"{count} {what}{'' if count == 1 else 's'}"


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
