"""The cases of a table: each is tried, and each that fails is named."""

from __future__ import annotations

import pytest

from tests.cases import cases


def test_every_case_is_tried_and_each_that_fails_is_named() -> None:
    """A failure does not keep the other cases from being tried; a single one comes out as it is."""
    tried: list[int] = []

    @cases("number, limit", [(1, 5), (9, 5), (2, 5), pytest.param(7, 5, id="seven"), (3, 2)])
    def check(number: int, limit: int) -> None:
        tried.append(number)
        assert number <= limit

    with pytest.raises(BaseExceptionGroup, match="3 of 5 cases") as caught:
        check()
    assert tried == [1, 9, 2, 7, 3]
    notes = [error.__notes__ for error in caught.value.exceptions]
    assert notes == [
        ["in the case number = 9, limit = 5"],
        ["in the case seven"],
        ["in the case number = 3, limit = 2"],
    ]


@cases("number", range(3))
@cases("other", "ab", ids=str)
async def test_cases_cross_and_may_wait(number: int, other: str) -> None:
    """Tables that stand upon each other are tried with each other; what waits is awaited."""
    if (number, other) == (2, "b"):
        with pytest.raises(ValueError, match="no") as caught:
            await _fails()
        assert caught.value.__notes__ == ["in the case x"]


@cases("_number", [0], ids=["x"])
async def _fails(_number: int) -> None:
    raise ValueError("no")
