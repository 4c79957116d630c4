"""Leaving memory when nobody asks any more, and what an arena has counted meanwhile."""

from __future__ import annotations

import asyncio
from contextlib import aclosing

from worldledger_chess.arena import Arena

from tests.waiting import wait_for

from .helpers import FOOLS_MATE, Opening, attempt, ended, new_game, played


def _there(arena: Arena) -> list[str]:
    return sorted(game.game_id for game in arena.games())


async def test_ended_games_leave_when_nobody_asks(opening: Opening) -> None:
    """An hour after it was last asked for, an ended game leaves memory, unless somebody watches."""
    arena = await opening(sweep_every=0.01)
    for name in ("asked", "ended", "going on", "watched"):
        await arena.create(new_game(game_id=name.replace(" ", "-")))
    async with aclosing((await arena.game("watched")).watch()) as events:
        await anext(events)
        for name in ("asked", "ended", "watched"):
            await (await arena.game(name)).resign("w", req_id="r")
        opening.clock.go(3000)
        await arena.game("asked")
        opening.clock.go(601)
        await wait_for(lambda: "ended" not in _there(arena), "it has left")
        assert _there(arena) == ["asked", "going-on", "watched"]
        opening.clock.go(3000)
        await wait_for(lambda: "asked" not in _there(arena), "it has left, too")
    await wait_for(lambda: _there(arena) == ["going-on"], "nobody watches any more")
    again = await arena.game("ended")
    assert (again.state.status, again.state.result) == ("resigned", "black_wins")
    assert _there(arena) == ["ended", "going-on"]


async def test_games_are_counted_once(opening: Opening) -> None:
    """Over all processes, each game made counts once, and each that came to its end, however it did."""
    one, two = await opening(), await opening()
    games = [await one.create(new_game(max_illegal=1, deadline_s=limit)) for limit in (None, None, 5.0, None)]
    games.append(await two.create(new_game()))
    assert (one.counters.created, two.counters.created) == (4, 1)
    same = [await two.game(game.game_id) for game in games]
    await asyncio.gather(games[0].resign("w", req_id="r"), same[0].resign("w", req_id="r"))
    await games[0].resign("w", req_id="r")
    await attempt(games[1], "w", "e2e5")
    await played(games[4], FOOLS_MATE)
    opening.clock.go(6)
    await asyncio.gather(ended(games[2]), ended(same[2]))
    # The end is read back before whoever has written it goes on to count it.
    await wait_for(lambda: one.counters.completed + two.counters.completed >= 4, "the last one is counted")
    await asyncio.sleep(0.1)
    assert one.counters.completed + two.counters.completed == 4
