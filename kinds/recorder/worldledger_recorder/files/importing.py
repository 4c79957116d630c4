"""Rows of a file into the log: chunk by chunk, each of them and the note how far it goes by one transaction.

A chunk of a world ends with an effect ``RowsImported {file, rows, sha256}``: the number of its last row, and the
SHA-256 of what the world's rows have become up to it. So the same command again goes on where it was stopped, writes
nothing twice, and refuses a file whose first rows are not those that were imported.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from itertools import chain
from typing import TYPE_CHECKING, Any, Final, NamedTuple

import orjson
from worldledger_service.store.bulk import SealedWorld
from worldledger_service.store.importing import check_experiment, in_thread, resumable
from worldledger_service.store.prefetch import prefetch

from worldledger.drafts import CheckedDraft, PlainDrafts, check_draft
from worldledger.effects import SCHEMA_VERSION
from worldledger.errors import FileRefusedError, SimulationError, WorldExistsError
from worldledger.genesis import NewWorld, check_world_name
from worldledger.names import experiment_label, namesake
from worldledger_recorder.files.mapping import TableMapping, mapping_of
from worldledger_recorder.files.rows import Row, RowReader, content_of
from worldledger_recorder.rules import RULESET, SOURCE, registered
from worldledger_recorder.store import AGENTS, MOST_AGENTS

if TYPE_CHECKING:
    from worldledger_service.database.engine import PooledConnection
    from worldledger_service.store.store import Store

    from worldledger_recorder.files.tables import Record, Table

#: The kind of the effect after the last row of a chunk.
ROWS_IMPORTED: Final = "RowsImported"
#: Most rows of a chunk, and bytes of payloads after which it has enough.
_ROWS: Final = 20_000
_BYTES: Final = 16 * 1024 * 1024
#: Rows that are looked at together, and bytes of the file after which they are enough.
_BATCH: Final = 500
_BATCH_BYTES: Final = 1024 * 1024
#: Most refused rows that are told one by one.
_MOST_TOLD: Final = 20

#: $1 names of worlds.
_WORLDS: Final = """
select w.world_id, w.ruleset, w.experiment, w.config, (
    select e.effect -> 'payload' from effects e where e.world_id = w.world_id and e.kind = 'RowsImported'
    order by e.world_id desc, e.kind desc, e.global_seq desc limit 1) as imported
from worlds w where w.world_id = any($1)
"""
#: $1 world_id.
_IMPORTED: Final = """
select effect -> 'payload' from effects where world_id = $1 and kind = 'RowsImported'
order by world_id desc, kind desc, global_seq desc limit 1
"""


@dataclass(frozen=True)
class Notice:
    """A remark about a file, or about one of its rows."""

    place: str
    text: str
    refused: bool = True

    def __str__(self) -> str:
        return f"{self.place}: {self.text}"


@dataclass
class FileSummary:
    """The result of an import: counts of new, known and refused rows, and the effects and worlds that were made."""

    rows: int = 0
    imported: int = 0
    already: int = 0
    refused: int = 0
    effects: int = 0
    worlds: list[str] = field(default_factory=list)
    notices: list[Notice] = field(default_factory=list)


@dataclass(frozen=True)
class FileProgress:
    """How far an import is: bytes of the file, and rows looked at."""

    done: int
    total: int
    rows: int


async def import_table(
    store: Store,
    table: Table,
    mapping: TableMapping,
    *,
    world: str,
    experiment: str | None = None,
    skip_bad: int = 0,
    max_effect_bytes: int,
    progress: Callable[[FileProgress], None] | None = None,
    notice: Callable[[Notice], None] | None = None,
    summary: FileSummary | None = None,
) -> FileSummary:
    """Import the rows of a table by a mapping: into ``world``, unless the mapping names a column of worlds.

    A row that cannot be taken is told; after ``skip_bad`` of them the next one ends the import, and the rows before it
    are kept. A ``summary`` that is given is kept up to date.

    Raises FileRefusedError for such an end, a file that cannot be read further and one whose first rows are not those
    that were imported; WorldExistsError for a world that was made otherwise; StoreUnavailableError, with what is in.
    """
    check_experiment(experiment)
    run = _Import(store, table, mapping, experiment, progress, notice, FileSummary() if summary is None else summary)
    label = "" if experiment is None else f"{experiment_label(experiment)}-"
    reader = RowReader(
        mapping,
        table,
        world=world if mapping.world is not None else check_world_name(world),
        label=label,
        max_effect_bytes=max_effect_bytes,
    )
    with resumable(lambda: run.summary.imported):
        async with prefetch(in_thread(chunks(table, reader, skip_bad))) as found:
            async for chunk in found:
                await run.take(chunk)
        run.conclude()
    return run.summary


async def imported_by(store: Store, world: str) -> TableMapping | None:
    """Return the mapping by which a world was imported; None for a world that is not there or was not."""
    for row in await store.reader.fetch(_WORLDS, [world]):
        source = orjson.loads(row["config"]).get("source")
        if row["ruleset"] == RULESET.name and isinstance(source, dict) and "mapping" in source:
            return mapping_of(source["mapping"])
    return None


# -- reading -------------------------------------------------------------------------------------------------


class Chunk(NamedTuple):
    """Rows by world, how many were looked at, the refused ones, and the bytes read so far; ``stop`` ends the import."""

    worlds: dict[str, list[Row]]
    rows: int
    refused: list[tuple[int, str]]
    position: int
    stop: Exception | None = None


def chunks(table: Table, reader: RowReader, skip_bad: int) -> Iterator[Chunk]:
    """Yield a table's rows in chunks, up to the first row that is refused after ``skip_bad`` others."""
    outcomes = _outcomes(table, reader)
    bad = 0
    stop: Exception | None = None
    is_over = False
    while not is_over and stop is None:
        worlds: dict[str, list[Row]] = {}
        refused: list[tuple[int, str]] = []
        rows = size = 0
        while rows < _ROWS and size < _BYTES:
            try:
                number, row = next(outcomes, _END)
            except SimulationError as error:  # what was read before is kept
                stop = error
                break
            if not number:
                is_over = True
                break
            rows += 1
            if isinstance(row, str):
                refused.append((number, row))
                bad += 1
                if bad > skip_bad:
                    what = f"the import stops after {bad} refused rows" if bad > 1 else "the import stops here"
                    stop = FileRefusedError(f"{what}; the rows before are kept", file=table.place(number))
                    break
            elif row.drafts:
                worlds.setdefault(row.world, []).append(row)
                for draft in row.drafts:
                    size += len(draft.payload)
        yield Chunk(worlds, rows, refused, table.position, stop)


_END: Final = (0, "")


def _outcomes(table: Table, reader: RowReader) -> Iterator[tuple[int, Row | str]]:
    """Yield the number of each record of a table, and what it becomes, or why it is refused. Raises as `Table.rows`."""
    records = table.rows()
    stop: Exception | None = None
    batch: list[Record] = []
    while stop is None:
        batch, start = [], table.position
        try:
            for record in records:
                batch.append(record)
                if len(batch) == _BATCH or table.position > start + _BATCH_BYTES:
                    break
            else:
                stop = StopIteration()
        except SimulationError as error:
            stop = error
        yield from zip([record.number for record in batch], reader.read_all(batch), strict=True)
    if isinstance(stop, SimulationError):
        raise stop


# -- writing -------------------------------------------------------------------------------------------------


@dataclass
class _World:
    """A world: whether it is there, what of it was imported before, and what of the file belongs to it so far.

    ``is_checked``: whether its rows that were imported before are those of the file; ``is_added_to``: whether new ones
    were written.
    """

    name: str
    is_there: bool = False
    #: the number of the last row that was imported, and the digest of what all of them have become
    rows: int = 0
    sha256: str = ""
    agents: set[str] = field(default_factory=set)
    digest: Any = field(default_factory=hashlib.sha256)
    is_checked: bool = False
    is_added_to: bool = False


class _Import:
    """One run over a file."""

    def __init__(
        self,
        store: Store,
        table: Table,
        mapping: TableMapping,
        experiment: str | None,
        progress: Callable[[FileProgress], None] | None,
        notice: Callable[[Notice], None] | None,
        summary: FileSummary,
    ) -> None:
        self._store = store
        self._table = table
        self._mapping = mapping.document()
        self._experiment = experiment
        self._progress = progress
        self._notice = notice
        self._at_once = store.worlds_at_once()
        self._worlds: dict[str, _World] = {}
        self.summary = summary

    async def take(self, chunk: Chunk) -> None:
        """Write a chunk's rows, and tell what is refused. Raises what ends the import."""
        self.summary.rows += chunk.rows
        for number, why in chunk.refused:
            self._refuse(self._table.place(number), why)
        await self._look_up([name for name in chunk.worlds if name not in self._worlds])
        created: list[tuple[_World, Sequence[Row], SealedWorld]] = []
        for name, rows in chunk.worlds.items():
            world = self._worlds[name]
            new = self._new(world, rows)
            if not new:
                continue
            if world.is_there:
                await self._append(world, new)
            else:
                created.append((world, new, self._at_once.seal(self._new_world(name), self._drafts(world, new))))
        await self._create(created)
        if self._progress is not None:
            self._progress(FileProgress(chunk.position, self._table.size, self.summary.rows))
        if chunk.stop is not None:
            raise chunk.stop

    def conclude(self) -> None:
        """Warn about worlds that were imported from a file with more rows than this one."""
        for world in self._worlds.values():
            if world.rows and not world.is_checked:
                self._check(world)

    async def _look_up(self, names: Sequence[str]) -> None:
        """Find out what is there of worlds. Raises WorldExistsError for one that is another file's."""
        self._worlds |= {name: _World(name) for name in names}
        for row in await self._store.reader.fetch(_WORLDS, names) if names else ():
            world = self._worlds[row["world_id"]]
            source = orjson.loads(row["config"]).get("source")
            is_ours = row["ruleset"] == RULESET.name and row["experiment"] == self._experiment
            if not is_ours or not isinstance(source, dict) or not isinstance(source.get("mapping"), dict):
                raise _taken(world.name, "and no import of a file, or of another experiment")
            if source["mapping"] != self._mapping:
                raise _taken(world.name, "imported by another mapping", mapping=source["mapping"])
            if row["imported"] is None:  # a world is made together with its first rows
                raise _taken(world.name, "and a fork of one that was imported")
            imported = orjson.loads(row["imported"])
            world.is_there, world.rows, world.sha256 = True, imported["rows"], imported["sha256"]
            world.agents |= {found["agent_id"] for found in await self._store.reader.fetch(AGENTS, world.name)}

    def _new(self, world: _World, rows: Sequence[Row]) -> Sequence[Row]:
        """Return the rows that were not imported before, after checking that those that were are the same."""
        known = [row for row in rows if row.number <= world.rows]
        new = rows[len(known) :]
        world.digest.update(b"".join(map(content_of, known)))
        self.summary.already += len(known)
        if not world.is_checked and (new or (known and known[-1].number == world.rows)):
            self._check(world)
        return new

    def _check(self, world: _World) -> None:
        """Raise FileRefusedError unless the rows so far became what was imported."""
        world.is_checked = True
        if world.rows and world.digest.hexdigest() != world.sha256:
            what = (
                f"the rows up to {world.rows} are not those that were imported into {world.name}: the file has "
                "changed, or is another one. A log cannot be changed; import it into another world"
            )
            raise FileRefusedError(what, file=self._table.file)

    def _drafts(self, world: _World, rows: Sequence[Row]) -> PlainDrafts:
        """Return what rows become, after the registrations of agents that are new, and before the note of the chunk."""
        drafts: list[CheckedDraft] = []
        for agent in dict.fromkeys(chain.from_iterable([row.agents for row in rows])):
            if len(world.agents) < MOST_AGENTS and agent not in world.agents and not namesake(agent, world.agents):
                world.agents.add(agent)
                drafts.append(check_draft(registered(agent), system=True))
        for row in rows:
            drafts += row.drafts
        world.digest.update(b"".join(map(content_of, rows)))
        note = {
            "file": self._table.name,
            "rows": rows[-1].number,
            "sha256": world.digest.hexdigest(),
            "sees": [],
        }
        drafts.append(
            check_draft({"kind": ROWS_IMPORTED, "payload": note, "source_id": SOURCE, "schema_version": SCHEMA_VERSION})
        )
        return PlainDrafts.of(drafts)

    def _new_world(self, name: str) -> NewWorld:
        return NewWorld(
            world_id=name,
            ruleset=RULESET.name,
            experiment=self._experiment,
            time_authority="client",
            config={"tags": {}, "source": {"file": self._table.name, "mapping": self._mapping}},
        )

    async def _create(self, created: Sequence[tuple[_World, Sequence[Row], SealedWorld]]) -> None:
        """Create worlds with their first rows, by one transaction."""
        refusals = await self._at_once.write([sealed for _, _, sealed in created]) if created else []
        for (world, rows, sealed), refusal in zip(created, refusals, strict=True):
            if isinstance(refusal, WorldExistsError):
                raise _taken(world.name, "made just now by another import: run this one again")
            if refusal is not None:
                raise refusal
            world.is_there = True
            self._count(world, rows, len(sealed.rows))

    async def _append(self, world: _World, rows: Sequence[Row]) -> None:
        drafts = self._drafts(world, rows)

        async def prepare(connection: PooledConnection, _: object, __: object) -> Sequence[Any]:
            imported = await connection.fetchval(_IMPORTED, world.name)
            if world.rows != (0 if imported is None else orjson.loads(imported)["rows"]):
                raise _taken(world.name, "and another import adds to it just now")
            return [drafts]

        await self._store.bulk_append(world.name, prepare, recorded=True)
        self._count(world, rows, len(drafts))

    def _count(self, world: _World, rows: Sequence[Row], effects: int) -> None:
        world.rows = rows[-1].number
        self.summary.imported += len(rows)
        self.summary.effects += effects
        if not world.is_added_to:
            world.is_added_to = True
            self.summary.worlds.append(world.name)

    def _refuse(self, place: str, text: str) -> None:
        self.summary.refused += 1
        if self.summary.refused <= _MOST_TOLD:
            told = Notice(place, text)
            self.summary.notices.append(told)
            if self._notice is not None:
                self._notice(told)


def _taken(world: str, why: str, **details: Any) -> WorldExistsError:
    what = f"the world {world} is there, {why}; --world names another one (of a column of worlds, world.prefix)"
    return WorldExistsError(what, world_id=world, **details)
