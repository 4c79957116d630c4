"""`state`: what a world is at a moment, for people and as the exact text."""

from __future__ import annotations

import json
from hashlib import sha256

import pytest

from worldledger.intents import registration_draft
from worldledger.observation import ObservationPolicy, PolicyConfig
from worldledger.policies import policy_spec

from .conftest import Cli
from .helpers import BAZAAR, UNGUARDED, forgery, play, record, say, sql


def bazaar(database_url: str) -> None:
    """Make the little world, its last two effects a day later."""
    record(database_url, "bazaar", BAZAAR[:4])
    record(database_url, "bazaar", BAZAAR[4:], wall_time=1.7e9 + 86400)


@pytest.mark.filled(by=bazaar, read=True)
def test_a_state_for_people(on: Cli) -> None:
    """A header says which moment it is; entities stand with position and data, relationships below."""
    result = on("state", "bazaar")
    assert (result.code, result.err) == (0, "")
    digest = json.loads(on("state", "bazaar", "--json").out)["state_digest"]
    assert result.out == (
        "bazaar at seq 7 (the head), sim_time 9.0, 2023-11-15T22:13:20.000000Z\n"
        f"state digest {digest}, sandbox 1\n"
        "last effect Sneezed, 1 effect of a kind that changes no state\n"
        "\n"
        "2 entities\n"
        '  alice  (0.0, 1.5, 0.0)  last_message "figs!", last_speak_time 4.0, message_count 1, role "seller"\n'
        "  bob    (2.0, 3.0, 0.0)  coins 9, last_move_time 2.5\n"
        "\n"
        "2 relationships\n"
        "  alice → bob  interact 1.0\n"
        "  bob → alice  interact 1.0\n"
    )


def test_what_all_agents_have_is_told_once(on: Cli, database_url: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Policies and permissions that are the same of all agents stand beside their number, and others with each.

    On a terminal they are cut at its edge.
    """
    agents = [registration_draft(name, policy_spec(ObservationPolicy())) for name in ("ann", "bob")]
    play(database_url, "hall", agents, system=True, ruleset="sandbox")
    out = on("state", "hall").out
    assert "\n2 agents, each with permissions [" in out
    assert out.endswith(", weight 1\n  ann  registered_seq 2\n  bob  registered_seq 3\n")
    blind = registration_draft("cid", policy_spec(ObservationPolicy(PolicyConfig(distance_limit=0.0))))
    play(database_url, "hall", [blind], system=True)
    out = on("state", "hall").out
    assert "\n3 agents, each with permissions [" in out
    assert out.count("  policy {") == out.count("registered_seq") == 3
    for place in ("output", "state"):
        monkeypatch.setattr(f"worldledger_service.cli.{place}.screen_width", lambda: 80)
    shown = on("state", "hall").out
    assert "\n3 agents, each with permissions\n" in shown
    assert max(map(len, shown.splitlines())) <= 80


@pytest.mark.filled(by=bazaar, read=True)
def test_a_state_as_json_is_the_digested_text(on: Cli, database_url: str) -> None:
    """--json is one object; what stands behind "state" has the digest, and the checksum is the log's."""
    result = on("state", "bazaar", "--at-seq", "4", "--json")
    assert (result.code, result.err) == (0, "")
    found = json.loads(result.out)
    assert list(found) == [
        "world_id",
        "global_seq",
        "checksum",
        "ruleset",
        "ruleset_version",
        "state_digest",
        "state",
    ]
    text = result.out.partition('"state": ')[2].removesuffix("}\n")
    assert sha256(text.encode()).hexdigest() == found["state_digest"]
    ((checksum,),) = sql(database_url, "select encode(checksum, 'hex') from effects where global_seq = 4")
    assert (found["world_id"], found["global_seq"], found["checksum"]) == ("bazaar", 4, checksum)
    assert found["state"]["spatial_index"] == {"alice": [0.0, 1.5, 0.0], "bob": [2.0, 3.0, 0.0]}


@pytest.mark.filled(by=bazaar, read=True)
@pytest.mark.parametrize(
    ("option", "seq"),
    [
        (("--at-seq", "1"), 1),
        (("--at-seq", "7"), 7),
        (("--at-sim-time", "1"), 3),
        (("--at-sim-time", "3.99"), 4),
        (("--at-sim-time", "1e9"), 7),
        (("--at-wall-time", "2023-11-14T22:13:20Z"), 5),
        (("--at-wall-time", "2023-11-15T23:13:19+01:00"), 5),
        (("--at-wall-time", "9999-01-01T00:00:00Z"), 7),
    ],
)
def test_moments(on: Cli, option: tuple[str, str], seq: int) -> None:
    """A moment is a seq, or the last effect at or before a time of either clock."""
    assert json.loads(on("state", "bazaar", "--json", *option).out)["global_seq"] == seq


@pytest.mark.filled(by=bazaar, read=True)
@pytest.mark.parametrize(
    ("options", "why"),
    [
        (("--at-seq", "8"), "world 'bazaar' has no seq 8; its head is 7"),
        (("--at-seq", "0"), "has no seq 0"),
        (("--at-seq", "-5"), "has no seq -5"),
        (("--at-seq", "9" * 40), "its head is 7"),
        (("--at-seq", "two"), "a whole number"),
        (("--at-sim-time", "-1"), "no effect at or before sim_time -1.0"),
        (("--at-sim-time", "nan"), "not a finite number"),
        (("--at-sim-time", "inf"), "not a finite number"),
        (("--at-wall-time", "2023-11-14T22:13:19Z"), "no effect at or before 2023-11-14T22:13:19.000000Z"),
        (("--at-wall-time", "2023-11-14T22:13:20"), "time zone"),
        (("--at-wall-time", "noon"), "no ISO 8601 time"),
        (("--at-seq", "1", "--at-sim-time", "1"), "one moment"),
        (("--at-wall-time", "2023-11-14T22:13:20Z", "--at-sim-time", "1"), "one moment"),
    ],
)
def test_moments_that_there_are_not(on: Cli, options: tuple[str, ...], why: str) -> None:
    """A moment that the world does not have, or that is none, is exit code 2 and says why."""
    result = on("state", "bazaar", *options)
    assert (result.code, result.out) == (2, "")
    assert why in " ".join(result.err.replace("│", " ").split())
    assert "Traceback" not in result.err


def test_unknown_worlds(on: Cli) -> None:
    """A world that there is not is exit code 2 and one line."""
    assert on("state", "nowhere") == (2, "", "worldledger: no world named 'nowhere'; `worldledger worlds` lists all\n")
    assert on("state", "no/where").code == 2


def test_what_would_steer_a_terminal_is_shown_as_text(on: Cli, database_url: str) -> None:
    """Control characters in ids and values reach no terminal, and long values are cut off."""
    entity = {"name": "\x1b[31mred", "story": "long " * 100, "\x9bkey": 1}
    record(database_url, "w", [say("a", "EntityCreated", 0.0, entity_id="\x1b]0;x", entity_data=entity)])
    shown = on("state", "w").out
    assert shown.isascii() is False
    assert all(character.isprintable() for line in shown.splitlines() for character in line)
    assert "…" in shown
    assert len(shown) < 700
    found = json.loads(on("state", "w", "--json").out)["state"]["entities"]
    assert found == {"\x1b]0;x": entity}


def test_a_state_that_was_tampered_away(on: Cli, database_url: str) -> None:
    """Where an effect is missing there is no state behind it, and that is said."""
    record(database_url, "bazaar", BAZAAR)
    sql(
        database_url,
        UNGUARDED,
        "delete from effects where world_id = 'bazaar' and global_seq = 4",
    )
    result = on("state", "bazaar")
    assert (result.code, result.out) == (1, "")
    assert "world bazaar, seq 4: missing" in result.err
    assert result.err.count("run `worldledger verify`") == 1
    assert on("state", "bazaar", "--at-seq", "3").code == 0


def test_a_state_behind_a_second_genesis(on: Cli, database_url: str) -> None:
    """A forged second WorldCreated has no state behind it: that is said, and no error of the program's own."""
    record(database_url, "bazaar", BAZAAR)
    sql(database_url, *forgery("bazaar", "WorldCreated"))
    result = on("state", "bazaar")
    assert (result.code, result.out) == (1, "")
    assert "$.kind: WorldCreated stands at seq 1 alone" in result.err
    assert "KeyError" not in result.err
