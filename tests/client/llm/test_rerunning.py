"""A fork is rerun with language models in the place of agents, which think anew only where they see something else."""

from __future__ import annotations

import asyncio
import json
import os
import sys
from collections.abc import AsyncIterator, Sequence
from pathlib import Path
from typing import Any

import pytest
from worldledger_service.cli.rethinking import minds_of
from worldledger_service.store import Store
from worldledger_service.store.rerunning import Asked, Report

from tests.api.helpers import settings
from tests.client.helpers import soon
from worldledger.client import Client
from worldledger.effects import Effect
from worldledger.errors import SimulationError
from worldledger.llm import Budget, ModelError, Persona
from worldledger.llm.budgets import Budgets

from .conftest import Script, bob_says, did, playing, said, told
from .provider import Provider, says

_BRIEF = Persona(character="You are brief.", may=("Speak", "Move"), tries=1)


@pytest.fixture
async def store(shared_url: str, service: str) -> AsyncIterator[Store]:
    """Return a store of the service's database."""
    async with Store.open(shared_url, settings()) as made:
        yield made


async def _talk(room: Client, *answers: Sequence[Any], persona: Persona = _BRIEF) -> int:
    """Have bob ask once for each answer that ann gives; return the seq before the first question."""
    before = (await room.call("GET"))["head_seq"]
    async with playing(room, Script(*answers), persona):
        for number in range(1, len(answers) + 1):
            await bob_says(room, f"Question {number}?")
            await soon(told(room)("GenerationReported", number))
    return int(before)


async def _rerun(
    store: Store, fork: str, model: Script, persona: Persona = _BRIEF, recall: str = "ancestors", **asked: Any
) -> Report:
    world = await store.world(fork)
    minds = await minds_of(store, world, {"ann": (model, persona)}, budget=None, recall=recall)
    return await store.rerun(fork, asked=Asked(thinking=minds, **asked))


def _replaced(seq: int, text: str) -> dict[str, Any]:
    return {"replace": {seq: {"payload": {"text": text}}}}


async def _asked_at(room: Client, number: int) -> int:
    """Return the seq of bob's question of this number."""
    return int([each for each in await told(room)("Speak") if each["source_id"] == "bob"][number - 1]["global_seq"])


async def _of(room: Client, fork: str) -> list[Effect]:
    async with Client(room.url, fork) as other:
        return [entry.effect for entry in await other.event_log.get_entries_since(0)]


def _texts(log: Sequence[Effect]) -> list[str]:
    return [each["payload"]["text"] for each in log if each["kind"] == "Speak"]


def _reports(log: Sequence[Effect]) -> list[dict[str, Any]]:
    return [each["payload"] for each in log if each["kind"] == "GenerationReported"]


async def test_agents_who_see_the_same_ask_nothing(room: Client, store: Store) -> None:
    """Every generation of the parent is recalled, also one that led to a move or to nothing; the fork's log says so."""
    before = await _talk(room, said("One."), did("Move", '{"to": [1, 2]}'), said(), said("Four."))
    fork = await room.fork(at=str(before))
    model = Script(said("Something else."))
    report = await _rerun(store, fork, model)
    assert model.requests == []
    assert (report.recalled, report.asked, report.refused, report.differs_at) == (4, 0, 0, None)
    log = await _of(room, fork)
    assert _texts(log) == ["Question 1?", "One.", "Question 2?", "Question 3?", "Question 4?", "Four."]
    parents = [each["payload"]["req_id"] for each in await told(room)("GenerationReported", 4)]
    assert [each["recalled"] for each in _reports(log)] == [
        {"world_id": room.world_id, "req_id": req_id} for req_id in parents
    ]
    assert [each["outcome"] for each in _reports(log)] == ["acted", "acted", "silent", "acted"]
    acts = {each["global_seq"]: each["kind"] for each in log}
    intents = [each["intents"][0] for each in _reports(log) if "intents" in each]
    assert [acts[each["global_seq"]] for each in intents] == ["Speak", "Move", "Speak"]


async def test_what_was_refused_in_the_parent_is_the_same_turn(room: Client, store: Store) -> None:
    """A refused intent and its correction are recalled where nothing differs; where it does there is one question."""
    persona = _BRIEF.model_copy(update={"may": ("Speak", "EntityRemoved")})
    before = (await room.call("GET"))["head_seq"]
    async with playing(room, Script(did("EntityRemoved", '{"entity_id": "fig"}'), said("Gone already.")), persona):
        question = await bob_says(room, "Eat the fig.")
        await soon(told(room)("GenerationReported", 2))
    fork, other = [await room.fork(f"{name}-fig", at=str(before)) for name in ("no", "a")]
    model = Script(said("Never."))
    report = await _rerun(store, fork, model, persona)
    assert (report.recalled, report.asked, model.requests) == (2, 0, [])
    assert [each["outcome"] for each in _reports(await _of(room, fork))] == ["refused", "acted"]
    fig = {"kind": "EntityCreated", "payload": {"entity_id": "fig", "entity_data": {}}}
    model = Script(did("EntityRemoved", '{"entity_id": "fig"}'))
    report = await _rerun(store, other, model, persona, replace={question: fig})
    log = await _of(room, other)
    assert (report.recalled, report.asked, report.refused) == (0, 1, 0)
    assert "EntityRemoved" in [each["kind"] for each in log]
    assert _reports(log)[0]["intents"][0]["kind"] == "EntityRemoved"


async def test_they_are_asked_from_where_they_see_something_else(room: Client, store: Store) -> None:
    """What was said before is recalled; of what comes after, the model is told how it went in the fork."""
    before = await _talk(room, said("One."), said("Two."), said("Three."))
    fork = await room.fork(at=str(before))
    model = Script(said("Zwei."), said("Drei."))
    report = await _rerun(store, fork, model, **_replaced(await _asked_at(room, 2), "Auf Deutsch?"))
    assert (report.recalled, report.asked) == (1, 2)
    assert model.asked(0).endswith("bob: Question 1?\nassistant: One.\nuser: bob: Auf Deutsch?")
    assert model.asked(1).endswith("assistant: Zwei.\nuser: bob: Question 3?")
    log = await _of(room, fork)
    assert _texts(log) == ["Question 1?", "One.", "Auf Deutsch?", "Zwei.", "Question 3?", "Drei."]
    assert [("recalled" in each, each.get("tokens_out")) for each in _reports(log)] == [
        (True, None),
        (False, 1),
        (False, 1),
    ]
    zwei = next(each for each in log if each["payload"].get("text") == "Zwei.")
    theirs = next(each for each in await told(room)("Speak") if each["payload"]["text"] == "Two.")
    assert zwei["sim_time"] == theirs["sim_time"]
    assert _reports(log)[1]["req_id"] == zwei["req_id"]
    rows = await room.sql(
        "select outcome, tokens_out, recalled_world_id from generations_with_forks "
        "where world_id = :fork and not is_inherited order by global_seq",
        {"fork": fork},
    ).rows()
    assert [tuple(row.values()) for row in rows] == [
        ("acted", None, room.world_id),
        ("acted", 1, None),
        ("acted", 1, None),
    ]


async def test_a_rerun_that_was_stopped_asks_nothing_twice(room: Client, store: Store) -> None:
    """A model that fails ends it; what was answered is kept, and the same again goes on there and reports the whole."""
    before = await _talk(room, said("One."), said("Two."), said("Three."), said("Four."))
    whole, parts = [await room.fork(name, at=str(before)) for name in ("whole-of-it", "parts-of-it")]
    changed = _replaced(await _asked_at(room, 2), "Auf Deutsch?")
    at_once = await _rerun(store, whole, Script(said("Zwei."), said("Drei."), said("Vier.")), **changed)
    model = Script(said("Zwei."), [ModelError("unreachable", "away", may_pass=True)])
    with pytest.raises(ModelError, match="away"):
        await _rerun(store, parts, model, **changed)
    assert _texts(await _of(room, parts)) == ["Question 1?", "One.", "Auf Deutsch?", "Zwei."]
    again = Script(said("Drei."), said("Vier."))
    gone_on = await _rerun(store, parts, again, **changed)
    assert again.asked(0).endswith("user: bob: Auf Deutsch?\nassistant: Zwei.\nuser: bob: Question 3?")
    done = await _rerun(store, parts, Script(said("Never.")), **changed)
    logs = [[(each["kind"], each["payload"].get("text")) for each in await _of(room, name)] for name in (whole, parts)]
    said_there = [[each for each in log if each[0] == "Speak"] for log in logs]
    assert said_there[0] == said_there[1]
    for report in (gone_on, done):
        for name in ("issued", "accepted", "refused", "left_out", "asked", "recalled", "differs_after", "differs_at"):
            assert getattr(report, name) == getattr(at_once, name), name
    assert (at_once.asked, at_once.recalled, at_once.issued) == (3, 1, 8)


async def test_what_is_refused_in_the_fork_is_told_to_the_model(room: Client, store: Store) -> None:
    """It is asked once more, as it is in a world; both generations stand in the log, and an answer may be nothing."""
    before = await _talk(room, said("One."), said("Two."))
    fork = await room.fork(at=str(before))
    model = Script(did("Move", '{"to": "away"}'), said("Eins."), said())
    report = await _rerun(store, fork, model, **_replaced(await _asked_at(room, 1), "Auf Deutsch?"))
    assert "(Move was not possible: the arguments do not fit" in model.asked(1)
    log = await _of(room, fork)
    assert _texts(log) == ["Auf Deutsch?", "Eins.", "Question 2?"]
    assert [each["outcome"] for each in _reports(log)] == ["refused", "acted", "silent"]
    assert len({each["req_id"] for each in _reports(log)}) == 3
    assert (report.asked, report.left_out["Speak"]) == (3, 1)


@pytest.mark.parametrize("other", ["persona", "parameters", "off", "texts"])
async def test_only_the_same_question_is_not_asked_again(room: Client, store: Store, other: str) -> None:
    """Another character, other parameters, answers whose texts were not kept, and ``off``: then the model is asked."""
    kept = _BRIEF.model_copy(update={"keeps_texts": other != "texts"})
    before = await _talk(room, said("One."), persona=kept)
    changed: dict[str, Any] = {"persona": {"character": "You are long."}, "parameters": {"parameters": {"seed": 2}}}
    persona = kept.model_copy(update=changed.get(other, {}))
    model = Script(said("Eins."))
    fork = await room.fork(at=str(before))
    report = await _rerun(store, fork, model, persona, "off" if other == "off" else "ancestors")
    assert (report.asked, report.recalled, len(model.requests)) == (1, 0, 1)
    assert _texts(await _of(room, fork)) == ["Question 1?", "Eins."]


async def test_a_fork_of_a_rerun_recalls_what_that_recalled(room: Client, store: Store) -> None:
    """What an agent is given again in its parent is known of the parent's parent; its answers there are its own."""
    before = await _talk(room, said("One."), said("Two."))
    child = await room.fork("child-of-it", at=str(before))
    await _rerun(store, child, Script(said("Zwei.")), **_replaced(await _asked_at(room, 2), "Auf Deutsch?"))
    async with Client(room.url, child) as other:
        grandchild = await other.fork("grandchild-of-it", at="1")
    model = Script(said("Never."))
    report = await _rerun(store, grandchild, model)
    assert (report.recalled, report.asked, model.requests) == (2, 0, [])
    assert _texts(await _of(room, grandchild)) == ["Question 1?", "One.", "Auf Deutsch?", "Zwei."]


async def _acted_from(room: Client, seq: int) -> None:
    """Wait until an agent has acted by a view that has this effect."""
    while True:
        log = await _of(room, room.world_id)
        acted = {each["req_id"] for each in _reports(log) if each["outcome"] == "acted"}
        begun = [each["payload"] for each in log if each["kind"] == "GenerationStarted"]
        if any(each["req_id"] in acted and each["context_seq"] >= seq for each in begun):
            return
        await asyncio.sleep(0.05)


def _clock(kind: str, **payload: Any) -> Any:
    payload = {"entity_id": "clock", **payload}
    return {"kind": kind, "payload": payload, "source_id": "engine", "schema_version": "1.0.0"}


def _strikes(hour: int) -> Any:
    return _clock("EntityUpdated", patch=[{"op": "replace", "path": "/hour", "value": hour}])


@pytest.mark.parametrize("sees", ["changes", "view"])
async def test_changes_of_what_is_seen_count_as_what_is_said(room: Client, store: Store, sees: Any) -> None:
    """An agent who sees the same values is asked nothing, however they came to it; another one is told to the model."""
    persona = _BRIEF.model_copy(update={"sees": sees, "pause_s": 0.2})
    await room.broadcast_event(_clock("EntityCreated", entity_data={"hour": 3}))
    before = (await room.call("GET"))["head_seq"]
    async with playing(room, Script(said("Late."), said("Later."), said("Too late.")), persona):
        for hours in ([4], [5, 6, 7]):
            for hour in hours:  # several may come to it as one
                last = await room.broadcast_event(_strikes(hour))
            await soon(_acted_from(room, last.global_seq))
    whole = [each for each in _reports(await _of(room, room.world_id)) if each["outcome"] == "acted"]
    fork, early, late = [
        await room.fork(name, at=str(before)) for name in (f"{sees}-same", f"{sees}-early", f"{sees}-late")
    ]
    model = Script(said("Never."))
    report = await _rerun(store, fork, model, persona)
    assert (report.recalled, report.asked, report.differs_at) == (len(whole), 0, None)
    model = Script(said("Nine."))
    report = await _rerun(store, late, model, persona, replace={last.global_seq: {"payload": _strikes(9)["payload"]}})
    assert (report.recalled + report.asked, report.asked) == (len(whole), len(model.requests))
    assert 1 <= report.asked < len(whole)
    assert "9" in model.asked(0)
    async with Client(room.url, early) as other:
        await other.broadcast_event(_strikes(0))
    with pytest.raises(SimulationError, match="gone on by itself"):
        await _rerun(store, early, model, persona)


async def test_a_fork_that_begins_with_another_value_is_another_question(room: Client, store: Store) -> None:
    """The change that a fork is made with is seen by its agents before anything else."""
    await room.broadcast_event(_clock("EntityCreated", entity_data={"hour": 3}))
    persona = _BRIEF.model_copy(update={"sees": "view"})
    before = await _talk(room, said("One."), persona=persona)
    model = Script(said("Nine."))
    report = await _rerun(store, await room.fork(at=str(before), changes={"clock/hour": 9}), model, persona)
    assert (report.asked, report.recalled) == (1, 0)
    assert '"hour":9' in model.asked(0)


async def test_an_agent_that_no_model_played_is_asked_at_each_of_its_intents(room: Client, store: Store) -> None:
    """Also where it acted twice without seeing anything between; what others see of it is its own answers."""
    before = (await room.call("GET"))["head_seq"]
    bob, ann = await room.agent("bob"), await room.agent("ann")
    for agent, text in ((bob, "One?"), (bob, "Two?"), (ann, "Yes."), (bob, "Three?")):
        seen = before if agent is bob and text != "Three?" else (await agent.view()).view_seq
        await agent.submit_intent({"kind": "Speak", "payload": {"text": text}, "context_seq": seen})
    model = Script(said("Eins?"), did("Custom", "{}"), said("Zwei?"), said("Drei?"))
    world = await store.world(await room.fork(at=str(before)))
    minds = await minds_of(store, world, {"bob": (model, _BRIEF)}, budget=None, recall="ancestors")
    report = await store.rerun(world.world_id, asked=Asked(thinking=minds))
    assert (report.asked, report.recalled, len(model.requests)) == (4, 0, 4)
    assert _texts(await _of(room, world.world_id)) == ["Eins?", "Zwei?", "Yes.", "Drei?"]


async def test_an_agent_that_waits_says_what_for(room: Client, store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    """For a budget, or for a service that has failed; then it is asked again, and no answer is lost."""
    before = await _talk(room, said("One."), said("Two."))
    world = await store.world(await room.fork(at=str(before)))
    persona = _BRIEF.model_copy(update={"tries": 2, "retry_s": 0.01, "budget": Budget(calls_per_minute=2)})
    model = Script([ModelError("unreachable", "tiny: away", may_pass=True)], said("Eins."), said("Zwei."))
    waited: list[str] = []

    async def renewed(budgets: Budgets, *payer: Any) -> tuple[float, str]:
        seconds, what = await used_up(budgets, *payer)
        monkeypatch.setattr(Budgets, "take", always)
        return min(seconds, 0.01), what

    async def always(*_: Any) -> bool:
        return True

    used_up = Budgets.used_up
    monkeypatch.setattr(Budgets, "used_up", renewed)
    minds = await minds_of(store, world, {"ann": (model, persona)}, budget=None, recall="off", tell=waited.append)
    report = await store.rerun(world.world_id, asked=Asked(thinking=minds))
    assert waited == [
        "ann: tiny: away, asks again in 0 s",
        "ann: its budget is used up: 2 calls a minute, goes on in 0 s",
    ]
    assert (report.asked, _texts(await _of(room, world.world_id))[1::2]) == (2, ["Eins.", "Zwei."])


async def test_who_is_not_there_cannot_be_played(room: Client, store: Store) -> None:
    """An agent that the parent does not have is named, and so are worlds that are no forks, or not there."""
    before = await _talk(room, said("One."))
    fork = await store.world(await room.fork(at=str(before)))
    parent = await store.world(room.world_id)
    for world, agent_id, recall, why in (
        (fork, "anna", "ancestors", "has no agent 'anna'"),
        (fork, "ann", "nowhere", "no world named 'nowhere'"),
        (parent, "ann", "ancestors", "is no fork"),
    ):
        with pytest.raises(SimulationError, match=why):
            await minds_of(store, world, {agent_id: (Script(), _BRIEF)}, budget=None, recall=recall)


@pytest.mark.thorough
async def test_the_command_puts_a_model_in_an_agents_place(room: Client, shared_url: str, tmp_path: Path) -> None:
    """`rerun --with AGENT=llm:MODEL` asks the service that is named, and says how often it did."""
    before = await _talk(room, said("One."), said("Two."))
    fork = await room.fork(at=str(before))
    persona, other = tmp_path / "ann.yaml", tmp_path / "other.json"
    persona.write_text("{character: You are brief., may: [Speak, Move]}")
    other.write_text('{"payload": {"text": "Auf Deutsch?"}}')
    environment = {name: value for name, value in os.environ.items() if not name.startswith(("WORLDLEDGER_", "OPENAI"))}
    async with Provider(says("Eins."), says("Zwei.")) as provider:
        process = await asyncio.create_subprocess_exec(
            *(str(Path(sys.executable).with_name("worldledger")), "rerun", fork, "--database-url", shared_url),
            *("--with", "ann=llm:script", "--persona", str(persona), "--base-url", provider.url, "--json"),
            *("--replace", f"{await _asked_at(room, 2)}={other}"),
            env={**environment, "PYTHONIOENCODING": "utf-8"},
            stdout=asyncio.subprocess.PIPE,
            stderr=asyncio.subprocess.PIPE,
        )
        output, errors = await soon(process.communicate(), 120)
    assert process.returncode == 0, errors.decode()
    report = json.loads(output)
    assert (report["asked"], report["recalled"], len(provider.calls)) == (1, 1, 1)
    assert _texts(await _of(room, fork)) == ["Question 1?", "One.", "Auf Deutsch?", "Eins."]
