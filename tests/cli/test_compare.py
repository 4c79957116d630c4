"""`compare`: where runs part, on a terminal and as JSON."""

from __future__ import annotations

import pytest
from worldledger_service.runtime import comparing

from worldledger.effects import EffectDraft
from worldledger.intents import registration_draft
from worldledger.observation import ObservationPolicy, PolicyConfig
from worldledger.policies import policy_spec

from .conftest import Cli
from .helpers import BAZAAR, compared, play, record, say
from .test_verify import tamper

#: The little world, in which Bob moves elsewhere, says something, and another one comes.
OTHER: list[EffectDraft] = [
    *BAZAAR[:2],
    say("bob", "Move", 2.5, to=[2.0, 4.0, 0.0]),
    *BAZAAR[3:],
    say("carol", "EntityCreated", 9.5, entity_id="carol", entity_data={}),
]


def bazaars(database_url: str) -> None:
    """Make the little world twice, at other times of the clock, and once as it went otherwise."""
    record(database_url, "one", BAZAAR)
    record(database_url, "again", BAZAAR, wall_time=1.8e9, experiment="e")
    record(database_url, "other", OTHER, wall_time=1.8e9, experiment="e")


@pytest.mark.filled(by=bazaars, read=True)
def test_two_runs_for_people(on: Cli) -> None:
    """The first divergence with its fields, the states, and what came after, in 80 columns."""
    result = on("compare", "one", "other")
    assert (result.code, result.err) == (0, "")
    assert result.out == (
        "a  one  7 effects\n"
        "b  other  8 effects\n"
        "\n"
        "part at step 3, after 2 effects equal\n"
        "  a  seq 4  Move  by bob\n"
        "  b  seq 4  Move  by bob\n"
        "     $.payload.to  [2.0,3.0,0.0] | [2.0,4.0,0.0]\n"
        "\n"
        "states there (a 4, b 4)\n"
        "  $.entities.bob.position  [2.0,3.0,0.0] | [2.0,4.0,0.0]\n"
        "  $.spatial_index.bob  [2.0,3.0,0.0] | [2.0,4.0,0.0]\n"
        "\n"
        "states in the end (a 7, b 8)\n"
        "  $.entities.bob.position  [2.0,3.0,0.0] | [2.0,4.0,0.0]\n"
        "  $.entities.carol  - | {}\n"
        "  $.spatial_index.bob  [2.0,3.0,0.0] | [2.0,4.0,0.0]\n"
        "\n"
        "effects from there on\n"
        "                 a  b\n"
        "  EntityCreated  0  1\n"
        "  Interact       1  1\n"
        "  Move           1  1\n"
        "  Sneezed        1  1\n"
        "  Speak          1  1\n"
        "\n"
        "entities only in b: carol\n"
    )


@pytest.mark.filled(by=bazaars, read=True)
def test_two_equal_runs(on: Cli) -> None:
    """Runs with the same effects are equal, at whatever time and under whatever name they were recorded."""
    assert on("compare", "one", "again").out.endswith("\nequal: 6 effects equal\n")
    assert compared(on, "one", "one")["pairs"][0]["equal"] is True


@pytest.mark.filled(by=bazaars, read=True)
def test_the_answer_is_the_same_in_either_order(on: Cli) -> None:
    """Exchanged worlds have the same divergence, exchanged."""
    (there,), (back,) = (compared(on, *names)["pairs"] for names in (("one", "other"), ("other", "one")))
    assert there["divergence"]["a"]["checksum"] == back["divergence"]["b"]["checksum"]
    assert [field["path"] for field in there["divergence"]["fields"]] == ["$.payload.to"]
    assert (there["divergence"]["number"], there["equal_effects"]) == (
        back["divergence"]["number"],
        back["equal_effects"],
    )


@pytest.mark.filled(by=bazaars, read=True)
def test_what_is_ignored_makes_no_difference(on: Cli) -> None:
    """With a path ignored the runs go on to where they part otherwise: one has an effect more."""
    found = compared(on, "one", "other", "--ignore", "payload.to", "--ignore", "/entities/bob/position")
    divergence = found["pairs"][0]["divergence"]
    assert (divergence["number"], divergence["a"], divergence["b"]["global_seq"]) == (7, None, 8)
    assert [each["path"] for each in found["states"]["head"]["differences"]] == [
        "$.entities.carol",
        "$.spatial_index.bob",
    ]


def test_states_that_differ_later_than_effects(on: Cli, database_url: str) -> None:
    """Another effect that changes nothing is a divergence; the first step at which states differ comes later."""
    for name, text, to in (("calm", "zzz", 1.0), ("loud", "ZZZ", 2.0)):
        dreams = [say("bob", "Dreamed", 3.0, text=text), say("bob", "Dreamed", 4.0, text="again")]
        record(database_url, name, [*BAZAAR[:2], *dreams, say("bob", "Move", 5.0, to=[to, 0.0, 0.0])])
    found = compared(on, "calm", "loud")
    assert (found["pairs"][0]["divergence"]["number"], found["states"]["divergence"]["equal"]) == (3, True)
    first = found["states"]["first"]
    assert (first["unit"], first["number"], first["a_seq"], first["b_seq"]) == ("step", 5, 6, 6)
    assert [each["path"] for each in first["differences"]] == ["$.entities.bob.position", "$.spatial_index.bob"]
    out = on("compare", "calm", "loud").out
    assert "states there (a 4, b 4)\n  equal\n\nstates at step 5, where they first differ (a 6, b 6)\n" in out


@pytest.mark.filled(by=bazaars, read=True)
def test_equal_effects_with_different_states(on: Cli) -> None:
    """Where what is ignored of effects changes states, these differ before the effects do, or though those never do."""
    found = compared(on, "one", "other", "--ignore", "payload.to")
    assert (found["pairs"][0]["divergence"]["number"], found["states"]["first"]["number"]) == (7, 3)
    record_paths = ("payload.to", "payload.entity_id", "payload.entity_data", "payload.position")
    ignored = [option for path in record_paths for option in ("--ignore", path)]
    found = compared(on, "one", "again", *ignored)
    assert (found["pairs"][0]["equal"], found["states"]["first"], found["states"]["stopped"]) == (True, None, None)


@pytest.mark.filled(by=bazaars, read=True)
def test_the_search_for_the_first_difference_is_bounded(on: Cli, monkeypatch: pytest.MonkeyPatch) -> None:
    """Where it is given up the answer says after how many effects, and up to where states were alike."""
    monkeypatch.setattr(comparing, "MOST_SEARCHED", 6)
    arguments = ("one", "again", "--ignore", "payload.to")
    assert compared(on, *arguments)["states"]["stopped"] == {"unit": "step", "number": 2, "effects": 6}
    assert "alike up to step 2: no more was looked at" in on("compare", *arguments).out


def test_settings_that_change_no_state(on: Cli, database_url: str) -> None:
    """Where only settings differ, states are looked at before the first step, and are alike."""
    for name, coins in (("poor", 1), ("rich", 2)):
        config = {"entities": {"ann": {"coins": coins}}}
        record(database_url, name, BAZAAR[:1], config=config)
    found = compared(on, "poor", "rich")
    (pair,) = found["pairs"]
    assert (len(pair["settings"]), pair["divergence"]) == (1, None)
    assert (found["states"]["first"], found["states"]["head"]["equal"]) == (None, True)


@pytest.mark.filled(by=bazaars, read=True)
def test_a_matrix_of_more_runs(on: Cli) -> None:
    """Three runs are compared two by two."""
    result = on("compare", "one", "again", "other")
    assert (result.code, result.err) == (0, "")
    assert result.out.endswith("   a b c\na  . = 3\nb  = . 3\nc  3 3 .\n")


@pytest.mark.filled(by=bazaars, read=True)
def test_the_worlds_of_an_experiment(on: Cli) -> None:
    """An experiment names its worlds."""
    assert [world["world_id"] for world in compared(on, "--experiment", "e")["worlds"]] == ["again", "other"]


def test_what_an_agent_saw(on: Cli, database_url: str) -> None:
    """With --view what an agent saw is compared; an agent that no world has is refused."""
    agent = registration_draft("eve", policy_spec(ObservationPolicy()), [])
    for name, coins in (("one", 1), ("other", 2)):
        made: EffectDraft = {
            "kind": "EntityCreated",
            "payload": {"entity_id": "ann", "entity_data": {"coins": coins}},
            "source_id": "ann",
            "schema_version": "1.0.0",
        }
        play(database_url, name, [agent], system=True, ruleset="sandbox")
        play(database_url, name, [made])
    seen = compared(on, "one", "other", "--view", "eve")["views"]
    assert [field["path"] for field in seen["divergence"]["differences"]] == ["$.visible_entities.ann.coins"]
    assert (seen["first"]["number"], seen["head"]["equal"]) == (1, False)
    result = on("compare", "one", "other", "--view", "evi")
    assert result.code == 2
    assert "evi" in result.err


def test_an_agent_sees_a_difference_later(on: Cli, database_url: str) -> None:
    """The first step at which what an agent saw differs comes after the first at which states do, through a fork."""
    policy = ObservationPolicy(PolicyConfig(field_visibility={"coins": False}))
    agent = registration_draft("eve", policy_spec(policy))
    play(database_url, "one", [agent], system=True, ruleset="sandbox", time_authority="client")
    play(database_url, "one", [say("ann", "EntityCreated", 1.0, entity_id="ann", entity_data={"coins": 1})])
    assert on("fork", "one", "--as", "other", "--set", "ann/coins=2").code == 0
    red = [{"op": "add", "path": "/hat", "value": "red"}]
    for name, last, *before in (("one", "blue", [{"op": "replace", "path": "/coins", "value": 3}]), ("other", "green")):
        patches = [*before, red, red, [{"op": "replace", "path": "/hat", "value": last}]]
        play(database_url, name, [say("ann", "EntityUpdated", 2.0, entity_id="ann", patch=patch) for patch in patches])
    found = compared(on, "one", "other", "--view", "eve")
    assert (found["states"]["first"]["number"], found["views"]["divergence"]["equal"]) == (2, True)
    first = found["views"]["first"]
    assert [(each["path"], each["a"], each["b"]) for each in first["differences"]] == [
        ("$.visible_entities.ann.hat", "blue", "green")
    ]
    assert first["number"] == 5
    assert "what eve saw at step 5, where they first differ" in on("compare", "one", "other", "--view", "eve").out


@pytest.mark.filled(by=bazaars)
def test_a_fork_and_its_parent(on: Cli) -> None:
    """A fork shares its past with its parent; they part where it was forked, by what was changed then."""
    assert on("fork", "one", "--at", "4", "--as", "rich", "--set", "bob/coins=100").code == 0
    found = compared(on, "one", "rich")
    (pair,) = found["pairs"]
    divergence = pair["divergence"]
    assert (pair["shared_effects"], pair["equal_effects"], pair["settings"]) == (3, 3, [])
    assert (divergence["number"], divergence["a"]["global_seq"], divergence["a"]["kind"]) == (4, 5, "Speak")
    assert (divergence["b"]["world_id"], divergence["b"]["kind"]) == ("rich", "EntityUpdated")
    assert found["after"]["effects"] == {
        **{kind: [1, 0] for kind in ("Interact", "Sneezed", "Speak")},
        "EntityUpdated": [0, 1],
    }
    assert {"path": "$.entities.bob.coins", "a": 9, "b": 100} in found["states"]["head"]["differences"]
    # Where the parent has nothing more, it is said what was set.
    assert on("fork", "one", "--as", "late", "--set", "bob/coins=7").code == 0
    out = on("compare", "one", "late").out
    assert "  a  nothing more at step 7\n" in out
    assert '     $.payload.entity_id  - | "bob"\n' in out


@pytest.mark.filled(by=bazaars)
def test_forks_of_one_world(on: Cli) -> None:
    """Two forks of one moment share all of their past, and a fork of a fork that of both; the same fork is equal."""
    for name, parent, coins in (("rich", "one", 100), ("poor", "one", 0), ("richer", "rich", 1000)):
        at = "4" if parent == "one" else "head"
        assert on("fork", parent, "--at", at, "--as", name, "--set", f"bob/coins={coins}").code == 0
    (pair,) = compared(on, "rich", "poor")["pairs"]
    assert (pair["shared_effects"], pair["divergence"]["number"]) == (3, 4)
    assert [field["path"] for field in pair["divergence"]["fields"]] == ["$.payload.patch"]
    (pair,) = compared(on, "richer", "poor")["pairs"]
    assert (pair["shared_effects"], pair["divergence"]["a"]["world_id"]) == (3, "rich")
    (pair,) = compared(on, "rich", "richer")["pairs"]
    assert (pair["shared_effects"], pair["divergence"]["a"], pair["divergence"]["number"]) == (4, None, 5)
    assert compared(on, "rich", "rich")["pairs"][0]["equal"] is True
    assert compared(on, "again", "rich")["pairs"][0]["equal_effects"] == 3


@pytest.mark.filled(by=bazaars, read=True)
@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["one"], "give 2 to 20 worlds, not 1"),
        (["one"] * 21, "give 2 to 20 worlds, not 21"),
        (["one", "other", "--by", "turn"], "cannot be aligned by 'turn': give one of auto, seq, step, sim_time"),
        (["one", "other", "--ignore", "payload[x"], "is no path such as payload.clock"),
        (["one", "nowhere"], "no world named 'nowhere'"),
        (["one", "other", "--group", "seed"], "have no measures to be grouped"),
        (["one", "one", "one", "--view", "bob"], "are compared in two worlds"),
        (["--experiment", "nothing"], "no worlds in the experiment 'nothing'"),
        ([], "give worlds, or --experiment NAME"),
    ],
)
def test_what_cannot_be_compared_is_refused(on: Cli, arguments: list[str], said: str) -> None:
    """Each refusal is one sentence, and exit code 2."""
    result = on("compare", *arguments)
    assert (result.code, result.out) == (2, "")
    assert said in result.err


@pytest.mark.filled(by=bazaars)
def test_worlds_of_different_kinds_are_refused(on: Cli) -> None:
    """A market is not compared with a run of an experiment; the refusal says that worlds are of one kind."""
    assert on("world", "create", "run", "--ruleset", "social_rl").code == 0
    result = on("compare", "one", "run")
    assert result.code == 2
    assert "only worlds of one kind can be compared: 'one' is of the kind sandbox" in result.err


@pytest.mark.filled(by=bazaars)
def test_no_line_is_wider_than_the_screen(on: Cli, monkeypatch: pytest.MonkeyPatch, database_url: str) -> None:
    """Long names and numbers of many digits fit 80 columns; `fork` and `rerun` break their lines on a terminal."""
    name = "a-world-with-a-name-that-takes-more-than-half-of-a-screen-by-itself"
    names = [f"{name}-{number}" for number in range(8)]
    for number, each in enumerate(names):
        last = say("alice", "EntityCreated", 1e9 + number / 7, entity_id=f"{name}-{number}", entity_data={name: number})
        record(database_url, each, [*BAZAAR, last])
    two = on("compare", *names[:2])
    assert names[0][:29] in two.out
    assert names[0][-29:] in two.out
    many = on("compare", *names, "--by", "sim_time")
    assert "1000000000" in many.out
    for shown in (two, many):
        assert (shown.code, shown.err) == (0, "")
        assert max(map(len, shown.out.splitlines())) <= 80
    monkeypatch.setattr("worldledger_service.cli.output.screen_width", lambda: 80)
    for command in (["fork", names[0], "--at", "4", "--as", f"{name}-fork"], ["rerun", f"{name}-fork"]):
        shown = on(*command)
        assert (shown.code, shown.err) == (0, "")
        assert max(map(len, shown.out.splitlines())) <= 80


@pytest.mark.filled(by=bazaars)
def test_what_was_tampered_with_is_not_compared(on: Cli, database_url: str) -> None:
    """A changed or missing effect is named, and the exit code is 1."""
    tamper(
        database_url,
        "update effects set effect = replace(effect::text, 'figs', 'dates')::json where world_id = 'one'",
        "delete from effects where world_id = 'other' and global_seq >= 7",
    )
    for worlds in (("one", "again"), ("again", "one")):
        result = on("compare", *worlds)
        assert (result.code, result.out) == (1, "")
        said = " ".join(result.err.split())
        assert "world one, seq 5: checksum differs" in said
        assert said.endswith("run `worldledger verify`")
    result = on("compare", "other", "again", "--ignore", "payload")
    assert (result.code, "world other, seq 7: missing from the log" in result.err) == (1, True)
