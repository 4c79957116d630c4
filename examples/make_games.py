"""Make the example games: short games of invented players with simple habits, the same ones every time.

Run ``python examples/make_games.py`` to write them again into ``examples/games``. They show what a PGN file may hold:
a checkmate, a draw by rule, clocks, evaluations and sidelines, an ending by an illegal move, Chess960, a position that
was set up, and a game that is not finished.

``engines.pgn`` is of the project's own players: what ``worldledger chess play --white random --black random`` with the
same seed records, and ``worldledger export pgn`` writes, made here without a database.
"""

# ruff: noqa: S311 - games want luck, not secrets
from __future__ import annotations

import argparse
import asyncio
import random
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import chess
import chess.engine
import chess.pgn
import orjson
from worldledger_chess.arena.players import Position, make_player
from worldledger_chess.rules import RULESET, automatic_end
from worldledger_chess.rules.gamelog import GameLog
from worldledger_chess.rules.writing import write_game

from worldledger.drafts import check_draft, effect_text
from worldledger.effects import Effect
from worldledger.folding import Fold

GAMES = Path(__file__).parent / "games"
VALUES = {chess.PAWN: 1, chess.KNIGHT: 3, chess.BISHOP: 3, chess.ROOK: 5, chess.QUEEN: 9, chess.KING: 0}

#: What Hasty Hal says of his moves, by the first move that is written so.
OF_HAL = {
    "Bxe7": "A pawn for nothing, I thought, and never looked at the knight on g8: "
    "my bishop is gone, and the game with it.",
    "Nxd5": "The queen sees d5 as well. That was the knight.",
    "Qxh7+": "Check, and a pawn! And a king that takes my queen.",
}

#: A player picks one of the legal moves.
Player = Callable[[chess.Board, random.Random], chess.Move]


def gain(board: chess.Board, move: chess.Move) -> int:
    """Return the material that a move wins at once, in pawns."""
    victim = board.piece_type_at(move.to_square) if board.is_capture(move) else None
    won = VALUES[victim] if victim else int(board.is_en_passant(move))
    return won + (VALUES[move.promotion] - 1 if move.promotion else 0)


def rita(board: chess.Board, rng: random.Random) -> chess.Move:
    """Random Rita plays anything."""
    return rng.choice(list(board.legal_moves))


def hal(board: chess.Board, rng: random.Random) -> chess.Move:
    """Hasty Hal takes the most valuable piece that he can, and never looks further."""
    return max(board.legal_moves, key=lambda move: (gain(board, move), rng.random()))


def cora(board: chess.Board, rng: random.Random) -> chess.Move:
    """Cautious Cora mates if she can, and else minds what may be taken from her next."""

    def worth(move: chess.Move) -> tuple[float, float]:
        won = gain(board, move)
        board.push(move)
        if board.is_checkmate():
            score = 1000.0
        elif board.is_stalemate() or board.is_repetition(2):
            score = -1.0
        else:
            score = won - max((gain(board, reply) for reply in board.legal_moves), default=0) + 0.3 * board.is_check()
        board.pop()
        return score, rng.random()

    return max(board.legal_moves, key=worth)


def pat(board: chess.Board, rng: random.Random) -> chess.Move:
    """Patient Pat moves a knight out and back again."""
    mine = board.move_stack[-2] if len(board.move_stack) > 1 else None
    back = chess.Move(mine.to_square, mine.from_square) if mine else None
    if back is not None and back in board.legal_moves:
        return back
    knights = [move for move in board.legal_moves if board.piece_type_at(move.from_square) == chess.KNIGHT]
    return rng.choice(knights or list(board.legal_moves))


PLAYERS: dict[str, Player] = {
    "Random Rita": rita,
    "Hasty Hal": hal,
    "Cautious Cora": cora,
    "Patient Pat": pat,
    "Patient Pam": pat,
}


def new_game(white: str, black: str, number: int, board: chess.Board | None = None) -> chess.pgn.Game:
    """Make a game without moves; its board, if one is given, is where it starts."""
    game = chess.pgn.Game()
    if board is not None:
        game.setup(board)
    game.headers.update(
        {"Event": "House games", "Site": "The corner table", "Date": f"2026.01.{number:02}", "Round": str(number)}
    )
    game.headers.update({"White": white, "Black": black, "Result": "*"})
    return game


def play(game: chess.pgn.Game, seed: int, plies: int) -> chess.pgn.GameNode:
    """Let the two players of a game play on until it is over by the rules, or for so many plies."""
    rng = random.Random(seed)
    node = game.end()
    board = node.board()
    while not board.is_game_over() and not board.is_repetition(3) and len(board.move_stack) < plies:
        name = game.headers["White" if board.turn else "Black"]
        move = PLAYERS[name](board, rng)
        board.push(move)
        node = node.add_variation(move)
    outcome = board.outcome()
    if outcome is not None:
        game.headers["Result"] = outcome.result()
    elif board.is_repetition(3):
        game.headers["Result"] = "1/2-1/2"
    return node


def material(board: chess.Board) -> int:
    """Count the material from White's side, in pawns."""
    return sum(VALUES[piece.piece_type] * (1 if piece.color else -1) for piece in board.piece_map().values())


def checkmate() -> chess.pgn.Game:
    """Make a game that ends by checkmate."""
    game = new_game("Cautious Cora", "Random Rita", 1)
    play(game, seed=11, plies=110)
    game.headers["Termination"] = "normal"
    return game


def repetition() -> chess.pgn.Game:
    """Make a game that is drawn for the same position stood there three times."""
    game = new_game("Patient Pat", "Patient Pam", 2)
    play(game, seed=3, plies=40)
    return game


def illegal_move() -> chess.pgn.Game:
    """Make a game that ends by an illegal move, with a Result tag outside the standard."""
    game = new_game("Hasty Hal", "Cautious Cora", 3)
    board = play(game, seed=5, plies=24).board()
    rng = random.Random(5)
    tried = chess.Move(rng.choice(list(board.pieces(chess.ROOK, board.turn))), rng.choice(list(board.pieces(6, True))))
    game.headers["Result"] = f"Illegal move ({tried.uci()}) by Hasty Hal"
    return game


def with_clocks() -> chess.pgn.Game:
    """Make a game whose comments hold clocks, times and evaluations; Hal resigns it, and says what lost it."""
    game = new_game("Hasty Hal", "Cautious Cora", 4)
    game.headers["TimeControl"] = "300+2"
    play(game, seed=21, plies=36)
    rng = random.Random(21)
    left = {chess.WHITE: 300.0, chess.BLACK: 300.0}
    for node in game.mainline():
        took = round(rng.uniform(0.3, 1.5) if not node.turn() else rng.uniform(2, 9), 1)
        left[not node.turn()] = round(left[not node.turn()] - took + 2, 1)
        node.set_clock(left[not node.turn()])
        node.set_emt(took)
        score = chess.engine.Cp(100 * material(node.board()))
        node.set_eval(chess.engine.PovScore(score, chess.WHITE), depth=1)
    game.headers["Result"] = "0-1"
    game.headers["Termination"] = "normal"
    game.headers["Annotator"] = "Hasty Hal"
    for san, words in OF_HAL.items():
        next(node for node in game.mainline() if node.san() == san).comment += f" {words}"
    game.end().comment += " Hal has had enough."
    return game


def with_sidelines() -> chess.pgn.Game:
    """Make a game with comments, glyphs and sidelines, won on time."""
    game = new_game("Random Rita", "Hasty Hal", 5)
    game.headers["TimeControl"] = "60"
    play(game, seed=8, plies=30)
    game.comment = "A minute each, and no increment."
    rng = random.Random(8)
    for node in list(game.mainline())[2:20:6]:
        other = rng.choice([move for move in node.parent.board().legal_moves if move != node.move])
        line = node.parent.add_variation(other, comment="or so", nags=[chess.pgn.NAG_SPECULATIVE_MOVE])
        line.add_variation(cora(line.board(), rng))
        node.nags.add(chess.pgn.NAG_DUBIOUS_MOVE)
    game.headers["Result"] = "0-1"
    game.headers["Termination"] = "time forfeit"
    return game


def chess960() -> chess.pgn.Game:
    """Make a Chess960 game; Cora castles as soon as she may."""
    board = chess.Board.from_chess960_pos(518 - 300)
    game = new_game("Cautious Cora", "Hasty Hal", 6, board)
    play(game, seed=14, plies=100)
    return game


def set_up() -> chess.pgn.Game:
    """Make a game that starts from a position: two pawns about to be promoted."""
    game = new_game("Cautious Cora", "Hasty Hal", 7, chess.Board("8/P4k2/8/2p5/8/8/1p4PP/6K1 w - - 0 1"))
    play(game, seed=20, plies=80)
    return game


def unfinished() -> chess.pgn.Game:
    """Make a game that breaks off."""
    game = new_game("Random Rita", "Cautious Cora", 8)
    play(game, seed=9, plies=31)
    return game


class World:
    """A world of the ruleset ``chess`` that is in no database: the rules decide, and an effect a second is its log."""

    def __init__(self, name: str, began: float) -> None:
        self.fold = Fold(name, RULESET)
        self.began = began
        self.effects: list[Effect] = []

    def append(self, draft: Mapping[str, Any]) -> None:
        """Append what the rules make of a draft; raises IllegalEffectError for one that they refuse."""
        checked = RULESET.decide(check_draft(draft, system=True), self.fold.state)
        seq = self.fold.seq + 1
        when = {"sim_time": float(seq), "wall_time": self.began + seq}
        text = effect_text(checked, world_id=self.fold.world_id, global_seq=seq, uuid="", **when)
        self.effects.append(orjson.loads(text))
        self.fold.apply(self.effects[-1])


async def of_random_players(number: int, seed: int, **beginning: Any) -> str:
    """Play a game as the arena does: the players are asked, and the rules say what it becomes."""
    names = {"white": "random-1", "black": "random-2"}
    live = {**beginning, **{colour: {"agent_id": name} for colour, name in names.items()}}
    world = World(f"engines-{number}", began=1_767_952_800.0 + 3600 * number)
    config = RULESET.check_config({"live": live})
    started, *_ = RULESET.opening(config, world_uuid="")  # what follows registers the agents
    world.append(started)
    board = GameLog.of(world.effects).board
    players = {colour: make_player("random", seed=seed) for colour in names}
    while (ending := automatic_end(board)) is None:
        colour = "white" if board.turn else "black"
        move = await players[colour].move(Position.of(board))
        world.append(
            {
                "kind": "MoveMade",
                "payload": {"uci_notation": move},
                "source_id": names[colour],
                "schema_version": "1.0.0",
            }
        )
        board.push_uci(move)
    end = {"status": ending.status, "result": ending.result, "reason": ending.reason}
    world.append({"kind": "GameEnded", "payload": end, "source_id": "arena", "schema_version": "1.0.0"})
    return write_game(GameLog.of(world.effects), event="Engine games").text


def swift_mate() -> str:
    """Make a game of random players that ends by checkmate soon."""
    return asyncio.run(of_random_players(1, seed=74))


def random_chess960() -> str:
    """Make a Chess960 game of random players."""
    return asyncio.run(of_random_players(2, seed=15, chess960=True, fen=chess.Board.from_chess960_pos(300).fen()))


def lost_queen() -> str:
    """Make a game in which random players bring a queen against a king to stalemate."""
    return asyncio.run(of_random_players(3, seed=34, fen="8/8/8/4k3/8/8/8/3QK3 w - - 0 1"))


FILES: dict[str, list[Callable[[], chess.pgn.Game | str]]] = {
    "corner_table.pgn": [checkmate, repetition, illegal_move],
    "by_the_clock.pgn": [with_clocks, with_sidelines],
    "other_beginnings.pgn": [chess960, set_up, unfinished],
    "engines.pgn": [swift_mate, random_chess960, lost_queen],
}


def texts() -> dict[str, str]:
    """Return every file's text by its name."""
    return {
        name: "\n\n".join(str(make()).removesuffix("\n") for make in makers) + "\n" for name, makers in FILES.items()
    }


if __name__ == "__main__":
    argparse.ArgumentParser(description=__doc__).parse_args()
    for file, text in texts().items():
        (GAMES / file).write_text(text, encoding="utf-8")
        print(f"{GAMES.name}/{file}: {len(FILES[file])} games")
