"""What stands in each world now: one row for each entity of the state."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from types import MappingProxyType
from typing import Final

from worldledger.effects import Effect
from worldledger.folding import Fold
from worldledger.world import WorldState, state_text
from worldledger_projections.base import WORLD, Changes, Column, Projection, Row, WorldProjection, needed

#: Longest id of an entity, in characters: as bytes it must fit into the index of the key.
MAX_ID: Final = 600


class _World(WorldProjection):
    """Which entities a batch touched; what became of them is read from the state when the batch is over.

    ``written`` are the entities that have rows: those of the state at the world's cursor.
    """

    def __init__(self, world_id: str, fold: Fold) -> None:
        self._world_id = world_id
        self._fold = fold
        self._written = set(fold.state.entities)
        self._touched: dict[str, Effect] = {}

    def apply(self, effect: Effect) -> None:
        touched = self._fold.apply(effect)
        ids: Iterable[str]
        if type(touched) is str:
            ids = (touched,)
        elif touched is None:
            # Any of them: those that there were, and those that there are.
            ids = (*self._written, *self._touched, *self._fold.state.entities)
        else:
            ids = touched
        for entity_id in ids:
            if len(entity_id) > MAX_ID:
                raise ValueError(f"an entity's id has {len(entity_id)} characters; a row can have {MAX_ID}")
            self._touched[entity_id] = effect

    def take_changes(self) -> Changes:
        changes = Changes()
        state = self._fold.state
        for entity_id, effect in self._touched.items():
            if entity_id in state.entities:
                changes.upserts.append(self._row(state, entity_id, effect))
                self._written.add(entity_id)
            elif entity_id in self._written:
                changes.deletes.append((self._world_id, entity_id))
                self._written.remove(entity_id)
        self._touched = {}
        return changes

    def _row(self, state: WorldState, entity_id: str, effect: Effect) -> Row:
        text = state_text(state.entities[entity_id]).decode()
        x, y, z = state.spatial_index.get(entity_id, (None, None, None))
        return self._world_id, entity_id, text, x, y, z, effect["global_seq"], effect["sim_time"]


class Entities(Projection):
    """One row for each entity that a world has now, of any ruleset: the replayed state, in SQL.

    ``updated_seq`` is the last effect that the ruleset says may have changed the entity, whether or not it did: so
    that it hangs on the log alone, not on where batches ended.
    """

    name = "entities"
    version = 1
    comment = "What stands in each world now: the entities of its state."
    columns = (
        WORLD,
        Column("entity_id", "text", "The entity's id, unique in its world."),
        Column("entity", "json", "The entity's data, in the text in which it stands in the world's state."),
        Column("x", "double precision", "Where it stands in the world's space; null where it has no place.", True),
        Column("y", "double precision", "As x.", True),
        Column("z", "double precision", "As x; 0.0 in a flat world.", True),
        Column("updated_seq", "bigint", "The last effect that touched it, whether or not that changed anything."),
        Column("updated_sim_time", "double precision", "The sim_time of that effect, in seconds."),
    )
    key = ("world_id", "entity_id")
    published = MappingProxyType({"updated_sim_time": "updated_sim_time_s"})
    needs_state = True

    def begin(self, world_id: str, rows: Sequence[Row], fold: Fold | None) -> WorldProjection:
        """Return the entities' fold: the state's, and what it touches."""
        return _World(world_id, needed(fold))
