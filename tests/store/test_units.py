"""Where steps, rounds, half-moves and moves stand in the logs of worlds."""

from __future__ import annotations

from typing import Any

from worldledger_service.store import Store
from worldledger_social_rl.store import Rounds

from worldledger.genesis import NewWorld

from .helpers import draft
from .units import seqs


async def test_a_step_is_an_effect_that_the_service_did_not_write(store: Store, world_id: str) -> None:
    """Step N of any world lasts from its N-th effect of no system kind to the next; step 0 is what lies before."""
    await store.create_world(NewWorld(world_id=world_id))
    assert await seqs(store, world_id, "step:0", "step:1") == [1, "its last is 0"]
    log = await store.log(world_id)
    registered: Any = draft(kind="WorldNoted")
    await log.append_all([registered], system=True)
    await log.append_all([draft(n) for n in range(3)])
    await log.append_all([registered] * 40, system=True)
    await log.append_all([draft(3), draft(4, kind="Moved")])
    assert await seqs(store, world_id, "step:0", "step:1", "step:2", "step:3", "step:4", "step:5") == [
        2,
        3,
        4,
        45,
        46,
        47,
    ]
    assert await seqs(store, world_id, "step:6", f"step:{2**62}") == ["its last is 5"] * 2
    assert await seqs(store, world_id, "seq:5", "5", "head") == [5, 5, 47]
    world = await store.world(world_id)
    assert (await store.states.units.at(world, "step", 3)) == (5, 45)


async def test_rounds(store: Store, world_id: str) -> None:
    """A round lasts to the next one's beginning, as `rounds` has it."""
    await store.create_world(NewWorld(world_id=world_id, ruleset="social_rl"))
    log = await store.log(world_id)
    assert await seqs(store, world_id, "round:1") == ["it has not begun"]
    for number in (1, 2):
        await log.append_all([draft(kind="RoundStarted", payload={"round_number": number})])
        await log.append_all([draft(kind="RoundEnded", payload={"round_number": number, "duration_seconds": 1.0})])
    world = await store.world(world_id)
    for number in (1, 2):
        at = await Rounds(store.reader).at(world, number)
        assert await seqs(store, world_id, f"round:{number}") == [at.last_seq]
    assert await seqs(store, world_id, "round:0", "round:3") == ["its last is 2"] * 2
