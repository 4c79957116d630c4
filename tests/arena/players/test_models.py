"""Language models as players: what they are told, and which of their words is the move."""

from __future__ import annotations

from collections.abc import AsyncGenerator
from typing import Any

import chess
import pytest
from worldledger_chess.arena.players import InvalidPlayerError, ModelPlayer, PlayerError, Position, make_player
from worldledger_chess.arena.players.models import attempted

from worldledger.llm import Chunk, End, ModelError, Persona, Request, Text


class Says:
    """A model that gives one answer after the other, or raises one."""

    name = "says"

    def __init__(self, *answers: str | Exception) -> None:
        self.answers = list(answers)
        self.requests: list[Request] = []
        self.is_closed = False

    async def stream(self, request: Request) -> AsyncGenerator[Chunk, None]:
        """Answer a request."""
        self.requests.append(request)
        answer = self.answers.pop(0)
        if isinstance(answer, Exception):
            raise answer
        yield Text(answer)
        yield End("stop")

    async def aclose(self) -> None:
        """Note it."""
        self.is_closed = True


def _player(*answers: str | Exception) -> tuple[ModelPlayer, Says]:
    model = Says(*answers)
    return ModelPlayer(model, Persona(character="You are bold.", goals=("Win.",))), model


def _after(*moves: str) -> Position:
    board = chess.Board()
    for move in moves:
        board.push_uci(move)
    return Position.of(board)


@pytest.mark.parametrize(
    ("answer", "move"),
    [
        ("e2e4", "e2e4"),
        ("I play **Nf3**, of course.", "Nf3"),
        ("1. e4!", "e4"),
        ("12...Qxd5+", "Qxd5"),
        ("0-0-0", "O-O-O"),
        ("exd8=Q#", "exd8=Q"),
        ("  I give   up\n", "I give up"),
        ("", ""),
    ],
)
def test_the_first_word_like_a_move_is_attempted(answer: str, move: str) -> None:
    """Without one it is all that was said."""
    assert attempted(answer) == move


async def test_a_model_is_told_the_position() -> None:
    """Who it is, which colour it plays, the moves so far, the position and the legal moves."""
    player, model = _player("e7e5")
    assert await player.move(_after("e2e4")) == "e7e5"
    system, asked = (each["content"] for each in model.requests[0].messages)
    assert system.startswith("You are bold.\nYour goals:\n- Win.\nYou play black in a game of chess.")
    assert "1. e4" in asked
    assert _after("e2e4").fen in asked
    assert "e7e5" in asked.split()
    await player.close()
    assert model.is_closed


async def test_a_model_is_told_what_was_wrong() -> None:
    """In the same position it sees its illegal answers and why they are; in the next one it does not."""
    player, model = _player("e2e5", "no idea", "e2e4", "d2d4")
    assert [await player.move(_after()) for _ in range(3)] == ["e2e5", "no idea", "e2e4"]
    assert [each["role"] for each in model.requests[2].messages] == ["system", "user", *["assistant", "user"] * 2]
    assert "the pawn on e2 cannot go to e5" in model.requests[1].messages[-1]["content"]
    await player.move(_after("e2e4", "e7e5"))
    assert len(model.requests[3].messages) == 2


async def test_a_model_without_an_answer_is_an_error() -> None:
    """It has failed, or was too late, as any player."""
    player, _ = _player(ModelError("http_500", "broken"), ModelError("timeout", "silent"))
    for reason in ("failed", "timeout"):
        with pytest.raises(PlayerError) as caught:
            await player.move(_after())
        assert caught.value.reason == reason


@pytest.mark.parametrize(
    ("spec", "path", "said"),
    [
        ("llm:", "$.model", "at least 1 character"),
        ({"name": "llm"}, "$.model", "required"),
        ({"name": "llm", "model": "m", "base_url": "http://me:secret@h/v1"}, "$.base_url", "password"),
        ({"name": "llm", "model": "m", "api_key": "k"}, "$.api_key", "not permitted"),
        ({"name": "llm", "model": "m", "persona": {"may": ["Move"]}}, "$.persona.may", "plays chess"),
        ({"name": "llm", "model": "m", "persona": {"character": ""}}, "$.persona.character", "at least 1"),
    ],
)
def test_settings_that_are_wrong(spec: Any, path: str, said: str) -> None:
    """They are named by their place; the log, which keeps settings, gets no password."""
    with pytest.raises(InvalidPlayerError) as caught:
        make_player(spec, seed=1, allow_programs=True)
    assert caught.value.path == path
    assert said in caught.value.reason


def test_a_service_asks_no_model_that_a_stranger_names() -> None:
    """Its key would be sent to whatever address stands in a game's configuration."""
    with pytest.raises(InvalidPlayerError, match="asks what its description says"):
        make_player("llm:gpt", seed=1)


def test_a_model_without_a_key(monkeypatch: pytest.MonkeyPatch) -> None:
    """That is told before a game begins."""
    monkeypatch.delenv("OPENAI_API_KEY", raising=False)
    with pytest.raises(InvalidPlayerError, match="set OPENAI_API_KEY, or name the address"):
        make_player("llm:gpt", seed=1, allow_programs=True)
