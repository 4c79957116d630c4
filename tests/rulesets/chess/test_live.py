"""The configuration of a live game, and how its world begins."""

from __future__ import annotations

from typing import Any

import chess
import orjson
import pytest
from worldledger_chess.rules import RULESET, BoardState, LiveConfig

from tests.cases import cases
from tests.rulesets.chess.worlds import started
from tests.rulesets.counting import malformed
from worldledger.canonical import gate
from worldledger.drafts import check_draft, effect_text
from worldledger.effects import SERVICE_SOURCE
from worldledger.errors import IllegalEffectError, InvalidConfigError, RecoveryAction
from worldledger.folding import Fold
from worldledger.world import WorldState

from .test_agents import BAD_SETTINGS, GOOD_SETTINGS

TWO: dict[str, Any] = {"white": {"agent_id": "ana"}, "black": {"agent_id": "bo"}}
CHESS960 = "nqrkbbnr/pppppppp/8/8/8/8/PPPPPPPP/NQRKBBNR w KQkq - 0 1"
ENDGAME = "8/8/8/4k3/8/8/4P3/4K3 w - - 0 50"


def live(**changes: Any) -> LiveConfig:
    """Read the configuration of a live game."""
    found = LiveConfig.of({"live": {**TWO, **changes}})
    assert found is not None
    return found


def refused(config: dict[str, Any]) -> InvalidConfigError:
    """Return the refusal of a configuration."""
    with pytest.raises(InvalidConfigError) as caught:
        RULESET.check_config(config)
    assert caught.value.recovery is RecoveryAction.MODIFY_INTENT
    return caught.value


def opened(config: dict[str, Any]) -> WorldState:
    """Return the state after a world's opening."""
    fold = Fold("w", RULESET)
    drafts = RULESET.opening(RULESET.check_config(config), world_uuid="0" * 32)
    for seq, posted in enumerate(drafts, 1):
        checked = check_draft(posted, system=True)
        text = effect_text(checked, world_id="w", global_seq=seq, uuid="u", sim_time=0.0, wall_time=1000.0)
        fold.apply(orjson.loads(text))
    assert malformed(fold.state) == 0
    return fold.state


def test_what_is_left_out() -> None:
    """Two agents are enough; the rest is written out."""
    agent = {
        "personality": "balanced",
        "model_name": "",
        "system_prompt": "",
        "temperature": 0.7,
        "max_tokens": 2048,
        "timeout_seconds": 30,
    }
    config = RULESET.check_config({"live": TWO, "note": [1]})
    assert config == {
        "live": {
            "game_id": None,
            "white": {"agent_id": "ana", "name": "ana", **agent},
            "black": {"agent_id": "bo", "name": "bo", **agent},
            "chess960": False,
            "fen": None,
            "experiment": None,
            "max_illegal": 3,
            "fallback": "resign",
            "deadline_s": 30.0,
            "seed": None,
            "players": {"white": "external", "black": "external"},
        },
        "note": [1],
    }
    assert RULESET.check_config(config) == config
    gate(config, path="$.config", level=3)


@cases(
    "changes",
    [
        {"game_id": "550e8400-e29b-41d4-a716-446655440000", "experiment": "a study"},
        {"fen": ENDGAME},
        {"fen": CHESS960, "chess960": True},
        {"fen": None, "chess960": True},
        {"max_illegal": 1, "fallback": "random", "seed": -(2**53) + 1},
        {"max_illegal": 1000, "deadline_s": None, "seed": 2**53 - 1},
        {"deadline_s": 0.05},
        {"deadline_s": 60},
        {"deadline_s": {"white": 5.0, "black": None}},
        {"white": {"agent_id": "ana", "timeout_seconds": 10**9}},
        {"players": {"white": "random"}},
        {"players": {"white": {"name": "uci", "nodes": 2000}, "black": "stockfish"}},
        *[{"white": {"agent_id": "ana", **changes}} for changes in GOOD_SETTINGS],
    ],
)
def test_what_a_live_game_can_be(changes: dict[str, Any]) -> None:
    """The normal form is read back as the same."""
    config = live(**changes)
    assert LiveConfig.of({"live": config.to_value()}) == config
    assert opened({"live": {**TWO, **changes}}).entities["board"]["status"] == "in_progress"


@cases("config", [{}, {"rated": True}, {"live": None}, {"lives": 9}])
def test_other_worlds_are_as_free_as_before(config: dict[str, Any]) -> None:
    """Any other configuration stays as it is, and nothing begins by itself."""
    assert LiveConfig.of(config) is None
    assert RULESET.check_config(config) == config
    assert list(RULESET.opening(config, world_uuid="0" * 32)) == []


@cases(
    "changes, path, told",
    [
        ({"white": None}, "$.config.live.white", "an object"),
        ({"white": "ana"}, "$.config.live.white", "an object"),
        ({"white": {}}, "$.config.live.white.agent_id", "required"),
        ({"black": {"agent_id": "ana"}}, "$.config.live.black", "one agent, 'ana'"),
        ({"colour": "white"}, "$.config.live.colour", "unknown field 'colour'"),
        ({"white": {"agent_id": "ana", "elo": 1}}, "$.config.live.white.elo", "unknown field 'elo'"),
        ({"white": {"agent_id": "ana", "stats": {}}}, "$.config.live.white.stats", "unknown field 'stats'"),
        ({"game_id": "no such name"}, "$.config.live.game_id", "allowed"),
        ({"experiment": ""}, "$.config.live.experiment", "1 character"),
        ({"chess960": 1}, "$.config.live.chess960", "boolean"),
        ({"fen": 1}, "$.config.live.fen", "string"),
        ({"fen": ""}, "$.config.live.fen", "cannot be read"),
        ({"fen": "startpos"}, "$.config.live.fen", "cannot be read"),
        ({"fen": "8/8/8/8/8/8/8/K7 w - - 0 1"}, "$.config.live.fen", "no black king"),
        ({"fen": "kk6/8/8/8/8/8/8/K7 w - - 0 1"}, "$.config.live.fen", "too many kings"),
        ({"fen": "k6R/8/8/8/8/8/8/K7 w - - 0 1"}, "$.config.live.fen", "opposite check"),
        ({"fen": "k7/8/8/8/8/8/8/K7 w KQ - 0 1"}, "$.config.live.fen", "bad castling rights"),
        ({"fen": CHESS960}, "$.config.live.fen", "bad castling rights"),
        ({"fen": "k7/8/8/8/8/8/8/K7 w - - 151 200"}, "$.config.live.fen", "halfmove clock"),
        ({"fen": chess.STARTING_FEN + " " * 10_000}, "$.config.live.fen", "at most 128"),
        ({"max_illegal": 0}, "$.config.live.max_illegal", "1"),
        ({"max_illegal": 1001}, "$.config.live.max_illegal", "1000"),
        ({"max_illegal": 3.0}, "$.config.live.max_illegal", "integer"),
        ({"max_illegal": None}, "$.config.live.max_illegal", "integer"),
        ({"fallback": "draw"}, "$.config.live.fallback", "'resign' or 'random'"),
        ({"deadline_s": 0}, "$.config.live.deadline_s", "greater than 0"),
        ({"deadline_s": -1}, "$.config.live.deadline_s", "greater than 0"),
        ({"deadline_s": 1e300}, "$.config.live.deadline_s", "less than"),
        ({"deadline_s": float("nan")}, "$.config.live.deadline_s", "finite|greater"),
        ({"deadline_s": "30"}, "$.config.live.deadline_s", "number"),
        ({"deadline_s": {"white": 5}}, "$.config.live.deadline_s", "both"),
        ({"deadline_s": {"white": 0, "black": 1}}, "$.config.live.deadline_s.white", "greater than 0"),
        ({"seed": 2**53}, "$.config.live.seed", "less than"),
        ({"seed": "1"}, "$.config.live.seed", "integer"),
        ({"seed": True}, "$.config.live.seed", "integer"),
        ({"players": None}, "$.config.live.players", "dictionary"),
        ({"players": {"red": "random"}}, "$.config.live.players.red", "'white' or 'black'"),
        ({"players": {"white": ""}}, "$.config.live.players.white", "a player is"),
        ({"players": {"white": "x" * 1001}}, "$.config.live.players.white", "a player is"),
        ({"players": {"black": 3}}, "$.config.live.players.black", "a player is"),
        ({"players": {"black": None}}, "$.config.live.players.black", "a player is"),
        *[
            ({"white": {"agent_id": "ana", **changes}}, f"$.config.live.white.{next(iter(changes))}", "")
            for changes, _ in BAD_SETTINGS
        ],
    ],
)
def test_what_a_live_game_cannot_be(changes: dict[str, Any], path: str, told: str) -> None:
    """The path is that of what is wrong, and the message says it."""
    error = refused({"live": {**TWO, **changes}})
    assert error.details["path"] == path
    (problem,) = error.details["problems"]
    assert problem["path"] == path
    assert str(error) == f"{path}: {problem['message']}"
    assert any(word in str(error) for word in told.split("|"))


@cases("value", [[], "chess", 1, True])
def test_live_is_an_object(value: Any) -> None:
    """Anything else is refused by its path."""
    assert refused({"live": value}).details["path"] == "$.config.live"


def test_every_problem_is_told() -> None:
    """Not only the first one."""
    error = refused({"live": {"white": {"agent_id": "ana", "temperature": 3}, "fallback": "x", "speed": 1}})
    assert [problem["path"] for problem in error.details["problems"]] == [
        "$.config.live.white.temperature",
        "$.config.live.black",
        "$.config.live.fallback",
        "$.config.live.speed",
    ]


def test_a_live_world_begins_with_its_game() -> None:
    """GameStarted with everything about the agents, and both of them registered to move and resign."""
    config = RULESET.check_config(
        {
            "live": {
                "white": {"agent_id": "ana", "name": "Ana", "temperature": 0.1},
                "black": {"agent_id": "bo", "system_prompt": "Defend."},
            }
        }
    )
    start, *registered = RULESET.opening(config, world_uuid="0" * 32)
    assert (start["kind"], start["source_id"]) == ("GameStarted", SERVICE_SOURCE)
    assert start["payload"] == {
        "agents": {"white": "ana", "black": "bo"},
        "white": "Ana",
        "black": "bo",
        "variant": "standard",
        "initial_fen": chess.STARTING_FEN,
        "settings": {"white": config["live"]["white"], "black": config["live"]["black"]},
    }
    assert [draft["payload"]["agent_id"] for draft in registered] == ["ana", "bo"]
    for draft in registered:
        assert draft["kind"] == "AgentRegistered"
        assert draft["payload"]["permissions"] == ["intent:custom", "submit_intent"]
        assert draft["payload"]["policy"]["name"] == "default"
    state = opened(config)
    assert set(state.metadata["agents"]) == {"ana", "bo"}
    assert [state.entities[player]["name"] for player in ("white", "black")] == ["Ana", "bo"]


def test_the_opening_could_have_been_posted() -> None:
    """What it says is what the rules of a start ask for, and they write it as it is."""
    for changes in ({}, {"fen": ENDGAME}, {"fen": CHESS960, "chess960": True}):
        start, *_ = RULESET.opening(RULESET.check_config({"live": {**TWO, **changes}}), world_uuid="0" * 32)
        checked = check_draft(start, system=True)
        assert RULESET.decide(checked, WorldState.initial()) is checked


def test_it_begins_at_its_fen() -> None:
    """Kept in the full flavour, written in the log's; Chess960 by its own rules."""
    given = "rnbqkbnr/pppppppp/8/8/4P3/8/PPPP1PPP/RNBQKBNR b KQkq e3 0 1"
    config = live(fen=given)
    assert config.fen == given
    board = opened({"live": {**TWO, "fen": given}}).entities["board"]
    assert (board["fen"], board["turn"]) == (given.replace("e3", "-"), "black")
    assert live(fen=given.replace("e3", "-")).fen == given.replace("e3", "-")
    entities = opened({"live": {**TWO, "fen": CHESS960, "chess960": True}}).entities
    assert entities["board"]["variant"] == "chess960"
    assert "d1c1" in BoardState.of(entities).legal_moves
    assert live().board().fen() == chess.STARTING_FEN
    assert live(chess960=True).board().fen() == chess.STARTING_FEN


def test_a_live_game_begins_with_no_checkpoint() -> None:
    """As every world of this ruleset."""
    for config in ({}, {"live": TWO}):
        with pytest.raises(InvalidConfigError, match="checkpoint"):
            RULESET.opening(config, world_uuid="0" * 32, checkpoint={})


def test_a_live_game_starts_once() -> None:
    """Its GameStarted is the world's only one."""
    with pytest.raises(IllegalEffectError) as caught:
        RULESET.decide(check_draft(started()), opened({"live": TWO}))
    assert caught.value.details["rule"] == "game_already_started"


def test_where_no_limit_is_said_the_agents_have_theirs() -> None:
    """It is written out: one limit where they have the same, or one of each; a limit that is recorded stays."""
    ana, bo = ({"agent_id": name, "timeout_seconds": limit} for name, limit in (("ana", 5), ("bo", 60)))
    for agents, limit in (
        ({"white": ana, "black": bo}, {"white": 5.0, "black": 60.0}),
        ({"white": ana, "black": {**bo, "timeout_seconds": 5}}, 5.0),
        ({"white": ana, "black": bo, "deadline_s": 30.0}, 30.0),
    ):
        config = RULESET.check_config({"live": agents})
        assert config["live"]["deadline_s"] == limit
        assert RULESET.check_config(config) == config
    assert [live(white=ana, black=bo).limit(player) for player in ("white", "black")] == [5.0, 60.0]


def test_the_position_that_it_begins_with_keeps_the_square_that_was_passed() -> None:
    """GameStarted has the FEN as it was asked for, in the full flavour; the state is as it was in every log."""
    fen = "rnbqkbnr/pppppppp/8/8/4P3/8/PPPP1PPP/RNBQKBNR b KQkq e3 0 1"
    started, *_ = RULESET.opening(RULESET.check_config({"live": {**TWO, "fen": fen}}), world_uuid="")
    assert started["payload"]["initial_fen"] == fen
    assert opened({"live": {**TWO, "fen": fen}}).entities["board"]["initial_fen"] == fen.replace("e3", "-")


def test_a_game_that_is_over_at_its_start_is_no_new_one() -> None:
    """A new world refuses it; what earlier versions wrote can be read."""
    over = {"live": {**TWO, "fen": "7k/5KQ1/8/8/8/8/8/8 b - - 0 1"}}
    assert refused(over).details["path"] == "$.config.live.fen"
    assert LiveConfig.of(over) is not None
