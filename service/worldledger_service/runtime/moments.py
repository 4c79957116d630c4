"""Two moments side by side, of one world or of two: their states, and what an agent saw at each."""

from __future__ import annotations

from contextlib import aclosing
from typing import TYPE_CHECKING, Any, NamedTuple

import orjson

from worldledger.comparing import OWN_OF_STATES, differences, left_out_of
from worldledger.errors import UnknownAgentError
from worldledger.near import near
from worldledger.observation import ObservationPolicy
from worldledger.rulesets import load_ruleset
from worldledger_service.runtime.comparing import listed, visible
from worldledger_service.runtime.replays import Origins, last_observed, stretches

if TYPE_CHECKING:
    from worldledger.observation import ObservedEvent, View
    from worldledger_service.store import Store, WorldRecord
    from worldledger_service.store.states import StateAt


class Place(NamedTuple):
    """A world, and a seq that it has."""

    record: WorldRecord
    seq: int


async def seen_at(store: Store, found: StateAt, agent: str, head_seq: int) -> View:
    """Return the view that an agent had at a state's seq. Raises UnknownAgentError, which says when it registered."""
    known = found.state.metadata["agents"].get(agent)
    if known is None:
        raise await not_registered(store, found.world_id, agent, found.global_seq, head_seq)
    origins = Origins(store, found.world_id)
    return await origins.view(agent, found.global_seq, registered_seq=known["registered_seq"])


class Observed(NamedTuple):
    """The last events that an agent observed, after which seq they were looked for, and when it was registered."""

    events: list[ObservedEvent]
    after_seq: int
    registered_seq: int


async def observed_at(store: Store, found: StateAt, agent: str, *, most: int) -> Observed:
    """Return the last events, at most so many, that an agent had observed by a state's seq, at which it is registered.

    Of a fork they are those of its own log. See `last_observed`.
    """
    registered_seq: int = found.state.metadata["agents"][agent]["registered_seq"]
    events, after_seq = await last_observed(
        store, found.world_id, agent, found.global_seq, registered_seq=registered_seq, most=most
    )
    return Observed(events, after_seq, registered_seq)


async def happened_by(store: Store, found: StateAt, *, most: int) -> list[ObservedEvent]:
    """Return the last events of a world's own log up to a state's seq, at most so many, whoever observed them."""
    rules = load_ruleset(found.ruleset)
    showing = ObservationPolicy()
    showing.told_by_patches = rules.told_by_patches | rules.unobserved
    events: list[ObservedEvent] = []
    for after_seq, until_seq in stretches(found.global_seq, 0):
        if len(events) >= most:
            break
        rows = store.reader.batches(found.world_id, after_seq=after_seq, until_seq=until_seq)
        async with aclosing(rows) as batches:
            told = [showing.show_event(orjson.loads(row.text)) async for batch in batches for row in batch]
        events = [*(event for event in told if event is not None), *events]
    return events[max(len(events) - most, 0) :]


async def not_registered(store: Store, world_id: str, agent: str, seq: int, head_seq: int) -> UnknownAgentError:
    """Make the error for an agent that was not registered at a seq.

    It says when it was, or which name is similar, or that the name is an entity's.
    """
    state = (await store.states.state_at(world_id, head_seq)).state
    latest = state.metadata["agents"]
    is_entity = agent not in latest and agent in state.entities
    similar = near(agent, latest)
    return UnknownAgentError(
        agent,
        world_id,
        at_seq=seq,
        registered_seq=latest.get(agent, {}).get("registered_seq", 0),
        near=[] if agent in latest else similar or (sorted(latest)[:3] if is_entity else []),
        is_entity=is_entity,
    )


async def side_by_side(
    store: Store, a: Place, b: Place, *, agent: str | None = None, truth: bool = False
) -> dict[str, Any]:
    """Return where two states differ or, of an agent, two views; with ``truth`` both.

    What states have of their own log, and what their kinds leave out of comparisons, is left out.

    Raises UnknownAgentError for an agent that was not registered by then, and as `States.state_at`.
    """
    states = [await store.states.state_at(place.record.world_id, place.seq) for place in (a, b)]
    found: dict[str, Any] = {name: _facts(state) for name, state in zip("ab", states, strict=True)}
    found |= {"agent_id": agent, "states": None, "views": None}
    ignored = [
        *OWN_OF_STATES,
        *(path for ruleset in {a.record.ruleset, b.record.ruleset} for path in left_out_of(ruleset)),
    ]
    if agent is None or truth:
        one, other = (state.state.to_value() for state in states)
        found["states"] = listed(differences(one, other, ignored))
    if agent is not None:
        pairs = zip(states, (a, b), strict=True)
        one, other = [visible(await seen_at(store, state, agent, place.record.head_seq)) for state, place in pairs]
        found["views"] = listed(differences(one, other, ignored))
    return found


def _facts(state: StateAt) -> dict[str, Any]:
    return {
        "world_id": state.world_id,
        "global_seq": state.global_seq,
        "checksum": state.checksum,
        "state_digest": state.state_digest,
    }
