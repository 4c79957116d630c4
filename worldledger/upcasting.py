"""Upcasters: reading effects that were written under an older schema_version of their payload.

An upcaster is a pure function from the payload of one version to that of a later one. Upcasters of a kind are chained
until none fits. The stored bytes are never changed: what is hashed, exported and served stays as it was written; only
folds and projections see the new payload.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Any, NamedTuple

from worldledger.effects import Effect


class Upcaster(NamedTuple):
    """One step for one kind: from a payload of ``from_version`` to one of ``to_version``.

    ``upcast`` takes the payload and returns the new one; it may change its argument, but nothing else, and must be
    deterministic.
    """

    kind: str
    from_version: str
    to_version: str
    upcast: Callable[[dict[str, Any]], dict[str, Any]]


class Upcasters:
    """All upcasters of a ruleset, chained."""

    def __init__(self, upcasters: Iterable[Upcaster]) -> None:
        """Raise ValueError for two upcasters of one kind and version, and for a cycle."""
        self._steps: dict[str, dict[str, Upcaster]] = {}
        for upcaster in upcasters:
            steps = self._steps.setdefault(upcaster.kind, {})
            if upcaster.from_version in steps:
                raise ValueError(f"two upcasters for {upcaster.kind} {upcaster.from_version}")
            steps[upcaster.from_version] = upcaster
        for kind, steps in self._steps.items():
            for start in steps:
                _check_chain(kind, steps, start)

    @property
    def kinds(self) -> frozenset[str]:
        """The kinds that have upcasters."""
        return frozenset(self._steps)

    def apply(self, effect: Effect) -> Effect:
        """Return the effect in its newest version: itself if no upcaster fits."""
        steps = self._steps.get(effect["kind"])
        if steps is None or effect["schema_version"] not in steps:
            return effect
        version, payload = effect["schema_version"], effect["payload"]
        while version in steps:
            step = steps[version]
            version, payload = step.to_version, step.upcast(payload)
        return {**effect, "schema_version": version, "payload": payload}


def _check_chain(kind: str, steps: Mapping[str, Upcaster], start: str) -> None:
    seen = {start}
    version = start
    while version in steps:
        version = steps[version].to_version
        if version in seen:
            raise ValueError(f"the upcasters of {kind} go in a circle at version {version}")
        seen.add(version)
