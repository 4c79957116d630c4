"""The types of variables, which fields belong to which, and every limit.

Source: docs/reference/contracts.md, "Variables".
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final, Literal, get_args

TypeName = Literal["float", "int", "bool", "categorical", "dict", "list", "tuple", "str", "object"]

TYPES: Final[tuple[str, ...]] = get_args(TypeName)
#: The names of the types in other programs.
OTHER_NAMES: Final[Mapping[str, TypeName]] = {
    **dict.fromkeys(("string", "text"), "str"),
    **dict.fromkeys(("integer", "long"), "int"),
    **dict.fromkeys(("number", "double", "real", "decimal"), "float"),
    "boolean": "bool",
    **dict.fromkeys(("enum", "category", "choice"), "categorical"),
    **dict.fromkeys(("array", "sequence", "set"), "list"),
    **dict.fromkeys(("map", "mapping", "dictionary"), "dict"),
    **dict.fromkeys(("struct", "record"), "object"),
}
#: The element types that may be given by a bare name: they need no field beside it.
BARE: Final = ("float", "int", "bool", "str")

#: The fields that may stand beside ``type`` and ``default``.
FIELDS: Final[Mapping[str, frozenset[str]]] = {
    "float": frozenset({"min", "max"}),
    "int": frozenset({"min", "max"}),
    "bool": frozenset(),
    "categorical": frozenset({"values"}),
    "dict": frozenset({"key_type", "value_type", "schema"}),
    "list": frozenset({"item_type", "max_length"}),
    "tuple": frozenset({"item_types"}),
    "str": frozenset({"pattern", "max_length"}),
    "object": frozenset({"schema"}),
}
KNOWN_FIELDS: Final = frozenset({"type", "default"}).union(*FIELDS.values())

#: Most levels of dict in dict, of list in list, and of all types that hold others.
MAX_DICTS: Final = 4
MAX_LISTS: Final = 3
MAX_LEVELS: Final = 10

#: Most items of a dict or a list, and the most that ``max_length`` of a list may say.
MAX_ITEMS: Final = 1000
#: Most characters of a string without ``max_length``, and the most that ``max_length`` may say.
MAX_CHARACTERS: Final = 10_000
LONGEST_STRING: Final = 1_000_000

MAX_NAME: Final = 200
#: Most characters of a pattern, most units of what it means with its repetitions written out, deepest nesting.
MAX_PATTERN: Final = 1000
MAX_PATTERN_COST: Final = 2000
MAX_PATTERN_DEPTH: Final = 50
#: Most definitions in one set of variables, every use of a shared one counted, and most values in its defaults.
MAX_NODES: Final = 10_000
MAX_DEFAULT_VALUES: Final = 100_000
#: Deepest nesting of a default that is checked; no definition is that deep.
MAX_DEFAULT_DEPTH: Final = 2 * MAX_LEVELS
