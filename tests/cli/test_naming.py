"""Names that are almost right: the beginning of a world's name, and what may have been meant."""

from __future__ import annotations

import json

import pytest

from tests.markets import TURNS, market

from .conftest import Cli
from .helpers import BAZAAR, play, record, seed, sql


def named(url: str) -> None:
    """Make some worlds."""
    record(url, "bazaar", BAZAAR, experiment="first")
    for name in ("market-1", "market-2"):
        seed(url, name, 2)


@pytest.mark.filled(by=named)
def test_the_beginning_of_a_world_s_name(on: Cli, database_url: str) -> None:
    """A command takes the beginning of a name where only one world has it, and says the whole one."""
    for arguments in (
        ("state",),
        ("log",),
        ("snapshots",),
        ("diff", "1", "2"),
        ("export", "-o", "-", "-q"),
        ("verify",),
    ):
        command, *rest = arguments
        assert on(command, "baz", *rest) == on(command, "bazaar", *rest)
    assert on("state", "baz").out.startswith("bazaar at seq ")
    assert on("verify", "baz", "market-1").out.count("verified") == 2
    assert on("replay", "--check", "baz").out.startswith("replayed bazaar")
    assert on("replay", "baz", "--speed", "max").out == on("replay", "bazaar", "--speed", "max").out
    seed(database_url, "market", 2)
    assert on("state", "market").out.startswith("market at seq ")
    refused = on("state", "market-")
    what = "worldledger: no world is named 'market-', and several begin so: market-1, market-2\n"
    assert refused == (2, "", what)
    sql(database_url, "alter table worlds disable trigger all", "alter table effects disable trigger all")
    assert on("verify", "nowhere", "baz").code == 2


WRITING = (
    ("snapshot", "{}"),
    ("world", "staleness", "{}", "--staleness-threshold", "null"),
    ("projections", "rebuild", "entities", "--world", "{}"),
    ("projections", "retry", "entities", "--world", "{}"),
    ("db", "repair", "requests", "{}"),
)


@pytest.mark.filled(by=named, read=True)
@pytest.mark.parametrize("command", WRITING, ids=" ".join)
def test_what_changes_a_world_takes_its_whole_name(on: Cli, database_url: str, command: tuple[str, ...]) -> None:
    """A command that changes something answers the beginning of a name with the names that may be meant."""
    before = sql(database_url, "select world_id, head_seq from heads order by 1")
    for typed, near in {"baza": "'bazaar'", "b": "'bazaar'", "market-": "'market-1' or 'market-2'"}.items():
        refused = on(*(each.format(typed) for each in command))
        assert refused == (2, "", f"worldledger: no world named {typed!r}; did you mean {near}?\n")
    assert "; `worldledger worlds` lists all\n" in on(*(each.format("zzz") for each in command)).err
    assert sql(database_url, "select world_id, head_seq from heads order by 1") == before


@pytest.mark.filled(by=named, read=True)
def test_what_may_have_been_meant(on: Cli) -> None:
    """Of an unknown world, agent, experiment, kind or source, those that are like it are named."""
    assert on("state", "bazar") == (2, "", "worldledger: no world named 'bazar'; did you mean 'bazaar'?\n")
    assert on("verify", "Bazaars").err == "worldledger: no world named 'Bazaars'; did you mean 'bazaar'?\n"
    assert on("replay", "--check", "bazar").err.startswith(
        "worldledger: no world named 'bazar'; did you mean 'bazaar'?"
    )
    assert "did you mean 'first'?" in on("worlds", "--experiment", "frist").err
    assert "see `worldledger worlds`" in on("worlds", "--experiment", "zzz").err
    for arguments, said in {
        ("--source", "alise"): "no effects of source 'alise'; did you mean 'alice'?",
        ("--kind", "Moved"): "no effects of kind 'Moved'; did you mean 'Move'?",
        ("--kind", "Move", "--source", "alice"): "no effects of kind 'Move' and of source 'alice'",
        ("--kind", "Zebra"): "no effects of kind 'Zebra'",
    }.items():
        assert on("log", "bazaar", *arguments) == (0, "", f"worldledger: {said}\n")


def test_agents(on: Cli, database_url: str) -> None:
    """Of an agent that a world does not have, those that are like it are named."""
    play(database_url, "market", TURNS, ruleset="simulation", config=market())
    assert on("view", "market", "Anne").err == "worldledger: world market has no agent 'Anne'; did you mean 'Ann'?\n"
    assert json.loads(on("view", "market", "Ann", "--json").out)["view"]["agent_id"] == "Ann"
