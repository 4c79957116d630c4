"""Extras that more than one part of the program needs: imports that say what to install where they fail."""

from __future__ import annotations

from contextlib import AbstractContextManager
from typing import Final

from worldledger.errors import ExtraMissingError

#: What `worldledger.llm` needs of the extra ``llm``: packages by their modules.
_LLM_PACKAGES: Final = {"jsonschema_rs": "jsonschema-rs", "limits": "limits"}


def llm_needed() -> AbstractContextManager[None]:
    """Wrap imports of `worldledger.llm`. Raises ExtraMissingError where what it needs is not installed."""
    return ExtraMissingError.where_missing(_LLM_PACKAGES, "llm")
