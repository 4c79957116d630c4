"""JSON Schemas (2020-12) of what people write as files, to be served: what they are made of, and all there are.

They are made from the models that read those files, and completed where the rules of reading say more. What a schema
refuses is refused when it is read; not the other way round: names that must exist, depths, patterns and whether a
default is of its type are beyond a schema.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import cache
from typing import Any, Final, NamedTuple

from worldledger.kinds import parts

_DIALECT: Final = "https://json-schema.org/draft/2020-12/schema"
#: The beginning of the `$id` of a schema.
ID_PREFIX: Final = "urn:worldledger:schema:"


class Published(NamedTuple):
    """A schema that is served: its title, and what makes it."""

    title: str
    make: Callable[[], dict[str, Any]]


@cache
def published() -> Mapping[str, Published]:
    """Return the schemas of all installed kinds, by name."""
    found = {name: schema for of_kind in parts("schemas").values() for name, schema in of_kind.items()}
    return dict(sorted(found.items()))


def document(name: str, title: str, schema: dict[str, Any], definitions: dict[str, Any]) -> dict[str, Any]:
    """Return a whole schema, from one made by Pydantic or by hand and what it refers to."""
    head = {"$schema": _DIALECT, "$id": ID_PREFIX + name, "title": title}
    whole: dict[str, Any] = _plain({**schema, "$defs": dict(sorted(definitions.items()))})
    return head | whole


def _plain(value: Any) -> Any:
    """Leave out the titles that Pydantic makes of names, and defaults of null; write descriptions as Markdown."""
    if isinstance(value, dict):
        return {name: _plain(item) for name, item in value.items() if not _is_noise(name, item)}
    if isinstance(value, list):
        return [_plain(item) for item in value]
    if isinstance(value, str):
        return "\n\n".join(paragraph.replace("\n", " ").replace("``", "`") for paragraph in value.split("\n\n"))
    return value


def _is_noise(name: str, item: Any) -> bool:
    return (name == "title" and isinstance(item, str)) or (name == "default" and item is None)
