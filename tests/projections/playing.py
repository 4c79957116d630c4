"""Plays the engine without a database: feeds effects to a projection and keeps its rows in a dictionary."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from datetime import UTC, datetime
from typing import Any, Final

import orjson
from hypothesis import strategies as st
from worldledger_projections.base import Changes, Projection, Row

from worldledger.effects import Effect
from worldledger.folding import Fold
from worldledger.rulesets.base import Ruleset

Rows = dict[Row, Row]

#: Where batches end, and whether the runner then forgets all but the rows: (effects in the batch, forget).
Cuts = Sequence[tuple[int, bool]]
CUTS: st.SearchStrategy[Cuts] = st.lists(st.tuples(st.integers(1, 12), st.booleans()), max_size=12)

#: The wall_time of a world's first effect; the others follow each other by a second.
BEGINNING: Final = datetime(2026, 1, 1, tzinfo=UTC).timestamp()


def effects_of(
    drafts: Iterable[Mapping[str, Any]], *, world_id: str = "w", ruleset: str = "sandbox", experiment: str | None = None
) -> list[Effect]:
    """Return the log of a world: its genesis, and an effect for each draft; what a draft leaves out is made up."""
    genesis = {
        "ruleset": ruleset,
        "ruleset_version": 1,
        "config": {},
        "experiment": experiment,
        "time_authority": "client",
    }
    log: list[Effect] = []
    for draft in ({"kind": "WorldCreated", "payload": genesis, "source_id": "worldledger"}, *drafts):
        seq = len(log) + 1
        made = {
            "payload": {},
            "source_id": "somebody",
            "sim_time": float(seq),
            "wall_time": BEGINNING + seq - 1,
            "schema_version": "1.0.0",
            "priority": 0,
            "req_id": None,
            **draft,
            "uuid": f"{seq:032x}",
            "global_seq": seq,
            "world_id": world_id,
        }
        log.append(orjson.loads(orjson.dumps(made)))
    return log


def at(seq: int) -> datetime:
    """Return the wall_time of an effect whose draft gave none."""
    return datetime.fromtimestamp(BEGINNING + seq - 1, UTC)


def play(projection: Projection, log: Sequence[Effect], ruleset: Ruleset | None = None, cuts: Cuts = ()) -> Rows:
    """Return the rows that the projection makes of a world's log, checked as the database would."""
    rows: Rows = {}
    folded = Fold(log[0]["world_id"], ruleset or Ruleset())
    world = None
    at_seq = 0
    for size, forget in (*cuts, (len(log), False)):
        batch = log[at_seq : at_seq + size]
        if not batch:
            break
        if world is None:
            known = beginning(projection, rows)
            world = projection.begin(log[0]["world_id"], known, folded.copy() if projection.needs_state else None)
        for effect in batch:
            if projection.kinds is None or effect["kind"] in projection.kinds:
                world.apply(orjson.loads(orjson.dumps(effect)))
            folded.apply(effect)
        write(projection, rows, world.take_changes())
        assert world.take_changes() == Changes()
        at_seq += len(batch)
        if forget:
            world = None
    return rows


def beginning(projection: Projection, rows: Rows) -> list[Row]:
    """Return the rows that a fold begins with, in no order that means anything."""
    if not projection.needs_rows or not rows:
        return []
    known = list(reversed(rows.values()))
    if projection.newest_by is None:
        return known
    place = [column.name for column in projection.columns].index(projection.newest_by)
    newest = max(row[place] for row in known)
    return [row for row in known if row[place] == newest]


def write(projection: Projection, rows: Rows, changes: Changes) -> None:
    """Write a batch's changes, as strictly as the contract allows."""
    places = [[column.name for column in projection.columns].index(name) for name in projection.key]
    keys = [tuple(row[place] for place in places) for row in changes.upserts]
    assert len(set(keys)) == len(keys)
    assert not set(keys) & set(changes.deletes)
    assert set(changes.deletes) <= rows.keys()
    if projection.append_only:
        assert not changes.deletes
        assert not rows.keys() & set(keys)
    for row in changes.upserts:
        assert len(row) == len(projection.columns)
        for value, column in zip(row, projection.columns, strict=True):
            assert (value is None and column.nullable) or _FITS[column.type](value), (column, value)
    for key in changes.deletes:
        del rows[key]
    rows.update(zip(keys, changes.upserts, strict=True))


def _is_text(value: Any) -> bool:
    return type(value) is str and "\x00" not in value and value.encode().decode() == value


def _is_json(value: Any) -> bool:
    return _is_text(value) and (orjson.loads(value) or True)


#: What the driver takes for a column of each type.
_FITS: Final[dict[str, Callable[[Any], bool]]] = {
    "text": _is_text,
    "json": _is_json,
    "bigint": lambda value: type(value) is int and abs(value) < 2**63,
    "integer": lambda value: type(value) is int and abs(value) < 2**31,
    "boolean": lambda value: type(value) is bool,
    "double precision": lambda value: type(value) is float or type(value) is int,
    "timestamptz": lambda value: type(value) is datetime and value.tzinfo is UTC,
}


def dicts(projection: Projection, rows: Rows) -> list[dict[str, Any]]:
    """Return rows by the names of their columns, in the order of the key."""
    names = [column.name for column in projection.columns]
    return [dict(zip(names, rows[key], strict=True)) for key in sorted(rows)]


def the_row(projection: Projection, rows: Rows) -> dict[str, Any]:
    """Return the one row that there is."""
    (row,) = dicts(projection, rows)
    return row
