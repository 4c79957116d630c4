"""Models of states by the names of their variables; a field may have another name to avoid a clash."""

from __future__ import annotations

from collections.abc import Mapping
from functools import lru_cache
from typing import Any, TypeVar, cast

from pydantic import BaseModel

_Model = TypeVar("_Model", bound=BaseModel)


@lru_cache(512)
def _renamed(cls: type[BaseModel]) -> Mapping[str, str]:
    """Return field -> variable for those whose names differ."""
    return {name: field.alias for name, field in cls.model_fields.items() if field.alias not in {None, name}}


@lru_cache(512)
def _attributes(cls: type[BaseModel]) -> Mapping[str, str]:
    """Return variable -> field for those whose names differ."""
    return {variable: field for field, variable in _renamed(cls).items()}


@lru_cache(512)
def _template(cls: type[BaseModel]) -> BaseModel:
    """Return a model to copy. `BaseModel.model_construct` will not do: it cannot take a variable called ``cls``."""
    made = cls.model_construct()
    made.__dict__.clear()
    made.__dict__.update(dict.fromkeys(cls.model_fields))
    return made


def values_of(model: BaseModel) -> dict[str, Any]:
    """Return the values of a model, by variable: not copies."""
    renamed = _renamed(type(model))
    values = model.__dict__
    return {renamed.get(name, name): value for name, value in values.items()} if renamed else values


def with_values(model: _Model, values: Mapping[str, Any]) -> _Model:
    """Return a model of the same class with exactly these values, by variable; they are not validated."""
    attributes = _attributes(type(model))
    update = {attributes.get(name, name): value for name, value in values.items()} if attributes else values
    return model.model_copy(update=update)


def made_of(cls: type[_Model], values: Mapping[str, Any]) -> _Model:
    """Make a model from the values of all its fields, by variable; they are not validated."""
    return with_values(cast(_Model, _template(cls)), values)


def copied(value: Any) -> Any:
    """Return a copy of a value of a state that shares nothing mutable with it."""
    kind = type(value)
    if kind is dict:
        return {name: copied(item) for name, item in value.items()}
    if kind is list:
        return [copied(item) for item in value]
    if kind is tuple:
        return tuple(copied(item) for item in value)
    if isinstance(value, BaseModel):
        return with_values(value, {name: copied(item) for name, item in values_of(value).items()})
    return value
