"""``worldledger import csv``, ``import jsonl`` and ``import parquet``: rows of a file become the effects of worlds."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, BinaryIO, Final

import typer
from worldledger_service.cli.connect import Target, target, with_store
from worldledger_service.cli.files import require_none, written_whole
from worldledger_service.cli.log import open_export
from worldledger_service.cli.options import DatabaseUrl, Home, Quiet
from worldledger_service.cli.output import counted, plain, progress_bar, put, put_bytes, put_rows, say, shown

from worldledger.errors import FileRefusedError, InvalidDefinitionError

if TYPE_CHECKING:
    from worldledger_service.cli.tree import Commands
    from worldledger_service.store import Store

    from worldledger_recorder.files.importing import FileSummary, Notice
    from worldledger_recorder.files.mapping import TableMapping
    from worldledger_recorder.files.rows import Row
    from worldledger_recorder.files.tables import Record, Table

#: Rows whose effects are shown, and values of a column.
_SHOWN_ROWS: Final = 3
_SHOWN_VALUES: Final = 3

File = Annotated[str, typer.Argument(metavar="FILE", help="The file; - is stdin, with --world.", show_default=False)]
Map = Annotated[
    Path | None,
    typer.Option("--map", metavar="FILE", help="A mapping in YAML: which columns are what. Without one it is guessed."),
]
World = Annotated[
    str | None,
    typer.Option("--world", metavar="NAME", help="The name of the world.", show_default="the file's name"),
]
Experiment = Annotated[
    str | None, typer.Option("--experiment", metavar="NAME", help="The label under which to find the worlds.")
]
DryRun = Annotated[
    bool,
    typer.Option("--dry-run", help="Show what each column is used for and what the first rows become; write nothing."),
]
WriteMap = Annotated[
    str | None,
    typer.Option("--write-map", metavar="FILE", help="Write the mapping to a file, and import nothing; - is stdout."),
]
SkipBad = Annotated[
    int,
    typer.Option("--skip-bad", metavar="N", min=0, help="Pass over so many rows that cannot be taken, naming each."),
]
AsJson = Annotated[bool, typer.Option("--json", help="Write the outcome as a JSON object to stdout.")]


@dataclass(frozen=True)
class _Asked:
    """The arguments of one import."""

    kind: str
    file: str
    mapping: Path | None
    world: str | None
    experiment: str | None
    dry_run: bool
    write_map: str | None
    skip_bad: int
    as_json: bool
    quiet: bool


#: The kinds of files, and the help of the command for each.
_COMMANDS: Final[Mapping[str, str]] = {
    "csv": """Import a CSV file with a header: each row becomes an effect, the state of an entity, or both.

    A mapping says which column is the time, the agent, the kind, the step. Without one it is guessed from the header
    and the first rows: look at it with --dry-run, and keep it with --write-map.

    Rows go in in their order. One that cannot be taken is named by file and line and ends the import, unless --skip-bad
    passes over it; the rows before it are kept. The same command again goes on from there, adds what the file has got
    since, and writes nothing twice.

    Examples:
        worldledger import csv trades.csv --dry-run
        worldledger import csv trades.csv --write-map trades.yaml
        worldledger import csv trades.csv --map trades.yaml --experiment pilot
    """,
    "jsonl": """
    Import a file of JSON Lines, an object a line; its members are the columns. All else is as for `import csv`.

    Examples:
        worldledger import jsonl events.jsonl --dry-run
        zcat events.jsonl.gz | worldledger import jsonl - --world town
    """,
    "parquet": """Import a Parquet file, whose rows are numbered instead of lines. All else is as for `import csv`.

    It needs the extra analytics.

    Example:
        worldledger import parquet steps.parquet --map steps.yaml
    """,
}


def _importer(kind: str, about: str) -> Callable[..., None]:
    """Return the command that imports files of a kind; ``about`` is its help."""

    def import_file(
        ctx: typer.Context,
        file: File,
        mapping: Map = None,
        world: World = None,
        experiment: Experiment = None,
        dry_run: DryRun = False,
        write_map: WriteMap = None,
        skip_bad: SkipBad = 0,
        as_json: AsJson = False,
        quiet: Quiet = False,
        database_url: DatabaseUrl = None,
        home: Home = None,
    ) -> None:
        asked = _Asked(kind, file, mapping, world, experiment, dry_run, write_map, skip_bad, as_json, quiet)
        _run(ctx, database_url, home, asked)

    import_file.__doc__ = about
    return import_file


def _run(ctx: typer.Context, database_url: str | None, home: Path | None, asked: _Asked) -> None:
    if asked.dry_run and asked.write_map == "-":
        raise typer.BadParameter("stdout has what --dry-run shows; give --write-map a file")
    if asked.world is None and asked.file == "-" and not asked.dry_run and asked.write_map is None:
        raise typer.BadParameter("a name for the world of what comes from stdin: give --world")
    if asked.write_map is not None:
        require_none(asked.write_map)
    with open_export(asked.file) as stream:
        found = _Found.of(stream, asked)
        if asked.dry_run:
            found.show(asked, max_effect_bytes=target(ctx, database_url, home).settings.max_effect_bytes)
        if asked.write_map is not None:
            with written_whole(asked.write_map) as write:
                write(found.mapping.written().encode())
            if asked.write_map != "-" and not asked.quiet:
                say(f"wrote {asked.write_map}")
        if not asked.dry_run and asked.write_map is None:
            _import(target(ctx, database_url, home), found, asked)


@dataclass(frozen=True)
class _Found:
    """A file, the mapping by which it is read, and its first rows; ``is_guessed`` unless a mapping was given."""

    stream: BinaryIO
    table: Table
    columns: Sequence[str]
    sample: Sequence[Record]
    mapping: TableMapping
    is_guessed: bool
    world: str

    @classmethod
    def of(cls, stream: BinaryIO, asked: _Asked, mapping: TableMapping | None = None) -> _Found:
        """Read the mapping, or guess it. Raises FileRefusedError, InvalidDefinitionError with the mapping's faults."""
        from worldledger.names import labelled, slug  # noqa: PLC0415 - slow to load; `--help` needs none of them
        from worldledger_recorder.files.guessing import guess  # noqa: PLC0415
        from worldledger_recorder.files.mapping import Csv  # noqa: PLC0415
        from worldledger_recorder.files.tables import csv_dialect, open_table  # noqa: PLC0415

        if asked.mapping is not None:
            mapping = _read(asked.mapping)
        guessed = csv_dialect(stream) if mapping is None and asked.kind == "csv" else Csv()
        dialect = guessed if mapping is None else mapping.csv
        table = open_table(asked.kind, stream, asked.file, dialect)
        columns, sample = table.columns(), table.sample()
        if not sample:
            raise FileRefusedError("there are no rows in it", file=asked.file)
        stem = slug(table.name.partition(".")[0]) or "rows"
        is_guessed = mapping is None
        if mapping is None:
            mapping = guess(columns, sample, dialect, texts=asked.kind == "csv", stem=stem)
            if asked.world is not None:
                mapping = mapping.model_copy(update={"world": None})
        elif (unknown := mapping.unknown(columns)) and asked.kind != "jsonl":
            raise InvalidDefinitionError([each._replace(file=str(asked.mapping or asked.file)) for each in unknown])
        elif not asked.quiet:
            for each in unknown:  # later lines may have it
                say(f"note: in the first {counted(len(sample), 'line')} {each.message}")
        if mapping.world is not None and asked.world is not None:
            raise typer.BadParameter("the mapping has a column of worlds; leave out one of them, that or --world")
        world = asked.world or labelled(stem, asked.experiment)
        return cls(stream, table, columns, sample, mapping, is_guessed, world)

    def rows(self, max_effect_bytes: int) -> list[tuple[Record, Row | None, str]]:
        """Return the first rows with what they become, or why they are refused."""
        from worldledger_recorder.files.rows import RowReader, RowRefusedError  # noqa: PLC0415

        reader = RowReader(self.mapping, self.table, world=self.world, max_effect_bytes=max_effect_bytes)
        found: list[tuple[Record, Row | None, str]] = []
        for record in self.sample:
            row, why = None, record.why
            if not why:
                try:
                    row = reader.read(record.number, record.values)
                except RowRefusedError as error:
                    why = str(error)
            found.append((record, row, why))
        return found

    def show(self, asked: _Asked, *, max_effect_bytes: int) -> None:
        """Write what the mapping makes of the columns and the first rows."""
        from worldledger_recorder.files.guessing import uses  # noqa: PLC0415

        used = uses(self.mapping, self.columns)
        rows = self.rows(max_effect_bytes)
        made = [(record, row) for record, row, _ in rows if row is not None]
        refused = [(record, why) for record, _, why in rows if why]
        if asked.as_json:
            document = {
                "file": asked.file,
                "guessed": self.is_guessed,
                "mapping": self.mapping.document(),
                "columns": [{"name": name, "use": use, "values": self._values(name)} for name, use in used.items()],
                "rows": len(rows),
                "effects": [each for record, row in made[:_SHOWN_ROWS] for each in _effects(record, row)],
                "refused": [{self.table.unit: record.number, "why": why} for record, why in refused],
            }
            put_bytes(json.dumps(document, ensure_ascii=False).encode("utf-8", "replace") + b"\n")
            return
        put_rows(
            ("COLUMN", "USED AS", "VALUES"),
            [(plain(name), use, ", ".join(map(shown, self._values(name)))) for name, use in used.items()],
        )
        put("")
        put_rows(
            (self.table.unit.upper(), "TIME", "KIND", "SOURCE", "PAYLOAD"),
            [_line(each) for record, row in made[:_SHOWN_ROWS] for each in _effects(record, row)],
        )
        for record, why in refused[:_SHOWN_ROWS]:
            say(f"refused: {self.table.place(record.number)}: {why}")
        more = "" if len(rows) < _sample_size() else "the first "
        say(f"{more}{counted(len(rows), 'row')} looked at, {len(refused)} refused; nothing was imported")

    def _values(self, column: str) -> list[Any]:
        """Return the first values of a column that differ."""
        found: list[Any] = []
        for record in self.sample:
            value = record.values.get(column)
            if value is not None and value != "" and value not in found:
                found.append(value)
            if len(found) == _SHOWN_VALUES:
                break
        return [_jsonable(value) for value in found]


def _sample_size() -> int:
    from worldledger_recorder.files.tables import SAMPLE  # noqa: PLC0415

    return SAMPLE


def _jsonable(value: Any) -> Any:
    try:
        json.dumps(value, allow_nan=False)
    except (TypeError, ValueError):
        return repr(value)
    return value


def _effects(record: Record, row: Row) -> list[dict[str, Any]]:
    return [
        {
            "row": record.number,
            "world": row.world,
            "kind": draft.kind,
            "source_id": draft.source_id,
            "sim_time": draft.sim_time,
            "payload": json.loads(draft.payload),
        }
        for draft in row.drafts
    ]


def _line(effect: dict[str, Any]) -> tuple[str, ...]:
    time = "" if effect["sim_time"] is None else f"{effect['sim_time']:g}"
    return (str(effect["row"]), time, plain(effect["kind"]), plain(effect["source_id"]), shown(effect["payload"]))


def _read(file: Path) -> TableMapping:
    from worldledger_recorder.files.mapping import MAX_BYTES, read_mapping  # noqa: PLC0415

    with open_export(str(file)) as stream:
        return read_mapping(stream.read(MAX_BYTES + 1), file=str(file))


# -- the import ----------------------------------------------------------------------------------------------


def _import(where: Target, found: _Found, asked: _Asked) -> None:
    from worldledger_recorder.files.importing import FileSummary  # noqa: PLC0415 - slow to load, for `--help`

    summary = FileSummary()
    ended: list[FileRefusedError] = []

    async def work(store: Store) -> None:
        from worldledger_service.running import relax_gc  # noqa: PLC0415

        from worldledger_recorder.files.importing import import_table  # noqa: PLC0415

        relax_gc()
        known = await _known(store, found, asked)
        with progress_bar("importing", quiet=asked.quiet) as tell:
            try:
                await import_table(
                    store,
                    known.table,
                    known.mapping,
                    world=known.world,
                    experiment=asked.experiment,
                    skip_bad=asked.skip_bad,
                    max_effect_bytes=where.settings.max_effect_bytes,
                    progress=lambda made: tell(made.done, made.total, f"{made.rows} rows"),
                    notice=_tell,
                    summary=summary,
                )
            except FileRefusedError as error:
                ended.append(error)

    try:
        with_store(where, work)
    except KeyboardInterrupt:
        say(f"{_imported(summary)} before it was stopped; run the same command again for the rest")
        raise
    _conclude(summary, ended, asked)


async def _known(store: Store, found: _Found, asked: _Asked) -> _Found:
    """Return a file with the mapping by which it was imported before, if that is guessed only."""
    from worldledger.names import experiment_label  # noqa: PLC0415
    from worldledger_recorder.files.importing import imported_by  # noqa: PLC0415

    if not found.is_guessed:
        return found
    name = next((row.world for _, row, _ in found.rows(1 << 20) if row is not None), found.world)
    if found.mapping.world is not None and asked.experiment is not None:
        name = f"{experiment_label(asked.experiment)}-{name}"
    mapping = await imported_by(store, name)
    if mapping is not None:
        return found if mapping == found.mapping else _Found.of(found.stream, asked, mapping)
    if not asked.quiet:
        say("note: the mapping is guessed; --dry-run shows it, and --write-map keeps it")
    return found


def _tell(notice: Notice) -> None:
    say(f"refused: {notice}")


def _conclude(summary: FileSummary, ended: Sequence[FileRefusedError], asked: _Asked) -> None:
    more = summary.refused - len(summary.notices)
    if more > 0:
        say(f"refused: {counted(more, 'more row')}")
    for error in ended:
        say(error.message)
    if asked.as_json:
        document = {**asdict(summary), "ended": ended[0].message if ended else None}
        put_bytes(json.dumps(document, ensure_ascii=False).encode("utf-8", "replace") + b"\n")
    elif summary.refused or ended or not asked.quiet:
        put(_sentence(summary))
    if summary.refused or ended:
        raise typer.Exit(1)


def _sentence(summary: FileSummary) -> str:
    parts = [_imported(summary)]
    if summary.already:
        parts.append(f"{summary.already} already there")
    if summary.refused:
        parts.append(f"{summary.refused} refused")
    return ", ".join(parts)


def _imported(summary: FileSummary) -> str:
    worlds = ""
    if len(summary.worlds) == 1:
        worlds = f" into {summary.worlds[0]}"
    elif summary.worlds:
        worlds = f" into {counted(len(summary.worlds), 'world')}"
    return f"imported {counted(summary.imported, 'row')} ({counted(summary.effects, 'effect')}){worlds}"


def add(commands: Commands) -> None:
    """Add the commands to the program's."""
    for kind, about in _COMMANDS.items():
        commands.add(f"import {kind}", _importer(kind, about), reads=(f".{kind}",))
