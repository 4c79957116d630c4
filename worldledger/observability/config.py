"""Partial observability as a simulation configures it: levels, the matrix, which variables are internal.

Source: docs/reference/contracts.md, "Observability". Names of agents and variables are checked where the context of the
validation tells them (``agent_names``, ``agent_var_names``, ``global_var_names``).
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from enum import Enum
from functools import cached_property
from math import isfinite
from typing import Annotated, Any, Final, Literal, Self, TypeAlias

from pydantic import (
    BaseModel,
    BeforeValidator,
    ConfigDict,
    Field,
    StrictBool,
    ValidationInfo,
    field_validator,
    model_validator,
)

#: The target that stands for the global variables.
GLOBAL: Final = "global"
_ENTRY: Final = ("observer", "target", "level", "noise")
_LISTS: Final = ("external", "internal")


class ObservabilityLevel(str, Enum):  # noqa: UP042 - what str() gives differs
    """How much of a target an observer sees: nothing, the public variables, all variables."""

    UNAWARE = "unaware"
    EXTERNAL = "external"
    INSIDER = "insider"

    @classmethod
    def _missing_(cls, value: object) -> ObservabilityLevel:
        raise ValueError(f"Invalid observability level {value!r}: it is unaware, external or insider")


#: How an observer sees a target: the level, and the noise as a share of each number.
Sight: TypeAlias = tuple[ObservabilityLevel, float]

#: The scope of a draw of noise: the turn, or the number's own value.
NoiseScope: TypeAlias = Literal["turn", "value"]

#: The sight without restrictions.
EVERYTHING: Final[Sight] = (ObservabilityLevel.INSIDER, 0.0)


def level_of(value: Any) -> ObservabilityLevel:
    """Read a level. Raises ValueError for anything but the three."""
    return ObservabilityLevel(value)


def noise_factor(value: Any, *, what: str = "noise") -> float:
    """Read a noise factor. Raises ValueError for anything but a finite number from 0.0 on."""
    if type(value) not in {int, float}:
        raise ValueError(f"{what} must be a number >= 0.0, not {value!r}")
    if value < 0:
        raise ValueError(f"{what} must be >= 0.0, not {value!r}")
    try:
        found = float(value)
    except OverflowError:
        found = float("inf")
    if not isfinite(found):
        raise ValueError(f"{what} must be finite")
    return found + 0.0


def _noise_or_none(value: Any) -> float | None:
    return None if value is None else noise_factor(value)


def _default_noise(value: Any) -> float:
    return noise_factor(value, what="Default noise")


_Level = Annotated[ObservabilityLevel, BeforeValidator(level_of)]


class _Settings(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid")


class VariableVisibilityConfig(_Settings):
    """Which variables are public and which private. What stands in neither list is external."""

    external: list[str]
    internal: list[str]

    @field_validator("external")
    @classmethod
    def _not_empty(cls, value: list[str]) -> list[str]:
        if not value:
            raise ValueError("external must name at least one variable")
        return value

    @model_validator(mode="after")
    def _disjoint(self) -> VariableVisibilityConfig:
        overlap = self.overlap()
        if overlap is not None:
            raise ValueError(overlap)
        return self

    def overlap(self) -> str | None:
        """Say which variables are in both lists; None if none is."""
        both = sorted(set(self.external) & set(self.internal))
        return f"Variables cannot be both external and internal: {', '.join(both)}" if both else None


class ObservabilityEntry(_Settings):
    """How one observer sees one target; also written as a list ``[observer, target, level, noise]``.

    ``target`` is an agent or "global". Without noise (None) it is 0.0; of an unaware observer it means nothing.
    """

    observer: str
    target: str
    level: _Level
    noise: Annotated[float | None, BeforeValidator(_noise_or_none)]

    @model_validator(mode="before")
    @classmethod
    def _from_list(cls, value: Any) -> Any:
        if isinstance(value, list | tuple):
            if len(value) != len(_ENTRY):
                raise ValueError(f"an entry is [observer, target, level, noise], this has {len(value)} items")
            return dict(zip(_ENTRY, value, strict=True))
        return value

    @property
    def sight(self) -> Sight:
        """The level, and the noise as a number."""
        return self.level, self.noise or 0.0


class DefaultObservability(_Settings):
    """How an observer sees a target where the matrix has no entry for both."""

    level: _Level
    noise: Annotated[float, BeforeValidator(_default_noise)]


class ObservabilityConfig(_Settings):
    """Who sees what of whom. Without ``default``, who stands in no entry sees nothing of the target.

    ``noise_scope`` says what noise is drawn for (`worldledger.observability.noise`): each ``turn``, or each ``value``.

    Everybody sees everything where ``enabled`` is false.
    """

    enabled: StrictBool
    variable_visibility: VariableVisibilityConfig
    matrix: list[ObservabilityEntry]
    default: DefaultObservability = Field(
        default_factory=lambda: DefaultObservability(level=ObservabilityLevel.UNAWARE, noise=0.0)
    )
    noise_scope: NoiseScope = "turn"

    @model_validator(mode="after")
    def _consistent(self, info: ValidationInfo) -> ObservabilityConfig:
        if problems := [message for _, message in self.problems(info.context)]:
            raise ValueError("; ".join(problems))
        return self

    def problems(self, context: Mapping[str, Collection[str]] | None) -> list[tuple[tuple[str | int, ...], str]]:
        """Return the contradictions, each with its path: two entries for one pair, unknown names.

        ``context`` has ``agent_names``, ``agent_var_names`` and ``global_var_names``; names are checked if it is given.
        """
        found = self._repeated()
        if context is None:
            return found
        agents = frozenset(context.get("agent_names", ()))
        for index, entry in enumerate(self.matrix):
            if entry.observer not in agents:
                message = f"Unknown observer '{entry.observer}' in observability matrix"
                found.append((("matrix", index, "observer"), message))
            if entry.target != GLOBAL and entry.target not in agents:
                message = f"Unknown target '{entry.target}' in observability matrix"
                found.append((("matrix", index, "target"), message))
        variables = {*context.get("agent_var_names", ()), *context.get("global_var_names", ())}
        for which in _LISTS:
            for index, name in enumerate(getattr(self.variable_visibility, which)):
                if name not in variables:
                    place = ("variable_visibility", which, index)
                    found.append((place, f"Unknown variable '{name}' in {which} list of variable visibility"))
        return found

    def _repeated(self) -> list[tuple[tuple[str | int, ...], str]]:
        found: list[tuple[tuple[str | int, ...], str]] = []
        first: dict[tuple[str, str], int] = {}
        for index, entry in enumerate(self.matrix):
            before = first.setdefault((entry.observer, entry.target), index)
            if before != index:
                message = (
                    f"Duplicate entry for observer '{entry.observer}' and target '{entry.target}' in observability "
                    f"matrix: entry {before} has it already"
                )
                found.append((("matrix", index), message))
        return found

    def model_copy(self, *, update: Mapping[str, Any] | None = None, deep: bool = False) -> Self:
        """Return a copy, as Pydantic does; cached values are not copied."""
        copy = super().model_copy(update=update, deep=deep)
        for name in ("rows", "internal"):
            copy.__dict__.pop(name, None)
        return copy

    @cached_property
    def rows(self) -> Mapping[str, Mapping[str, Sight]]:
        """The matrix as observer -> target -> how the target is seen."""
        found: dict[str, dict[str, Sight]] = {}
        for entry in self.matrix:
            found.setdefault(entry.observer, {})[entry.target] = entry.sight
        return found

    @cached_property
    def internal(self) -> frozenset[str]:
        """The private variables."""
        return frozenset(self.variable_visibility.internal)

    @property
    def usual(self) -> Sight:
        """How an observer without an entry for a target sees it."""
        return self.default.level, self.default.noise
