"""``worldledger chess play``: games of chess between engines and other players, each a world."""

from __future__ import annotations

import json
import secrets
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Final, Literal, TypeAlias

import typer
from worldledger_service.cli.connect import database, log_to_stderr, opened, target, typed
from worldledger_service.cli.moments import named_place
from worldledger_service.cli.naming import exact_world
from worldledger_service.cli.options import DatabaseUrl, Home, ModelAddress, Quiet
from worldledger_service.cli.output import Tell, counted, plain, progress_bar, put, put_bytes, put_rows, say
from worldledger_service.running import run_blocking

from worldledger.errors import InvalidConfigError, SimulationError
from worldledger.extras import llm_needed
from worldledger_chess.rules.endings import MARKERS

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, MutableMapping

    from worldledger_service.settings import Settings

    from worldledger.moments import Moment
    from worldledger_chess.arena import NewGame
    from worldledger_chess.cli.match import Contestant, Entry


_PLAYER: Final = (
    "random, stockfish, uci:PATH (any UCI engine), llm:MODEL (a language model), me (you, at this terminal), a player"
    " that an installed package offers, or a JSON object of name and settings."
)
_REASON_WIDTH: Final = len("insufficient material")
#: What a game's configuration says, and the option that it comes from.
_OPTIONS: Final = {
    "fen": "--fen",
    "deadline_s": "--deadline",
    "seed": "--seed",
    "experiment": "--experiment",
    "max_illegal": "--tries",
    "game_id": "--as",
}


#: What becomes of a player with too many illegal attempts in a row.
Fallback: TypeAlias = Literal["resign", "random"]


@dataclass
class Report:
    """The result of a match: how it is played, the games that have begun, in order, and the seed of the first."""

    seed: int
    contestants: tuple[Contestant, Contestant]
    experiment: str | None
    #: whether the person at the terminal has no limit of time
    patient: bool = False
    entries: list[Entry] = field(default_factory=list)

    @property
    def played(self) -> list[Entry]:
        """The games that have ended."""
        return [entry for entry in self.entries if entry.end is not None]

    @property
    def unfinished(self) -> list[Entry]:
        """The games that have not ended."""
        return [entry for entry in self.entries if entry.end is None]

    @property
    def failed(self) -> list[Entry]:
        """The games in which a player gave no move, or gave it too late."""
        return [entry for entry in self.entries if entry.failed or (entry.end and entry.end.reason == "timeout")]


def play(
    ctx: typer.Context,
    white: Annotated[str, typer.Option("--white", metavar="PLAYER", help=f"Who plays White: {_PLAYER}")],
    black: Annotated[str, typer.Option("--black", metavar="PLAYER", help="Who plays Black, likewise.")],
    games: Annotated[int, typer.Option("--games", metavar="N", min=1, max=100_000, help="How many games.")] = 1,
    seed: Annotated[
        int | None,
        typer.Option(
            "--seed", metavar="S", help="Seed of the first game; the next has S+1.", show_default="drawn, and shown"
        ),
    ] = None,
    nodes: Annotated[
        int | None,
        typer.Option(
            "--nodes", metavar="N", min=1, max=10**12, help="Positions an engine looks at.", show_default="2000"
        ),
    ] = None,
    swap: Annotated[bool, typer.Option("--swap", help="The players change colours after each game.")] = False,
    experiment: Annotated[
        str | None, typer.Option("--experiment", metavar="NAME", help="The label under which to find the games.")
    ] = None,
    play_from: Annotated[
        str | None,
        typer.Option("--from", metavar="WORLD[@MOMENT]", help="Play on from a moment of this game, in forks of it."),
    ] = None,
    name: Annotated[
        str | None,
        typer.Option("--as", metavar="NAME", help="The name of the game, if it is one.", show_default="a UUID"),
    ] = None,
    fen: Annotated[
        str | None, typer.Option("--fen", metavar="FEN", help="The position that each game begins with.")
    ] = None,
    chess960: Annotated[bool, typer.Option("--chess960", help="Castle by the rules of Chess960.")] = False,
    deadline: Annotated[
        float,
        typer.Option(
            "--deadline", metavar="S", min=0, help="Seconds for a move; 0 is without limit, as `me` has it otherwise."
        ),
    ] = 30.0,
    base_url: ModelAddress = None,
    persona: Annotated[
        Path | None,
        typer.Option(
            "--persona",
            metavar="FILE",
            help="YAML: who a language model is; for both, or under agents: white and black.",
        ),
    ] = None,
    tries: Annotated[
        int, typer.Option("--tries", metavar="N", min=1, max=1000, help="Illegal attempts in a row that are too many.")
    ] = 3,
    fallback: Annotated[
        Fallback,
        typer.Option("--fallback", help="What a player does then: it resigns, or a random move is made for it."),
    ] = "resign",
    jobs: Annotated[
        int, typer.Option("--jobs", metavar="N", min=1, max=100, help="At most this many games at the same time.")
    ] = 1,
    as_json: Annotated[bool, typer.Option("--json", help="Write one JSON object at the end.")] = False,
    quiet: Quiet = False,
    database_url: DatabaseUrl = None,
    home: Home = None,
) -> None:
    """Play games of chess between players of this machine. Each game is a world, and every attempt is in its log.

    Both players are tried before anything is made. With the same seed random players make the same moves, and so do
    engines of one thread that are limited by nodes or depth. Whoever attempts three illegal moves in a row, or gives no
    move three times, has lost; --tries and --fallback say otherwise.

    A language model is asked for each move, and told what was wrong with an illegal one before it tries again. Its
    answers are generations in the game's log, with their tokens. Its service is OpenAI's, or one with the same protocol
    at --base-url, or for llm:anthropic:NAME Anthropic's; the key is read from OPENAI_API_KEY or ANTHROPIC_API_KEY.

    With --from the games begin where another game, recorded or played here, stood at that moment (`GAME@ply:30`), if
    it was not over: each is a fork of that world, with the moves up to there. As `me` you are asked for moves on
    stderr, and type them as UCI or SAN; what is no legal move is asked again, and is no attempt.

    The exit code is 1 if a player gave no move in some game, or not in time (its program crashed, say). Ctrl-C leaves
    what was played in the log; games that go on are named, and a service (`worldledger serve`) plays them to their ends
    where it may.

    Examples:
        worldledger chess play --white stockfish --black random --games 10 --seed 1
        worldledger chess play --white stockfish --black uci:/opt/engines/lc0 --nodes 500 --swap --experiment cup
        worldledger chess play --white '{"name": "stockfish", "nodes": 50}' --black stockfish --json
        worldledger chess play --from my-game@ply:30 --as my-game-again --white me --black stockfish
        worldledger chess play --white llm:gpt-5-mini --black stockfish --nodes 100 --fallback random
    """
    if name is not None and games > 1:
        raise typer.BadParameter("--as names one game: --games does not go with it")
    if play_from is not None and (fen is not None or chess960):
        raise typer.BadParameter("--from goes on from a position: neither --fen nor --chess960 goes with it")
    start = None if play_from is None else named_place(play_from)
    from worldledger_chess.cli.match import read_contestants, try_out  # noqa: PLC0415 - slow to load

    where = target(ctx, database_url, home)
    contestants = read_contestants(white, black, nodes, base_url, _personas(persona))
    report = Report(secrets.randbits(31) if seed is None else seed, contestants, experiment)
    common = {
        "game_id": name,
        "fen": fen,
        "chess960": chess960,
        "experiment": experiment,
        "deadline_s": float(deadline) or None,
        "max_illegal": tries,
        "fallback": fallback,
    }
    has_person = any(one.is_person for one in contestants)
    if has_person and jobs > 1:
        raise typer.BadParameter("--jobs: a person plays one game after another")
    report.patient = has_person and not typed(ctx, "deadline")
    first, _ = (_setup(report, number, swap=swap, **common) for number in (0, games - 1))
    log_to_stderr()
    run_blocking(try_out(contestants, first.board(), first.limit("white")))
    setups = (_setup(report, number, swap=swap, **common) for number in range(games))
    try:
        with database(where) as url, progress_bar("playing", quiet=quiet or has_person) as tell:
            if quiet:
                log_to_stderr(_without_failures)
            telling = _Telling(report, games, tell, table=not as_json)
            run_blocking(_play(url, where.settings, setups, report, min(jobs, games), telling, start))
    finally:
        if report.entries:
            _conclude(report, as_json=as_json)
    if not quiet and not as_json and not typed(ctx, "seed"):
        say(f"the seed was {report.seed}; --seed {report.seed} draws the same again")
    if report.failed:
        raise typer.Exit(1)


def _personas(file: Path | None) -> dict[str, Any]:
    """Return who a language model is as each option. Raises FileRefusedError and BadParameter."""
    if file is None:
        return {}
    with llm_needed():
        from worldledger.llm import read_personas  # noqa: PLC0415 - only where the extra is installed
    found = read_personas(file)
    others = sorted(set(found.of_agents) - {"white", "black"})
    if others:
        raise typer.BadParameter(f"{file}: agents are white and black here, not {others[0]}", param_hint="'--persona'")
    both = {f"--{colour}": found.of(colour) for colour in ("white", "black")}
    return {option: one.model_dump(mode="json", exclude_unset=True) for option, one in both.items() if one is not None}


def _setup(report: Report, number: int, *, swap: bool, **common: Any) -> NewGame:
    """Return a game's setup. Raises SimulationError for an invalid option."""
    from worldledger_chess.rules.live import LiveConfig  # noqa: PLC0415

    pair = report.contestants[::-1] if swap and number % 2 else report.contestants
    sides = dict(zip(("white", "black"), pair, strict=True))
    config = {
        **common,
        **{colour: {"agent_id": one.agent_id, "name": one.name} for colour, one in sides.items()},
        "players": {colour: one.spec.to_json() for colour, one in sides.items()},
        "seed": report.seed + number,
    }
    if report.patient:
        limit = common["deadline_s"]
        config["deadline_s"] = {colour: None if one.is_person else limit for colour, one in sides.items()}
    try:
        live = LiveConfig.of({"live": config}, new=True)
    except InvalidConfigError as error:
        problem = error.details["problems"][0]
        name = problem["path"].rpartition(".")[2]
        raise SimulationError(f"{_OPTIONS.get(name, name)}: {problem['message']}") from None
    assert live is not None  # noqa: S101 - it was given
    return live


async def _play(
    url: str,
    settings: Settings,
    setups: Iterable[NewGame],
    report: Report,
    jobs: int,
    telling: _Telling,
    start: tuple[str, Moment] | None,
) -> None:
    from worldledger_chess.arena import PlayFrom  # noqa: PLC0415
    from worldledger_chess.cli.match import Match, own_arena  # noqa: PLC0415
    from worldledger_chess.cli.person import Person  # noqa: PLC0415

    async with opened(url, settings) as store, own_arena(store, url, settings) as arena:
        match = Match(
            arena,
            report.entries,
            on_move=telling.moved,
            on_end=telling.ended,
            play_from=None if start is None else PlayFrom((await exact_world(store, start[0])).world_id, start[1]),
            person=Person() if any(one.is_person for one in report.contestants) else None,
        )
        await match.play(setups, at_once=jobs)


# -- what is said --------------------------------------------------------------------------------------------


class _Telling:
    """The bar, and the games as lines of a table, each written as it ends."""

    def __init__(self, report: Report, games: int, tell: Tell, *, table: bool) -> None:
        name = max(len("WHITE"), *(len(plain(one.agent_id)) for one in report.contestants))
        self._widths = (max(len("GAME"), len(str(games))), name, name, len("1/2-1/2"), _REASON_WIDTH, len("PLIES"))
        self._games = games
        self._tell = tell
        self._table = table
        self._ended = 0

    def moved(self, entry: Entry) -> None:
        """Move the bar."""
        self._tell(self._ended, self._games, f"game {entry.number} of {self._games}, ply {entry.plies}")

    def ended(self, entry: Entry) -> None:
        """Write a game that has ended."""
        if self._table:
            if not self._ended:
                self._line("GAME", "WHITE", "BLACK", "RESULT", "REASON", "PLIES", "WORLD")
            row = _row(entry)
            reason = _why(row)
            result = MARKERS.get(row["result"], "*")
            self._line(row["game"], row["white"], row["black"], result, reason, row["plies"], row["world_id"])
        self._ended += 1

    def _line(self, *cells: object) -> None:
        *before, last = (plain(str(cell)) for cell in cells)
        put("  ".join([*(cell.ljust(width) for cell, width in zip(before, self._widths, strict=True)), last]))


def _why(row: Mapping[str, Any]) -> str:
    """Return the reason of an end in words. A program that abandons a match without a reason of its own has failed."""
    if (row["status"], row["reason"]) == ("resigned", "abandoned"):
        return "player failed"
    word: str = row["reason"] or row["status"]
    return word.replace("_", " ")


def _without_failures(_: object, __: str, event: MutableMapping[str, Any]) -> MutableMapping[str, Any]:
    """Drop log lines about failed players: the summary has them."""
    from structlog import DropEvent  # noqa: PLC0415 - slow to load

    from worldledger_chess.arena.driving import NO_MOVE  # noqa: PLC0415 - slow to load

    if event["event"] == NO_MOVE:
        raise DropEvent
    return event


def _row(entry: Entry) -> dict[str, Any]:
    """Return a game with the field names of its effects; what is not known yet is null."""
    end = entry.end
    return {
        "game": entry.number,
        "world_id": entry.world_id,
        "white": entry.setup.white.agent_id,
        "black": entry.setup.black.agent_id,
        "seed": entry.setup.seed,
        "status": "in_progress" if end is None else end.status,
        "result": None if end is None else end.result,
        "reason": None if end is None else end.reason,
        "plies": entry.plies,
        "rejected": entry.rejected,
        "random_moves": entry.instead,
        "failed": entry.failed,
    }


def _totals(report: Report) -> list[dict[str, Any]]:
    """Return each player's counts over the games that have ended, that of ``--white`` first."""
    totals = []
    for one in report.contestants:
        results = []
        for row in map(_row, report.played):
            mine = "white_wins" if row["white"] == one.agent_id else "black_wins"
            results.append("drawn" if row["result"] == "draw" else "won" if row["result"] == mine else "lost")
        counts = {name: results.count(name) for name in ("won", "drawn", "lost")}
        totals.append({"agent_id": one.agent_id, "player": one.spec.to_json(), "played": len(results), **counts})
    return totals


def _conclude(report: Report, *, as_json: bool) -> None:
    """Write the match's summary, also if it was stopped."""
    totals = _totals(report)
    if as_json:
        document = {
            "experiment": report.experiment,
            "seed": report.seed,
            "games": [_row(entry) for entry in sorted(report.entries, key=lambda entry: entry.number)],
            "totals": totals,
        }
        put_bytes(json.dumps(document, ensure_ascii=False).encode() + b"\n")
    elif report.played:
        put("")
        header = ("PLAYER", "PLAYED", "WON", "DRAWN", "LOST")
        put_rows(header, [[str(row[name.lower()]) for name in ("AGENT_ID", *header[1:])] for row in totals])
    for entry in report.entries:
        if entry.instead:
            made = counted(entry.instead, "random move")
            say(f"after illegal attempts: game {entry.number}, {entry.world_id}, has {made} of the fallback")
    for entry in report.failed:
        say(f"a player gave no move: game {entry.number}, {entry.world_id}")
    for entry in report.unfinished:
        say(f"unfinished: game {entry.number}, {entry.world_id}, after {entry.plies} plies")
    if report.unfinished:
        _say_how_to_go_on(report)


def _say_how_to_go_on(report: Report) -> None:
    if any(one.is_person for one in report.contestants):
        say("moves of `me` can be sent to a service now; what was played so far: `worldledger chess show WORLD`")
        return
    programs = [one.option for one in report.contestants if one.is_program]
    if programs:
        say(
            f"no service starts the program of {' and '.join(programs)}, so time runs out for it, if it has a limit;"
            " what was played so far: `worldledger chess show WORLD`"
        )
    else:
        say("a running service plays on: `worldledger serve`; what was played so far: `worldledger chess show WORLD`")
