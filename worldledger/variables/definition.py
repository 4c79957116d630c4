"""The definition of one state variable.

Source: docs/reference/simulation-config.md, "Fields".
"""

from __future__ import annotations

import math
from collections.abc import Callable, Hashable, Iterator, Mapping
from functools import lru_cache
from types import MappingProxyType
from typing import Annotated, Any, ClassVar, Final, Literal, Protocol, TypeVar

import orjson
from pydantic import (
    BaseModel,
    ConfigDict,
    Field,
    GetPydanticSchema,
    PrivateAttr,
    SerializerFunctionWrapHandler,
    StringConstraints,
    TypeAdapter,
    ValidationError,
    create_model,
    model_serializer,
    model_validator,
)
from pydantic_core import CoreSchema, PydanticCustomError, core_schema

from worldledger.canonical import MAX_INT
from worldledger.errors import Path, Problem, dotted, told
from worldledger.variables.limits import MAX_CHARACTERS, MAX_ITEMS, TypeName
from worldledger.variables.patterns import translate
from worldledger.variables.rules import Rules, plain, refuse_cycles, whole

# -- Pydantic's errors about values, in this project's words ----------------------------------------------
#
# Source: docs/reference/contracts.md, "Variables".


#: Pydantic's names of Python types -> the names in JSON and YAML.
_TEXTS = {
    "dict_type": "Input should be a mapping of keys to values",
    "model_type": "Input should be a mapping of fields to values",
    "model_attributes_type": "Input should be a mapping of fields to values",
    "tuple_type": "Input should be a list, with one value per element",
}


def loc_to_dot_notation(loc: tuple[str | int, ...]) -> str:
    """Write ``("agents", "Trader_1", "inventory", "food")`` as ``agents[Trader_1].inventory.food``."""
    return dotted(loc)


def format_validation_error(error: ValidationError, prefix: tuple[str | int, ...] = ()) -> str:
    """Write a validation error as text, one line a problem: ``PATH: MESSAGE``.

    If a collection or a string exceeds its size, its field is named once more at the end. ``prefix`` is the path of the
    value that was checked.
    """
    return format_problems(problems_of(error, prefix))


def format_problems(problems: list[tuple[Path, str]]) -> str:
    """Write problems as `format_validation_error` does."""
    return "\n".join(told(Problem(path, message)) for path, message in problems)


def problems_of(error: ValidationError, prefix: Path = ()) -> list[tuple[Path, str]]:
    """Return the path and the message of each problem."""
    return [_problem(found, prefix) for found in error.errors(include_url=False)]


def _problem(found: Mapping[str, Any], prefix: Path) -> tuple[Path, str]:
    path: Path = (*prefix, *found["loc"])
    context = found.get("ctx", {})
    value = found["input"]
    message = _TEXTS.get(found["type"], found["msg"])
    match found["type"]:
        case "too_long" if context["field_type"] == "Tuple":
            message = f"Tuple should have {context['max_length']} elements (got {context['actual_length']})"
        case "too_long":
            kind = "Dict" if context["field_type"] == "Dictionary" else context["field_type"]
            count = context["actual_length"] or _length(value)
            message = f"{kind} exceeds maximum size of {context['max_length']} items (got {count} items)"
        case "string_too_long":
            most = context["max_length"]
            message = f"String exceeds maximum length of {most} characters (got {_length(value)} characters)"
        case "missing" if isinstance(path[-1], int):
            message = "Tuple is too short: this element is missing"
    if path and path[-1] == "[key]":
        path = path[:-1]
        message = f"the key {path[-1]!r}: {message}" if found["type"] != "whole_key" else message
    return path, message


def _length(value: Any) -> int | str:
    return len(value) if hasattr(value, "__len__") else "more"


# -- making a model's class from fields of any name ----------------------------------------------------------------


class ObjectState(BaseModel):
    """Values of named fields: the base of every model that is made from definitions.

    Dumps are by the variables' names. A name that Pydantic's class has as well (``copy``, ``json``, ``schema``)
    belongs to the variable; only Pydantic's own interface, the names ``model_…`` that it has, stays what it is, and
    such a variable is read by `values_of`.
    """

    model_config = ConfigDict(
        extra="forbid",
        cache_strings="keys",
        protected_namespaces=(),
        serialize_by_alias=True,
        allow_inf_nan=False,
        # A value that is not finite is to be refused when it is read again, not to become null.
        ser_json_inf_nan="constants",
    )

    #: The definitions that the class was made from.
    __variables__: ClassVar[Mapping[str, VariableDefinition]] = MappingProxyType({})
    #: Variables whose attribute has another name.
    __renamed__: ClassVar[Mapping[str, str]] = MappingProxyType({})


_Base = TypeVar("_Base", bound=ObjectState)


def make_class(
    name: str,
    base: type[_Base],
    variables: Mapping[str, VariableDefinition],
    fields: Mapping[str, tuple[Any, Mapping[str, Any]]],
) -> type[_Base]:
    """Make a model's class: ``fields`` has each field's type, and its default as arguments of Pydantic's Field."""
    renamed = {field: _free(field, fields) for field in fields if hasattr(ObjectState, field)}
    namespace: dict[str, Any] = {
        "__module__": __name__,
        "__variables__": MappingProxyType(dict(variables)),
        "__renamed__": MappingProxyType(renamed),
    }
    for field, attribute in renamed.items():
        if not field.startswith("model_"):
            namespace[field] = _forwarding(attribute)
    named = type(name, (base,), namespace)
    made: dict[str, Any] = {}
    for field, (annotation, default) in fields.items():
        if field in renamed:
            made[renamed[field]] = (annotation, Field(alias=field, **default))
        else:
            made[field] = (annotation, Field(**default))
    return create_model(name, __base__=named, __module__=__name__, **made)


def values_of(state: ObjectState) -> dict[str, Any]:
    """Return the values of a model by the names of its variables, as Python has them; nested models stay models."""
    if not state.__renamed__:
        return dict(state.__dict__)
    names = {attribute: name for name, attribute in state.__renamed__.items()}
    return {names.get(attribute, attribute): value for attribute, value in state.__dict__.items()}


def _free(field: str, fields: Mapping[str, Any]) -> str:
    attribute = f"{field}_"
    while attribute in fields or hasattr(ObjectState, attribute):
        attribute += "_"
    return attribute


def _forwarding(attribute: str) -> property:
    def read(self: ObjectState) -> Any:
        return self.__dict__[attribute]

    def write(self: ObjectState, value: Any) -> None:
        self.__dict__[attribute] = value

    return property(read, write)


# -- caches by a schema's hash, bounded in number and in size -----------------------------------------------------

#: Most bytes of a schema's text of usual size. A model takes about a hundred times as much memory.
USUAL: Final = 16 * 1024
#: Number of cached results of larger ones.
FEW: Final = 8


class Sized(Hashable, Protocol):
    """The key of a cached result."""

    @property
    def size(self) -> int:
        """The number of bytes of its text."""


_Subject = TypeVar("_Subject", bound=Sized)
_Result = TypeVar("_Result")


def kept(number: int) -> Callable[[Callable[[_Subject], _Result]], Callable[[_Subject], _Result]]:
    """Cache the last ``number`` results of a function of one definition or schema, and a few large ones."""

    def decorate(function: Callable[[_Subject], _Result]) -> Callable[[_Subject], _Result]:
        usual, large = lru_cache(number)(function), lru_cache(FEW)(function)

        def call(subject: _Subject) -> _Result:
            return (usual if subject.size <= USUAL else large)(subject)

        call.__doc__ = function.__doc__
        return call

    return decorate


# -- the types that Pydantic checks: native constraints only, so that checking is fast ----------------------------

#: A whole number as a JSON key. "01", "+1" and "-0" would be other keys for the same number.
_KEY_PATTERN: Final = r"\A(?:0|-?[1-9][0-9]{0,15})\z"


def _key_schema() -> CoreSchema:
    number = core_schema.int_schema(ge=-MAX_INT, le=MAX_INT)
    return core_schema.union_schema(
        [
            core_schema.chain_schema([core_schema.str_schema(pattern=_KEY_PATTERN, strict=True), number]),
            core_schema.int_schema(ge=-MAX_INT, le=MAX_INT, strict=True),
        ],
        mode="left_to_right",
        custom_error_type="whole_key",
        custom_error_message="A key should be a whole number, such as 12, within ±(2^53-1)",
    )


_INT_KEY: Final[Any] = Annotated[int, GetPydanticSchema(lambda _source, _handler: _key_schema())]

#: The element types that are given by a bare name, without bounds.
_BARE: Final[dict[str, Any]] = {
    "float": Annotated[float, Field(allow_inf_nan=False)],
    "int": Annotated[int, Field(ge=-MAX_INT, le=MAX_INT)],
    "bool": bool,
    "str": Annotated[str, StringConstraints(max_length=MAX_CHARACTERS)],
}


def is_nullable(definition: VariableDefinition, *, element: bool = False) -> bool:
    """Return whether null is a value: its default is null, or it is a string with no default (as no element is)."""
    if definition.has_default:
        return definition.default is None
    return definition.type == "str" and not element


def annotation_of(definition: VariableDefinition, *, element: bool = False) -> Any:
    """Return the type of a variable's or a field's values, or of an element's."""
    found = _annotation(definition)
    return found | None if is_nullable(definition, element=element) else found


def _annotation(definition: VariableDefinition) -> Any:
    found: Any = bool
    match definition.type:
        case "float":
            found = Annotated[float, Field(ge=definition.min, le=definition.max, allow_inf_nan=False)]
        case "int":
            low, high = (
                whole(-math.inf if definition.min is None else definition.min, math.inf)[0],
                whole(-math.inf, math.inf if definition.max is None else definition.max)[1],
            )
            found = Annotated[int, Field(ge=low, le=high)]
        case "categorical":
            found = Literal[definition.values]
        case "str":
            found = _string(definition)
        case "dict" if definition.schema_ is None:
            key = str if definition.key_type == "str" else _INT_KEY
            held: Any = dict.__class_getitem__((key, _annotated_element(definition.value_type)))
            found = Annotated[held, Field(max_length=MAX_ITEMS)]
        case "list":
            most = definition.max_length or MAX_ITEMS
            found = Annotated[list[_annotated_element(definition.item_type)], Field(max_length=most)]  # type: ignore[misc]
        case "tuple":
            found = tuple[*map(_annotated_element, definition.item_types or ())]  # type: ignore[misc]
        case "dict" | "object":
            found = nested_model(definition)
    return found


def _annotated_element(element: Any) -> Any:
    return _BARE[element] if isinstance(element, str) else annotation_of(element, element=True)


def _string(definition: VariableDefinition) -> Any:
    most = definition.max_length or MAX_CHARACTERS
    pattern = definition.pattern
    if pattern is None:
        return Annotated[str, StringConstraints(max_length=most)]
    # The error names the pattern as it was written, not its translation.
    matching = core_schema.custom_error_schema(
        core_schema.str_schema(pattern=translate(pattern)),
        custom_error_type="pattern",
        custom_error_message="String does not match the pattern '{pattern}'",
        custom_error_context={"pattern": pattern},
    )
    schema = core_schema.chain_schema([core_schema.str_schema(max_length=most), matching])
    return Annotated[str, GetPydanticSchema(lambda _source, _handler: schema)]


@kept(256)
def nested_model(definition: VariableDefinition) -> type[ObjectState]:
    """Return the model of a dict with a schema, or of an object; cached, so that equal definitions share one.

    All fields are required except for those whose default is null.
    """
    fields = definition.schema_ or {}
    return make_class(
        "DynamicObjectState",
        ObjectState,
        fields,
        {
            name: (annotation_of(inner), {"default": None} if is_nullable(inner) else {})
            for name, inner in fields.items()
        },
    )


# -- defaults, given or composed, and whether they are of their type -----------------------------------------------

#: Stands for "no default".
_NONE: Any = object()


def default_of(definition: VariableDefinition) -> Any:
    """Return the value that a variable begins with, as a JSON value: a new one each time.

    Without a ``default`` of its own: ``{}`` for a dict with dynamic keys, ``[]`` for a list, null for a string, and for
    a type with a schema or a tuple the defaults of its parts. Raises KeyError if there is none: a value is required.
    """
    text = default_text(definition)
    if text is None:
        raise KeyError("default")
    return orjson.loads(text)


@kept(1024)
def default_text(definition: VariableDefinition) -> bytes | None:
    """Return the JSON text of the default, every value of its exact type; None if there is none."""
    found = _default(definition)
    if found is _NONE:
        return None
    adapter = adapter_of(definition)
    return json_text(adapter.dump_json(adapter.validate_python(found)))


def adapter_of(definition: VariableDefinition) -> TypeAdapter[Any]:
    """Return what checks the values of a variable."""
    return TypeAdapter(annotation_of(definition))


def json_text(text: bytes) -> bytes:
    """Return a JSON text without the number -0.0, which the log refuses: 0.0 takes its place."""
    return orjson.dumps(_unsigned(orjson.loads(text))) if b"-0.0" in text else text


def _unsigned(value: Any) -> Any:
    if isinstance(value, dict):
        return {name: _unsigned(item) for name, item in value.items()}
    if isinstance(value, list):
        return [_unsigned(item) for item in value]
    return 0.0 if type(value) is float and value == 0.0 and math.copysign(1.0, value) < 0 else value


def default_problems(definition: VariableDefinition, path: Path) -> list[Problem]:
    """Return what is wrong with the defaults in a definition, those of nested definitions too."""
    return [
        Problem((*where, "default", *inside), message)
        for where, inner in _nodes(definition, path)
        if inner.has_default and inner.default is not None
        for inside, message in _refused_value(inner)
    ]


@kept(1024)
def _refused_value(definition: VariableDefinition) -> tuple[tuple[Path, str], ...]:
    """Return what is wrong with a definition's own default."""
    try:
        adapter_of(definition).validate_python(_default(definition))
    except ValidationError as error:
        return tuple(problems_of(error))
    return ()


def _nodes(definition: VariableDefinition, path: Path) -> Iterator[tuple[Path, VariableDefinition]]:
    yield path, definition
    for name, inner in (definition.schema_ or {}).items():
        yield from _nodes(inner, (*path, "schema", name))
    for where, item in _elements(definition):
        if not isinstance(item, str):
            yield from _nodes(item, (*path, *where))


def _elements(definition: VariableDefinition) -> Iterator[tuple[Path, str | VariableDefinition]]:
    if definition.value_type is not None:
        yield ("value_type",), definition.value_type
    if definition.item_type is not None:
        yield ("item_type",), definition.item_type
    for index, inner in enumerate(definition.item_types or ()):
        yield ("item_types", index), inner


def _default(definition: VariableDefinition, *, element: bool = False) -> Any:
    """Return the default as given or composed; `_NONE` if there is none."""
    if definition.has_default:
        # An empty default of a dict with a schema means the defaults of its fields, if each has one.
        if definition.type != "dict" or definition.schema_ is None or definition.default != {}:
            return definition.default
        composed = _composed(definition)
        return {} if composed is _NONE else composed
    if is_nullable(definition, element=element):
        return None
    if definition.type == "list" or (definition.type == "dict" and definition.schema_ is None):
        return [] if definition.type == "list" else {}
    return _composed(definition)


def _composed(definition: VariableDefinition) -> Any:
    if definition.schema_ is not None:
        fields = {name: _default(inner) for name, inner in definition.schema_.items()}
        return _NONE if any(value is _NONE for value in fields.values()) else fields
    if definition.item_types is not None:
        items = [_NONE if isinstance(inner, str) else _default(inner, element=True) for inner in definition.item_types]
        return _NONE if any(value is _NONE for value in items) else items
    return _NONE


#: Everything but ``default``, whose null is a value.
_FIELDS = (
    "min",
    "max",
    "values",
    "key_type",
    "value_type",
    "item_type",
    "item_types",
    "pattern",
    "max_length",
)


class VariableDefinition(BaseModel):
    """Definition of a single state variable: its type, and what belongs to that type.

    ``schema_`` is called ``schema`` in YAML and JSON; both names are taken. Elements (``value_type``, ``item_type``,
    ``item_types``) are the bare name of a scalar type, or definitions. Making one checks every rule: ValidationError,
    with a line for each problem, or CircularSchemaError. Two definitions are equal if their `to_value` are.
    """

    model_config = ConfigDict(extra="forbid", frozen=True, validate_by_name=True, validate_by_alias=True)

    type: TypeName
    min: int | float | None = None
    max: int | float | None = None
    values: tuple[str, ...] | None = None
    default: Any = None
    key_type: Literal["str", "int"] | None = None
    value_type: str | VariableDefinition | None = None
    item_type: str | VariableDefinition | None = None
    item_types: tuple[str | VariableDefinition, ...] | None = None
    schema_: dict[str, VariableDefinition] | None = Field(default=None, alias="schema")
    pattern: str | None = None
    max_length: int | None = None

    _text: bytes | None = PrivateAttr(default=None)

    @model_validator(mode="before")
    @classmethod
    def _keep_the_rules(cls, data: Any) -> Any:
        if not isinstance(data, Mapping):
            return data
        if "schema_" in data and "schema" not in data:
            data = {"schema" if name == "schema_" else name: value for name, value in data.items()}
        refuse_cycles({"definition": data}, ())
        rules = Rules()
        normal = rules.variable(data, ())
        if normal is None:
            raise _refused([told(problem) for problem in rules.problems])
        return {"schema" if name == "schema_" else name: value for name, value in _fields(normal).items()}

    @model_validator(mode="after")
    def _keep_the_type(self) -> VariableDefinition:
        problems = default_problems(self, ())
        if problems:
            raise _refused([told(problem) for problem in problems])
        return self

    @model_serializer(mode="wrap")
    def _only_what_was_set(self, handler: SerializerFunctionWrapHandler) -> dict[str, Any]:
        dumped: dict[str, Any] = handler(self)
        return {
            "schema" if name == "schema_" else name: value
            for name, value in dumped.items()
            if (value is not None if name != "default" else self.has_default)
        }

    @property
    def has_default(self) -> bool:
        """True if a default was given, null included."""
        return "default" in self.model_fields_set

    def to_value(self) -> dict[str, Any]:
        """Return the definition as a plain JSON value with only what was set; it makes the same definition again."""
        value: dict[str, Any] = {"type": self.type}
        for name in _FIELDS:
            found = getattr(self, name)
            if found is not None:
                value[name] = _value(found)
        if self.schema_ is not None:
            value["schema"] = {name: inner.to_value() for name, inner in self.schema_.items()}
        if self.has_default:
            value["default"] = orjson.loads(orjson.dumps(self.default))
        return value

    @property
    def text(self) -> bytes:
        """The JSON text of `to_value`, which identifies a definition."""
        text = self._text
        if text is None:
            text = self._text = orjson.dumps(self.to_value(), option=orjson.OPT_SORT_KEYS)
        return text

    @property
    def size(self) -> int:
        """The number of bytes of the text."""
        return len(self.text)

    def __eq__(self, other: object) -> bool:
        return self.text == other.text if isinstance(other, VariableDefinition) else NotImplemented

    def __copy__(self) -> VariableDefinition:
        copied = super().__copy__()
        copied._text = None  # noqa: SLF001 - a copy may be given other fields
        return copied

    def __hash__(self) -> int:
        return self.text.__hash__()


def definition_of(normal: Mapping[str, Any]) -> VariableDefinition:
    """Make a definition from the normal form that `Rules` returned, without checking it again."""
    fields = _fields(normal)
    return VariableDefinition.model_construct(set(fields), **fields)


def read(raw: Any, path: tuple[str | int, ...], rules: Rules) -> VariableDefinition | None:
    """Read the definition of a variable and its defaults; problems are added to those of the rules."""
    normal = rules.variable(plain(raw), path)
    if normal is None:
        return None
    definition = definition_of(normal)
    problems = default_problems(definition, path)
    rules.problems += problems
    return None if problems else definition


def _fields(normal: Mapping[str, Any]) -> dict[str, Any]:
    """Return the arguments of a definition: nested normal forms as definitions, ``schema`` under its Python name."""
    fields: dict[str, Any] = {}
    for name, value in normal.items():
        match name:
            case "schema":
                fields["schema_"] = {field: definition_of(inner) for field, inner in value.items()}
            case "item_types":
                fields[name] = tuple(map(_element, value))
            case "value_type" | "item_type":
                fields[name] = _element(value)
            case "values":
                fields[name] = tuple(value)
            case _:
                fields[name] = value
    return fields


def _element(value: Any) -> Any:
    return value if isinstance(value, str) else definition_of(value)


def _value(found: Any) -> Any:
    if isinstance(found, VariableDefinition):
        return found.to_value()
    return [_value(item) for item in found] if isinstance(found, tuple) else found


def _refused(lines: list[str]) -> PydanticCustomError:
    return PydanticCustomError("invalid_definition", "{problems}", {"problems": "\n".join(lines)})
