"""Errors of social-RL runs: documents that are not as docs/reference/social-rl.md says."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, ClassVar, Final

from worldledger.errors import RecoveryAction, SimulationError

#: Most problems that one error tells of; the message says how many more there are.
MAX_PROBLEMS: Final = 1000
_IN_MESSAGE: Final = 20


class InvalidRunError(SimulationError, ValueError):
    """A round or a run of a social-RL experiment that is refused; details: ``problems``.

    Each problem has ``path`` (JSON path in the document), ``message`` and, where there is one, ``file``.
    """

    code: ClassVar[str] = "invalid_run"
    recovery = RecoveryAction.MODIFY_INTENT

    def __init__(self, problems: Iterable[Mapping[str, Any]], message: str | None = None) -> None:
        found = [dict(problem) for problem in problems]
        self.problems = found[:MAX_PROBLEMS]
        if message is None:
            lines = [_told(problem) for problem in found[:_IN_MESSAGE]]
            if len(found) > len(lines):
                lines.append(f"… and {len(found) - len(lines)} more")
            message = "\n".join(lines)
        super().__init__(message, problems=self.problems)


def _told(problem: Mapping[str, Any]) -> str:
    return ": ".join(str(problem[name]) for name in ("file", "path", "message") if problem.get(name) is not None)


#: What a client makes again of the answers of a service.
ERRORS: Final = (InvalidRunError,)
