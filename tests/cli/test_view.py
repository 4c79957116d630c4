"""`view`: what an agent saw at a moment, and beside it what was true."""

from __future__ import annotations

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st
from worldledger_service.cli.view import NOTHING, Compared, compared

from tests.markets import ENDED, HEAD, TURNS, effect, market
from worldledger.intents import registration_draft
from worldledger.observation import ObservationPolicy
from worldledger.policies import policy_spec

from .conftest import Cli
from .helpers import BAZAAR, play, record


def played(database_url: str) -> None:
    """Have a simulation in its second turn."""
    play(database_url, "market", TURNS, ruleset="simulation", config=market())


@pytest.mark.filled(by=played, read=True)
def test_what_an_agent_saw(on: Cli) -> None:
    """A header says of which moment it is; then come the entities as the agent was shown them, and the last events."""
    result = on("view", "market", "Ann", "--turn", "1")
    assert (result.code, result.err) == (0, "")
    digest = json.loads(on("view", "market", "Ann", "--turn", "1", "--json").out)["view"]["context_digest"]
    lines = result.out.splitlines()
    assert lines[:4] == [
        f"Ann in market at seq {ENDED} (head {HEAD}), turn 1",
        f"view {ENDED}, context digest {digest}",
        "",
        "3 entities",
    ]
    assert lines[4] == (
        '  Ann  gold 90, history ["bought food"], inventory {"food":10.5,"metal":5.0}, location [10.0,20.0], '
        'mood "calm", name "Ann", plan null, stats {"health":100.0}'
    )
    assert lines[-8:-2] == ["", "global variables", "  price   3.5", "  season  null", "", "2 events observed"]
    assert [line.split()[:3] for line in lines[-2:]] == [["6", "TurnStarted", "engine"], ["12", "TurnEnded", "engine"]]
    assert "(the head), turn 2" in on("view", "market", "Ann").out


@pytest.mark.filled(by=played, read=True)
def test_what_an_agent_does_not_see(on: Cli) -> None:
    """Hidden variables and entities of which it is unaware are not there; who sees nothing has an empty view."""
    seen = json.loads(on("view", "market", "Bea", "--json").out)["view"]["visible_entities"]
    assert sorted(seen) == ["Ann", "Bea", "global"]
    assert sorted(seen["Ann"]) == ["gold", "history", "inventory", "location", "mood", "name"]
    assert seen["Bea"]["gold"] == 8
    assert seen["Ann"]["location"] != [10.0, 20.0]
    shown = on("view", "market", "Cid").out
    assert "0 entities" in shown
    assert "global" not in shown


@pytest.mark.filled(by=played, read=True)
def test_the_truth_beside_it(on: Cli) -> None:
    """Each variable has a line: what the agent saw, what was true, and why these are not the same."""
    result = on("view", "market", "Bea", "--turn", "1", "--truth")
    assert (result.code, result.err) == (0, "")
    value = json.loads(on("view", "market", "Bea", "--turn", "1", "--json").out)
    ann = value["view"]["visible_entities"]["Ann"]
    variables, found, _ = result.out.partition("\n\nlast events, observed or not\n")
    assert found
    rows = [line.split() for line in variables.splitlines()[3:]]
    assert rows[0] == ["variable", "seen", "true"]
    for row in (
        # whole numbers are rounded after the noise: a little of it may leave them as they were
        ["Ann.gold", str(ann["gold"]), "90", *(["noised"] if ann["gold"] != 90 else [])],
        ["Ann.inventory.food", str(ann["inventory"]["food"]), "10.5", "noised"],
        ["Ann.location[1]", str(ann["location"][1]), "20.0", "noised"],
        ["Ann.mood", '"calm"', '"calm"'],
        ["Ann.plan", "-", "null", "hidden"],
        ["Ann.stats", "-", '{"health":100.0}', "hidden"],
        ["Bea.mood", '"angry"', '"angry"'],
        ["Cid.gold", "-", "100", "unaware"],
        ["global.price", "3.5", "3.5"],
    ):
        assert row in rows
    assert len(rows) == len({row[0] for row in rows})


@pytest.mark.filled(by=played, read=True)
def test_the_truth_as_json(on: Cli) -> None:
    """As JSON it is one object with the view as it is over HTTP and every entity as it was, and the moment."""
    result = on("view", "market", "Bea", "--at-seq", str(ENDED), "--truth", "--json")
    found = json.loads(result.out)
    assert list(found) == ["world_id", "global_seq", "turn", "view", "events", "truth", "unobserved"]
    assert (found["world_id"], found["global_seq"], found["turn"]) == ("market", ENDED, 1)
    assert list(found["view"]) == [
        "agent_id",
        "view_seq",
        "context_digest",
        "visible_entities",
        "visible_relationships",
    ]
    assert found["truth"] == json.loads(on("state", "market", "--at-turn", "1", "--json").out)["state"]["entities"]
    assert "truth" not in json.loads(on("view", "market", "Bea", "--json").out)


def whispered(database_url: str) -> None:
    """Have a world in which Eve whispers to Bob and to Alice in turns."""
    policy = policy_spec(ObservationPolicy())
    agents = [registration_draft(name, policy) for name in ("alice", "bob")]
    play(database_url, "hall", agents, system=True, ruleset="sandbox")
    whispers = [
        effect("Whispered", "eve", text=f"psst {number}", sees=["alice" if number % 2 else "bob"])
        for number in range(24)
    ]
    play(database_url, "hall", whispers)


@pytest.mark.filled(by=whispered, read=True)
def test_the_last_events_that_an_agent_observed(on: Cli) -> None:
    """They stand below the view, the last ten or as many as are asked for; JSON has them as they were shown."""
    lines = on("view", "hall", "alice").out.splitlines()
    assert lines[-11] == "last 10 events observed"
    assert lines[-10] == '  9   Whispered  eve  sees ["alice"], text "psst 5"'
    assert lines[-1] == '  27  Whispered  eve  sees ["alice"], text "psst 23"'
    assert "\n12 events observed\n  5 " in on("view", "hall", "alice", "--events", "99").out
    assert "\n1 event observed\n" in on("view", "hall", "alice", "--at", "6").out
    assert "observed" not in on("view", "hall", "alice", "--events", "0").out
    assert on("view", "hall@9", "hall@27", "alice").out.endswith("\nno difference\n")
    found = json.loads(on("view", "hall", "alice", "--events", "2", "--json").out)["events"]
    assert [event["global_seq"] for event in found] == [25, 27]
    assert (found[0]["kind"], found[0]["payload"]) == ("Whispered", {"text": "psst 21", "sees": ["alice"]})


@pytest.mark.filled(by=whispered, read=True)
def test_the_events_that_an_agent_did_not_observe(on: Cli) -> None:
    """With --truth the last events are there, observed or not, and those that were not are marked."""
    shown = on("view", "hall", "alice", "--truth", "--events", "2").out.splitlines()
    assert [line.split() for line in shown[-3:]] == [
        ["25", "Whispered", "eve", "sees", '["alice"],', "text", '"psst', '21"'],
        ["26", "Whispered", "eve", "unaware", "sees", '["bob"],', "text", '"psst', '22"'],
        ["27", "Whispered", "eve", "sees", '["alice"],', "text", '"psst', '23"'],
    ]
    found = json.loads(on("view", "hall", "alice", "--truth", "--events", "2", "--json").out)
    assert [event["global_seq"] for event in found["unobserved"]] == [26]


def test_a_view_of_a_sandbox(on: Cli, database_url: str) -> None:
    """Worlds without turns have views, too: distance hides who is far, and relationships are told."""
    policy = {"name": "default", "version": 1, "config": {"distance_limit": 1.0}}
    record(database_url, "bazaar", BAZAAR)
    asked = on("view", "bazaar", "alice")
    assert (asked.code, asked.out) == (2, "")
    assert (
        "no agent 'alice': that is an entity, and only registered agents see anything, of which it has none"
        in asked.err
    )
    play(database_url, "bazaar", [registration_draft("alice", policy)], system=True)
    found = json.loads(on("view", "bazaar", "alice", "--truth", "--json").out)
    assert (sorted(found["truth"]), list(found["view"]["visible_entities"])) == (["alice", "bob"], ["alice"])
    assert found["turn"] is None
    assert (
        "that is an entity, and only registered agents see anything, such as 'alice'" in on("view", "bazaar", "bob").err
    )
    shown = on("view", "bazaar", "alice", "--truth").out
    assert "bob.coins" in shown
    assert "unaware" in shown


@pytest.mark.filled(by=played, read=True)
@pytest.mark.parametrize(
    ("arguments", "why"),
    [
        (("market", "Dan"), "Dan"),
        (("nowhere", "Ann"), "no world named 'nowhere'"),
        (("market", "Ann", "--at-seq", "99"), "no seq 99"),
        (("market", "Ann", "--at-seq", "0"), "no seq 0"),
        (("market", "Ann", "--at-seq", "2"), "at seq 2 world market had no agent 'Ann': it was registered with seq 3"),
        (("market", "Dan", "--at-seq", "2"), "world market has no agent 'Dan'"),
        (("market", "Ann", "--turn", "3"), "no turn 3; its last is 2"),
        (("market", "Ann", "--turn", "-1"), "no turn -1"),
        (("market", "Ann", "--turn", "1", "--at-seq", "5"), "one moment"),
    ],
)
def test_views_that_there_are_not(on: Cli, arguments: tuple[str, ...], why: str) -> None:
    """An agent, a world or a moment that there is not is exit code 2 and says why."""
    result = on("view", *arguments)
    assert (result.code, result.out) == (2, "")
    assert why in " ".join(result.err.replace("│", " ").split())
    assert "Traceback" not in result.err


# -- comparing -----------------------------------------------------------------------------------------------


def test_a_part_that_differs_is_told_by_itself() -> None:
    """What is the same is one line; where two values differ, each part that does has a line."""
    seen = {"a": {"x": 1, "list": [1, 2], "same": {"deep": [1]}, "more": [1], "kind": 1}}
    true = {"a": {"x": 1, "list": [1, 3], "same": {"deep": [1]}, "more": [1, 2], "kind": True}, "b": {}}
    assert [tuple(each) for each in compared(seen, true, is_noisy=True)] == [
        ("a.kind", 1, True, "differs"),
        ("a.list[0]", 1, 1, ""),
        ("a.list[1]", 2, 3, "noised"),
        ("a.more", [1], [1, 2], "differs"),
        ("a.same", {"deep": [1]}, {"deep": [1]}, ""),
        ("a.x", 1, 1, ""),
        ("b", NOTHING, {}, "unaware"),
    ]


def test_what_an_agent_remembers() -> None:
    """What was seen and is not there any more is gone; a number that no policy blurs just differs."""
    found = list(compared({"a": {"x": 1, "y": 2}, "b": {"x": 1}}, {"a": {"y": 3}}, is_noisy=False))
    assert found == [
        Compared("a.x", 1, NOTHING, "gone"),
        Compared("a.y", 2, 3, "differs"),
        Compared("b.x", 1, NOTHING, "gone"),
    ]


_VALUES = st.recursive(
    st.none() | st.booleans() | st.integers(0, 3) | st.text("ab", max_size=2),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.sampled_from("xyz"), inner, max_size=3),
    max_leaves=8,
)
_ENTITIES = st.dictionaries(st.sampled_from("ab"), st.dictionaries(st.sampled_from("xyz"), _VALUES, max_size=3))


@given(_ENTITIES, _ENTITIES, st.booleans())
def test_nothing_is_marked_where_nothing_differs(
    seen: dict[str, dict[str, object]], true: dict[str, dict[str, object]], is_noisy: bool
) -> None:
    """A view that is the truth has no marks; one that is not has some, and every variable of both has its lines."""
    assert all(each.mark == "" for each in compared(true, true, is_noisy=is_noisy))
    found = list(compared(seen, true, is_noisy=is_noisy))
    assert any(each.mark for each in found) == (json.dumps(seen, sort_keys=True) != json.dumps(true, sort_keys=True))
    told = {tuple(each.path.replace("[", ".").split(".")[:2]) for each in found}
    assert {(name, key) for both in (seen, true) for name in both for key in both[name]} <= told
