"""Who a model plays: its character, what it may do, with which parameters, and within which bounds.

Source: docs/how-to-llm.md, "Personas".
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final, Literal, TypeVar

import yaml
from pydantic import BaseModel, ConfigDict, Field, JsonValue, ValidationError

from worldledger.errors import FileRefusedError

_STRICT: Final = ConfigDict(frozen=True, extra="forbid", allow_inf_nan=False)
#: Tokens of an answer, if the parameters do not say.
DEFAULT_MAX_TOKENS: Final = 256


_Shape = TypeVar("_Shape", bound=BaseModel)


class Prices(BaseModel):
    """What a million tokens cost."""

    model_config = _STRICT

    tokens_in: float = Field(default=0.0, ge=0.0, description="A million tokens of prompts.")
    tokens_out: float = Field(default=0.0, ge=0.0, description="A million tokens of answers.")
    currency: str = Field(default="USD", min_length=1, max_length=20)


class Budget(BaseModel):
    """How often a model is asked, and for how much, in any minute; null: without a bound."""

    model_config = _STRICT

    calls_per_minute: int | None = Field(default=None, ge=1)
    tokens_per_minute: int | None = Field(default=None, ge=1, description="Of prompts and answers together.")


class Persona(BaseModel):
    """Who a model plays, and how."""

    model_config = _STRICT

    character: str = Field(min_length=1, description="Who the agent is, in words for the model.")
    goals: tuple[str, ...] = Field(default=(), description="What it wants.")
    may: tuple[str, ...] = Field(
        default=("Speak",),
        min_length=1,
        description="The kinds of intents that it may make: Speak, Move, Interact, or a kind of effects of the world.",
    )
    begins: bool = Field(default=False, description="Whether it acts before anything has happened.")
    woken_by: frozenset[str] = Field(
        default=frozenset(), description="The kinds of events that make it think; none: whatever others show it."
    )
    sees: Literal["changes", "view"] = Field(
        default="changes", description="Whether the model is told what changes, or also the whole view each time."
    )
    remembers: int = Field(default=40, ge=1, le=10_000, description="How many observations the model is told.")
    parameters: dict[str, JsonValue] = Field(
        default_factory=dict, description="For the model's service: temperature, max_tokens, seed and so on."
    )
    keeps_texts: bool = Field(
        default=True, description="Whether prompts and answers are kept in the log, as effects of their own."
    )
    turns: int | None = Field(default=None, ge=1, description="After how many generations it stops; null: never.")
    corrections: int = Field(
        default=1, ge=0, le=20, description="How often the model is asked again after an answer that is refused."
    )
    tries: int | None = Field(
        default=None, ge=1, description="How often it is asked if its service fails; null: until it answers."
    )
    retry_s: float = Field(
        default=60.0,
        ge=0.01,
        le=86_400.0,
        description="Most seconds between two tries; the pauses begin with 1 s and double.",
    )
    interruptions: int = Field(
        default=5, ge=0, le=1000, description="How often in a row it begins anew after it was interrupted."
    )
    pause_s: float = Field(default=0.0, ge=0.0, le=86_400.0, description="Least seconds between two generations.")
    prices: Prices | None = None
    budget: Budget = Budget()

    def asked_with(self) -> dict[str, JsonValue]:
        """Return the parameters of a request, with a bound of its answer."""
        is_bounded = not {"max_tokens", "max_completion_tokens"}.isdisjoint(self.parameters)
        return dict(self.parameters) if is_bounded else {"max_tokens": DEFAULT_MAX_TOKENS, **self.parameters}

    def described(self) -> str:
        """Return character and goals, in words for the model."""
        goals = "".join(f"\n- {goal}" for goal in self.goals)
        return self.character.strip() + (f"\nYour goals:{goals}" if goals else "")

    @property
    def max_tokens(self) -> int:
        """The most tokens of an answer."""
        for name in ("max_tokens", "max_completion_tokens"):
            found = self.parameters.get(name)
            if type(found) is int and found > 0:
                return found
        return DEFAULT_MAX_TOKENS


@dataclass(frozen=True)
class Personas:
    """What a file says: a persona for each agent, or one for any; and the budget that they share."""

    of_agents: Mapping[str, Persona]
    of_any: Persona | None = None
    budget: Budget | None = None

    def of(self, agent_id: str) -> Persona | None:
        """Return an agent's persona; None if the file has none for it."""
        return self.of_agents.get(agent_id, self.of_any)


def read_personas(file: Path) -> Personas:
    """Read a YAML file: one persona, or under ``agents`` one for each agent and beside it the ``budget`` of all.

    Raises FileRefusedError.
    """
    try:
        value = yaml.safe_load(file.read_text(encoding="utf-8"))
    except (OSError, UnicodeDecodeError) as error:
        why = getattr(error, "strerror", None) or error
        raise FileRefusedError(f"cannot be read ({why})", file=str(file)) from None
    except (yaml.YAMLError, ValueError, RecursionError) as error:
        mark = getattr(error, "problem_mark", None)
        line = None if mark is None else mark.line + 1
        raise FileRefusedError(f"no YAML: {getattr(error, 'problem', error)}", file=str(file), line=line) from None
    if not isinstance(value, Mapping) or "agents" not in value:
        return Personas({}, _read(Persona, value, file, ""))
    agents = value["agents"]
    if not set(value) <= {"agents", "budget"} or not isinstance(agents, Mapping) or not agents:
        what = "`agents` has a persona for each agent; beside it there may be their `budget`, and nothing else"
        raise FileRefusedError(what, file=str(file))
    return Personas(
        {str(name): _read(Persona, each, file, f"agents.{name}.") for name, each in agents.items()},
        budget=_read(Budget, value["budget"], file, "budget.") if "budget" in value else None,
    )


def _read(shape: type[_Shape], value: Any, file: Path, path: str) -> _Shape:
    try:
        return shape.model_validate(value)
    except ValidationError as error:
        first = error.errors(include_url=False)[0]
        where = path + ".".join(map(str, first["loc"]))
        raise FileRefusedError(f"{where.rstrip('.') or 'the persona'}: {first['msg']}", file=str(file)) from None
