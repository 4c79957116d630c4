"""Where steps, rounds, half-moves and moves stand in the logs of worlds."""

from __future__ import annotations

from typing import Any

from worldledger_service.store import Store
from worldledger_social_rl.store.rounds import Rounds

from worldledger.errors import MomentNotFoundError
from worldledger.genesis import NewWorld
from worldledger.moments import parse_moment

from .helpers import draft


async def _seqs(store: Store, world_id: str, *moments: str) -> list[int | str]:
    """Return the seq of each moment, or why there is none."""
    world = await store.world(world_id)
    found: list[int | str] = []
    for moment in moments:
        try:
            found.append((await store.states.place_at(world, parse_moment(moment)))[1])
        except MomentNotFoundError as error:
            found.append(error.message.partition("; ")[2])
    return found


async def test_a_step_is_an_effect_that_the_service_did_not_write(store: Store, world_id: str) -> None:
    """Step N of any world lasts from its N-th effect of no system kind to the next; step 0 is what lies before."""
    await store.create_world(NewWorld(world_id=world_id))
    assert await _seqs(store, world_id, "step:0", "step:1") == [1, "its last is 0"]
    log = await store.log(world_id)
    registered: Any = draft(kind="WorldNoted")
    await log.append_all([registered], system=True)
    await log.append_all([draft(n) for n in range(3)])
    await log.append_all([registered] * 40, system=True)
    await log.append_all([draft(3), draft(4, kind="Moved")])
    assert await _seqs(store, world_id, "step:0", "step:1", "step:2", "step:3", "step:4", "step:5") == [
        2,
        3,
        4,
        45,
        46,
        47,
    ]
    assert await _seqs(store, world_id, "step:6", f"step:{2**62}") == ["its last is 5"] * 2
    assert await _seqs(store, world_id, "seq:5", "5", "head") == [5, 5, 47]
    world = await store.world(world_id)
    assert (await store.states.units.at(world, "step", 3)) == (5, 45)


async def test_half_moves_and_moves_of_chess(store: Store, world_id: str) -> None:
    """A half-move is a step of chess; a move is both sides', by the numbers of the record."""
    await store.create_world(NewWorld(world_id=world_id, ruleset="chess"))
    log = await store.log(world_id)
    fen = "4k3/8/8/8/8/8/4q3/K7 b - - 3 40"
    agents = {"white": "ana", "black": "bo"}
    await log.append_all([draft(kind="GameStarted", payload={"agents": agents, "initial_fen": fen})])
    for uci in ("e2d2", "a1b1", "d2e2"):
        await log.append_all([draft(kind="MoveMade", payload={"uci_notation": uci})])
    await log.append_all(
        [draft(kind="MoveRejected", payload={"player": "white", "attempted": "b1b9", "reason": "illegal_move"})]
    )
    assert await _seqs(store, world_id, "ply:0", "ply:1", "ply:2", "ply:3", "ply:4") == [2, 3, 4, 6, "its last is 3"]
    assert await _seqs(store, world_id, "step:0", "step:1", "step:3") == [2, 3, 6]
    assert await _seqs(store, world_id, "move:0", "move:40", "move:41", "move:42") == [2, 3, 6, "its last is 41"]
    assert await _seqs(store, world_id, "round:1", "plies:1") == [
        "worlds of chess have no such unit, only move, ply, step",
        "worlds of chess have no such unit, only move, ply, step",
    ]


async def test_rounds(store: Store, world_id: str) -> None:
    """A round lasts to the next one's beginning, as `rounds` has it."""
    await store.create_world(NewWorld(world_id=world_id, ruleset="social_rl"))
    log = await store.log(world_id)
    assert await _seqs(store, world_id, "round:1") == ["it has not begun"]
    for number in (1, 2):
        await log.append_all([draft(kind="RoundStarted", payload={"round_number": number})])
        await log.append_all([draft(kind="RoundEnded", payload={"round_number": number, "duration_seconds": 1.0})])
    world = await store.world(world_id)
    for number in (1, 2):
        at = await Rounds(store.reader).at(world, number)
        assert await _seqs(store, world_id, f"round:{number}") == [at.last_seq]
    assert await _seqs(store, world_id, "round:0", "round:3") == ["its last is 2"] * 2
