"""Language models as players: what one is told of a position, and which of its words is the move.

An answer need not be a move. What it attempts is recorded like the attempt of any other player, and the model is told
what was wrong with it when it is asked again in the same position. If the player has a `Diary`, each answer is a
generation in the game's log: prompt, tokens, price and times.
"""

from __future__ import annotations

import asyncio
import re
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Annotated, Any, Final, Protocol
from urllib.parse import urlsplit

import chess
from pydantic import BaseModel, ConfigDict, Field, JsonValue, StrictStr, ValidationError, field_validator

from worldledger.aio import CancelToken
from worldledger.canonical import child
from worldledger.extras import llm_needed
from worldledger_chess.arena.attempts import read_attempt
from worldledger_chess.arena.players.base import InvalidPlayerError, PlayerError, Position, Reason

if TYPE_CHECKING:
    from worldledger.llm import Model, Persona
    from worldledger.llm.streaming import Output

_CHARACTER: Final = "You play chess as well as you can."
#: The members of a persona that mean something in a game of chess.
_OF_PERSONA: Final = frozenset({"character", "goals", "parameters", "keeps_texts", "prices"})
#: Refused answers in one position of which the model is told.
_TOLD: Final = 5
#: Most characters of a refused answer that it is told.
_MOST_CHARACTERS: Final = 1000
#: The form of a move, in UCI or SAN; what may stand before it, and around it.
_MOVE: Final = re.compile(r"[a-h][1-8][a-h][1-8][qrbn]?|[KQRBN]?[a-h]?[1-8]?x?[a-h][1-8](=?[QRBN])?|[O0]-[O0](-[O0])?")
_NUMBER: Final = re.compile(r"^\d+\.+")
_AROUND: Final = ".,;:!?+#*_`'\"()[]{}<>"
#: What errors of models are among the reasons of a player without a move; others have failed.
_REASONS: Final[Mapping[str, Reason]] = {"timeout": "timeout", "malformed": "rubbish"}


class ModelSettings(BaseModel):
    """The settings of a language model that plays; they stand in the game's configuration.

    ``model``: its name at its service, one of OpenAI's protocol unless it begins with ``anthropic:``. ``base_url``: the
    service's address, by default the provider's. ``persona``: who it is, as `worldledger.llm.Persona` has it.
    ``timeout``: the most seconds for an answer; less if the game leaves less.
    """

    model_config = ConfigDict(extra="forbid", frozen=True)

    model: Annotated[StrictStr, Field(min_length=1, max_length=200)]
    base_url: StrictStr | None = None
    persona: dict[str, JsonValue] = Field(default_factory=dict)
    timeout: Annotated[float, Field(strict=True, gt=0, le=3600, allow_inf_nan=False)] = 120.0

    @field_validator("base_url")
    @classmethod
    def _no_secrets(cls, value: str | None) -> str | None:
        if value is not None and ("@" in urlsplit(value).netloc or urlsplit(value).query):
            raise ValueError("the log keeps this address: it cannot have a password or a query in it")
        return value


class Diary(Protocol):
    """The parts of a model's answer that are kept."""

    async def begun(self, model: Mapping[str, Any]) -> CancelToken:
        """Note that the model is asked; return the token by which others may cancel that."""
        ...

    async def ended(self, report: Mapping[str, Any], texts: Sequence[Mapping[str, Any]]) -> None:
        """Note what became of it."""
        ...


class ModelPlayer:
    """A language model as a player. ``diary`` is set before each move by whoever keeps one."""

    def __init__(self, model: Model, persona: Persona, *, name: str = "llm", timeout_s: float = 120.0) -> None:
        self.name = name
        self.diary: Diary | None = None
        self._model = model
        self._persona = persona
        self._timeout_s = timeout_s
        self._moves: tuple[str, ...] | None = None
        self._refused: list[tuple[str, str]] = []

    async def move(self, position: Position) -> str:
        """Return what the model attempts; see `attempted`. Raises PlayerError if it gave no answer."""
        from worldledger.llm.model import Request  # noqa: PLC0415 - only where the extra is installed
        from worldledger.llm.reports import Prompt, plain  # noqa: PLC0415
        from worldledger.llm.streaming import BEYOND, Output, collect, count_prompt  # noqa: PLC0415

        if position.moves != self._moves:
            self._moves, self._refused = position.moves, []
        limit = self._timeout_s if position.remaining_s is None else min(self._timeout_s, position.remaining_s)
        request = Request(self._messages(position), (), self._persona.asked_with())
        prompt, output, text, outcome = Prompt(request), Output(), "", "interrupted"
        described = prompt.described(self._model.name)
        token = CancelToken("", "") if self.diary is None else await self.diary.begun(described)
        try:
            async with asyncio.timeout(limit):
                stream = self._model.stream(request)
                await collect(stream, token, output, most_pieces=self._persona.max_tokens + BEYOND)
            text = attempted(plain(output.text))
            outcome = self._outcome(position, output, text)
        except TimeoutError:
            raise PlayerError(self.name, "timeout", f"gave no move within {limit:g} s") from None
        finally:
            if self.diary is not None:
                await count_prompt(self._model, request, output)
                await self._note(self.diary, prompt, output, outcome)
        if output.error is not None:
            raise PlayerError(self.name, _REASONS.get(output.error.code, "failed"), output.error.message)
        if output.interrupted:
            raise PlayerError(self.name, "no_move", f"was told to stop: {token.reason}")
        return text

    async def close(self) -> None:
        """Close the connections to the model's service."""
        close = getattr(self._model, "aclose", None)
        if close is not None:
            await close()

    def _outcome(self, position: Position, output: Output, text: str) -> str:
        if output.error is not None:
            return "failed"
        if output.interrupted:
            return "interrupted"
        why = read_attempt(position.board(), text).why
        if why:
            self._refused = [*self._refused, (output.text.strip()[:_MOST_CHARACTERS], why)][-_TOLD:]
        return "refused" if why else "acted"

    async def _note(self, diary: Diary, prompt: Any, output: Output, outcome: str) -> None:
        from worldledger.llm.reports import answer_of, cost_of, known, times_of  # noqa: PLC0415

        report = known({"outcome": outcome, **times_of(output), **cost_of(output, self._persona.prices)})
        await diary.ended(report, [prompt.kept(), answer_of(output)] if self._persona.keeps_texts else [])

    def _messages(self, position: Position) -> list[dict[str, str]]:
        board = chess.Board(position.initial_fen, chess960=position.chess960)
        so_far = board.variation_san(map(chess.Move.from_uci, position.moves)) or "none"
        how = "Answer with one legal move in UCI notation, such as e2e4 or e7e8q, and with nothing else."
        messages = [
            {
                "role": "system",
                "content": f"{self._persona.described()}\nYou play {position.player} in a game of chess. {how}",
            },
            {
                "role": "user",
                "content": f"Moves so far: {so_far}\nThe position in FEN: {position.fen}\n"
                f"Legal moves: {' '.join(position.legal_moves)}\nYour move?",
            },
        ]
        for said, why in self._refused:
            messages.append({"role": "assistant", "content": said or "(nothing)"})
            messages.append(
                {"role": "user", "content": f"That is no legal move: {why}. Choose one of the legal moves."}
            )
        return messages


def attempted(text: str) -> str:
    """Return what an answer attempts: the first word that has the form of a move in UCI or SAN, else the whole answer.

    The number of a move, and signs around a word, are no part of it.
    """
    for word in text.split():
        bare = _NUMBER.sub("", word.strip(_AROUND)).strip(_AROUND)
        if _MOVE.fullmatch(bare):
            return bare.replace("0", "O") if "-" in bare else bare
    return " ".join(text.split())


def model_player(settings: ModelSettings, path: str) -> ModelPlayer:
    """Make the player of these settings. Raises ExtraMissingError, and InvalidPlayerError also if there is no key."""
    with llm_needed():
        from worldledger.llm import ModelError, Persona  # noqa: PLC0415 - only where the extra is installed
        from worldledger.llm.providers import provided, split  # noqa: PLC0415
    where = child(path, "persona")
    for name in settings.persona:
        if name not in _OF_PERSONA:
            what = f"a persona that plays chess has {', '.join(sorted(_OF_PERSONA))}, and no {name}"
            raise InvalidPlayerError(what, child(where, name))
    try:
        persona = Persona.model_validate({"character": _CHARACTER, **settings.persona})
        named = split(settings.model) or ("openai", settings.model)
        model = provided(*named, base_url=settings.base_url, silence_s=settings.timeout)
    except ValidationError as error:
        first = error.errors(include_url=False, include_context=False)[0]
        for part in first["loc"]:
            where = child(where, part)
        raise InvalidPlayerError(first["msg"], where) from None
    except ModelError as error:
        raise InvalidPlayerError(error.message, path) from None
    return ModelPlayer(model, persona, timeout_s=settings.timeout)
