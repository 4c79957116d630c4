"""The content of a report on one world: what happened up to a moment, and the measures of its kind.

A fork's history goes through its ancestors. It is read once, from its first effect, in batches.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

import orjson

from worldledger.core_kinds import INTENT_REJECTED_KIND
from worldledger.measures import measures_of
from worldledger_service.runtime.comparing import Logs, Stretch, course_of, history_of, series

if TYPE_CHECKING:
    from worldledger_service.store import Store, WorldRecord


class _Tally:
    """Counts effects: by kind and source, those of a world itself and those of its ancestors; and refused intents."""

    def __init__(self, world_id: str, tell: Callable[[int], object]) -> None:
        self.own: Counter[tuple[str, str]] = Counter()
        self.inherited: Counter[tuple[str, str]] = Counter()
        #: by code and rule: the agents whose intents were refused, and the first reason
        self.refused: dict[tuple[Any, Any], tuple[Counter[Any], Any]] = {}
        self._world_id = world_id
        self._tell = tell
        self._read = 0

    def see(self, stretch: Stretch, rows: Sequence[Any]) -> None:
        """Count the effects of a batch."""
        counts = self.own if stretch.record.world_id == self._world_id else self.inherited
        counts.update((row[3], row[4]) for row in rows)
        for row in rows:
            if row[3] == INTENT_REJECTED_KIND:
                payload = orjson.loads(row[1])["payload"]
                why = payload.get("code"), payload.get("rule")
                agents, _ = self.refused.setdefault(why, (Counter(), payload.get("reason")))
                agents[payload.get("agent_id")] += 1
        self._read += len(rows)
        self._tell(self._read)

    def kinds(self) -> list[dict[str, Any]]:
        """Return how many effects of each kind there are, and how many of them are inherited; most first."""
        counts: dict[str, list[int]] = defaultdict(lambda: [0, 0])
        for (kind, _), count in self.own.items():
            counts[kind][0] += count
        for (kind, _), count in self.inherited.items():
            counts[kind][0] += count
            counts[kind][1] += count
        found = [{"kind": kind, "effects": every, "inherited": old} for kind, (every, old) in counts.items()]
        return sorted(found, key=lambda row: (-row["effects"], row["kind"]))

    def sources(self) -> list[dict[str, Any]]:
        """Return how many effects of each kind each source has; most first."""
        counts: dict[str, Counter[str]] = defaultdict(Counter)
        for (kind, source), count in (self.own + self.inherited).items():
            counts[source][kind] += count
        found = [
            {"source_id": source, "effects": of.total(), "kinds": dict(sorted(of.items()))}
            for source, of in counts.items()
        ]
        return sorted(found, key=lambda row: (-row["effects"], row["source_id"]))

    def refusals(self) -> list[dict[str, Any]]:
        """Return how many intents were refused for each reason; most first."""
        found = [
            {"code": code, "rule": rule, "intents": agents.total(), "agents": len(agents), "example": example}
            for (code, rule), (agents, example) in self.refused.items()
        ]
        return sorted(found, key=lambda row: (-row["intents"], str(row["code"]), str(row["rule"])))


async def report_of(
    store: Store, world: WorldRecord, place: tuple[WorldRecord, int], tell: Callable[[int, int], object]
) -> dict[str, Any]:
    """Return what there is to say of a world up to a place in its history, as an object for JSON.

    ``place`` is a world of the history, the world itself or an ancestor, and a seq that it has. ``tell`` is told how
    many effects have been read, of how many. Raises as `States.fold_at`.
    """
    record, seq = place
    logs = Logs(store)
    history = await history_of(store, record.model_copy(update={"head_seq": seq}))
    total = sum(stretch.record.head_seq for stretch in history)
    tally = _Tally(world.world_id, lambda done: tell(done, total))
    there = await store.states.state_at(record.world_id, seq)
    ruleset = (await store.states.rules(record.world_id)).ruleset
    measures = measures_of(record.ruleset)
    unit = next(iter(ruleset.units), None) if measures is not None else None
    found: list[dict[str, Any]] = []
    if measures is not None and unit is not None:
        course = await course_of(store, logs, history, measures, ruleset.units[unit], seen=tally.see)
        found = [{**each, "values": each["values"][0]} for each in series([course])]
    else:
        for stretch in history:
            async for batch in logs.rows([stretch]):
                tally.see(stretch, batch)
    last = orjson.loads((await store.reader.effect(record.world_id, seq)).text)
    return {
        "world_id": world.world_id,
        "ruleset": world.ruleset,
        "experiment": world.experiment,
        "at": {
            "world_id": record.world_id,
            "global_seq": seq,
            "checksum": there.checksum,
            "state_digest": there.state_digest,
            "sim_time": last["sim_time"],
            "wall_time": last["wall_time"],
        },
        "history": [{"world_id": stretch.record.world_id, "effects": stretch.record.head_seq} for stretch in history],
        "state": {
            "entities": len(there.state.entities),
            "agents": len(there.state.metadata["agents"]),
        },
        "outcome": {} if measures is None else dict(measures.outcome(there.state)),
        "labels": {} if measures is None else dict(measures.labels(there.state)),
        "effects": total,
        "kinds": tally.kinds(),
        "sources": tally.sources(),
        "refused": tally.refusals(),
        "series_unit": unit,
        "series": found,
    }
