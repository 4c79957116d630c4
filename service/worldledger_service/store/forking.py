"""Making forks: a world that goes on from an effect of another one. No row of the parent is copied.

Everything is written in one transaction, so a fork is there whole or not at all: the genesis, which names the parent's
effect by its checksum; the digest of the state that the fork begins with; what is changed right after it, as effects
that the ruleset has let pass; and a snapshot, so that the parent need not be folded again.
"""

from __future__ import annotations

import asyncio
import math
import uuid
from collections.abc import Callable, Collection, Mapping, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

import orjson
from pydantic import BaseModel, ConfigDict, Field, ValidationError

from worldledger.chain import Finding, link
from worldledger.effects import EffectDraft
from worldledger.errors import InvalidConfigError, InvalidEffectError, SimulationError, TamperedError, WorldExistsError
from worldledger.folding import Fold
from worldledger.genesis import MAX_DEPTH, NAME_PATTERN, ForkPoint, check_world_name, genesis_draft, recorded_world
from worldledger.intents import registration_draft
from worldledger.lineage import GOING_ON, fork_point, with_own_noise
from worldledger.protocols import Span
from worldledger.rulesets import Ruleset, load_ruleset
from worldledger.time_authority import CLIENT, WALL, TimeAuthority
from worldledger_service.store import statements
from worldledger_service.store.authority import authority_at
from worldledger_service.store.bulk import copy_rows
from worldledger_service.store.holding import next_tick
from worldledger_service.store.records import Head, genesis_payload
from worldledger_service.store.sealing import Group, LiveState, Sealer
from worldledger_service.store.snapshots import Taken, columns, take
from worldledger_service.store.snapshotter import digest_draft
from worldledger_service.store.units import Unit

if TYPE_CHECKING:
    from worldledger_service.database.engine import PooledConnection
    from worldledger_service.store.reader import Reader
    from worldledger_service.store.records import WorldRecord
    from worldledger_service.store.states import States

#: The longest name that a fork is given if it comes without one.
_MOST = 200


class NewFork(BaseModel):
    """A fork to be made.

    - ``world_id``: its name; without one it is the parent's with ``~`` and the seq of the fork point
    - ``experiment``: the parent's if null
    - ``changes``: path -> value, changed right after the genesis by the rules of the world's kind
    - ``config``: the world's own config if it is not the parent's; the kind may begin with effects for it
      (`Ruleset.going_on`)
    - ``same_noise``: whether its agents go on to draw the noise of the parent
    - ``anyway``: whether it is made although the log before the fork point, or the head, does not verify
    """

    model_config = ConfigDict(frozen=True, extra="forbid", strict=True)

    world_id: str | None = Field(default=None, json_schema_extra={"pattern": NAME_PATTERN, "maxLength": 200})
    experiment: str | None = Field(default=None, min_length=1, max_length=200)
    label: str | None = Field(default=None, min_length=1, max_length=1000)
    changes: dict[str, Any] = Field(default_factory=dict)
    config: dict[str, Any] | None = None
    same_noise: bool = False
    anyway: bool = False


class Made(NamedTuple):
    """The name of a fork, and whether it was made now: the same request again finds it."""

    world_id: str
    is_new: bool


class TakenMeanwhileError(Exception):
    """Another caller has made a world of the fork's name in the meantime: look again. It never leaves the store."""


async def make_fork(
    parent: WorldRecord,
    seq: int,
    fork: NewFork,
    *,
    is_verified: bool,
    reader: Reader,
    states: States,
    connect: Callable[[], Any],
    new_sealer: Callable[[str, TimeAuthority, Ruleset, Callable[[], float]], Sealer],
    clock: Callable[[], float],
    new_uuid: Callable[[], str],
) -> Made:
    """Make a fork of a world at a seq that it has, or find the one that the same request made before.

    ``connect`` lends a connection in a bulk transaction; ``is_verified`` is False if the parent is known not to verify,
    which the genesis is to say. Raises InvalidNameError, WorldExistsError if the name is
    taken, InvalidConfigError for changes and a config that the rules refuse and for too long a line of ancestors,
    UnknownRulesetError, TamperedError if the log around the fork point does not verify, and TakenMeanwhileError.
    """
    ruleset = load_ruleset(parent.ruleset)
    payload = await _genesis_payload(reader, parent.world_id)
    if fork.config is not None:
        payload = {**payload, "config": ruleset.check_config(fork.config)}
    point = await _point(reader, parent, payload, seq, fork, is_verified=is_verified)
    name = check_world_name(fork.world_id) if fork.world_id is not None else _name(parent.world_id, seq)
    for attempt in range(2, 1002):
        existing = await reader.fetch(statements.GENESIS, name)
        if not existing:
            break
        if _is_same(genesis_payload(name, existing[0][0]), point, fork, parent, payload["config"]):
            return Made(name, is_new=False)
        if fork.world_id is not None:
            what = f"a world named {name!r} is already there, and it is not this fork"
            raise WorldExistsError(what, world_id=name)
        name = _name(parent.world_id, seq, attempt)
    try:
        base = await states.base_at(parent.world_id, seq)
    except TamperedError:
        if not fork.anyway:
            raise
        base = await states.base_at(parent.world_id, seq, check=False)
        point = point.model_copy(update={"unverified": True})
    if base.checksum.hex() != point.checksum:
        raise Finding(parent.world_id, seq, "the log was changed while it was being forked").error()
    ancestors = {record.world_uuid for record in await states.line(parent)}
    writing = _Fork(name, parent, payload, point, ancestors, fork, base.fold, new_sealer, clock, new_uuid)
    async with connect() as connection:
        authority = await authority_at(connection, parent.world_id, seq)
        open_tick = await next_tick(connection, parent.world_id, seq) if writing.world.order == "tick" else None
        await asyncio.to_thread(writing.begin, authority)
        group = await writing.seal()
        await _write(connection, writing, group)
        if open_tick is not None:
            await connection.execute(
                statements.OPEN_FIRST_TICK, name, open_tick.number, 1, open_tick.sim_time, open_tick.source_id
            )
    return Made(name, is_new=True)


def _name(parent: str, seq: int, attempt: int = 1) -> str:
    end = f"~{seq}" if attempt == 1 else f"~{seq}.{attempt}"
    return parent[: _MOST - len(end)] + end


def _is_same(
    payload: Mapping[str, Any], point: ForkPoint, fork: NewFork, parent: WorldRecord, config: Mapping[str, Any]
) -> bool:
    """Return whether a world with this genesis is the fork that is asked for."""
    try:
        made = fork_point(payload)
    except ValueError:
        return False
    if made is None or payload.get("experiment") != (fork.experiment or parent.experiment):
        return False
    if payload.get("config") != config:
        return False
    same = {"world_uuid", "global_seq", "checksum", "changes", "same_noise", "label"}
    return made.model_dump(include=same) == point.model_dump(include=same)


async def _genesis_payload(reader: Reader, world_id: str) -> dict[str, Any]:
    for (text,) in await reader.fetch(statements.GENESIS, world_id):
        return genesis_payload(world_id, text)
    raise Finding(world_id, 1, "missing: there is no genesis").error()


async def _point(
    reader: Reader, parent: WorldRecord, payload: Mapping[str, Any], seq: int, fork: NewFork, *, is_verified: bool
) -> ForkPoint:
    """Check the parent's head and the effect at the fork point; return where the fork begins."""
    problem, checksum = await _problem(reader, parent, seq)
    if problem is not None and not fork.anyway:
        raise problem.error()
    ancestor = fork_point(payload)
    depth = 1 if ancestor is None else ancestor.depth + 1
    if depth > MAX_DEPTH:
        what = f"$.fork_of: world {parent.world_id!r} has {MAX_DEPTH} ancestors, the most that a world may have"
        raise InvalidConfigError(what, path="$.fork_of")
    try:
        return ForkPoint(
            world_uuid=parent.world_uuid,
            world_id=parent.world_id,
            global_seq=seq,
            checksum=checksum.hex(),
            depth=depth,
            changes=fork.changes,
            same_noise=fork.same_noise,
            label=fork.label,
            unverified=problem is not None or not is_verified,
        )
    except ValidationError as error:
        raise InvalidConfigError(str(error.errors(include_url=False)[0]["msg"]), path="$.fork_of") from None


async def _problem(reader: Reader, parent: WorldRecord, seq: int) -> tuple[Finding | None, bytes]:
    """Look at the head and at the effect at a seq; return what does not hold, and the checksum there."""
    spans = [Span(parent.world_id, seq - 2, seq), Span(parent.world_id, parent.head_seq - 1, parent.head_seq)]
    rows = {row.global_seq: row for found in await reader.gather(spans, limit=3) for row in found}
    for at in {max(seq - 1, 1), seq, parent.head_seq} - rows.keys():
        rows[at] = await reader.effect(parent.world_id, at)  # it is long, or missing
    row = rows[seq]
    before = rows[seq - 1].checksum if seq > 1 else None
    problem = None
    if link(before, row.text) != row.checksum:
        problem = Finding(parent.world_id, seq, "its checksum is not that of its text and the effect before it")
    elif rows[parent.head_seq].checksum.hex() != parent.head_checksum:
        what = "the head's checksum is not that of the last effect"
        problem = Finding(parent.world_id, parent.head_seq, what)
    return problem, row.checksum


class _Fork:
    """A fork that is being made: its world, and its first effects."""

    def __init__(
        self,
        name: str,
        parent: WorldRecord,
        payload: Mapping[str, Any],
        point: ForkPoint,
        ancestors: Collection[str],
        fork: NewFork,
        fold: Fold,
        new_sealer: Callable[[str, TimeAuthority, Ruleset, Callable[[], float]], Sealer],
        clock: Callable[[], float],
        new_uuid: Callable[[], str],
    ) -> None:
        self.uuid = uuid.UUID(new_uuid())
        self.world = recorded_world(parent.world_id, payload).model_copy(
            update={
                "world_id": name,
                "experiment": fork.experiment or parent.experiment,
                "fork_of": point,
                "parent": None,
            }
        )
        self.ruleset = fold.ruleset
        self.snapshot: Taken | None = None
        self._point = point
        self._ancestors = ancestors
        self._goes_on_by = None if fork.config is None else self.world.config
        self._fold = fold
        self._new_sealer = new_sealer
        self._sim_time: float = fold.state.metadata["last_effect_time"]
        self._now = max(clock(), 0.0)

    def begin(self, authority: TimeAuthority) -> None:
        """Make the draft of the genesis, and a sealer with the parent's state.

        Where clients said the parent's time, and the fork goes on by a config of its own, the clock says it: what the
        service does there by itself comes with no time.
        """
        if self._goes_on_by is not None and authority.name == CLIENT:
            authority = TimeAuthority(WALL)
        silence = authority.silence.reason if authority.silence is not None else None
        wall = authority.name == WALL
        point = self._point.model_copy(
            update={"time_offset": 0.0 if wall else authority.offset, "silence": None if wall else silence}
        )
        self.world = self.world.model_copy(update={"fork_of": point, "time_authority": authority.name}).checked()
        zero = self._now - self._sim_time
        while self._now - zero > self._sim_time:
            zero = math.nextafter(zero, math.inf)
        self._genesis = genesis_draft(
            self.world,
            world_uuid=self.uuid.hex,
            ruleset_version=self.ruleset.version,
            wall_time=self._now,
            time_zero=zero,
        )
        own = TimeAuthority.of_genesis(self._genesis["payload"])
        name, now = self.world.world_id, self._now
        self._sealer = self._new_sealer(name, own, self.ruleset, lambda: now)
        fold = Fold(name, self.ruleset, self._fold.state)
        self._sealer.live = LiveState(fold, 0, lambda _: None)

    async def seal(self) -> Group:
        """Write the first effects. Raises InvalidConfigError with the path of a change that is refused."""
        head = Head(0, b"", self._sim_time, self._now)
        group = self._add(None, head, [self._genesis])
        self.snapshot = await asyncio.to_thread(take, self._live.fold, group.after.checksum)
        digest = digest_draft(self.snapshot, self.ruleset)
        group = self._add(group, head, [digest])
        if not self._point.same_noise:
            for draft in self._registrations():
                group = self._add(group, head, [_going_on(draft)])
        if self._goes_on_by is not None:
            for draft in self.ruleset.going_on(self._goes_on_by, self._live.fold.state):
                group = self._add(group, head, [_going_on(draft)])
        for path, value in self._point.changes.items():
            try:
                draft = self.ruleset.change(path, value, self._live.fold.state)
                group = self._add(group, head, [draft])
            except SimulationError as error:
                place = f"$.changes.{path}"
                why = error.message  # says where in the effect
                if isinstance(error, InvalidEffectError) and error.path == place:
                    why = error.reason
                raise InvalidConfigError(f"{path} cannot be set: {why}", path=place) from error
        return group

    @property
    def _live(self) -> LiveState:
        live = self._sealer.live
        assert live is not None  # noqa: S101 - it is dropped only with a refusal, which is raised
        return live

    def _add(self, group: Group | None, head: Head, drafts: Sequence[EffectDraft]) -> Group:
        unit = Unit.of(drafts, limit=len(drafts), system=True)
        sealed, _, refused = self._sealer.seal(head, [unit], final=True, onto=group)
        if refused:
            error = unit.refusal or InvalidEffectError("it was refused")
            raise error
        self._live.after(0, sealed.texts)
        unit.future.cancel()
        return sealed

    def _registrations(self) -> list[EffectDraft]:
        """Return new registrations of the agents whose policies draw noise by the world's uuid."""
        drafts: list[EffectDraft] = []
        for agent_id, known in sorted(self._live.fold.state.metadata["agents"].items()):
            spec = with_own_noise(known["policy"], self._ancestors, self.uuid.hex)
            if spec != known["policy"]:
                more = {name: known[name] for name in ("staleness_threshold", "interrupt_policy") if name in known}
                drafts.append(registration_draft(agent_id, spec, known["permissions"], known["weight"], **more))
        return drafts


def _going_on(draft: EffectDraft) -> EffectDraft:
    return {**draft, "source_metadata": {GOING_ON: True}}


async def _write(connection: PooledConnection, fork: _Fork, group: Group) -> None:
    """Write a fork inside the caller's transaction."""
    world = fork.world
    created = await connection.fetchval(
        statements.INSERT_WORLD,
        world.world_id,
        fork.uuid,
        world.ruleset,
        fork.ruleset.version,
        orjson.dumps(world.config, option=orjson.OPT_SORT_KEYS).decode(),
        world.experiment,
        world.time_authority,
    )
    if created is None:
        raise TakenMeanwhileError
    rows = (
        (world.world_id, row.global_seq, row.text.decode(), row.checksum, row.kind, row.source_id, row.sim_time)
        for row in group.rows()
    )
    await copy_rows(connection, "effects", rows, statements.EFFECT_COLUMNS)
    requests = [(world.world_id, *request) for request in group.requests]
    await copy_rows(connection, "requests", requests, statements.REQUEST_COLUMNS)
    await connection.execute(statements.INSERT_HEAD, world.world_id, *group.after)
    taken = fork.snapshot
    if taken is not None:
        await connection.execute(statements.WRITE_SNAPSHOTS, *columns(world.world_id, fork.ruleset, taken))
