"""Many worlds by one transaction: what an import of thousands of recordings spends its time with is else commits."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from hashlib import sha256
from itertools import chain, islice
from typing import TYPE_CHECKING, Final, TypeAlias
from uuid import UUID

from worldledger.canonical import canonical_json
from worldledger.drafts import CheckedDraft, check_draft, effect_text
from worldledger.errors import SimulationError, TamperedError, WorldExistsError
from worldledger.genesis import NewWorld, genesis_draft
from worldledger.plain_drafts import PlainDrafts
from worldledger.rulesets import load_ruleset
from worldledger.time_authority import CLIENT, TimeAuthority
from worldledger_service.store import statements
from worldledger_service.store.copying import bulk_transaction, copy_rows
from worldledger_service.store.identity import Uuids
from worldledger_service.store.records import Head
from worldledger_service.store.sealing import Sealer
from worldledger_service.store.tampering import beyond_the_head

if TYPE_CHECKING:
    from worldledger_service.store.bulk import Row
    from worldledger_service.store.reader import Reader

#: $1 world_id, $2 world_uuid, $3 ruleset, $4 ruleset_version, $5 config, $6 experiment, $7 time_authority: arrays.
#: In the order of names, so that two processes that make the same worlds never wait for each other in a circle.
_INSERT_WORLDS: Final = """
insert into worlds (world_id, world_uuid, ruleset, ruleset_version, config, experiment, time_authority)
select world_id, world_uuid, ruleset, ruleset_version, config::json, experiment, time_authority
from unnest($1::text[], $2::uuid[], $3::text[], $4::int[], $5::text[], $6::text[], $7::text[])
    as w (world_id, world_uuid, ruleset, ruleset_version, config, experiment, time_authority)
order by world_id
on conflict (world_id) do nothing returning world_id
"""

#: $1 world_id, $2 head_seq, $3 head_checksum, $4 sim_time, $5 wall_time: arrays.
_INSERT_HEADS: Final = """
insert into heads (world_id, head_seq, head_checksum, sim_time, wall_time)
select * from unnest($1::text[], $2::bigint[], $3::bytea[], $4::float8[], $5::float8[])
"""

#: An effect's canonical bytes, kind, source and sim_time.
_Effect: TypeAlias = tuple[bytes, str, str, float]


@dataclass(frozen=True)
class SealedWorld:
    """A world that is to be made, with the rows of its log; ``head`` is where they end."""

    world: NewWorld
    world_uuid: str
    ruleset_version: int
    rows: list[Row]
    head: Head


class WorldsAtOnce:
    """Makes worlds together with their first effects, many at once, as `Store.import_world` makes one."""

    def __init__(
        self,
        reader: Reader,
        *,
        max_effect_bytes: int,
        clock: Callable[[], float] = time.time,
        new_uuid: Callable[[], str] | None = None,
        written: Callable[[str, int], object] | None = None,
    ) -> None:
        """``written`` is told the name and the head of each world that was written."""
        self._reader = reader
        self._written = written
        self._max_effect_bytes = max_effect_bytes
        self._clock = clock
        self._new_uuid = new_uuid or Uuids()

    def seal(self, given: NewWorld, drafts: Sequence[CheckedDraft] | PlainDrafts) -> SealedWorld:
        """Return a world with its first drafts, which have no req_id, ready to be written.

        Raises as `Store.import_world` does, but for WorldExistsError.
        """
        ruleset = load_ruleset(given.ruleset)
        world = given.checked()
        world_uuid = self._new_uuid()
        world = world.model_copy(update={"config": ruleset.check_config(world.config)}).checked()
        wall_time = max(self._clock(), 0.0)
        genesis = genesis_draft(world, world_uuid=world_uuid, ruleset_version=ruleset.version, wall_time=wall_time)
        opening = ruleset.opening(world.config, world_uuid=world_uuid, checkpoint=world.checkpoint)
        sealer = Sealer(
            world.world_id,
            TimeAuthority.of_genesis(genesis["payload"]),
            clock=self._clock,
            new_uuid=self._new_uuid,
            max_effect_bytes=self._max_effect_bytes,
            ruleset=ruleset,
        )
        first = [check_draft(draft, system=True) for draft in (genesis, *opening)]
        rows: list[Row] = []
        world_id, sim_time, checksum, prefix = world.world_id, 0.0, b"", b""
        begun = [*self._first(sealer, first, wall_time)]
        others = self._others(sealer, len(begun), drafts, sim_time=begun[-1][3], wall_time=wall_time)
        for seq, (text, kind, source_id, sim_time) in enumerate(chain(begun, others), 1):
            digest = sha256(prefix + text)
            checksum = digest.digest()
            prefix = digest.hexdigest().encode()
            rows.append((world_id, seq, text.decode(), checksum, kind, source_id, sim_time))
        return SealedWorld(world, world_uuid, ruleset.version, rows, Head(len(rows), checksum, sim_time, wall_time))

    @staticmethod
    def _first(sealer: Sealer, drafts: Sequence[CheckedDraft], wall_time: float) -> Iterator[_Effect]:
        """Return the text, kind, source and time of what the service itself writes first."""
        sim_time = 0.0
        for seq, draft in enumerate(drafts, 1):
            text, _, sim_time = sealer.effect(draft, seq, sim_time=sim_time, wall_time=wall_time)
            yield text, draft.kind, draft.source_id, sim_time

    def _others(
        self,
        sealer: Sealer,
        begun: int,
        drafts: Sequence[CheckedDraft] | PlainDrafts,
        *,
        sim_time: float,
        wall_time: float,
    ) -> Iterator[_Effect]:
        """Return the same of the drafts, which follow; those of recordings in a part of the sealer's time."""
        world_id, new_uuid = sealer.world_id, self._new_uuid
        # Whoever states a time may, and it stays where none is stated.
        is_simple = sealer.authority.name == CLIENT
        if is_simple and isinstance(drafts, PlainDrafts):
            texts = drafts.texts(world_id=world_id, first_seq=begun + 1, new_uuid=new_uuid, wall_time=wall_time)
            for at, effect in enumerate(zip(texts, drafts.kinds, drafts.sources, drafts.sim_times, strict=True)):
                if effect[3] < sim_time or len(effect[0]) > self._max_effect_bytes:
                    draft = next(islice(drafts, at, None))
                    sealer.effect(draft, begun + at + 1, sim_time=sim_time, wall_time=wall_time, index=at)  # says why
                sim_time = effect[3]
                yield effect
            return
        for at, draft in enumerate(drafts):
            before, seq, text = sim_time, begun + at + 1, b""
            if is_simple and draft.caused_by is None:
                sim_time = before if draft.sim_time is None else draft.sim_time
                text = effect_text(
                    draft, world_id=world_id, global_seq=seq, uuid=new_uuid(), sim_time=sim_time, wall_time=wall_time
                )
            if not text or sim_time < before or len(text) > self._max_effect_bytes:
                text, _, sim_time = sealer.effect(draft, seq, sim_time=before, wall_time=wall_time, index=at)
            yield text, draft.kind, draft.source_id, sim_time

    async def write(self, worlds: Sequence[SealedWorld]) -> list[SimulationError | None]:
        """Write worlds by one transaction; each is there whole or not at all.

        Gives for each None, or why it was not made: WorldExistsError, TamperedError. Raises StoreUnavailableError, and
        then none of them was made, unless its ``outcome`` is unknown.
        """
        new: dict[str, SealedWorld] = {}
        for sealed in worlds:
            new.setdefault(sealed.world.world_id, sealed)
        try:
            made = await self._write(list(new.values()))
        except TamperedError as error:
            if len(worlds) == 1:
                return [error]
            return [(await self.write([sealed]))[0] for sealed in worlds]  # of which one it is told shows one by one
        return [
            None if sealed.world.world_id in made and new[sealed.world.world_id] is sealed else _exists(sealed.world)
            for sealed in worlds
        ]

    async def _write(self, sealed: Sequence[SealedWorld]) -> set[str]:
        """Write the worlds by one transaction, but for those whose name is taken; return the names of the others."""
        if not sealed:
            return set()
        async with bulk_transaction(self._reader) as connection:
            inserted = await connection.fetch(
                _INSERT_WORLDS,
                [each.world.world_id for each in sealed],
                [UUID(each.world_uuid) for each in sealed],
                [each.world.ruleset for each in sealed],
                [each.ruleset_version for each in sealed],
                [canonical_json(each.world.config).decode() for each in sealed],
                [each.world.experiment for each in sealed],
                [each.world.time_authority for each in sealed],
            )
            made = {row["world_id"] for row in inserted}
            new = [each for each in sealed if each.world.world_id in made]
            if new:
                with beyond_the_head(new[0].world.world_id, 0):
                    rows = (row for each in new for row in each.rows)
                    await copy_rows(connection, "effects", rows, statements.EFFECT_COLUMNS)
                heads = [each.head for each in new]
                names = [each.world.world_id for each in new]
                await connection.execute(_INSERT_HEADS, names, *(list(column) for column in zip(*heads, strict=True)))
        if self._written is not None:
            for each in new:
                self._written(each.world.world_id, each.head.seq)
        return made


def _exists(world: NewWorld) -> WorldExistsError:
    return WorldExistsError(f"a world named {world.world_id!r} is already there", world_id=world.world_id)
