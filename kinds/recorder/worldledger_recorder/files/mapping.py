"""The mapping of a table: which columns of a file of records become what of the effects of a world.

Source: docs/reference/mapping.md. A mapping is written as YAML, all of whose scalars are read as they stand: a column
may be called ``no`` or ``12:30``. It is part of the configuration of each world that is made with it, so that the same
file, grown, can be imported again.
"""

from __future__ import annotations

import re
from collections.abc import Hashable, Sequence
from typing import Annotated, Any, Final, Literal, TypeAlias
from zoneinfo import ZoneInfo

import yaml
from pydantic import BaseModel, BeforeValidator, ConfigDict, Field, ValidationError, field_validator, model_validator

from worldledger.drafts import MAX_WORD
from worldledger.errors import FileRefusedError, InvalidDefinitionError, Problem
from worldledger.moments import UnreadableMomentError, parse_wall_time
from worldledger.near import meant, near

#: Most bytes of a mapping's file.
MAX_BYTES: Final = 1024 * 1024

#: Units in which a column of times counts, with the number of them in a second; ``iso`` are ISO 8601 texts.
UNITS: Final[dict[str, float]] = {
    "s": 1.0, "ms": 1e3, "us": 1e6, "ns": 1e9, "min": 1 / 60, "h": 1 / 3600, "d": 1 / 86_400,
}  # fmt: skip
ISO: Final = "iso"

Unit: TypeAlias = Literal["s", "ms", "us", "ns", "min", "h", "d", "iso"]
#: What the text of a cell is read as.
Type: TypeAlias = Literal["text", "integer", "number", "boolean", "json"]

Name: TypeAlias = Annotated[str, Field(min_length=1)]
Word: TypeAlias = Annotated[str, Field(min_length=1, max_length=MAX_WORD)]


def _column(value: Any) -> Any:
    """Read a bare text as the column of that name."""
    return {"column": value} if isinstance(value, str) else value


class _Part(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid")


class TimeColumn(_Part):
    """A column of times.

    - ``unit``: what it counts; ``iso`` for ISO 8601 texts, which may have no offset only if there is a ``zone``
    - ``zero``: the time at which the world's own time is 0: ``first``, that of the world's first row, or a value such
      as the column has
    - ``backwards``: a row whose time is before that of the row above (in the same world) is refused, or gets that time
    """

    column: Name
    unit: Unit = "s"
    zero: str | None = None
    zone: Name | None = None
    backwards: Literal["refuse", "hold"] = "refuse"

    @field_validator("zone")
    @classmethod
    def _exists(cls, value: str | None) -> str | None:
        if value is not None:
            try:
                ZoneInfo(value)
            except (ValueError, OSError, KeyError):  # KeyError: there is none of this name
                raise ValueError(f"there is no time zone {value!r}; a name is such as Europe/Berlin or UTC") from None
        return value

    @model_validator(mode="after")
    def _has_a_readable_zero(self) -> TimeColumn:
        if self.zero not in (None, "first"):
            try:
                parse_wall_time(self.zero) if self.unit == ISO else float(self.zero)
            except UnreadableMomentError as error:
                raise ValueError(f"zero: {error}") from None
            except ValueError:
                raise ValueError(f"zero is first, or a number as in the column, not {self.zero!r}") from None
        return self


class Named(_Part):
    """How an agent or a kind is named: by a column, with a default for rows where it is missing; or a constant."""

    column: Name | None = None
    default: Word | None = None
    constant: Word | None = None

    @model_validator(mode="after")
    def _is_one_of_both(self) -> Named:
        if (self.column is None) == (self.constant is None):
            raise ValueError("give a column, or a constant")
        if self.constant is not None and self.default is not None:
            raise ValueError("a constant needs no default")
        return self


class WorldColumn(_Part):
    """A column each of whose values is a world: called like the value, after a ``prefix``."""

    column: Name
    prefix: str = ""


class SeesColumn(_Part):
    """A column with the agents that see a row: a JSON list, or names with a separator between them."""

    column: Name
    separator: Name = ","


class Entity(_Part):
    """The state of an entity that rows tell: a column with its id, and the columns with its fields.

    ``fields`` is a list of columns, or an object from the name of a field to its column, or to several, whose values
    are a list then: ``position: [x, y]``.
    """

    id: Name
    fields: dict[Name, Name | list[Name]] = Field(min_length=1)

    @field_validator("fields", mode="before")
    @classmethod
    def _named_alike(cls, value: Any) -> Any:
        return {name: name for name in value} if isinstance(value, list) else value


class Payload(_Part):
    """What becomes of the other columns: members of the payload.

    - ``columns``: these columns; without it all that the mapping does not use otherwise, nor leave out
    - ``json``: a column with a JSON object, whose members are put into the payload
    - ``leave_out``: columns that are not kept
    """

    columns: list[Name] | None = None
    json_column: Name | None = Field(default=None, alias="json")
    leave_out: list[Name] = Field(default_factory=list)


class Csv(_Part):
    """How a CSV file is written."""

    delimiter: str = Field(default=",", min_length=1, max_length=1)
    encoding: str = "utf-8"

    @field_validator("encoding")
    @classmethod
    def _is_known(cls, value: str) -> str:
        try:
            "".encode(value)
        except (LookupError, ValueError):
            raise ValueError(f"there is no encoding {value!r}; one is such as utf-8, latin-1 or utf-16") from None
        return value


_OfColumn = BeforeValidator(_column)


class TableMapping(_Part):
    """A mapping. A bare text in place of an object with a ``column`` is that column's name.

    - ``world``, ``time``, ``step``, ``agent``, ``sees``: the columns with these; none where a file has none
    - ``kind``: the kind of a row's event; without it and with an ``entity``, rows are no events
    - ``entity``: state that rows set
    - ``payload``: what becomes of the other columns
    - ``types``: what the texts of columns are read as; without one a text stays a text
    - ``missing``: texts that stand for no value, in CSV by default the empty one; ``NaN`` also stands for the number
      that is none
    - ``csv``: how a CSV file is written
    """

    world: Annotated[WorldColumn, _OfColumn] | None = None
    time: Annotated[TimeColumn, _OfColumn] | None = None
    step: Name | None = None
    agent: Annotated[Named, _OfColumn] | None = None
    kind: Annotated[Named, _OfColumn] | None = None
    sees: Annotated[SeesColumn, _OfColumn] | None = None
    entity: Entity | None = None
    payload: Payload = Payload()
    types: dict[Name, Type] = Field(default_factory=dict)
    missing: list[str] | None = None
    csv: Csv = Csv()

    def places(self) -> list[tuple[tuple[str | int, ...], str]]:
        """Return each column that the mapping names, with the path at which it does."""
        found: list[tuple[tuple[str | int, ...], str | None]] = [
            *(((name, "column"), getattr(self, name) and getattr(self, name).column)
              for name in ("world", "time", "agent", "kind", "sees")),
            (("step",), self.step),
            *((("payload", "columns", index), name) for index, name in enumerate(self.payload.columns or ())),
            (("payload", "json"), self.payload.json_column),
            *((("payload", "leave_out", index), name) for index, name in enumerate(self.payload.leave_out)),
            *((("types", name), name) for name in self.types),
        ]  # fmt: skip
        if self.entity is not None:
            found.append((("entity", "id"), self.entity.id))
            for field, names in self.entity.fields.items():
                if isinstance(names, str):
                    found.append((("entity", "fields", field), names))
                else:
                    found += [(("entity", "fields", field, index), name) for index, name in enumerate(names)]
        return [(path, name) for path, name in found if name is not None]

    def used(self) -> frozenset[str]:
        """Return the columns that are no members of the payload, unless ``payload.columns`` names them."""
        return frozenset(name for path, name in self.places() if path[0] != "types" and path[:2] != _MEMBERS)

    def unknown(self, columns: Sequence[str]) -> list[Problem]:
        """Return a problem for each column that is named and is not among these."""
        known = set(columns)
        return [
            Problem(path, f"there is no column {name!r}{meant(near(name, columns)) or _listed(columns)}")
            for path, name in self.places()
            if name not in known
        ]

    def written(self) -> str:
        """Return the mapping as YAML."""
        return yaml.safe_dump(self.document(), sort_keys=False, allow_unicode=True, width=100)

    def document(self) -> dict[str, Any]:
        """Return the mapping as it is written: without what it does not say."""
        return self.model_dump(by_alias=True, exclude_defaults=True)


#: Where a mapping names the members of payloads.
_MEMBERS: Final = ("payload", "columns")


def _listed(columns: Sequence[str]) -> str:
    return f"; it has {', '.join(columns[:20])}{' …' if len(columns) > 20 else ''}"


class _Loader(yaml.BaseLoader):
    """Reads every scalar as a text, and no key twice."""

    def construct_mapping(self, node: yaml.MappingNode, deep: bool = False) -> dict[Hashable, Any]:
        keys: set[str] = set()
        for key, _ in node.value:
            if key.value in keys:
                raise yaml.constructor.ConstructorError(
                    None, None, f"the key {key.value!r} stands twice", key.start_mark
                )
            keys.add(key.value)
        return super().construct_mapping(node, deep)


def read_mapping(data: bytes, *, file: str) -> TableMapping:
    """Read a mapping. Raises FileRefusedError for what is no YAML, InvalidDefinitionError, which names the paths."""
    if len(data) > MAX_BYTES:
        raise FileRefusedError(f"a mapping has at most {MAX_BYTES} bytes", file=file)
    try:
        found = yaml.load(data, Loader=_Loader)  # noqa: S506 - it makes texts, lists and dicts only
    except yaml.MarkedYAMLError as error:
        mark = error.problem_mark
        raise FileRefusedError(
            error.problem or "not YAML", file=file, line=None if mark is None else mark.line + 1
        ) from None
    except (yaml.YAMLError, RecursionError) as error:
        raise FileRefusedError(f"not YAML ({error})", file=file) from None
    return mapping_of({} if found is None else found, file=file)


#: What is said of faults, by Pydantic's name for them.
_SAID: Final = {
    "extra_forbidden": "there is no such field",
    "missing": "it is missing",
    "model_type": "it is an object",
    "dict_type": "it is an object",
    "list_type": "it is a list",
    "string_type": "it is a text",
}


def mapping_of(value: Any, *, file: str | None = None) -> TableMapping:
    """Make a mapping of a value. Raises InvalidDefinitionError, which names the paths."""
    try:
        return TableMapping.model_validate(value)
    except ValidationError as error:
        problems = [
            Problem(
                tuple(part for part in each["loc"] if part != "[key]"),
                _SAID.get(each["type"]) or re.sub("^Value error, ", "", each["msg"]),
                file,
            )
            for each in error.errors(include_url=False, include_context=False)
        ]
        raise InvalidDefinitionError(problems) from None
