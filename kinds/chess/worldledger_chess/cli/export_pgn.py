"""``worldledger export pgn``: games of chess as a PGN file."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator, Callable
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Annotated, Any

import typer
from worldledger_service.cli.connect import target, with_store
from worldledger_service.cli.files import written_whole
from worldledger_service.cli.naming import find_world, no_experiment
from worldledger_service.cli.options import DatabaseUrl, Force, Home, Quiet, examples
from worldledger_service.cli.output import put_bytes, say
from worldledger_service.cli.progress import Tell, progress_bar

from worldledger.errors import SimulationError, TamperedError
from worldledger_chess.cli.games import effects_of, require_chess

if TYPE_CHECKING:
    from worldledger_service.store import Store, WorldRecord

    from worldledger.chain import Finding
    from worldledger.effects import Effect

EXAMPLES = examples(
    "worldledger export pgn my-game -o my-game.pgn",
    "worldledger export pgn --experiment first -o first.pgn",
    "worldledger export pgn --experiment first -o - | gzip > first.pgn.gz",
)


@dataclass
class Summary:
    """What an export did: games, their moves, how many go on, and what was left out, by world."""

    games: int = 0
    moves: int = 0
    unfinished: int = 0
    left_out: dict[str, str] = field(default_factory=dict)
    failed: bool = False


def command(
    ctx: typer.Context,
    output: Annotated[
        str,
        typer.Option("--output", "-o", metavar="FILE", help="Where to write it; - is stdout."),
    ],
    worlds: Annotated[
        list[str] | None, typer.Argument(metavar="WORLD", help="The names of games.", show_default=False)
    ] = None,
    experiment: Annotated[
        str | None, typer.Option("--experiment", metavar="NAME", help="All games of this experiment, by name.")
    ] = None,
    force: Force = False,
    as_json: Annotated[bool, typer.Option("--json", help="Write the summary as a JSON object to stdout.")] = False,
    quiet: Quiet = False,
    database_url: DatabaseUrl = None,
    home: Home = None,
) -> None:
    """Export games of chess as PGN, with comments, clocks, evaluations, every tag and the result as it was recorded.

    What was attempted and rejected stands in comments. `worldledger import pgn` makes the same effects of the file
    again. Worlds in which no game was started are left out. A world that is itself named pgn is exported as a log by
    `worldledger export -o FILE pgn`.
    """
    if as_json and output == "-":
        raise typer.BadParameter("stdout has the games; give --output a file to have the summary there")
    names = list(dict.fromkeys(worlds or ()))
    if bool(names) == (experiment is not None):
        raise typer.BadParameter(
            "which games: name worlds, or give --experiment (a world named pgn: `export -o FILE pgn`)"
        )
    summary = Summary()

    async def work(store: Store) -> None:
        chosen = _Chosen(store, names, experiment, summary)
        total = await chosen.count()
        with (
            written_whole(output, force=force) as write,
            progress_bar("exporting", quiet=quiet or output == "-") as tell,
        ):
            await _write_games(store, chosen.worlds(), write, summary, _telling(tell, total, summary))
            if not summary.games:
                name, why = next(iter(summary.left_out.items()))
                raise SimulationError(f"there is no game that can be written; {name}: {why}")

    try:
        with_store(target(ctx, database_url, home), work)
    except TamperedError as error:
        say(f"{error.message}; a log that does not verify makes no export")
        raise typer.Exit(1) from None
    _conclude(summary, output, as_json=as_json, quiet=quiet)


class _Chosen:
    """The games that were asked for; those of an experiment are read page by page, never all at once."""

    def __init__(self, store: Store, names: list[str], experiment: str | None, summary: Summary) -> None:
        self._store = store
        self._summary = summary
        self._names = names
        self._experiment = experiment

    async def worlds(self) -> AsyncIterator[WorldRecord]:
        """Return their worlds. Raises SimulationError for one that was named and is none."""
        for name in self._names:
            world = await find_world(self._store, name)
            require_chess(world)
            yield world
        if self._experiment is not None:
            async for world in self._store.every_world(experiment=self._experiment, unreadable=self._leave_out):
                if world.ruleset == "chess":
                    yield world

    def _leave_out(self, finding: Finding) -> None:
        self._summary.left_out[finding.world_id] = finding.what
        self._summary.failed = True

    async def count(self) -> int:
        """Tell how many there are; raises SimulationError where there is none."""
        count = 0
        async for _ in self.worlds():
            count += 1
        if not count:
            if self._experiment in await self._store.experiments():
                raise SimulationError(f"there are no games of chess in the experiment {self._experiment!r}")
            raise SimulationError(await no_experiment(self._store, self._experiment or ""))
        return count


def _telling(tell: Tell, total: int, summary: Summary) -> Callable[[], None]:
    return lambda: tell(summary.games + len(summary.left_out), total, f"{summary.games} games")


async def _write_games(
    store: Store,
    worlds: AsyncIterator[WorldRecord],
    write: Callable[[bytes], object],
    summary: Summary,
    tell: Callable[[], None],
) -> None:
    """Write games one by one, the next one on its way meanwhile."""
    from worldledger_service.store.ahead import ahead  # noqa: PLC0415 - slow to load; `--help` needs none of it

    async with ahead(_read(store, worlds)) as games:
        async for world, effects in games:
            text = _written(world, effects, summary)
            if text is not None:
                write(f"\n{text}".encode() if summary.games > 1 else text.encode())
            tell()


async def _read(store: Store, worlds: AsyncIterator[WorldRecord]) -> AsyncIterator[tuple[WorldRecord, list[Effect]]]:
    async for world in worlds:
        yield world, await effects_of(store, world)


def _written(world: WorldRecord, effects: list[Effect], summary: Summary) -> str | None:
    """Write one game, or note why it is left out."""
    from worldledger_chess.rules.gamelog import GameLog  # noqa: PLC0415
    from worldledger_chess.rules.writing import write_game  # noqa: PLC0415

    try:
        log = GameLog.of(effects)
    except SimulationError as error:
        summary.left_out[world.world_id] = error.message
        summary.failed = True
        return None
    if log.started is None:
        summary.left_out[world.world_id] = "no game was started"
        return None
    game = write_game(log, event=world.experiment)
    summary.games += 1
    summary.moves += game.moves
    summary.unfinished += log.ended is None
    return game.text


def _conclude(summary: Summary, output: str, *, as_json: bool, quiet: bool) -> None:
    for name, why in summary.left_out.items():
        if summary.failed or not quiet:
            say(f"left out: {name}: {why}")
    if as_json:
        put_bytes(json.dumps(_document(summary, output), ensure_ascii=False).encode() + b"\n")
    elif not quiet:
        where = "" if output == "-" else f" to {output}"
        unfinished = f", {summary.unfinished} unfinished" if summary.unfinished else ""
        left_out = f", {len(summary.left_out)} left out" if summary.left_out else ""
        games = f"{summary.games} game{'' if summary.games == 1 else 's'}"
        moves = f"{summary.moves} move{'' if summary.moves == 1 else 's'}"
        say(f"exported {games} ({moves}){unfinished}{left_out}{where}")
    if summary.failed:
        raise typer.Exit(1)


def _document(summary: Summary, output: str) -> dict[str, Any]:
    return {
        "file": output,
        "games": summary.games,
        "moves": summary.moves,
        "unfinished": summary.unfinished,
        "left_out": [{"world_id": name, "why": why} for name, why in summary.left_out.items()],
    }
