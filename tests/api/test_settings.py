"""Settings: each has bounds in which it means something."""

from __future__ import annotations

import math

import pytest
from pydantic import ValidationError
from worldledger_service.settings import Settings, refusal

_NUMBERS = {name: field.annotation for name, field in Settings.model_fields.items() if field.annotation in {int, float}}


def test_every_number_has_an_end(monkeypatch: pytest.MonkeyPatch, subtests: pytest.Subtests) -> None:
    """A number without bounds is refused by the name of its variable, and not taken for no limit at all."""
    assert len(_NUMBERS) > 25
    for name, kind in _NUMBERS.items():
        for text in [str(10**30), "-1", "nan", *(["inf", "1e400"] if kind is float else [])]:
            with subtests.test(name, text=text), monkeypatch.context() as patched:
                patched.setenv(f"WORLDLEDGER_{name.upper()}", text)
                with pytest.raises(ValidationError) as refused:
                    Settings()
                assert str(refusal(refused.value)).startswith(f"setting {name} (WORLDLEDGER_{name.upper()}): Input ")


def test_defaults_are_finite() -> None:
    """What nobody sets has an end, too."""
    assert all(math.isfinite(getattr(Settings(), name)) for name in _NUMBERS)
