"""Watching: whoever watches gets every event once, in order, from where it was, at its own pace, in any process."""

from __future__ import annotations

import asyncio
from contextlib import aclosing
from typing import Any

import orjson
import pytest
from worldledger_chess.arena import Arena, GameEvent

from tests.waiting import wait_for
from worldledger.errors import MomentNotFoundError, StoreUnavailableError
from worldledger.genesis import NewWorld

from .helpers import FEW, FOOLS_MATE, Opening, attempt, ended, new_game, of_players, played, refused, watched

#: An event has less than this many bytes (docs/reference/contracts.md, "Chess").
_LIMIT = 64 * 1024


async def _first(arena: Arena, game_id: str, after_seq: int | None) -> GameEvent:
    (event,) = await watched(await arena.game(game_id), after_seq, most=1)
    return event


async def test_what_is_told(arena: Arena) -> None:
    """The start, each move, each rejection and the end are told, with all that belongs to them."""
    game = await arena.create(new_game())
    await attempt(game, "w", "e2e5")
    await played(game, FOOLS_MATE)
    events = await watched(game)
    assert [event.type for event in events] == ["game_started", "move_rejected", *["move_made"] * 4, "game_ended"]
    assert [event.data for event in events] == [orjson.loads(event.text) for event in events]
    started, rejected, made, *_, over = (event.data for event in events)
    assert started["white"] == {"agent_id": "w", "name": "w"}
    assert (rejected["attempted"], rejected["player"], rejected["ply"]) == ("e2e5", "white", 1)
    assert (made["move"]["uci_notation"], made["ply"], made["turn"]) == ("f2f3", 1, "black")
    assert made["move"]["timestamp"].endswith("Z")
    assert (over["status"], over["result"], over["plies"]) == ("checkmate", "black_wins", 4)
    assert all(event.data["game_id"] == game.game_id for event in events)


async def test_watching_goes_on(arena: Arena) -> None:
    """A watcher that comes back names the last event it had, and gets what came after it."""
    game = await arena.create(new_game())
    await played(game, FOOLS_MATE)
    events = await watched(game)
    for number, event in enumerate(events):
        later = await watched(game, event.global_seq)
        assert [each.text for each in later] == [each.text for each in events[number + 1 :]]


async def test_watching_elsewhere(opening: Opening) -> None:
    """A watcher of one process is told what happens in another, and may go on in a third."""
    one, two, three = await opening(), await opening(), await opening()
    game = await one.create(new_game())
    seen = asyncio.create_task(watched(await two.game(game.game_id)))
    await played(game, FOOLS_MATE)
    events = await seen
    assert [event.type for event in events][-1] == "game_ended"
    later = await watched(await three.game(game.game_id), events[2].global_seq)
    assert [each.text for each in later] == [each.text for each in events[3:]]


async def test_from_now_on(arena: Arena) -> None:
    """A watcher that begins from now on is told what happens after that."""
    game = await arena.create(new_game())
    await played(game, ["e2e4"])
    seen = asyncio.create_task(watched(game, None, most=1))
    await wait_for(lambda: game.watchers, "somebody watches")
    await played(game, ["e7e5"])
    ((event,),) = (await seen,)
    assert event.data["ply"] == 2


async def test_many_watchers_some_slow(arena: Arena) -> None:
    """Those who do not read hold up neither the game nor the others, and find everything there when they do."""
    game = await arena.create(of_players("random", "random", seed=3, fen=FEW))
    slow = [game.watch() for _ in range(10)]
    for watcher in slow:
        assert (await anext(watcher)).type == "game_started"
    quick = await asyncio.gather(*(watched(game) for _ in range(20)))
    assert game.watchers == 10
    texts = [event.text for event in quick[0]]
    assert all([event.text for event in each] == texts for each in quick)
    for watcher in slow:
        assert [event.text async for event in watcher] == texts[1:]
    assert game.watchers == 0


async def test_a_seq_beyond_the_log(arena: Arena) -> None:
    """Nobody can have had an event that is not there."""
    game = await arena.create(new_game())
    assert isinstance(await refused(_first(arena, game.game_id, 1000)), MomentNotFoundError)


async def test_closing_tells_watchers(opening: Opening) -> None:
    """Who watches when the arena closes is told so, and nobody hangs."""
    async with opening.until() as arena:
        game = await arena.create(new_game())
        seen = asyncio.create_task(watched(game))
        await wait_for(lambda: game.watchers, "somebody watches")
    error = await refused(_awaited(seen))
    assert isinstance(error, StoreUnavailableError)


async def _awaited(task: asyncio.Task[list[GameEvent]]) -> object:
    return await task


async def test_a_watcher_that_goes_away(arena: Arena) -> None:
    """A watcher that is cancelled is none any more."""
    game = await arena.create(new_game())
    seen = asyncio.create_task(watched(game))
    await wait_for(lambda: game.watchers, "somebody watches")
    seen.cancel()
    await asyncio.wait([seen])
    assert game.watchers == 0


async def test_events_are_small(arena: Arena, game_id: str, subtests: pytest.Subtests) -> None:
    """Whatever stands in an effect, what is told of it has less than 64 KiB."""
    for size in (100, 100_000):
        with subtests.test(size=size):
            name, long = f"{game_id}-{size}", "é" * size
            await arena._store.create_world(NewWorld(world_id=name, ruleset="chess"))
            log = await arena._store.log(name)
            for kind, payload in (
                ("GameStarted", {"white": long, "black": "b", "agents": {"white": "w", "black": "b"}, "event": long}),
                ("MoveMade", {"san_notation": "e4", "comment": long, "variations": long}),
                ("MoveRejected", {"attempted": long, "reason": long, "detail": long}),
                ("GameEnded", {"status": "draw", "result": "draw", "reason": "agreement", "raw_result": long}),
            ):
                await log.append({"kind": kind, "payload": payload, "source_id": "op", "schema_version": "1.0.0"})
            events = await watched(await arena.game(name))
            assert len(events) == 4
            assert all(len(event.text) < _LIMIT for event in events)


async def test_events_of_whatever_a_log_has(arena: Arena, game_id: str) -> None:
    """What is missing in a recorded game's effects is null in its events."""
    await arena._store.create_world(NewWorld(world_id=game_id, ruleset="chess"))
    drafts: list[Any] = [
        {"kind": kind, "payload": payload, "source_id": "op", "schema_version": "1.0.0"}
        for kind, payload in (
            ("GameStarted", {"white": "a", "black": "b"}),
            ("MoveMade", {"uci_notation": "e2e4", "san_notation": None, "comment": {}}),
            ("MoveMade", {"uci_notation": "0000", "is_null": True}),
            ("MoveMade", {"uci_notation": "rubbish"}),
            ("MoveMade", {"uci_notation": "d2d4", "piece": ["pawn"]}),
        )
    ]
    await arena._store.bulk_append(game_id, drafts)
    game = await arena.game(game_id)
    events = await watched(game, most=3)
    assert [event.type for event in events] == ["game_started", "move_made", "move_made"]
    assert events[-1].data["move"]["piece"] is None


async def test_the_end_of_a_watch_is_the_end_of_the_game(arena: Arena) -> None:
    """Watching a game that has ended ends with its last event, also where nothing is left to tell."""
    game = await ended(await arena.create(of_players("random", "random", seed=6, fen=FEW)))
    assert (await watched(game))[-1].type == "game_ended"
    assert await watched(game, game.seq) == []
    async with aclosing(game.watch(None)) as events:
        assert [event async for event in events] == []
