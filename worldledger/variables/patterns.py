"""Patterns of strings: Python's syntax, the linear-time engine of Pydantic, and nothing that the two see differently.

A pattern is written as for Python's `re` and has to match a string as a whole, as `re.fullmatch` does. It is run by
the regular expressions of Rust, whose time grows linearly with the string's length: no pattern can be made to take
exponential time. `translate` writes a pattern anew in their syntax, so that each accepts the same strings; what has no
counterpart there (look-around, back-references, …) is refused.

Source: docs/reference/simulation-config.md, "Patterns": Python `re` syntax, full string match.
"""

from __future__ import annotations

import re
from functools import lru_cache

from pydantic_core import SchemaError, SchemaValidator, core_schema

from worldledger.variables.limits import MAX_PATTERN, MAX_PATTERN_COST
from worldledger.variables.pattern_parser import TOO_LARGE, PatternError, PatternParser

__all__ = ["PatternError", "translate"]


@lru_cache(maxsize=1024)
def translate(pattern: str) -> str:
    """Return the pattern that matches, in Pydantic's engine, the strings that ``re.fullmatch(pattern, …)`` matches.

    Raises PatternError with the reason for one that Python does not compile, that is too large, or that uses what the
    engine does not have.
    """
    if len(pattern) > MAX_PATTERN:
        raise PatternError(f"a pattern has at most {MAX_PATTERN} characters (got {len(pattern)})")
    piece = PatternParser(pattern).whole()
    if piece.cost > MAX_PATTERN_COST:
        raise PatternError(TOO_LARGE)
    try:
        re.compile(pattern)
    except (re.error, RecursionError, OverflowError) as error:
        raise PatternError(f"no regular expression of Python's: {error}") from None
    text = rf"\A(?:{piece.text})\z"
    try:
        SchemaValidator(core_schema.str_schema(pattern=text))
    except SchemaError:
        raise PatternError("the pattern is too large, or not one that the linear-time engine has") from None
    return text
