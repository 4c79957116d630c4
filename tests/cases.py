"""Tests of a table of cases: one test however many cases there are, each of which is tried, and named if it fails.

A case as an item of its own (`pytest.mark.parametrize`) costs more than what most cases of the rules take.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from functools import wraps
from typing import Any

import pytest
from _pytest.mark import ParameterSet

_Test = Callable[..., Any]


def cases(
    names: str, values: Iterable[Any], *, ids: Iterable[Any] | Callable[[Any], Any] | None = None
) -> Callable[[_Test], Callable[..., Any]]:
    """Try a test with each case, whose values have these names, as `pytest.mark.parametrize` would; fail at the end."""
    words = [name.strip() for name in names.split(",")]
    sets = [ParameterSet.extract_from(value, force_tuple=len(words) == 1) for value in values]
    rows = [dict(zip(words, each.values, strict=True)) for each in sets]
    assert rows
    assert not any(each.marks for each in sets), "a case is no test that could be marked"

    given_ids = ids if callable(ids) or ids is None else list(ids)

    def name_of(number: int) -> str:
        given = rows[number]
        if sets[number].id is not None:
            return str(sets[number].id)
        if callable(given_ids):
            return " ".join(str(given_ids(value)) for value in given.values())
        if given_ids is not None:
            return str(given_ids[number])
        return ", ".join(f"{word} = {value!r:.300}" for word, value in given.items())

    def decorate(test: _Test) -> Callable[..., Any]:
        errors: list[BaseException] = []

        @contextmanager
        def case(number: int) -> Iterator[None]:
            try:
                yield
            except (Exception, pytest.fail.Exception) as error:  # noqa: BLE001 - raised again, all of them
                error.add_note(f"in the case {name_of(number)}")
                errors.append(error)

        def judge() -> None:
            failed = errors.copy()
            errors.clear()
            if len(failed) == 1:
                raise failed[0]
            if failed:
                raise BaseExceptionGroup(f"{len(failed)} of {len(rows)} cases", failed)

        @wraps(test)
        def check(**fixtures: Any) -> None:
            for number, row in enumerate(rows):
                with case(number):
                    test(**fixtures, **row)
            judge()

        @wraps(test)
        async def check_async(**fixtures: Any) -> None:
            for number, row in enumerate(rows):
                with case(number):
                    await test(**fixtures, **row)
            judge()

        made: Any = check_async if inspect.iscoroutinefunction(test) else check
        signature = inspect.signature(test)
        left = [parameter for parameter in signature.parameters.values() if parameter.name not in words]
        made.__signature__ = signature.replace(parameters=left)
        decorated: Callable[..., Any] = made
        return decorated

    return decorate
