"""How a world begins: its name, and the genesis effect ``WorldCreated``, which states once what it is.

Everything that is trusted about a world is in its genesis, which is global_seq 1 and therefore chained; the ``worlds``
table only repeats it for queries, and verification compares the two.
"""

from __future__ import annotations

import math
import re
from collections.abc import Mapping
from typing import Any, Final, Literal, TypeAlias

import orjson
from msgspec import Raw, Struct
from msgspec.json import Decoder
from pydantic import BaseModel, ConfigDict, Field, ValidationError

from worldledger.canonical import MAX_INT, PROFILE, canonical_json, child, gate
from worldledger.config import OrchestratorConfig
from worldledger.effects import SCHEMA_VERSION, SERVICE_SOURCE, EffectDraft, own_draft
from worldledger.errors import InvalidConfigError, InvalidEffectError, InvalidNameError, SimulationError
from worldledger.kinds import DEFAULT
from worldledger.time_authority import AUTHORITY_PATTERN, FORK_OF, TIME_ZERO, is_authority, is_time

#: The rule for a world's name, for messages and docs.
NAME_RULE: Final = (
    "1 to 200 characters: letters A-Z a-z, digits, '.', '_', '-' and '~', starting with a letter or digit"
)
#: The same, as a JSON Schema.
NAME_PATTERN: Final = "^[A-Za-z0-9][A-Za-z0-9._~-]{0,199}$"
_NAME: Final = re.compile(r"[A-Za-z0-9][A-Za-z0-9._~-]{0,199}\Z")
_UUID: Final = re.compile(r"[0-9a-f]{32}\Z")
_HEX64: Final = re.compile(r"[0-9a-f]{64}\Z")
#: How many forks a world's line of ancestors may have.
MAX_DEPTH: Final = 100

#: When intents become effects: each as it arrives, or all that are held together at the next tick.
Order: TypeAlias = Literal["arrival", "tick"]

#: The kind of every world's first effect.
GENESIS_KIND: Final = "WorldCreated"
#: Its global_seq.
GENESIS_SEQ: Final = 1
#: The members that the payload of every genesis has, each with the JSON types of its values.
REQUIRED: Final = {
    "canonical_profile": ("string",),
    "config": ("object",),
    "experiment": ("string", "null"),
    "ruleset": ("string",),
    "ruleset_version": ("number",),
    "time_authority": ("string",),
    "world_uuid": ("string",),
}
#: The same of those that it may have besides.
OPTIONAL: Final = {
    FORK_OF: ("object", "null"),
    "orchestrator": ("object", "null"),
    "order": ("string",),
    "parent": ("object", "null"),
    "snapshot_every": ("number", "null"),
    TIME_ZERO: ("number",),
}
#: What the effect of a genesis has in other fields (None: null, or no such field): it is nobody's request.
ENVELOPE: Final = {
    "schema_version": SCHEMA_VERSION,
    "priority": 0,
    "req_id": None,
    "source_metadata": None,
}
#: Units in the last place by which a fork's times may miss each other: it adds and subtracts a few times.
ROUNDINGS: Final = 4


def check_world_name(name: str) -> str:
    """Return a world's name if it is allowed (see NAME_RULE); raise InvalidNameError if not."""
    if not _NAME.match(name):
        raise InvalidNameError(f"{name!r} cannot be a world's name; allowed: {NAME_RULE}", world_id=name)
    return name


def is_uuid(value: Any) -> bool:
    """Return whether a value is a uuid as logs have them: 32 lower-case hex digits."""
    return type(value) is str and _UUID.match(value) is not None


class Parent(BaseModel):
    """An origin as earlier versions noted it: a world's name and uuid (32 hex digits), and a position in its chain."""

    model_config = ConfigDict(frozen=True, extra="forbid", defer_build=True)

    world_uuid: str
    world_id: str
    global_seq: int = Field(ge=1)
    checksum: str


class ForkPoint(BaseModel):
    """Where a fork begins: an effect of its parent, whose state the fork goes on from.

    - ``world_uuid``, ``world_id``, ``global_seq``, ``checksum``: the parent and the effect, by its checksum
    - ``depth``: 1 for a fork of a world that is none, at most MAX_DEPTH
    - ``time_offset``: what the parent's authority over sim_time added to its own time there; under the wall clock the
      fork's ``time_zero`` says it
    - ``silence``: why that authority was silent there, None if it was not
    - ``changes``: path -> value: what was changed right after the genesis, by effects
    - ``same_noise``: whether its agents go on to draw the parent's noise
    - ``label``: the user's own words about it
    - ``unverified``: whether it was made although the parent did not pass verification
    """

    model_config = ConfigDict(frozen=True, extra="forbid", strict=True, defer_build=True)

    world_uuid: str
    world_id: str
    global_seq: int = Field(ge=1, le=MAX_INT)
    checksum: str
    depth: int = Field(default=1, ge=1, le=MAX_DEPTH)
    time_offset: float = 0.0
    silence: str | None = None
    changes: dict[str, Any] = Field(default_factory=dict)
    same_noise: bool = False
    label: str | None = Field(default=None, min_length=1, max_length=1000)
    unverified: bool = False


class UnforkedWorld(BaseModel):
    """A world to be created that is no fork."""

    model_config = ConfigDict(
        frozen=True,
        extra="forbid",
        strict=True,
        json_schema_extra={"examples": [{"world_id": "market-town", "ruleset": DEFAULT, "experiment": "trial-1"}]},
    )

    world_id: str = Field(json_schema_extra={"pattern": NAME_PATTERN, "maxLength": 200})
    ruleset: str = Field(default=DEFAULT, description="The rules of this kind of world.")
    config: dict[str, Any] = Field(
        default_factory=dict,
        description="The ruleset's own settings; `/v1/schemas` lists the schemas that kinds of worlds have for theirs.",
    )
    experiment: str | None = Field(
        default=None, min_length=1, max_length=200, description="A label under which worlds are found together."
    )
    time_authority: str = Field(
        default="wall",
        description="Who sets sim_time: `wall` (the clock), `client` (any draft) or the name of an adapter, whose "
        "drafts (source_id equal to that name) alone may; `worldledger` is reserved.",
        json_schema_extra={"pattern": AUTHORITY_PATTERN},
    )
    order: Order = Field(
        default="arrival",
        description="`arrival`: each intent is decided as it arrives; `tick`: intents are held, and the next tick "
        "decides all of them in one order.",
    )
    snapshot_every: int | None = Field(
        default=None,
        ge=2,
        le=999_999_999,
        description="Effects between two snapshots of the state, at least; the service's own if null.",
    )
    orchestrator: OrchestratorConfig | None = Field(
        default=None, description="How its agents are served; left to the service if null."
    )
    #: no part of the genesis: what the world begins with stands in the effects after it
    checkpoint: dict[str, Any] | None = Field(
        default=None, description="A state to begin with, for rulesets that can; in the ruleset's own form."
    )


class NewWorld(UnforkedWorld):
    """A world to be created.

    ``fork_of`` is where a fork begins; `worldledger_service.store.forking` makes forks. ``parent`` is what earlier
    versions noted of an origin: only its shape was checked, and nothing is read through it.
    """

    parent: Parent | None = None
    fork_of: ForkPoint | None = None

    def checked(self) -> NewWorld:
        """Return the world itself if its name, labels, config and the shape of its parent can be stored.

        Raises InvalidNameError for the name, InvalidConfigError with the path for anything else.
        """
        check_world_name(self.world_id)
        if self.time_authority != SERVICE_SOURCE and not is_authority(self.time_authority):
            raise InvalidConfigError(
                f"time_authority {self.time_authority!r} is neither 'wall', 'client' nor an adapter's name "
                "(lower-case letters, digits, '_' and '-')",
                path="$.time_authority",
            )
        if self.time_authority == SERVICE_SOURCE:
            raise InvalidConfigError(
                f"time_authority {SERVICE_SOURCE!r} is reserved: the service's own effects have it as their source_id",
                path="$.time_authority",
            )
        try:
            gate(self.config, path="$.config", level=3)
            gate(self.experiment, path="$.experiment", level=3)
            gate(self.checkpoint, path="$.checkpoint", level=3)
            gate(self.orchestrator and self.orchestrator.model_dump(), path="$.orchestrator", level=3)
            gate(self.parent and self.parent.model_dump(), path="$.parent", level=3)
            gate(self.fork_of and self.fork_of.model_dump(), path="$.fork_of", level=3)
        except InvalidEffectError as error:
            raise InvalidConfigError(f"{error.path}: {error.reason}", path=error.path) from None
        if self.parent is not None:
            check_origin(self.parent, "$.parent")
        if self.fork_of is not None:
            check_origin(self.fork_of, "$.fork_of")
        return self


def check_origin(parent: Parent | ForkPoint, path: str) -> None:
    """Raise InvalidConfigError unless name, uuid and checksum have the shape that those of a world have."""
    for name, value, rule, what in (
        ("world_id", parent.world_id, _NAME, f"a world's name: {NAME_RULE}"),
        ("world_uuid", parent.world_uuid, _UUID, "32 lower-case hex digits"),
        ("checksum", parent.checksum, _HEX64, "64 lower-case hex digits"),
    ):
        if not rule.match(value):
            raise InvalidConfigError(f"{path}.{name}: must be {what}", path=f"{path}.{name}")


def genesis_draft(
    world: NewWorld, *, world_uuid: str, ruleset_version: int, wall_time: float, time_zero: float | None = None
) -> EffectDraft:
    """Return the draft of a world's first effect, which is to have this wall_time (epoch seconds).

    Under the wall clock the world's seconds count from ``time_zero``: from its beginning by default.
    """
    payload: dict[str, Any] = {
        "world_uuid": world_uuid,
        "ruleset": world.ruleset,
        "ruleset_version": ruleset_version,
        "config": world.config,
        "experiment": world.experiment,
        "canonical_profile": PROFILE,
        "time_authority": world.time_authority,
    }
    if world.order != "arrival":
        payload["order"] = world.order
    if world.time_authority == "wall":
        payload[TIME_ZERO] = wall_time if time_zero is None else time_zero
    if world.snapshot_every is not None:
        payload["snapshot_every"] = world.snapshot_every
    if world.orchestrator is not None:
        payload["orchestrator"] = world.orchestrator.model_dump()
    if world.parent is not None:
        payload["parent"] = world.parent.model_dump()
    if world.fork_of is not None:
        payload[FORK_OF] = world.fork_of.model_dump(exclude_defaults=True)
    return own_draft(GENESIS_KIND, payload)


def recorded_world(world_id: Any, payload: Mapping[str, Any]) -> NewWorld:
    """Return the world that a recorded genesis creates, from its payload.

    This is the rule for the payload of a genesis, and part of `recorded_genesis`. Raises InvalidConfigError with the
    ``path`` of what is missing or not allowed.
    """
    if payload.get("canonical_profile", PROFILE) != PROFILE:
        what = f"canonical profile {payload['canonical_profile']!r} is unknown to this version"
        raise InvalidConfigError(what, path="$.payload.canonical_profile")
    for name in REQUIRED:
        if name not in payload:
            raise _no_genesis(name, "missing")
    unknown = min(payload.keys() - REQUIRED.keys() - OPTIONAL.keys(), default=None)
    if unknown is not None:
        raise _no_genesis(unknown, "unknown to this version")
    version = payload["ruleset_version"]
    if type(version) is not int or not 0 <= version < 2**31:
        raise _no_genesis("ruleset_version", "not a version number")
    if not is_uuid(payload["world_uuid"]):
        raise _no_genesis("world_uuid", "not 32 hex digits")
    if TIME_ZERO in payload and not is_time(payload[TIME_ZERO]):
        raise _no_genesis(TIME_ZERO, "not a finite number of seconds")
    fields = {name: payload[name] for name in NewWorld.model_fields if name in payload}
    try:
        world = NewWorld.model_validate({**fields, "world_id": world_id}, strict=True).checked()
    except ValidationError as error:
        first = error.errors(include_url=False)[0]
        path = "$.payload"
        for key in first["loc"]:
            path = child(path, key)
        raise InvalidConfigError(f"{path}: {first['msg']}", path=path) from None
    point = world.fork_of
    if world.time_authority != "wall":
        if TIME_ZERO in payload:
            raise _no_genesis(TIME_ZERO, f"only under 'wall', not under {world.time_authority!r}")
    elif point is not None and (point.time_offset != 0 or point.silence is not None):
        raise _no_genesis(FORK_OF, f"no time_offset and no silence under 'wall', whose zero is {TIME_ZERO}")
    return world


def recorded_genesis(effect: Mapping[str, Any]) -> NewWorld:
    """Return the world that a recorded genesis creates.

    This is the rule for a genesis: `genesis_problem` applies it to stored logs, `worldledger.exports` to exports.
    Besides the payload (`recorded_world`) it is about the effect, which is the service's own and nobody's request, and
    about ``time_zero``: it is the ``wall_time``, and ``sim_time`` is 0. In a fork, which goes on at its parent's time,
    ``wall_time`` - ``time_zero`` is the ``sim_time``, but for what double floats round. What a fork's genesis says of
    its parent is compared by `worldledger.lineage`. Raises InvalidConfigError with the ``path``.
    """
    payload = effect.get("payload")
    if effect.get("kind") != GENESIS_KIND or not isinstance(payload, dict):
        raise InvalidConfigError(f"the first effect is no {GENESIS_KIND} with a payload", path="$.kind")
    world = recorded_world(effect.get("world_id"), payload)
    for name, value in ENVELOPE.items():
        said = effect.get(name)
        if type(said) is not type(value) or said != value:
            what = f"$.{name}: that of a {GENESIS_KIND} is {'nothing' if value is None else value}"
            raise InvalidConfigError(what, path=f"$.{name}")
    zero, wall_time, sim_time = payload.get(TIME_ZERO), effect.get("wall_time"), effect.get("sim_time")
    if zero is None or not is_time(wall_time) or not is_time(sim_time):
        return world  # times that are no numbers are another rule's
    if world.fork_of is None:
        # As texts, because 1 and 1.0 are equal in Python.
        agrees = canonical_json(zero) == canonical_json(wall_time) and sim_time == 0
    else:
        rounding = math.ulp(float(max(abs(zero), abs(wall_time), abs(sim_time))))
        agrees = abs(wall_time - zero - sim_time) <= ROUNDINGS * rounding
    if not agrees:
        said = f"{zero!r}, which does not go with the effect's wall_time {wall_time!r} and sim_time {sim_time!r}"
        raise _no_genesis(TIME_ZERO, said)
    return world


def _no_genesis(name: str, what: str) -> InvalidConfigError:
    path = child("$.payload", name)
    return InvalidConfigError(f"{path}: {what}", path=path)


class _Made(Struct):
    config: Raw


class _Begun(Struct):
    payload: _Made


_read_config: Final = Decoder(_Begun).decode


def _differs(name: str, found: bytes, said: bytes) -> str:
    return f"column {name} of the world is {found.decode()}, its genesis says {said.decode()}"


def genesis_problem(text: bytes, columns: Mapping[str, Any]) -> str | None:
    """Compare a world's first stored effect with its row in ``worlds``; return what differs, or None.

    A genesis with content that is not allowed (`recorded_genesis`) is a problem, too.

    ``columns`` has world_uuid (text), ruleset, ruleset_version, experiment, time_authority, and config as its text,
    which repeats that in the genesis to the letter.
    """
    try:
        effect = orjson.loads(text)
        if effect["kind"] != GENESIS_KIND:
            return f"the first effect is {effect['kind']!r}, not {GENESIS_KIND}"
        recorded_genesis(effect)
        for name in ("world_uuid", "ruleset", "ruleset_version", "experiment", "time_authority"):
            # As texts, because 1, 1.0 and True are equal in Python.
            said, found = canonical_json(effect["payload"][name]), canonical_json(columns[name])
            if said != found:
                return _differs(name, found, said)
        said, found = bytes(_read_config(text).payload.config), columns["config"].encode()
        if said != found:
            return _differs("config", found, said)
    except SimulationError as error:
        return error.message
    except (ValueError, TypeError, KeyError) as error:
        return f"the first effect is no genesis ({type(error).__name__}: {error})"
    return None
