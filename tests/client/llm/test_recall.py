"""Answers that stand in a log already are taken from there, where what the agent sees is the same."""

from __future__ import annotations

from typing import Any

import pytest

from tests.client.helpers import soon
from worldledger.client import Client
from worldledger.llm import End, Persona, Recall, Request, Text, ancestors, recall_from

from .conftest import Script, bob_says, did, playing, said, told

_BRIEF = Persona(character="You are brief.", may=("Speak", "Move"))


async def test_a_fork_asks_only_for_what_is_new(room: Client) -> None:
    """What was answered in the parent, also after the fork point, is recalled where the agent sees the same."""
    model = Script(said("One", " two."), did("Move", '{"to": [1, 2]}'), said("Three."))
    async with playing(room, model, _BRIEF):
        before = await bob_says(room, "First?")
        await soon(told(room)("GenerationReported"))
        await bob_says(room, "Second?")
        parents = await soon(told(room)("GenerationReported", 2))
    fork = room.world(await room.fork(at=str(before - 1)))
    async with Client(room.url, fork.world_id) as other:
        parents_of = await ancestors(other)
        assert [world.world_id for world in parents_of] == [room.world_id]
        assert len(await recall_from(parents_of, "ann")) == 2
        anew = Script(said("Something else."))
        async with playing(other, anew, _BRIEF):
            await bob_says(other, "First?")
            await soon(told(other)("GenerationReported"))
            assert anew.requests == []
            await bob_says(other, "Another second?")
            reports = [effect["payload"] for effect in await soon(told(other)("GenerationReported", 2))]
        spoken = [effect["payload"]["text"] for effect in await told(other)("Speak", 4)]
    assert spoken == ["First?", "One two.", "Another second?", "Something else."]
    first = parents[0]["payload"]["req_id"]
    assert reports[0]["recalled"] == {"world_id": room.world_id, "req_id": first}
    assert "tokens_out" not in reports[0]
    assert "recalled" not in reports[1]
    assert len(anew.requests) == 1


async def test_an_agent_of_a_fork_remembers_what_it_heard_before(room: Client) -> None:
    """What was said in the parent up to the fork point is told in the fork, too, so the parent's answer is recalled.

    SQL has the generations of the fork's whole history.
    """
    model = Script(said("One."), said("Two."))
    async with playing(room, model, _BRIEF):
        await bob_says(room, "First?")
        await soon(told(room)("GenerationReported"))
        before = await bob_says(room, "Second?")
        await soon(told(room)("GenerationReported", 2))
    fork = await room.fork(at=str(before - 1))
    asked = "select outcome, inherited_from, recalled_world_id from generations_with_forks where world_id = :world"
    async with Client(room.url, fork) as other, playing(other, Script(said("No.")), _BRIEF):
        await bob_says(other, "Second?")
        await soon(told(other)("GenerationReported"))
        texts = [effect["payload"]["text"] for effect in await told(other)("Speak", 2)]
        rows = await other.sql(f"{asked} order by generation desc, global_seq", {"world": fork}).rows()
    assert texts == ["Second?", "Two."]
    assert [tuple(row.values()) for row in rows] == [("acted", room.world_id, None), ("acted", None, room.world_id)]


async def test_nothing_is_recalled_by_choice(room: Client) -> None:
    """With an empty Recall the model is asked again for what its parent's log has."""
    async with playing(room, Script(said("One.")), _BRIEF):
        before = await bob_says(room, "First?")
        await soon(told(room)("GenerationReported"))
    anew = Script(said("Two."))
    async with (
        Client(room.url, await room.fork(at=str(before - 1))) as other,
        playing(other, anew, _BRIEF, recall=Recall()),
    ):
        await bob_says(other, "First?")
        await soon(told(other)("GenerationReported"))
    assert len(anew.requests) == 1


async def test_only_whole_answers_to_the_same_question_are_recalled(room: Client) -> None:
    """Another model, other parameters and answers that failed are not taken for it."""
    model = Script([Text("Half"), ValueError("down")], [Text("No."), End("stop")])
    async with playing(room, model, Persona(character="You are brief.", tries=1)):
        await bob_says(room, "Well?")
        await soon(told(room)("GenerationReported"))
        await bob_says(room, "Well?")
        await soon(told(room)("GenerationReported", 2))
    recall = await recall_from([room], "ann")
    assert len(recall) == 1
    whole = recall.find("script", model.requests[1])
    assert whole is not None
    assert (whole.text, whole.finish) == ("No.", "stop")
    assert recall.find("script", model.requests[0]) is None
    assert recall.find("other", model.requests[1]) is None


async def test_an_answer_is_given_again_at_once_or_as_fast_as_it_was_made(monkeypatch: pytest.MonkeyPatch) -> None:
    """Its pauses add up to the time that it took, the first of them to its first word."""
    pauses: list[float] = []

    async def sleep(seconds: float) -> None:
        pauses.append(seconds)

    monkeypatch.setattr("worldledger.llm.recall.asyncio.sleep", sleep)
    prompt = '{"messages":[],"tools":[]}'
    told: list[list[dict[str, Any]]] = [
        [{"req_id": "r", "model": {"name": "script", "parameters": {}}}],
        [{"req_id": "r", "outcome": "acted", "first_token_ms": 2000.0, "took_ms": 5000.0}],
        [
            {"req_id": "r", "part": "prompt", "text": prompt},
            {"req_id": "r", "part": "output", "text": "One two three"},
        ],
    ]
    for paced, expected in ((False, []), (True, [2.0, 1.0, 1.0, 1.0])):
        recall = Recall(paced=paced)
        recall.take("before", *told)
        found = recall.find("script", Request([]))
        assert found is not None
        assert [piece async for piece in found.stream()] == [Text("One"), Text(" two"), Text(" three"), End("stop")]
        assert pauses == expected
