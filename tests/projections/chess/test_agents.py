"""One row for each agent of a world."""

from __future__ import annotations

from typing import Any

from hypothesis import given
from hypothesis import strategies as st
from worldledger_chess.projections.agents import Agents

from tests.projections.chess.logs import effects_of, moved, started
from tests.projections.playing import BEGINNING, CUTS, Cuts, at, dicts, play
from worldledger.effects import Effect

AGENTS = Agents()


def rows_of(log: list[Effect], cuts: Cuts = ()) -> dict[str, dict[str, Any]]:
    """Return the rows that a log makes, by agent."""
    return {row["agent_id"]: row for row in dicts(AGENTS, play(AGENTS, log, cuts=cuts))}


def test_whoever_does_something_is_an_agent() -> None:
    """An agent has a row with what it did, first and last."""
    log = effects_of([{"kind": "Speak", "source_id": name} for name in ("ann", "bob", "ann")], ruleset="sandbox")
    rows = rows_of(log)
    assert rows["ann"] == {
        "world_id": "w",
        "agent_id": "ann",
        "role": None,
        "name": None,
        "effects": 2,
        "first_seq": 2,
        "last_seq": 4,
        "first_sim_time": 2.0,
        "last_sim_time": 4.0,
        "first_seen_at": at(2),
        "last_seen_at": at(4),
    }
    assert set(rows) == {"ann", "bob"}


def test_service_and_importer_are_no_agents() -> None:
    """Neither the service's own effects nor those of the reader of recorded games are somebody's deeds."""
    drafts = [{"kind": "StateDigest", "source_id": "worldledger"}, {"kind": "GameNoted", "source_id": "pgn-import"}]
    assert rows_of(effects_of(drafts)) == {}


def test_players_are_agents_before_they_move() -> None:
    """A game names its players; what they do is told by the source of the effects."""
    agents = {"white": "engine-1", "black": "engine-2"}
    rows = rows_of(effects_of([started(agents=agents), {**moved("e2e4"), "source_id": "engine-1"}]))
    told = [(row["role"], row["name"], row["effects"], row["first_seq"], row["last_seq"]) for row in rows.values()]
    assert told == [("white", "Ann", 1, 2, 3), ("black", "Bob", 0, 2, 2)]


def test_an_agent_that_was_there_before_becomes_a_player() -> None:
    """It keeps what it did."""
    rows = rows_of(effects_of([{"kind": "Hello", "source_id": "Bob"}, started()]))
    assert (rows["Bob"]["role"], rows["Bob"]["effects"], rows["Bob"]["first_seq"], rows["Bob"]["last_seq"]) == (
        "black",
        1,
        2,
        3,
    )


def test_an_agent_that_plays_against_itself_has_both_roles() -> None:
    """One agent is one row."""
    (row,) = rows_of(effects_of([started(white="Ann", black="Ann")])).values()
    assert (row["agent_id"], row["role"], row["name"]) == ("Ann", "both", "Ann")


def test_only_the_first_game_names_players() -> None:
    """A start that cannot be read names nobody, a second one neither, wherever the batch ends."""
    unreadable = {"kind": "GameStarted", "payload": {"white": "Eve"}, "source_id": "pgn-import"}
    log = effects_of([unreadable, started(), started(white="Eve")])
    for cuts in ([], [(3, True)], [(1, True), (2, True)]):
        assert set(rows_of(log, cuts)) == {"Ann", "Bob"}


_DRAFTS = st.lists(
    st.sampled_from(["Ann", "Bob", "eve", "worldledger", "pgn-import"]).map(
        lambda name: {"source_id": name, "kind": "Do"}
    )
    | st.sampled_from([started(), started(black="Ann"), started(white=7)]),
    max_size=20,
)


@given(_DRAFTS, CUTS)
def test_batches_do_not_matter(drafts: list[dict[str, Any]], cuts: Cuts) -> None:
    """However the log is cut, and wherever the runner forgets all but the rows, the rows are the same."""
    log = effects_of({**draft, "wall_time": BEGINNING + number / 7} for number, draft in enumerate(drafts))
    rows = rows_of(log, cuts)
    assert rows == rows_of(log)
    for name in ("Ann", "Bob", "eve"):
        count = sum(effect["source_id"] == name for effect in log)
        assert rows[name]["effects"] == count if name in rows else count == 0
