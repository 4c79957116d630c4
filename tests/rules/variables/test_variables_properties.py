"""Laws of definitions and of the models made from them."""

from __future__ import annotations

import copy
from typing import Any

import orjson
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from worldledger.errors import InvalidDefinitionError
from worldledger.variables import (
    ObjectState,
    StateInvalidError,
    VariableDefinition,
    check_definitions,
    create_agent_state_model,
    create_global_state_model,
    dump_state,
    validate_state,
    values_of,
)

from .kinds import TEXT, VARIABLES, allows_object, values, whole_objects

_SLOW = settings(max_examples=80, deadline=None, suppress_health_check=list(HealthCheck))

#: Values that are seldom what a definition asks for.
JUNK = st.one_of(
    st.none(),
    st.booleans(),
    st.integers(-3000, 3000),
    st.sampled_from([2**53, -(2**53), 0.5, 1e300]),
    TEXT,
    st.lists(st.integers(0, 3), max_size=5),
    st.dictionaries(TEXT | st.integers(-3, 3).map(str), st.integers(0, 3), max_size=2),
)


def _places(value: Any) -> list[tuple[Any, Any]]:
    """Return each place within a value: what holds it, and under which key."""
    found: list[tuple[Any, Any]] = []
    members = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    for key, item in members:
        found += [(value, key), *_places(item)]
    return found


def _python(value: Any, definition: Any) -> bool:
    """Tell whether a value of a model is of the Python types that its definition says."""
    if value is None:
        return True
    kind = definition if isinstance(definition, str) else definition.type
    if isinstance(definition, str) or kind in {"int", "float", "bool", "str", "categorical"}:
        return type(value) is {"int": int, "float": float, "bool": bool}.get(kind, str)
    if kind == "list":
        return type(value) is list and all(_python(item, definition.item_type) for item in value)
    if kind == "tuple":
        return type(value) is tuple and all(map(_python, value, definition.item_types))
    if definition.schema_ is not None:
        inner = definition.schema_
        return isinstance(value, ObjectState) and all(_python(values_of(value)[name], inner[name]) for name in inner)
    key = str if definition.key_type == "str" else int
    return all(type(name) is key and _python(item, definition.value_type) for name, item in value.items())


@_SLOW
@given(VARIABLES, st.data())
def test_json_leads_to_a_model_and_back_without_loss(raw: dict[str, Any], data: st.DataObject) -> None:
    """What is dumped is read as an equal state and dumped to the same bytes; tuples and int keys are there again."""
    model = create_global_state_model(check_definitions(raw, "global_vars"))
    state = validate_state(model, data.draw(whole_objects(raw)))
    text = orjson.dumps(dump_state(state))
    for again in (model.model_validate_json(text), validate_state(model, orjson.loads(text))):
        assert again == state
        assert orjson.dumps(dump_state(again)) == text
    definitions = model.__variables__
    assert all(_python(value, definitions[name]) for name, value in values_of(state).items())


@_SLOW
@given(VARIABLES, st.data())
def test_a_valid_value_is_kept_as_it_is(raw: dict[str, Any], data: st.DataObject) -> None:
    """A value of exact types is dumped as it came, with null for what was left out."""
    model = create_global_state_model(check_definitions(raw, "global_vars"))
    value = {name: data.draw(values(inner)) for name, inner in raw.items()}
    dumped = dump_state(validate_state(model, value))
    assert model.model_validate(value) == model.model_validate(dumped)
    assert dumped.keys() == value.keys()
    plain = [name for name, inner in raw.items() if inner["type"] in {"int", "float", "bool", "str", "categorical"}]
    assert {name: repr(dumped[name]) for name in plain} == {name: repr(value[name]) for name in plain}


@_SLOW
@given(VARIABLES.filter(bool), st.data())
def test_the_model_judges_as_the_rules_say(raw: dict[str, Any], data: st.DataObject) -> None:
    """Changed anywhere, a value is accepted if and only if a checker without Pydantic accepts it."""
    model = create_global_state_model(check_definitions({name: {**it} for name, it in raw.items()}, "global_vars"))
    value = copy.deepcopy(data.draw(whole_objects(raw)))
    for _ in range(data.draw(st.integers(0, 2))):
        places = _places(value)
        holder, key = data.draw(st.sampled_from(places)) if places else (value, "a")
        change = data.draw(st.sampled_from(["replace", "remove", "add"]))
        if change == "replace" or not places:
            holder[key] = data.draw(JUNK)
        elif change == "remove":
            del holder[key]
        elif isinstance(holder, dict):
            holder[data.draw(TEXT)] = data.draw(JUNK)
        else:
            holder.append(data.draw(JUNK))
    # A variable that is left out takes its default, a list the empty one; the fields within have to be there.
    begun = {
        **{name: [] for name, it in raw.items() if it["type"] == "list" and "default" not in it},
        **{name: {} for name, it in raw.items() if "key_type" in it and "default" not in it},
        **_composed(raw),
        **value,
    }
    verdicts = set()
    for form in (value, orjson.dumps(value)):
        try:
            model.model_validate_json(form) if isinstance(form, bytes) else model.model_validate(form)
            verdicts.add(True)
        except ValueError:
            verdicts.add(False)
    assert verdicts == {allows_object(raw, begun)}


def _composed(raw: dict[str, Any]) -> dict[str, Any]:
    """Return the composed defaults, as the model has them: that they are right is tested elsewhere."""
    model = create_global_state_model(check_definitions(raw, "global_vars"))
    fields = {name: model.model_fields[model.__renamed__.get(name, name)] for name in raw}
    composed = {"tuple", "object", "dict"}
    found = [name for name, it in raw.items() if it["type"] in composed and not fields[name].is_required()]
    dumped = {}
    for name in found:
        only = create_global_state_model({name: model.__variables__[name]})
        dumped[name] = dump_state(only())[name]
    return dumped


@_SLOW
@given(VARIABLES)
def test_a_definition_is_made_again_of_its_value(raw: dict[str, Any]) -> None:
    """`to_value` is JSON, leads to an equal definition in each way, and equal definitions share one model."""
    found = check_definitions(raw)
    written = orjson.loads(orjson.dumps({name: definition.to_value() for name, definition in found.items()}))
    again = check_definitions(written)
    assert again == found
    assert {name: VariableDefinition.model_validate(value) for name, value in written.items()} == found
    assert check_definitions(found) == found
    assert create_agent_state_model(again) is create_agent_state_model(found)


@_SLOW
@given(VARIABLES.filter(bool), st.data())
def test_a_broken_rule_is_named_by_its_place(raw: dict[str, Any], data: st.DataObject) -> None:
    """A field that is unknown, at any depth, is refused with the way to it, and nothing else is."""
    broken = copy.deepcopy(raw)
    way = [data.draw(st.sampled_from(sorted(broken)))]
    node = broken[way[0]]
    while True:
        inner = [name for name in ("value_type", "item_type") if isinstance(node.get(name), dict)]
        inner += ["schema"] * ("schema" in node)
        if not inner or data.draw(st.booleans()):
            break
        step = data.draw(st.sampled_from(inner))
        way.append(step)
        node = node[step]
        if step == "schema":
            way.append(data.draw(st.sampled_from(sorted(node))))
            node = node[way[-1]]
    node["mix"] = 1
    with pytest.raises(InvalidDefinitionError) as caught:
        check_definitions(broken)
    assert [problem.path for problem in caught.value.problems] == [("agent_vars", *way, "mix")]


@_SLOW
@given(VARIABLES.filter(bool), st.data())
def test_refusals_name_the_place(raw: dict[str, Any], data: st.DataObject) -> None:
    """An object where none can be is refused under the variable that it was put in."""
    model = create_global_state_model(check_definitions(raw, "global_vars"))
    value = copy.deepcopy(data.draw(whole_objects(raw)))
    name = data.draw(st.sampled_from(sorted(raw)))
    value[name] = {"no such field": object()}
    with pytest.raises(StateInvalidError) as caught:
        validate_state(model, value)
    assert {path[0] for path, _ in caught.value.problems} == {name}
