"""Random definitions with values of theirs, and a judge of values that knows nothing of Pydantic."""

from __future__ import annotations

import math
from typing import Any

from hypothesis import strategies as st

MAX_INT = 2**53 - 1
NAMES = ("a", "gold", "copy", "copy_", "json", "schema", "model_dump", "model_x", "class", "größe", "fields")
#: No digits and no word that Pydantic takes for a bool or a number.
TEXT = st.text(alphabet="xyz äß€_", max_size=6)

Definition = dict[str, Any]


def _bounded(kind: str, numbers: st.SearchStrategy[Any]) -> st.SearchStrategy[Definition]:
    def build(low: Any, high: Any) -> Definition:
        if low is not None and high is not None and low > high:
            low, high = high, low
        bounds = {"min": low, "max": high}
        return {"type": kind, **{name: value for name, value in bounds.items() if value is not None}}

    return st.builds(build, st.none() | numbers, st.none() | numbers)


SCALARS: st.SearchStrategy[Definition] = st.one_of(
    _bounded("int", st.integers(-1000, 1000)),
    _bounded("float", st.integers(-1000, 1000) | st.floats(-1e6, 1e6).map(lambda value: value + 0.0)),
    st.just({"type": "bool"}),
    st.lists(TEXT.filter(bool), min_size=1, max_size=4, unique=True).map(
        lambda values: {"type": "categorical", "values": values}
    ),
    st.just({"type": "str"}),
    st.integers(1, 5).map(lambda most: {"type": "str", "max_length": most}),
    st.just({"type": "str", "pattern": "[xyz]{1,3}"}),
)
BARE = st.sampled_from(["int", "float", "bool", "str"])


@st.composite
def definitions(draw: st.DrawFn, levels: int = 4, lists: int = 3, dicts: int = 4) -> Definition:
    """Return a definition, nested at most ``levels`` deep, now and then with null for a default."""
    kinds = ["scalar"] * 2 + (["tuple", "object"] if levels else [])
    kinds += ["list"] * bool(levels and lists) + ["dict", "schema"] * bool(levels and dicts)
    kind = draw(st.sampled_from(kinds))
    made: Definition
    if kind == "scalar":
        made = dict(draw(SCALARS))
    else:
        inner = definitions(levels - 1, lists - (kind == "list"), dicts - (kind in {"dict", "schema"}))
        element = BARE | inner
        fields = st.dictionaries(st.sampled_from(NAMES), inner, min_size=1, max_size=3)
        match kind:
            case "tuple":
                made = {"type": "tuple", "item_types": draw(st.lists(element, min_size=1, max_size=3))}
            case "list":
                made = {"type": "list", "item_type": draw(element), "max_length": draw(st.integers(1, 4))}
            case "dict":
                key = draw(st.sampled_from(["str", "int"]))
                made = {"type": "dict", "key_type": key, "value_type": draw(element)}
            case _:
                made = {"type": "dict" if kind == "schema" else "object", "schema": draw(fields)}
    if draw(st.integers(0, 5)) == 0:
        made["default"] = None
    return made


VARIABLES = st.dictionaries(st.sampled_from(NAMES), definitions(), max_size=4)


def nullable(definition: Any, element: bool) -> bool:
    """Tell whether null is a value."""
    if isinstance(definition, str):
        return False
    if "default" in definition:
        return definition["default"] is None
    return definition["type"] == "str" and not element


def values(definition: Any, element: bool = False) -> st.SearchStrategy[Any]:
    """Return JSON values that a definition allows."""
    found = _values({"type": definition} if isinstance(definition, str) else definition)
    return st.none() | found if nullable(definition, element) else found


def _values(definition: Definition) -> st.SearchStrategy[Any]:
    low, high = definition.get("min"), definition.get("max")
    match definition["type"]:
        case "int":
            least = -MAX_INT if low is None else math.ceil(low)
            return st.integers(least, MAX_INT if high is None else math.floor(high))
        case "float":
            floats = st.floats(low, high, allow_nan=False, allow_infinity=False)
            return floats.map(lambda value: value + 0.0)
        case "bool":
            return st.booleans()
        case "categorical":
            return st.sampled_from(definition["values"])
        case "str" if "pattern" in definition:
            return st.text(alphabet="xyz", min_size=1, max_size=3)
        case "str":
            return st.text(max_size=definition.get("max_length", 8), alphabet=st.characters(codec="utf-8"))
        case "list":
            return st.lists(values(definition["item_type"], True), max_size=definition["max_length"])
        case "tuple":
            return st.tuples(*(values(item, True) for item in definition["item_types"])).map(list)
        case "dict" if "schema" not in definition:
            keys = TEXT if definition["key_type"] == "str" else st.integers(-MAX_INT, MAX_INT).map(str)
            return st.dictionaries(keys, values(definition["value_type"], True), max_size=3)
    return whole_objects(definition["schema"])


def whole_objects(schema: dict[str, Definition]) -> st.SearchStrategy[dict[str, Any]]:
    """Return objects with all fields; those that may be null are left out at times."""
    required = {name: values(inner) for name, inner in schema.items() if not nullable(inner, False)}
    optional = {name: values(inner) for name, inner in schema.items() if nullable(inner, False)}
    return st.fixed_dictionaries(required, optional=optional)


def allows(definition: Any, value: Any, element: bool = False) -> bool:
    """Judge a JSON value by the documented rules, with Pydantic's coercions between numbers and bools."""
    if value is None:
        return nullable(definition, element)
    if isinstance(definition, str):
        definition = {"type": definition}
    kind = definition["type"]
    match kind:
        case "int" | "float" | "bool":
            return _allows_number(definition, value)
        case "categorical":
            return isinstance(value, str) and value in definition["values"]
        case "str":
            fits = isinstance(value, str) and len(value) <= definition.get("max_length", 10_000)
            return fits and ("pattern" not in definition or (1 <= len(value) <= 3 and set(value) <= set("xyz")))
        case "list":
            fits = isinstance(value, list) and len(value) <= definition.get("max_length", 1000)
            return fits and all(allows(definition["item_type"], item, True) for item in value)
        case "tuple":
            types = definition["item_types"]
            fits = isinstance(value, list) and len(value) == len(types)
            return fits and all(allows(inner, item, True) for inner, item in zip(types, value, strict=True))
    if not isinstance(value, dict):
        return False
    if "schema" in definition:
        return allows_object(definition["schema"], value)
    if definition["key_type"] == "int" and not all(_is_whole(key) for key in value):
        return False
    return len(value) <= 1000 and all(allows(definition["value_type"], item, True) for item in value.values())


def allows_object(schema: dict[str, Definition], value: dict[str, Any]) -> bool:
    """Judge an object by its fields."""
    if not value.keys() <= schema.keys():
        return False
    missing = schema.keys() - value.keys()
    return all(nullable(schema[name], False) for name in missing) and all(
        allows(schema[name], item) for name, item in value.items()
    )


def _allows_number(definition: Definition, value: Any) -> bool:
    if not isinstance(value, int | float) or not math.isfinite(value):
        return False
    if definition["type"] == "bool":
        return value in {0, 1}
    if definition["type"] == "int" and not (float(value).is_integer() and abs(value) <= MAX_INT):
        return False
    return bool(definition.get("min", -math.inf) <= value <= definition.get("max", math.inf))


def _is_whole(key: str) -> bool:
    digits = key.removeprefix("-")
    if not (digits.isascii() and digits.isdigit()) or key == "-0" or (digits[0] == "0" and digits != "0"):
        return False
    return len(digits) <= 16 and abs(int(key)) <= MAX_INT
