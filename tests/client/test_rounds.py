"""Rounds of social-RL runs by the client: posted as models or as JSON, read again, and the cues at any moment."""

from __future__ import annotations

from collections.abc import AsyncIterator

import pytest
from worldledger_social_rl.client import Run
from worldledger_social_rl.documents import InvalidRunError, RoundResult

from tests.social_runs import ALICE, EFFECTS, adaptation, round_of
from worldledger.client import Client, RemoteError
from worldledger.errors import MomentNotFoundError


@pytest.fixture
async def world(service: str, world_id: str) -> AsyncIterator[Client]:
    """Talk to a served social-RL world."""
    async with Client(service, world_id) as made:
        assert await made.create_world(ruleset="social_rl")
        yield made


@pytest.fixture
def run(world: Client) -> Run:
    """Return the run in it."""
    return Run(world)


async def test_a_round_there_and_back(run: Run) -> None:
    """A round goes there as a model or as JSON, once; it is listed, and read as it was; its cues can be asked for."""
    result = RoundResult.from_value(round_of(1))
    receipt = await run.post_round(result)
    assert (receipt.round_number, receipt.first_seq, receipt.effects, receipt.replayed) == (1, 2, EFFECTS, False)
    assert await run.post_round(result) == receipt._replace(replayed=True)
    second = await run.post_round(round_of(2, policy_adaptations=[adaptation(ALICE, 2, "deactivate_cue")]))
    places = await run.rounds()
    assert [(place["round_number"], place["last_seq"]) for place in places] == [
        (1, receipt.last_seq),
        (2, second.last_seq),
    ]
    found = await run.round(1)
    assert found["checksum"] == receipt.checksum
    assert RoundResult.from_value(found["result"]) == result
    cues = [
        (await run.policy(at_seq=seq))["agents"][ALICE]["cues"]["ask"]["active"]
        for seq in (receipt.last_seq, second.last_seq)
    ]
    assert cues == [True, False]
    assert (await run.policy())["global_seq"] == second.last_seq
    assert (await run.policy(at="round:1")) == await run.policy(at_seq=receipt.last_seq)


async def test_what_is_refused(world: Client, run: Run) -> None:
    """Every problem of a round comes over the wire, and what JSON cannot say is refused before; so are wrong orders."""
    with pytest.raises(InvalidRunError) as refused:
        await run.post_round(round_of(1, duration_seconds=-1, messages=None))
    assert [problem["path"] for problem in refused.value.problems][:2] == ["$.messages", "$.duration_seconds"]
    with pytest.raises(InvalidRunError, match=r"\$\.duration_seconds: not a finite number"):
        await run.post_round(round_of(1, duration_seconds=float("nan")))
    with pytest.raises(RemoteError, match="the first round is round 1") as conflict:
        await run.post_round(round_of(2))
    assert (conflict.value.code, conflict.value.details["expected"]) == ("round_conflict", 1)
    with pytest.raises(MomentNotFoundError):
        await run.round(1)
    town = world.world(f"{world.world_id}-town")
    await town.create_world()
    with pytest.raises(MomentNotFoundError):
        await Run(town).rounds()
