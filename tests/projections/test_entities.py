"""One row for each entity of a world's state."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from worldledger_projections.entities import MAX_ID, Entities
from worldledger_sandbox import rules as sandbox

from tests.projections.playing import CUTS, Cuts, Rows, dicts, effects_of, play, the_row
from worldledger.effects import Effect
from worldledger.folding import Fold
from worldledger.rulesets.base import Ruleset, Touched
from worldledger.world import WorldState, state_text

ENTITIES = Entities()


def _put(state: WorldState, effect: Effect) -> Touched:
    for name in effect["payload"]["names"]:
        state.entities[name] = effect["payload"]["data"]
    return tuple(effect["payload"]["names"])


def _drop(state: WorldState, effect: Effect) -> Touched:
    state.entities.pop(effect["payload"]["name"], None)
    state.spatial_index.pop(effect["payload"]["name"], None)
    return str(effect["payload"]["name"])


def _place(state: WorldState, effect: Effect) -> Touched:
    if effect["payload"]["name"] not in state.entities:
        return ()
    state.spatial_index[effect["payload"]["name"]] = (1.5, effect["sim_time"], 0.0)
    return str(effect["payload"]["name"])


def _turn_over(state: WorldState, effect: Effect) -> Touched:
    """Change entities without telling which: those there are go, and others come."""
    state.entities = dict.fromkeys(effect["payload"]["names"], effect["global_seq"])
    state.spatial_index = {}
    return None


class Toy(Ruleset):
    """Touches entities in each of the ways that a handler may tell."""

    name = "toy"
    handlers = {"Put": _put, "Drop": _drop, "Place": _place, "TurnOver": _turn_over}  # noqa: RUF012 - as the base has it


class Furnished(Toy):
    """A toy world that begins with an entity."""

    def begin(self, state: WorldState, config: Any) -> None:
        """Put the table there."""
        state.entities["table"] = {"legs": 4}


TOY = Toy()


def put(*names: str, data: Any = None) -> dict[str, Any]:
    """Draft: these entities are this."""
    return {"kind": "Put", "payload": {"names": names, "data": data}}


def drop(name: str) -> dict[str, Any]:
    """Draft: the entity goes."""
    return {"kind": "Drop", "payload": {"name": name}}


def place(name: str) -> dict[str, Any]:
    """Draft: the entity stands somewhere."""
    return {"kind": "Place", "payload": {"name": name}}


def turn_over(*names: str) -> dict[str, Any]:
    """Draft: these entities are there and no others."""
    return {"kind": "TurnOver", "payload": {"names": names}}


def state_of(log: list[Effect], ruleset: Ruleset) -> WorldState:
    """Replay a log."""
    folded = Fold("w", ruleset)
    for effect in log:
        folded.apply(effect)
    return folded.state


def told(rows: Rows) -> dict[str, tuple[str, tuple[float, ...] | None]]:
    """Return what the rows say of the state: of each entity its text, and where it stands."""
    return {
        row["entity_id"]: (row["entity"], None if row["x"] is None else (row["x"], row["y"], row["z"]))
        for row in dicts(ENTITIES, rows)
    }


def meant(state: WorldState) -> dict[str, tuple[str, tuple[float, ...] | None]]:
    """Return the same of a state."""
    return {
        name: (state_text(entity).decode(), state.spatial_index.get(name)) for name, entity in state.entities.items()
    }


def test_a_row_says_what_the_entity_is() -> None:
    """The entity's text is the state's, and its place the spatial index's."""
    log = effects_of([put("lamp", data={"on": True, "at": [1.0]}), place("lamp")])
    assert the_row(ENTITIES, play(ENTITIES, log, TOY)) == {
        "world_id": "w",
        "entity_id": "lamp",
        "entity": '{"at":[1.0],"on":true}',
        "x": 1.5,
        "y": 3.0,
        "z": 0.0,
        "updated_seq": 3,
        "updated_sim_time": 3.0,
    }


def test_what_a_world_begins_with_has_rows() -> None:
    """The genesis may have touched anything."""
    row = the_row(ENTITIES, play(ENTITIES, effects_of([]), Furnished()))
    assert (row["entity_id"], row["entity"], row["x"], row["updated_seq"]) == ("table", '{"legs":4}', None, 1)


def test_a_removed_entity_has_no_row() -> None:
    """Whether it was made in the same batch or in an earlier one."""
    log = effects_of([put("a", "b"), drop("a")])
    for cuts in ([], [(2, False)], [(2, True)]):
        assert set(told(play(ENTITIES, log, TOY, cuts))) == {"b"}


def test_an_entity_that_was_made_again_has_one_row() -> None:
    """Removed and made again in one batch is an update."""
    log = effects_of([put("a", data=1), drop("a"), put("a", data=2)])
    for cuts in ([], [(2, False)], [(3, True)]):
        row = the_row(ENTITIES, play(ENTITIES, log, TOY, cuts))
        assert (row["entity"], row["updated_seq"]) == ("2", 4)


def test_only_what_is_touched_is_written() -> None:
    """A batch costs what it touches, however many entities there are."""
    log = effects_of([put(*(f"e{number}" for number in range(50))), put("e7", data=1), {"kind": "Shrug"}])
    folded = Fold("w", TOY)
    for effect in log[:2]:
        folded.apply(effect)
    world = ENTITIES.begin("w", [], folded)
    world.apply(log[2])
    world.apply(log[3])
    changes = world.take_changes()
    assert ([row[1] for row in changes.upserts], changes.deletes) == (["e7"], [])


def test_an_id_too_long_for_a_key_is_refused() -> None:
    """It is told before the database would refuse the row."""
    with pytest.raises(ValueError, match="an entity's id has 601 characters"):
        play(ENTITIES, effects_of([put("x" * (MAX_ID + 1))]), TOY)


_NAMES = st.sampled_from(["a", "b", "c", "d"])
_DRAFTS = st.lists(
    st.lists(_NAMES, max_size=3).flatmap(lambda names: st.integers(0, 3).map(lambda data: put(*names, data=data)))
    | _NAMES.map(drop)
    | _NAMES.map(place)
    | st.lists(_NAMES, max_size=3).map(lambda names: turn_over(*names))
    | st.just({"kind": "Shrug"}),
    max_size=30,
)


@given(_DRAFTS, CUTS)
def test_rows_are_the_replayed_state_wherever_batches_end(drafts: list[dict[str, Any]], cuts: Cuts) -> None:
    """The rows say exactly what the state says, and are the same however the log is cut."""
    log = effects_of(drafts, ruleset="toy")
    rows = play(ENTITIES, log, Furnished(), cuts)
    assert told(rows) == meant(state_of(log, Furnished()))
    assert rows == play(ENTITIES, log, Furnished())


_WHO = st.sampled_from(["ann", "bob", "eve"])
_SANDBOX = st.lists(
    st.fixed_dictionaries(
        {
            "kind": st.sampled_from(
                ["EntityCreated", "EntityRemoved", "Move", "Move", "Speak", "Interact", "RelationshipSet", "Dance"]
            ),
            "source_id": _WHO,
            "payload": st.fixed_dictionaries(
                {"entity_id": _WHO, "entity_data": st.sampled_from([{}, {"hp": 3}, {"position": [1, 2]}])},
                optional={
                    "to": st.lists(st.integers(-3, 3) | st.just(0.5), min_size=1, max_size=3),
                    "text": st.just("hi"),
                    "target_id": _WHO,
                    "to_entity": _WHO,
                    "relationship_type": st.just("knows"),
                },
            ),
        }
    ),
    max_size=30,
)


@given(_SANDBOX, CUTS)
def test_rows_are_the_replayed_state_of_a_sandbox(drafts: list[dict[str, Any]], cuts: Cuts) -> None:
    """The sandbox's handlers tell all that they touch."""
    log = effects_of(drafts, ruleset="sandbox")
    rows = play(ENTITIES, log, sandbox.RULESET, cuts)
    assert told(rows) == meant(state_of(log, sandbox.RULESET))
    assert rows == play(ENTITIES, log, sandbox.RULESET)
