"""Errors of questions in SQL: queries that are refused, and those that take too long."""

from __future__ import annotations

from typing import Any, ClassVar

from worldledger.errors.base import RecoveryAction, SimulationError


class QueryRefusedError(SimulationError):
    """A query that cannot be run; details: ``sqlstate``, ``position``, ``line``, ``column``, ``hint``, ``parameter``.

    ``position`` is the character of the query, from 1 on, at which it goes wrong; ``line`` and ``column`` say the same.
    They are there where the database tells, and ``parameter`` where it is a parameter's value that goes wrong.
    """

    code: ClassVar[str] = "query_refused"
    recovery = RecoveryAction.MODIFY_INTENT


class QueryTimeoutError(SimulationError):
    """A query that did not end in the time that it had; details: ``timeout_s``."""

    code: ClassVar[str] = "query_timeout"
    recovery = RecoveryAction.MODIFY_INTENT

    def __init__(self, timeout_s: float, message: str = "") -> None:
        what = (
            f"the query was stopped after {timeout_s:g} s: ask for less (one world, one experiment), or allow more time"
        )
        super().__init__(message or what, timeout_s=timeout_s)


class UnknownQueryError(SimulationError):
    """There is no named query of this name; details: ``name``, ``known``."""

    code: ClassVar[str] = "unknown_query"

    def __init__(self, name: str, known: list[str], **details: Any) -> None:
        super().__init__(f"there is no query {name!r}; there are {', '.join(known)}", name=name, known=known, **details)
