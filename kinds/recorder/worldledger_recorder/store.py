"""Writing what a program has recorded: blocks of lines, each one transaction, and once.

A line is what a program did, as a JSON array: ``[kind, agent, clock, payload]``, or with the program's own time
``[kind, agent, null, payload, sim_time]``.

- ``kind``: any that is no system kind. ``.set`` gives the entity that ``agent`` names the fields in ``payload``,
  ``.remove`` removes it, ``.step`` begins a step: ``{"step": N}``, or without a number the next one; and ``.agent``
  registers an agent with the policy ``{"policy": {name, version, config}}``.
- ``agent``: the source of the effect; null for none in particular.
- ``clock``: seconds since the recording began, which come after the world's time at that moment (``base``).
- ``sim_time``: the world's time itself. No time goes back: what would has the time of the effect before.

Agents that a block names for the first time, as sources or in ``sees``, are registered with the default policy.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final, NamedTuple
from weakref import WeakKeyDictionary

from worldledger_service.store import Store, WorldRecord, statements
from worldledger_service.store.records import Head

from worldledger.canonical import MAX_INT
from worldledger.core_kinds import AGENT_REGISTERED_KIND
from worldledger.drafts import MAX_WORD, check_draft, json_name
from worldledger.effects import SERVICE_SOURCE, EffectDraft, is_system_kind
from worldledger.errors import InvalidEffectError, ReservedKindError, SimulationError
from worldledger.genesis import is_time
from worldledger.intents import registration_draft
from worldledger.policies import policy_from_spec, policy_spec
from worldledger.rulesets.reading import UnreadableError
from worldledger_recorder import rules
from worldledger_recorder.rules import RULESET, SOURCE, STEP_BEGAN, NotRecordedError

if TYPE_CHECKING:
    from worldledger_service.database.engine import PooledConnection

    from worldledger.time_authority import TimeAuthority

SET: Final = ".set"
REMOVE: Final = ".remove"
STEP: Final = ".step"
AGENT: Final = ".agent"
#: Most lines in one block.
MOST_LINES: Final = 10_000
#: Longest id of a block.
MAX_ID: Final = 150
#: Most agents that are registered without being asked for: as many as a world has by default.
MOST_AGENTS: Final = 1000

#: The last number of a step: $1 world_id.
_LAST_STEP: Final = (
    "select (effect -> 'payload' ->> 'step')::bigint from effects "
    f"where world_id = $1 and kind = '{STEP_BEGAN}' order by global_seq desc limit 1"
)
#: The agents that are registered: $1 world_id.
AGENTS: Final = (
    "select distinct effect -> 'payload' ->> 'agent_id' as agent_id from effects "
    f"where world_id = $1 and kind = '{AGENT_REGISTERED_KIND}'"
)


class Written(NamedTuple):
    """What became of a block: the world's head after it, and whether it had been written before."""

    head_seq: int
    sim_time: float
    is_repeated: bool


class Begun(NamedTuple):
    """Where a recording goes on: the world's head, its time, and the number of its last step."""

    head_seq: int
    sim_time: float
    step: int


@dataclass
class _Known:
    """What does not change of a world: what its fork point brings along, and the agents that are registered."""

    world_uuid: str
    step: int = 0
    agents: set[str] = field(default_factory=set)


_KNOWN: Final[WeakKeyDictionary[Store, dict[str, _Known]]] = WeakKeyDictionary()


class _RepeatedError(Exception):
    """Ends the transaction of a block that was written before."""

    def __init__(self, head: Head) -> None:
        super().__init__()
        self.head = head


async def begin(store: Store, world_id: str) -> Begun:
    """Return where a recording of a world goes on. Raises WorldNotFoundError and NotRecordedError."""
    world = await _recorded(store, world_id)
    known = await _known(store, world)
    rows = await store.reader.fetch(_LAST_STEP, world_id)
    return Begun(world.head_seq, world.sim_time, rows[0][0] if rows else known.step)


async def write_block(
    store: Store, world_id: str, block_id: str, lines: Sequence[Any], *, base: float = 0.0
) -> Written:
    """Write a block of lines after a world's head in one transaction: all or none, and each block once.

    ``block_id`` names the block for ever: the same again writes nothing. ``base`` is the world's time at which the
    clock of the lines began.

    Raises WorldNotFoundError, NotRecordedError, StoreUnavailableError, and InvalidEffectError with the index of the
    refused line.
    """
    if not 0 < len(block_id) <= MAX_ID:
        raise InvalidEffectError(f"the id of a block has 1 to {MAX_ID} characters")
    if not 0 < len(lines) <= MOST_LINES:
        raise InvalidEffectError(f"a block has 1 to {MOST_LINES} lines, not {len(lines)}")
    known = _KNOWN.get(store, {}).get(world_id)
    if known is None:
        known = await _known(store, await _recorded(store, world_id))
    drafts = list(_drafts(lines, known.world_uuid))
    drafts[0]["req_id"] = block_id
    try:
        check_draft(drafts[0], system=True)  # its source is looked up
    except InvalidEffectError as error:
        raise error.at(0) from None
    named = _named(drafts)
    registrations: list[EffectDraft] = []

    async def prepare(connection: PooledConnection, head: Head, authority: TimeAuthority) -> list[EffectDraft]:
        source = drafts[0]["source_id"]
        if await connection.fetchrow(statements.KNOWN_REQUESTS, world_id, [source], [block_id]) is not None:
            raise _RepeatedError(head)
        if not named <= known.agents:
            known.agents.update(row["agent_id"] for row in await connection.fetch(AGENTS, world_id))
            new = [name for name in named if name not in known.agents]
            registrations[:] = map(rules.registered, sorted(new)[: max(MOST_AGENTS - len(known.agents), 0)])
        if any(draft["kind"] == STEP_BEGAN for draft in drafts):
            _number(drafts, await connection.fetchval(_LAST_STEP, world_id) or known.step)
        _set_times(drafts, lines, base, head, authority)
        return [*registrations, *drafts]

    try:
        head = await store.bulk_append(world_id, prepare, system=True)
    except _RepeatedError as repeated:
        return Written(repeated.head.seq, repeated.head.sim_time, is_repeated=True)
    except InvalidEffectError as error:
        raise (error if error.index is None else error.at(error.index - len(registrations))) from None
    all_registrations = [*registrations, *(draft for draft in drafts if draft["kind"] == AGENT_REGISTERED_KIND)]
    known.agents.update(draft["payload"]["agent_id"] for draft in all_registrations)
    return Written(head.seq, head.sim_time, is_repeated=False)


async def _recorded(store: Store, world_id: str) -> WorldRecord:
    world = await store.world(world_id)
    if world.ruleset != RULESET.name:
        what = f"world {world_id!r} is of the ruleset {world.ruleset}, not {RULESET.name}: record under another name"
        raise NotRecordedError(what, world_id=world_id, ruleset=world.ruleset)
    return world


async def _known(store: Store, world: WorldRecord) -> _Known:
    """Return what is known of a world. A fork has its parent's agents and steps, which its own log does not tell."""
    worlds = _KNOWN.setdefault(store, {})
    if world.world_id not in worlds:
        known = _Known(world.world_uuid)
        if await store.states.parent(world) is not None:
            metadata = (await store.states.state_at(world.world_id, 1)).state.metadata
            known = _Known(world.world_uuid, metadata.get("step", 0), set(metadata["agents"]))
        worlds[world.world_id] = known
    return worlds[world.world_id]


# -- from lines to drafts --------------------------------------------------------------------------------------------


def _drafts(lines: Sequence[Any], world_uuid: str) -> Iterator[EffectDraft]:
    """Yield the draft of each line, without its time. Raises InvalidEffectError with the line's index."""
    for index, line in enumerate(lines):
        if type(line) is not list or len(line) not in {4, 5}:
            raise InvalidEffectError("a line is [kind, agent, clock, payload] or has a sim_time besides", "$", index)
        kind, agent, payload = line[0], line[1], line[3]
        if agent is not None and (type(agent) is not str or not 0 < len(agent) <= MAX_WORD):
            raise InvalidEffectError(f"an agent is a name of 1 to {MAX_WORD} characters, or null", "$[1]", index)
        if type(payload) is not dict:
            raise InvalidEffectError(f"the payload is an object, not {json_name(payload)}", "$[3]", index)
        for at in (2, 4):
            if len(line) > at and line[at] is not None and not is_time(line[at]):
                raise InvalidEffectError("a time is a finite number of seconds, or null", f"$[{at}]", index)
        if type(kind) is not str:
            raise InvalidEffectError(f"the kind is a text, not {json_name(kind)}", "$[0]", index)
        if kind == STEP:
            yield _step(payload, agent, index)
        elif kind in {SET, REMOVE, AGENT}:
            if agent is None:
                raise InvalidEffectError("an entity and an agent have names", "$[1]", index)
            if kind == AGENT:
                yield _registration(agent, payload, world_uuid, index)
            else:
                yield rules.entity_set(agent, payload) if kind == SET else rules.entity_removed(agent)
        elif not kind or kind[0] == "." or is_system_kind(kind) or agent == SERVICE_SOURCE:
            what = "a kind is a name that does not begin with a dot, and neither it nor the agent is the service's own"
            raise ReservedKindError(what, "$[0]", index)
        else:
            yield rules.effect_of(kind, payload, agent)


def _step(payload: dict[str, Any], agent: str | None, index: int) -> EffectDraft:
    """Return the draft of a step; one without a number is numbered when the head is locked."""
    if payload.get("step") is None:
        return rules.step_began(0, agent)
    try:
        return rules.step_began(rules.read_step(payload), agent)
    except UnreadableError as error:
        raise InvalidEffectError(error.reason, "$[3].step", index) from None


def _registration(agent: str, payload: dict[str, Any], world_uuid: str, index: int) -> EffectDraft:
    """Return the draft that registers an agent with a policy of its own."""
    try:
        policy = policy_from_spec(payload.get("policy"), path="$[3].policy")
        return registration_draft(agent, policy_spec(policy.for_world(world_uuid)))
    except SimulationError as error:
        path = getattr(error, "path", "$[3].policy")
        raise InvalidEffectError(getattr(error, "reason", error.message), path, index) from None


def _named(drafts: Sequence[EffectDraft]) -> set[str]:
    """Return the agents that drafts name: their sources, and those that see them."""
    found = {draft["source_id"] for draft in drafts}
    for draft in drafts:
        sees = draft["payload"].get("sees")
        if type(sees) is list:
            found.update(name for name in sees if type(name) is str and 0 < len(name) <= MAX_WORD)
    return found - {SOURCE, SERVICE_SOURCE}


def _number(drafts: Sequence[EffectDraft], last: int) -> None:
    """Give each step that has no number the next one."""
    for draft in drafts:
        if draft["kind"] == STEP_BEGAN:
            last = draft["payload"]["step"] = draft["payload"]["step"] or min(last + 1, MAX_INT)


def _set_times(
    drafts: Sequence[EffectDraft], lines: Sequence[Any], base: float, head: Head, authority: TimeAuthority
) -> None:
    """Give each draft its time, where the world lets a program say it; none goes back."""
    before = head.sim_time
    for draft, line in zip(drafts, lines, strict=True):
        time = float(line[4]) if len(line) == 5 and line[4] is not None else None
        if time is None and line[2] is not None:
            time = base + line[2]
        if time is not None and time > before and authority.allows(draft["source_id"]):
            own = draft["sim_time"] = authority.own_time(time)
            before = authority.sim_time(own)
