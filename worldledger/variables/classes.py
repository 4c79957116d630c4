"""Making a model's class of fields whatever they are called."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, ClassVar, TypeVar

from pydantic import BaseModel, ConfigDict, Field, create_model

if TYPE_CHECKING:
    from worldledger.variables.definition import VariableDefinition


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
        # What is not finite is to be refused when it is read again, not to turn into null.
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
