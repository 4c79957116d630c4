"""The players that need no program: the one outside, and the random one."""

from __future__ import annotations

import json
from hashlib import sha256

from worldledger_chess.arena.players.base import Position
from worldledger_chess.arena.players.errors import PlayerError


class ExternalPlayer:
    """Stands for somebody who calls from outside; the service never moves for it."""

    name = "external"

    async def move(self, position: Position) -> str:
        """Raise PlayerError: whoever plays this side sends the move."""
        raise PlayerError(self.name, "no_move", "moves from outside; the service has none to make for it")

    async def close(self) -> None:
        """Do nothing: nothing was started."""


class RandomPlayer:
    """Draws among the legal moves by seed.

    The move depends on the seed and the game so far (``initial_fen``, ``chess960``, ``moves``), and on nothing else:
    not on the process, its version of Python, what was asked before, or ``remaining_s``. It is the one at

        sha256(JSON of [seed, initial_fen, chess960, [moves]]) as a big-endian number, modulo the number of legal moves

    in the sorted list of legal moves, the JSON being UTF-8 without spaces and the seed a string: 1 and "1" are one
    seed. Both colours may have the same seed: they are never asked in the same position.
    """

    name = "random"

    def __init__(self, seed: int | str) -> None:
        self._seed = str(seed)

    async def move(self, position: Position) -> str:
        """Return a legal move, as UCI. Raises PlayerError where there is none."""
        if not position.legal_moves:
            raise PlayerError(self.name, "no_move", f"there is no legal move in {position.fen}: the game is over")
        history = [self._seed, position.initial_fen, position.chess960, position.moves]
        text = json.dumps(history, ensure_ascii=False, separators=(",", ":"))
        number = int.from_bytes(sha256(text.encode("utf-8", "surrogatepass")).digest(), "big")
        return sorted(position.legal_moves)[number % len(position.legal_moves)]

    async def close(self) -> None:
        """Do nothing: nothing was started."""
