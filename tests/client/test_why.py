"""A client asks what an effect came of, and what came of it."""

from __future__ import annotations

import pytest

from worldledger.client import Client
from worldledger.errors import EffectNotFoundError, MomentNotFoundError
from worldledger.observation import ObservationPolicy

from .helpers import entity, soon, speak


async def test_a_client_asks_why(client: Client) -> None:
    """It gets the answer of the route: the effects, their links by kind, and what each agent had seen."""
    alice = await client.register_agent("alice", ObservationPolicy())
    lamp = await client.broadcast_event(entity("lamp", lit=False))
    await soon(alice.next_observation())
    said = await alice.submit_intent(speak("dark!"))
    found = await client.why(said.global_seq)
    root = found["effects"][0]
    assert root["context"] == {"agent_id": "alice", "view_seq": lamp.global_seq}
    (link,) = root["links"]
    assert link == {
        "kind": "context",
        "world_id": client.world_id,
        "global_seq": lamp.global_seq,
        "checksum": lamp.checksum,
        "entities": ["lamp"],
    }
    forward = await client.why(lamp.global_seq, direction="forward", depth=1, width=1, limit=5, window=10)
    assert [each["global_seq"] for each in forward["effects"]] == [lamp.global_seq, said.global_seq]
    with pytest.raises(EffectNotFoundError):
        await client.why(said.global_seq + 100)


async def test_a_client_asks_why_over_a_fork_point(client: Client) -> None:
    """In a fork `parent:SEQ` names an effect of before the fork point, and forward goes on in the fork."""
    lamp = (await client.broadcast_event(entity("lamp", lit=False))).global_seq
    fork = client.world(await client.fork())
    found = await fork.why(f"parent:{lamp}", direction="forward")
    assert [(each["world_id"], each["global_seq"]) for each in found["effects"]] == [
        (client.world_id, lamp),
        (fork.world_id, 1),
    ]
    with pytest.raises(MomentNotFoundError, match="the fork point"):
        await fork.why(f"parent:{lamp + 1}")


async def test_a_client_asks_for_density_and_frames(client: Client) -> None:
    """It gets the answers of the routes: counts by kind in bins; the state of a seq, and an agent's view of one."""
    lamp = await client.broadcast_event(entity("lamp", lit=False))
    await client.register_agent("alice", ObservationPolicy())
    head = (await client.broadcast_event(entity("gate", open=1))).global_seq
    density = await client.density(bins=1, by="seq")
    assert (density["bins"]["end_seq"], density["kinds"]["EntityCreated"]) == ([head], [2])
    assert (await client.density(until_seq=lamp.global_seq))["through_seq"] == lamp.global_seq
    frames = await client.frames(from_seq=lamp.global_seq, to_seq=head)
    assert frames["keyframe"]["state"]["entities"] == {"lamp": {"lit": False}}
    assert "/entities/gate" in frames["paths"]
    seen = await client.frames(agent_id="alice", from_seq=head)
    assert "gate" in seen["keyframe"]["view"]["visible_entities"]
