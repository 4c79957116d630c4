"""Agents that models play: they are woken, interrupted, act by intents, and the log has all of it."""

from __future__ import annotations

import asyncio
import hashlib
from typing import Any

import pytest

from tests.client.helpers import soon
from tests.waiting import wait_for
from worldledger.client import Client
from worldledger.errors import ErrorRecoveryPolicy, RecoveryAction
from worldledger.llm import Budget, End, Generation, ModelError, Persona, Prices, Text, Usage, run_agent
from worldledger.llm.budgets import Budgets
from worldledger.llm.openai import OpenAIModel

from .conftest import Script, bob_says, did, playing, said, told, waits
from .provider import Provider, begins, says


async def _reports(room: Client, count: int = 1) -> list[dict[str, Any]]:
    return [effect["payload"] for effect in await soon(told(room)("GenerationReported", count))]


async def test_an_agent_is_woken_and_speaks(room: Client) -> None:
    """What others say wakes it; the model is told who it is and what was said, and its answer is spoken."""
    model = Script(said("Two", " coins."))
    persona = Persona(character="You sell figs.", goals=("Sell all figs.",))
    async with playing(room, model, persona):
        await bob_says(room, "What do figs cost?")
        (_, answer) = await soon(told(room)("Speak", 2))
    assert (answer["source_id"], answer["payload"]["text"]) == ("ann", "Two coins.")
    asked = model.asked(0)
    assert asked.startswith("system: You are ann. You sell figs.\nYour goals:\n- Sell all figs.")
    assert asked.endswith("bob: What do figs cost?")
    assert len(model.requests) == 1  # its own words do not wake it


async def test_the_log_has_what_an_answer_was_made_from(room: Client) -> None:
    """Model, parameters, seed and a salted digest are in the beginning; tokens, price and intents in the report."""
    model = Script([Text("Two coins."), End("stop"), Usage(200, 40)])
    persona = Persona(
        character="You sell figs.",
        parameters={"seed": 7, "max_tokens": 50},
        prices=Prices(tokens_in=1.0, tokens_out=10.0, currency="EUR"),
    )
    async with playing(room, model, persona):
        seq = await bob_says(room, "What do figs cost?")
        (report,) = await _reports(room)
        (started,) = await told(room)("GenerationStarted")
        (prompt, output) = [effect["payload"] for effect in await told(room)("GenerationText", 2)]
        (_, spoken) = await told(room)("Speak", 2)
    begun = started["payload"]
    assert begun["context_seq"] == seq
    assert (begun["model"]["name"], begun["model"]["seed"]) == ("script", 7)
    assert begun["model"]["parameters"] == {"seed": 7, "max_tokens": 50}
    digest = hashlib.sha256((prompt["salt"] + prompt["text"]).encode()).hexdigest()
    assert begun["model"]["prompt_digest"] == digest
    assert (output["part"], output["text"]) == ("output", "Two coins.")
    assert (report["outcome"], report["tokens_in"], report["tokens_out"], report["counted"]) == (
        "acted",
        200,
        40,
        "provider",
    )
    assert (report["price"], report["currency"], report["finish"]) == (0.0006, "EUR", "stop")
    assert report["first_token_ms"] <= report["took_ms"]
    acted = {"kind": "Speak", "req_id": begun["req_id"], "global_seq": spoken["global_seq"]}
    assert report["intents"] == [acted]
    assert spoken["req_id"] == begun["req_id"]


async def test_texts_are_kept_by_choice(room: Client) -> None:
    """Without them the log still has the digest, which nobody can make anything of."""
    async with playing(room, Script(said("No.")), Persona(character="You are brief.", keeps_texts=False)):
        await bob_says(room, "Well?")
        await _reports(room)
        kinds = [entry.effect["kind"] for entry in await room.event_log.get_entries_since(0)]
    assert "GenerationText" not in kinds


async def test_an_agent_is_interrupted_and_begins_anew(room: Client) -> None:
    """What another says closes the stream at once; what was said so far is kept; the next answer knows of both."""
    async with Provider(begins("Well", ", the tides"), says("You", " first.")) as provider:
        model = OpenAIModel("tiny", base_url=provider.url)
        async with playing(room, model):
            await bob_says(room, "Tell me of the tides.")
            await wait_for(lambda: bool(provider.calls))
            (started,) = await told(room)("GenerationStarted")
            seq = await bob_says(room, "Wait!")
            await soon(provider.calls[0].until_gone())  # it has not said another word
            (_, _, answer) = await soon(told(room)("Speak", 3))
            first, second = await _reports(room, 2)
        await model.aclose()
    assert answer["payload"]["text"] == "You first."
    (cancelled,) = [
        entry.effect["payload"]
        for entry in await room.event_log.get_entries_since(0)
        if entry.effect["kind"] == "GenerationCancelled"
    ]
    assert cancelled["reason"] == f"stale_due_to_effect_{seq}"
    assert (first["outcome"], first["req_id"], first["counted"]) == (
        "interrupted",
        started["payload"]["req_id"],
        "chunks",
    )
    assert (second["outcome"], second["tokens_out"]) == ("acted", 2)
    assert provider.calls[1].asked["messages"][-1]["content"].endswith("bob: Tell me of the tides.\nbob: Wait!")


async def test_the_tokens_of_an_interrupted_answer_are_counted(room: Client) -> None:
    """The report of an answer that was cut off has its tokens, and its text is what was said until then."""
    model = Script([Text("The"), Text(" moon"), asyncio.Event()], said("You first."))
    async with playing(room, model):
        await bob_says(room, "Tell me of the tides.")
        await waits(model)
        await bob_says(room, "Wait!")
        first = (await _reports(room, 2))[0]
        texts = [effect["payload"] for effect in await told(room)("GenerationText", 4)]
    assert (first["outcome"], first["tokens_out"]) == ("interrupted", 2)
    assert [text["text"] for text in texts if text["part"] == "output"] == ["The moon", "You first."]
    assert model.closed == 2


async def test_the_recovery_policy_says_whether_it_begins_anew(room: Client) -> None:
    """With ABORT it stays silent after an interruption, until something else wakes it."""
    model = Script([asyncio.Event()], said("Yes?"))
    recovery = ErrorRecoveryPolicy(stale_context=RecoveryAction.ABORT)
    async with playing(room, model, recovery=recovery):
        await bob_says(room, "Tell me of the tides.")
        await waits(model)
        await bob_says(room, "No, do not.")
        await _reports(room)
        assert len(model.requests) == 1
        await bob_says(room, "Ann?")
        await _reports(room, 2)
    assert len(model.requests) == 2


async def test_what_is_cancelled_by_hand_stays_so(room: Client) -> None:
    """A person who cancels a generation is not answered by another one."""
    model = Script([asyncio.Event()])
    async with playing(room, model):
        await bob_says(room, "Tell me of the tides.")
        await waits(model)
        (started,) = await told(room)("GenerationStarted")
        async with Client(room.url, room.world_id) as other:
            await other.cancel_generation("ann", started["payload"]["req_id"])
        (report,) = await _reports(room)
    assert report["outcome"] == "interrupted"
    assert len(model.requests) == 1


async def test_it_acts_by_intents_of_the_world(room: Client) -> None:
    """The kinds that it may act by are tools with the world's schemas; a call is an intent that is judged."""
    model = Script(did("Move", '{"to": [3, 4]}'), did("EntityCreated", '{"entity_id": "fig", "entity_data": {}}'))
    persona = Persona(character="You walk.", may=("Move", "EntityCreated"))
    async with playing(room, model, persona):
        await bob_says(room, "Go!")
        await _reports(room)
        await bob_says(room, "Plant one!")
        first, second = await _reports(room, 2)
        view = await room.view("bob")
    assert [tool.name for tool in model.requests[0].tools] == ["Move", "EntityCreated"]
    assert view.visible_entities["ann"]["position"] == [3.0, 4.0, 0.0]
    assert "fig" in view.visible_entities
    assert [intent["kind"] for intent in first["intents"] + second["intents"]] == ["Move", "EntityCreated"]


@pytest.mark.parametrize("answer", [did("Move", '{"to": "north"}'), did("Move", "{"), did("Fly", "{}")])
async def test_an_answer_that_does_not_fit_is_told_to_the_model(room: Client, answer: Any) -> None:
    """What a schema refuses is never submitted; the attempt is recorded, and the model is asked once more."""
    model = Script(answer, did("Move", '{"to": [3, 4]}'))
    async with playing(room, model, Persona(character="You walk.", may=("Move",))):
        await bob_says(room, "Go!")
        first, second = await _reports(room, 2)
    assert (first["outcome"], second["outcome"]) == ("refused", "acted")
    assert first["intents"][0]["code"] == "invalid_arguments"
    assert "was not possible" in model.asked(1)


async def test_what_the_world_refuses_is_recorded(room: Client) -> None:
    """An intent that the rules refuse is in the report with the error's code."""
    model = Script(did("EntityRemoved", '{"entity_id": "nothing"}'), [End("stop")])
    async with playing(room, model, Persona(character="You build.", may=("EntityRemoved",))):
        await bob_says(room, "Go!")
        first, second = await _reports(room, 2)
    assert (first["outcome"], second["outcome"]) == ("refused", "silent")
    assert first["intents"][0]["code"] == "illegal_effect"


async def test_a_model_that_fails_stops_nothing(room: Client) -> None:
    """Its failure is in the log with what was said before; the agent answers when it is woken again."""
    model = Script([Text("Well"), ModelError("http_500", "down")], said("Here."))
    async with playing(room, model, Persona(character="You are brief.", tries=1)):
        await bob_says(room, "Ann?")
        await _reports(room)
        await bob_says(room, "Ann!")
        first, second = await _reports(room, 2)
    assert (first["outcome"], first["error"], first["tokens_out"]) == (
        "failed",
        {"code": "http_500", "message": "down"},
        1,
    )
    assert second["outcome"] == "acted"


async def test_a_model_whose_service_is_away_is_asked_until_it_answers(room: Client) -> None:
    """However often it fails: it is told when it is asked again, and no turns are used up by that."""
    away = [ModelError("unreachable", "away", may_pass=True)]
    model = Script(*[away] * 4, said("Here."))
    made: list[Generation] = []
    persona = Persona(character="You are brief.", begins=True, turns=1, retry_s=0.01)
    async with playing(room, model, persona, watch=made.append) as task:
        await soon(task)
    assert [each.outcome for each in made] == ["failed"] * 4 + ["acted"]
    assert [each.again_s is not None for each in made] == [True] * 4 + [False]
    assert len(await _reports(room, 5)) == 5


@pytest.mark.parametrize(
    ("error", "give_up_s"),
    [(ModelError("http_401", "no key"), 60.0), (ModelError("unreachable", "away", may_pass=True), 0.0)],
)
async def test_an_agent_gives_up_if_it_is_asked_to(room: Client, error: ModelError, give_up_s: float) -> None:
    """Its error ends it, once the time is over or where another try does not help; the agent is given back."""
    persona = Persona(character="You are brief.", begins=True)
    with pytest.raises(ModelError, match=error.message):
        await soon(run_agent(room, "ann", Script([error]), persona, give_up_s=give_up_s))
    assert (await told(room)("GenerationLeased", 2))[-1]["payload"]["seconds"] == 0


async def test_a_model_that_refuses_is_recorded(room: Client) -> None:
    """A refusal is an outcome, and nothing is said in the world."""
    model = Script([Text("I would rather not."), End("content_filter")])
    async with playing(room, model):
        await bob_says(room, "Ann?")
        (report,) = await _reports(room)
        (spoken,) = await told(room)("Speak")
    assert (report["outcome"], report["finish"]) == ("refused", "content_filter")
    assert spoken["source_id"] == "bob"


async def test_a_budget_that_is_used_up_is_told(room: Client) -> None:
    """At the end of its budget the model is not asked; the log says so."""
    model = Script(said("One."))
    persona = Persona(character="You are brief.", budget=Budget(calls_per_minute=1), turns=2)
    made: list[Generation] = []
    async with playing(room, model, persona, watch=made.append):
        await bob_says(room, "Ann?")
        await _reports(room)
        await bob_says(room, "Ann!")
        first, second = await _reports(room, 2)
        await wait_for(lambda: len(made) == 2)
    assert (first["outcome"], second["outcome"]) == ("acted", "limited")
    assert len(model.requests) == 1
    assert made[1].budget == "1 call a minute"
    assert made[1].again_s is not None


async def test_the_budget_that_is_used_up_is_named() -> None:
    """It is an agent's own, or that of all together."""
    budgets = Budgets(Budget(tokens_per_minute=5))
    assert await budgets.take("town", "ann", Budget())
    await budgets.spend("town", "ann", Budget(), 7)
    seconds, what = await budgets.used_up("town", "bob", Budget())
    assert what == "5 tokens a minute of all agents together"
    assert 0 < seconds <= 60


async def test_an_agent_begins_and_ends_by_itself(room: Client) -> None:
    """A persona may speak before anything has happened, and has its turns."""
    model = Script(said("Good morning!"))
    persona = Persona(character="You are early.", begins=True, turns=1)
    async with playing(room, model, persona) as task:
        await soon(task)
        (spoken,) = await told(room)("Speak")
    assert spoken["payload"]["text"] == "Good morning!"
    assert "You have just come in" in model.asked(0)


async def test_the_model_may_be_told_the_whole_view(room: Client) -> None:
    """With `sees: view` the last thing it is told is what the agent sees, up to date."""
    model = Script(said("I see."))
    async with playing(room, model, Persona(character="You look.", sees="view")):
        await room.broadcast_event(
            {
                "kind": "EntityCreated",
                "payload": {"entity_id": "fig", "entity_data": {"colour": "green"}},
                "source_id": "gardener",
                "schema_version": "1.0.0",
            }
        )
        await _reports(room)
    assert model.asked(0).endswith('(You see: {"fig":{"colour":"green"}})')
