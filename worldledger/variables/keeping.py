"""Keeping what was made of a schema, by the schema's hash, within bounds of number and of size.

Source: docs/reference/contracts.md, "Variables".
"""

from __future__ import annotations

from collections.abc import Callable, Hashable
from functools import lru_cache
from typing import Final, Protocol, TypeVar

#: Most bytes of a schema's text that count as usual. A model takes about a hundred times as much memory.
USUAL: Final = 16 * 1024
#: How many results of larger ones are kept.
FEW: Final = 8


class Sized(Hashable, Protocol):
    """What results are kept by."""

    @property
    def size(self) -> int:
        """The number of bytes of its text."""


_Subject = TypeVar("_Subject", bound=Sized)
_Result = TypeVar("_Result")


def kept(number: int) -> Callable[[Callable[[_Subject], _Result]], Callable[[_Subject], _Result]]:
    """Keep the last ``number`` results of a function of one definition or schema, and a few of unusually large ones."""

    def decorate(function: Callable[[_Subject], _Result]) -> Callable[[_Subject], _Result]:
        usual, large = lru_cache(number)(function), lru_cache(FEW)(function)

        def call(subject: _Subject) -> _Result:
            return (usual if subject.size <= USUAL else large)(subject)

        call.__doc__ = function.__doc__
        return call

    return decorate
