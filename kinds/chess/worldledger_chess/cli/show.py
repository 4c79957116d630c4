"""``worldledger chess show``: a game of chess, its board and its moves."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Annotated, Any, Final

import typer
from worldledger_service.cli.connect import target, with_store
from worldledger_service.cli.files import written_whole
from worldledger_service.cli.moments import At, one_moment, place_of
from worldledger_service.cli.naming import find_world
from worldledger_service.cli.options import DatabaseUrl, Force, Home, World
from worldledger_service.cli.output import Piece, counted, plain, put_bytes, put_lines, shown, table

from worldledger.errors import MomentNotFoundError, SimulationError
from worldledger_chess.cli.games import board_lines, history_of, require_chess

if TYPE_CHECKING:
    from worldledger_service.store import Store

    from worldledger.effects import Effect
    from worldledger_chess.rules.endings import Player
    from worldledger_chess.rules.gamelog import GameLog, LoggedAttempt, LoggedMove


_COLOURS: tuple[Player, Player] = ("white", "black")


def show(
    ctx: typer.Context,
    world: World,
    at: At = None,
    ply: Annotated[
        int | None,
        typer.Option("--ply", metavar="N", help="After N half-moves; 0 is the beginning.", show_default="all of them"),
    ] = None,
    move: Annotated[
        int | None, typer.Option("--move", metavar="N", help="After move N of both sides, as records count them.")
    ] = None,
    svg: Annotated[
        str | None, typer.Option("--svg", metavar="FILE", help="Draw the board into this file too; - is stdout.")
    ] = None,
    force: Force = False,
    as_json: Annotated[bool, typer.Option("--json", help="Write one JSON object.")] = False,
    database_url: DatabaseUrl = None,
    home: Home = None,
) -> None:
    """Show a game of chess: board, players, clocks, moves, illegal attempts, and how it ended.

    Each move has its global_seq, and its time, clock, evaluation and comment where they are known. --at, --ply and
    --move go back to the position of that moment, with what was attempted there before the next move. In the drawing
    of --svg the last move is marked, and a check. A fork shows the whole game, with the global_seq of
    its parent's moves in parentheses.

    Examples:
        worldledger chess show my-game
        worldledger chess show my-game --at move:20 --svg board.svg
        worldledger chess show my-game --json | jq -r '.moves[].san_notation'
    """
    moment = one_moment(at, ply=ply, move=move)
    if svg == "-" and as_json:
        raise typer.BadParameter("stdout can have one of them: --json, or --svg -")

    async def work(store: Store) -> tuple[str, list[Effect], tuple[str, int]]:
        record = await find_world(store, world)
        require_chess(record)
        found, seq = (record, record.head_seq) if ply is not None else await place_of(store, record, moment)
        return record.world_id, await history_of(store, record), (found.world_id, seq)

    name, effects, place = with_store(target(ctx, database_url, home), work)
    log, plies = _at(name, effects, place, ply)
    if svg is not None:
        with written_whole(svg, force=force) as write:
            write(_drawn(log).encode())
    if svg == "-":
        return
    if as_json:
        put_bytes(json.dumps(_document(log, plies), ensure_ascii=False).encode() + b"\n")
    else:
        put_lines(_page(log, plies))


def _at(world: str, effects: list[Effect], place: tuple[str, int], ply: int | None) -> tuple[GameLog, int]:
    """Return the game up to an effect, or to the move after ``ply``, and how many moves it has in all.

    ``place``: the world of the effect, of which the effects are the history, and its seq.
    """
    from worldledger_chess.rules.gamelog import GameLog  # noqa: PLC0415 - slow to load; `--help` needs none of it

    log = GameLog.of(effects)
    plies = len(log.moves)
    if log.started is None:
        raise SimulationError(f"no game was started in the world {world!r}", world_id=world)
    if ply is not None and not 0 <= ply <= plies:
        raise MomentNotFoundError(
            f"the game {world!r} has no ply {ply}; its last is {plies}", world_id=world, ply=ply, plies=plies
        )
    places = [(effect["world_id"], effect["global_seq"]) for effect in effects]
    if ply is not None and ply < plies:
        end = places.index((log.moves[ply].world_id, log.moves[ply].global_seq))
    else:
        end = places.index(place) + 1
    if end == len(effects):
        return log, plies
    log = GameLog.of(effects[:end])
    if log.started is None:
        raise MomentNotFoundError(f"the game {world!r} was not started yet at seq {place[1]}", world_id=world)
    return log, plies


def _drawn(log: GameLog) -> str:
    import chess.svg  # noqa: PLC0415

    board = log.board
    last = log.moves[-1].move if log.moves else None
    return chess.svg.board(
        board, lastmove=last or None, check=board.king(board.turn) if board.is_check() else None, size=390
    )


def _document(log: GameLog, plies: int) -> dict[str, Any]:
    """Return the game as one object, with the field names of the effects."""
    board = log.entities["board"]
    return {
        "world_id": log.world_id,
        "ply": len(log.moves),
        "plies": plies,
        **{name: board[name] for name in ("variant", "initial_fen", "fen", "turn", "status", "result", "reason")},
        "raw_result": (log.ended or {}).get("raw_result"),
        "players": {colour: log.entities[colour] for colour in _COLOURS},
        "moves": [
            {
                "ply": move.ply,
                "player": move.player,
                "agent_id": move.agent_id,
                "san_notation": move.san,
                "uci_notation": move.uci,
                **{name: move.payload.get(name) for name in ("thinking_time", "clock", "evaluation", "comment")},
                "wall_time": move.wall_time,
                "world_id": move.world_id,
                "global_seq": move.global_seq,
            }
            for move in log.moves
        ],
        "attempts": [
            {
                "after_ply": attempt.after_ply,
                "player": attempt.player,
                "agent_id": attempt.agent_id,
                "attempted": attempt.attempted,
                "reason": attempt.reason,
                "world_id": attempt.world_id,
                "global_seq": attempt.global_seq,
            }
            for attempt in log.attempts
        ],
    }


# -- for people ----------------------------------------------------------------------------------------------


def _page(log: GameLog, plies: int) -> Iterator[list[Piece]]:
    board = log.entities["board"]
    made = len(log.moves)
    when = f"after all {plies} half-moves" if made == plies else f"after {made} of {plies} half-moves"
    variant = "" if board["variant"] == "standard" else f", {board['variant']}"
    yield [(log.world_id, "bold"), (f" {when}{variant}", "")]
    yield []
    yield from board_lines(log.entities)
    yield []
    yield from table([_player(log, colour) for colour in _COLOURS], style="bold")
    if log.moves:
        yield []
        yield [("moves", "bold"), (_inherited(log), "")]
        yield from _move_lines(log)
    if log.attempts:
        yield []
        count = len(log.attempts)
        yield [(counted(count, "rejected attempt"), "bold")]
        yield from table([_attempt(log, index) for index in range(count)], style="red")
    yield []
    yield [("result ", "bold"), (_result(log, board), "")]


def _player(log: GameLog, colour: Player) -> tuple[str, str, list[str]]:
    entity = log.entities[colour]
    agent, name = plain(entity["agent_id"]), plain(entity["name"] or entity["agent_id"])
    facts = [counted(entity["moves"], "move")]
    if log.continued:
        own = [move for move in log.moves if move.player == colour and move.world_id == log.world_id]
        facts = [f"{len(own)} of {counted(entity['moves'], 'move')}"]
        thought = [move.payload["thinking_time"] for move in own if move.payload.get("thinking_time") is not None]
        if thought:
            facts.append(f"thought {_seconds(sum(thought))}")
    elif entity["timed_moves"]:
        facts.append(f"thought {_seconds(entity['thinking_time'])}")
    if entity["clock"] is not None:
        facts.append(f"clock {_clock(entity['clock'])}")
    if entity["illegal_moves_attempted"]:
        facts.append(f"{entity['illegal_moves_attempted']} illegal")
    return colour, name if name == agent else f"{name} ({agent})", facts


def _move_lines(log: GameLog) -> Iterator[list[Piece]]:
    """Lay the moves out, one of each side a line, with their comments below."""
    known = [name for name in _FIELDS if any(move.payload.get(name) is not None for move in log.moves)]
    empty = ["…", *[""] * (1 + len(known))]
    number, is_white = log.initial.fullmove_number, log.initial.turn
    rows: list[list[str]] = []
    comments: list[list[str]] = []
    for move in log.moves:
        if is_white or not rows:
            rows.append([f"{number}.", *([] if is_white else empty)])
            comments.append([])
        rows[-1] += [move.san, _seq(log, move), *(_known(move, name) for name in known)]
        if comment := move.payload.get("comment"):
            comments[-1].append(f"{move.san}: {' '.join(str(comment).split())}")
        number, is_white = number + (not is_white), not is_white
    if len(rows[-1]) == 1 + len(empty):
        rows[-1] += [""] * len(empty)
    for line, said in zip(table(rows, style="dim"), comments, strict=True):
        yield line
        for text in said:
            yield [("      ", ""), (text, "cyan")]


def _seq(log: GameLog, entry: LoggedMove | LoggedAttempt) -> str:
    return f"seq {entry.global_seq}" if entry.world_id == log.world_id else f"(seq {entry.global_seq})"


def _inherited(log: GameLog) -> str:
    """Return how many moves of a fork are those of its ancestors, as text."""
    older = [move for move in log.moves if move.world_id != log.world_id]
    if not older:
        return ""
    worlds = " and ".join(dict.fromkeys(plain(move.world_id) for move in older))
    return f", up to ply {older[-1].ply} those of {worlds}"


def _known(move: LoggedMove, name: str) -> str:
    value = move.payload.get(name)
    return "" if value is None else _FIELDS[name](value)


def _evaluation(evaluation: Any) -> str:
    """Return an evaluation from White's side as text: pawns with their sign, or # and the moves to mate."""
    if not isinstance(evaluation, dict):
        return shown(evaluation)
    if "mate" in evaluation:
        return f"#{evaluation['mate']}"
    return f"{evaluation['cp'] / 100:+.2f}" if isinstance(evaluation.get("cp"), int | float) else shown(evaluation)


def _attempt(log: GameLog, index: int) -> tuple[str, str, str, str, str]:
    attempt = log.attempts[index]
    what = "?" if attempt.attempted is None else plain(attempt.attempted)
    after = log.moves[attempt.after_ply - 1].san if attempt.after_ply else "the beginning"
    return (
        what if len(what) <= 40 else f"{what[:39]}…",
        attempt.player,
        _seq(log, attempt),
        f"after {after}, ply {attempt.after_ply}" if attempt.after_ply else "at the beginning",
        plain(attempt.reason).replace("_", " "),
    )


def _result(log: GameLog, board: dict[str, Any]) -> str:
    if log.ended is None:
        return f"in progress, {board['turn']} to move"
    raw = log.ended.get("raw_result")
    reason = f", {board['reason'].replace('_', ' ')}" if board["reason"] and board["reason"] != board["status"] else ""
    recorded = f" (recorded as {plain(raw)})" if isinstance(raw, str) else ""
    return f"{board['result'].replace('_', ' ')}: {board['status']}{reason}{recorded}"


def _seconds(seconds: float) -> str:
    return f"{seconds:.1f} s" if seconds < 60 else _clock(seconds)


def _clock(seconds: float) -> str:
    tenths = int(seconds * 10)
    whole = tenths // 10
    return f"{whole // 3600}:{whole // 60 % 60:02d}:{whole % 60:02d}" + (f".{tenths % 10}" if tenths % 10 else "")


#: Fields of a move's payload that are shown beside its global_seq if any move has them, and how they are shown.
_FIELDS: Final[dict[str, Callable[[Any], str]]] = {
    "thinking_time": _seconds,
    "clock": _clock,
    "evaluation": _evaluation,
}
