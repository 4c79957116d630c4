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

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final, NamedTuple
from weakref import WeakKeyDictionary

from worldledger_service.store import Store, WorldRecord, statements
from worldledger_service.store.records import Head

from worldledger.canonical import MAX_INT, canonical_json, gate
from worldledger.core_kinds import AGENT_REGISTERED_KIND
from worldledger.drafts import MAX_WORD, PlainDrafts, check_draft, json_name
from worldledger.effects import SERVICE_SOURCE, EffectDraft, is_system_kind
from worldledger.errors import InvalidEffectError, ReservedKindError, SimulationError
from worldledger.intents import registration_draft
from worldledger.policies import policy_from_spec, policy_spec
from worldledger.rulesets.reading import UnreadableError
from worldledger.time_authority import is_time
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
    block = _read(lines, known.world_uuid)
    priority = (await store.log(world_id)).default_priority
    registrations: list[EffectDraft] = []

    async def prepare(connection: PooledConnection, head: Head, authority: TimeAuthority) -> list[Any]:
        source = block.drafts.sources[0]
        if await connection.fetchrow(statements.KNOWN_REQUESTS, world_id, [source], [block_id]) is not None:
            raise _RepeatedError(head)
        if not block.named <= known.agents:
            known.agents.update(row["agent_id"] for row in await connection.fetch(AGENTS, world_id))
            new = [name for name in block.named if name not in known.agents]
            registrations[:] = map(rules.registered, sorted(new)[: max(MOST_AGENTS - len(known.agents), 0)])
        if block.steps:
            _number(block, await connection.fetchval(_LAST_STEP, world_id) or known.step)
        _set_times(block, lines, base, head, authority)
        first, rest = block.drafts.cut(1)
        (begun,) = first
        return [*registrations, begun._replace(req_id=block_id).defaulted(priority), *_defaulted(rest, priority)]

    try:
        head = await store.bulk_append(world_id, prepare, system=True)
    except _RepeatedError as repeated:
        return Written(repeated.head.seq, repeated.head.sim_time, is_repeated=True)
    except InvalidEffectError as error:
        raise (error if error.index is None else error.at(error.index - len(registrations))) from None
    known.agents.update(block.registered, (draft["payload"]["agent_id"] for draft in registrations))
    return Written(head.seq, head.sim_time, is_repeated=False)


def _defaulted(drafts: PlainDrafts, priority: int) -> list[Any]:
    """Return drafts with a world's default priority: in columns if it is 0, as that of most worlds is."""
    return [drafts] if not priority else [draft.defaulted(priority) for draft in drafts]


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


@dataclass
class _Block:
    """A block's drafts, without their times, and what has to be done with them once the head is locked."""

    drafts: PlainDrafts = field(default_factory=PlainDrafts)
    #: the agents that it names: its sources, and those that see something
    named: set[str] = field(default_factory=set)
    #: the agents that it registers
    registered: set[str] = field(default_factory=set)
    #: where steps begin, and their numbers; 0 for the next one
    steps: list[tuple[int, int]] = field(default_factory=list)


def _read(lines: Sequence[Any], world_uuid: str) -> _Block:
    """Read the lines of a block. Raises InvalidEffectError with the line's index."""
    block = _Block()
    sources: dict[tuple[str, str | None], str] = {}
    add, named = block.drafts.add, block.named
    for index, line in enumerate(lines):
        try:
            kind, agent, payload = _parts(line)
            source = sources.get((kind, agent))
            if source is None:
                if kind and kind[0] == ".":
                    draft = _own(kind, agent, payload, world_uuid)
                    kind, payload, source = draft["kind"], draft["payload"], draft["source_id"]
                    check_draft({**draft, "payload": {}}, system=True)
                    if kind == STEP_BEGAN:
                        block.steps.append((index, payload["step"]))
                    elif kind == AGENT_REGISTERED_KIND:
                        block.registered.add(payload["agent_id"])
                else:
                    source = sources[kind, agent] = _source(kind, agent)
                named.add(source)
            if "sees" in payload and type(payload["sees"]) is list:
                named.update(name for name in payload["sees"] if type(name) is str and 0 < len(name) <= MAX_WORD)
            add(kind, gate(payload, path="$.payload", level=2), source, None)
        except InvalidEffectError as error:
            raise error.at(index) from None
    named -= {SOURCE, SERVICE_SOURCE}
    return block


def _parts(line: Any) -> tuple[str, str | None, dict[str, Any]]:
    """Return kind, agent and payload of a line. Raises InvalidEffectError."""
    if type(line) is not list or len(line) not in _LENGTHS:
        raise InvalidEffectError("a line is [kind, agent, clock, payload] or has a sim_time besides", "$")
    kind, agent, clock, payload = line[:4]
    if agent is not None and (type(agent) is not str or not 0 < len(agent) <= MAX_WORD):
        raise InvalidEffectError(f"an agent is a name of 1 to {MAX_WORD} characters, or null", "$[1]")
    if type(payload) is not dict:
        raise InvalidEffectError(f"the payload is an object, not {json_name(payload)}", "$[3]")
    if clock is not None and not is_time(clock):
        raise InvalidEffectError("a time is a finite number of seconds, or null", "$[2]")
    if len(line) == 5 and line[4] is not None and not is_time(line[4]):
        raise InvalidEffectError("a time is a finite number of seconds, or null", "$[4]")
    if type(kind) is not str:
        raise InvalidEffectError(f"the kind is a text, not {json_name(kind)}", "$[0]")
    return kind, agent, payload


_LENGTHS: Final = frozenset({4, 5})


def _source(kind: str, agent: str | None) -> str:
    """Return the source of effects of a kind by an agent. Raises InvalidEffectError."""
    if not kind or is_system_kind(kind) or agent == SERVICE_SOURCE:
        raise _reserved()
    return check_draft(rules.effect_of(kind, {}, agent)).source_id


def _own(kind: str, agent: str | None, payload: dict[str, Any], world_uuid: str) -> EffectDraft:
    """Return the draft of a line that is no effect of the program's own. Raises InvalidEffectError."""
    if kind == STEP:
        return _step(payload, agent)
    if kind not in {SET, REMOVE, AGENT}:
        raise _reserved()
    if agent is None:
        raise InvalidEffectError("an entity and an agent have names", "$[1]")
    if kind == AGENT:
        return _registration(agent, payload, world_uuid)
    return rules.entity_set(agent, payload) if kind == SET else rules.entity_removed(agent)


def _reserved() -> ReservedKindError:
    what = "a kind is a name that does not begin with a dot, and neither it nor the agent is the service's own"
    return ReservedKindError(what, "$[0]")


def _step(payload: dict[str, Any], agent: str | None) -> EffectDraft:
    """Return the draft of a step; one without a number is numbered when the head is locked."""
    if payload.get("step") is None:
        return rules.step_began(0, agent)
    try:
        return rules.step_began(rules.read_step(payload), agent)
    except UnreadableError as error:
        raise InvalidEffectError(error.reason, "$[3].step") from None


def _registration(agent: str, payload: dict[str, Any], world_uuid: str) -> EffectDraft:
    """Return the draft that registers an agent with a policy of its own."""
    try:
        policy = policy_from_spec(payload.get("policy"), path="$[3].policy")
        return registration_draft(agent, policy_spec(policy.for_world(world_uuid)))
    except SimulationError as error:
        path = getattr(error, "path", "$[3].policy")
        raise InvalidEffectError(getattr(error, "reason", error.message), path) from None


def _number(block: _Block, last: int) -> None:
    """Give each step that has no number the next one."""
    for place, number in block.steps:
        last = number or min(last + 1, MAX_INT)
        block.drafts.payloads[place] = canonical_json({"step": last})


def _set_times(block: _Block, lines: Sequence[Any], base: float, head: Head, authority: TimeAuthority) -> None:
    """Give each draft its time, where the world lets a program say it; none goes back."""
    before = head.sim_time
    times, sources = block.drafts.sim_times, block.drafts.sources
    for place, line in enumerate(lines):
        if len(line) == 5 and line[4] is not None:
            time = float(line[4])
        elif line[2] is not None:
            time = base + line[2]
        else:
            continue
        if time > before and authority.allows(sources[place]):
            own = times[place] = authority.own_time(time)
            before = authority.sim_time(own)
