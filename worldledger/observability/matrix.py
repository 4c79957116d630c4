"""The matrix: how an observer sees a target.

Source: docs/reference/contracts.md, "Observability".
"""

from __future__ import annotations

from worldledger.observability.config import EVERYTHING, ObservabilityConfig, ObservabilityLevel


class ObservabilityMatrix:
    """Looks up how observers see targets; they see everything where there is no config, or it is not enabled."""

    __slots__ = ("_default", "_rows")

    def __init__(self, config: ObservabilityConfig | None) -> None:
        enabled = config is not None and config.enabled
        self._rows = config.rows if config is not None and enabled else {}
        self._default = config.usual if config is not None and enabled else EVERYTHING

    def get_observability(self, observer: str, target: str) -> tuple[ObservabilityLevel, float]:
        """Return the level and the noise of a pair: its entry's, or the default's."""
        return self._rows.get(observer, {}).get(target, self._default)
