"""What a report says of language models: their generations, what those used, and what was cut off."""

from __future__ import annotations

import pytest

from .conftest import ODD
from .helpers import numbers, page_of, read

pytestmark = pytest.mark.group("report")


def test_what_models_have_used(ledger: str) -> None:
    """Tokens, times and prices are added up by model, and how many tokens were made for nothing is told apart."""
    report = read(ledger, "talk")
    (row,) = numbers(report)["models"]
    assert row == {
        "model": ODD,
        "generations": 2,
        "interrupted": 1,
        "failed": 0,
        "first_token_s": 0.1,
        "took_s": 1.0,
        "tokens_in": 200,
        "tokens_out": 30,
        "tokens_lost": 20,
        "price": 0.5,
        "currency": "EUR",
        "uncounted": 0,
    }
    assert page_of(report).table("Generations by model")[0][0] == ODD


def test_an_experiment_without_models_has_no_such_section(ledger: str) -> None:
    """There is nothing to say of them."""
    assert "models" not in numbers(read(ledger, "empty"))
