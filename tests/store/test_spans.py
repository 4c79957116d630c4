"""A log whose spans other processes verify: whatever was done to it is told as where one process reads it all."""

from __future__ import annotations

import pickle
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import pytest
from worldledger_service.store import Store
from worldledger_service.store.spans import Hear, Span, Used, verify_span
from worldledger_service.store.verification import verify_world

from worldledger.chain import ORIGIN, Position
from worldledger.genesis import NewWorld

from .helpers import draft, guards_down
from .test_attacks import ATTACKS
from .test_request_rows import TAMPERINGS

if TYPE_CHECKING:
    pass

_RECHAINED = """
    do $$
    declare
        row record;
        previous bytea;
    begin
        for row in select * from effects where world_id = '{world}' order by global_seq loop
            previous := sha256(convert_to(coalesce(encode(previous, 'hex'), '') || row.effect::text, 'UTF8'));
            update effects set checksum = previous where world_id = row.world_id and global_seq = row.global_seq;
        end loop;
        update heads set head_checksum = previous where world_id = '{world}';
    end $$
"""
_EDIT = "update effects set effect = {} where world_id = '{{world}}' and global_seq = {}"
_UUID_OF_2 = """
    update effects e set effect = replace(e.effect::text, e.effect ->> 'uuid', o.effect ->> 'uuid')::json
    from effects o where e.world_id = '{world}' and o.world_id = e.world_id and o.global_seq = 2
    and e.global_seq in (5, 9)
"""
#: What is found only where a batch, or the whole log, is looked at as one.
ACROSS: dict[str, Sequence[str]] = {
    "a uuid comes again": (_UUID_OF_2, _RECHAINED),
    "a req_id comes again": (
        "alter table requests drop constraint requests_pkey",
        _EDIT.format("""replace(effect::text, '"r9"', '"r3"')::json""", 9),
        "update requests set req_id = 'r3' where world_id = '{world}' and req_id = 'r9'",
        _RECHAINED,
    ),
    "the service's name behind the beginning": (
        _EDIT.format("""replace(effect::text, '"a1"', '"worldledger"')::json, source_id = 'worldledger'""", 4),
        "update requests set source_id = 'worldledger' where world_id = '{world}' and req_id = 'r4'",
        _RECHAINED,
    ),
    "sim_time goes back": (_EDIT.format("""replace(effect::text, '"sim_time":1.0', '"sim_time":9.0')::json""", 4),),
}


class _Workers:
    """Spans verified in this process, by what a worker runs; what it tells comes as from another process."""

    def __init__(self, store: Store, jobs: int) -> None:
        self.jobs = jobs
        self.spans: list[Span] = []
        self._store = store

    async def hold(self, spans: Sequence[Span], hear: Hear) -> bool:
        told: list[Used] = []

        def tell(message: Any) -> None:
            told.append(Used(*pickle.loads(pickle.dumps(message))))
            hear(told[-1])

        for span in spans:
            self.spans.append(span)
            await verify_span(self._store.reader, span, tell)
        return all(used.holds for used in told if used.holds is not None)


@pytest.fixture(autouse=True)
def _short_spans(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("worldledger_service.store.verification._SPAN", 2)
    monkeypatch.setattr("worldledger_service.store.verification._HEAD_START", 1)
    monkeypatch.setattr("worldledger_service.store.reader._MOST_ROWS", 3)
    monkeypatch.setattr("worldledger_service.store.request_rows._FEW", 0)


async def _world(store: Store, world_id: str) -> str:
    for name in (world_id, f"{world_id}.v"):
        await store.create_world(
            NewWorld(world_id=name, time_authority="client", config={"size": 8, "on": True}, experiment="e")
        )
        log = await store.log(name)
        await log.append_all([draft(n, kind=f"K{n % 2}", sim_time=n / 4, req_id=f"r{n}") for n in range(2, 10)])
    return world_id


async def _long(store: Store, world_id: str) -> list[Position]:
    """Make a world with requests of one effect, of three, and effects without; return its positions."""
    await store.create_world(NewWorld(world_id=world_id, time_authority="client"))
    log = await store.log(world_id)
    await log.append_all([draft({"n": n}, req_id=f"r{n}", sim_time=n / 4) for n in range(2, 8)])
    await log.append_request([draft(n) for n in range(3)], source_id="a1", req_id="several")
    await log.append_all([draft(n) for n in range(3)])
    await log.append_request([draft(n) for n in range(2)], source_id="a1", req_id="last")
    rows = [row async for batch in store.reader.batches(world_id) for row in batch]
    return [ORIGIN, *(Position(row.global_seq, row.checksum) for row in rows)]


async def test_a_log_that_holds_is_verified_in_spans(
    store: Store, world_id: str, monkeypatch: pytest.MonkeyPatch, thorough: bool
) -> None:
    """Each effect is looked at once, from any start, past any kept head, in full too; no cut parts a request."""
    positions = await _long(store, world_id)
    monkeypatch.setattr("worldledger_service.store.verification._Log.verified", None)  # which would look again
    for jobs in (2, 3, 5) if thorough else (2, 3):
        for start in positions[:-4]:
            workers = _Workers(store, jobs)
            told: list[tuple[int, int]] = []
            verdict = await verify_world(
                store.reader,
                world_id,
                start=start,
                noted=positions[start[0] + 1 :],
                is_full=jobs == 3,
                workers=workers,
                progress=lambda *news, told=told: told.append(news),
            )
            count = len(positions) - 1 - start[0]
            assert (verdict.finding, verdict.position, verdict.effects) == (None, positions[-1], count)
            assert told[-1] == (count, count)
            cuts = [span.start[0] for span in workers.spans]
            assert cuts
            assert not {8, 9, 14} & {*cuts}
            assert [span.end[0] for span in workers.spans] == [*cuts[1:], len(positions) - 1]


async def _alike(store: Store, name: str, *all_jobs: int, **asked: Any) -> None:
    alone = await verify_world(store.reader, name, **asked)
    assert alone.finding is not None
    for jobs in all_jobs:
        workers = _Workers(store, jobs)
        assert await verify_world(store.reader, name, workers=workers, **asked) == alone


async def test_attacks_are_told_alike(
    store: Store, world_id: str, database_url: str, subtests: pytest.Subtests, thorough: bool
) -> None:
    """Whatever is done to a log, and wherever the cuts lie, the finding is the one of a single process."""
    attacks: dict[str, Sequence[str]] = {name: statements for name, (statements, *_) in ATTACKS.items()}
    attacks |= {
        name: [done.replace("'a1'", "'agent'")] for name, (done, *_) in TAMPERINGS.items() if "several" not in done
    }
    async with guards_down(database_url) as intruder:
        for number, (attack, statements) in enumerate({**attacks, **ACROSS}.items()):
            with subtests.test(attack=attack):
                name = await _world(store, f"{world_id}.{number}")
                for statement in statements:
                    plain = attack in TAMPERINGS or attack in ACROSS
                    where = {"{world}": name, "{w}": name if plain else f"world_id = '{name}'"}
                    for word, value in where.items():
                        statement = statement.replace(word, value)  # noqa: PLW2901
                    await intruder.execute(statement.replace("{{", "{").replace("}}", "}"))
                await _alike(store, name, *((2, 4) if thorough else [2 + number % 3]))


async def test_kept_heads_are_told_alike(store: Store, world_id: str, thorough: bool) -> None:
    """A kept head that differs, in whichever span, or that the log does not reach, is told as by a single process."""
    positions = await _long(store, world_id)
    for seq in range(1, len(positions) + 1):
        jobs = (2, 4) if thorough else [2 + seq % 3]
        await _alike(store, world_id, *jobs, noted=[positions[1], Position(seq, bytes(32))])


async def test_a_worker_that_cannot_finish(store: Store, world_id: str) -> None:
    """Where workers say that a span does not hold, and it does, the log is looked at by one process."""

    class Broken(_Workers):
        async def hold(self, spans: Sequence[Span], hear: Hear) -> bool:
            return False

    positions = await _long(store, world_id)
    verdict = await verify_world(store.reader, world_id, workers=Broken(store, 2))
    assert (verdict.finding, verdict.position) == (None, positions[-1])
