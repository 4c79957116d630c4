"""Two what-ifs: a richer trader in a market, and a chess game before its blunder, each compared with its parent.

    python examples/whatif.py

The market is forked at turn 10. Two forks begin alike. In ``market-recorded`` everything that was recorded is decided
again: the engine's effects say what each trader has at the end of a turn, so by turn 11 the extra gold is gone. In
``market-rich`` the traders look and decide anew, and the engine settles what they want: that is what the gold changes.
The world ``market`` has to be played (`make run` does it, or ``examples/market/play.py --world market``). What is there
already is left as it is, so this may be run again at any time; the page ``whatif.html`` is written anew.

The game is one of the examples, which have to be imported (`make run` does it). Hasty Hal lost it by his fifth move, a
bishop for a pawn; stockfish plays on for him from before it, in a fork, where there is a stockfish.
"""

from __future__ import annotations

import argparse
import io
import json
import sys
from collections.abc import Callable
from contextlib import redirect_stdout
from pathlib import Path
from typing import Any

from worldledger_chess.arena.players import InvalidPlayerError, make_player
from worldledger_service.cli.main import run

MARKET = Path(__file__).with_name("market")
TRADER = "Trader_1"
FORK_POINT = "turn:10"
PAGE = "whatif.html"
GAME = "examples-hasty-hal-vs-cautious-cora-2026-01-04-c6d35b365f48"
BEFORE = "ply:8"
PLAYED_ON = "what-if"


def asked(*arguments: str) -> Any:
    """Return what a command prints as JSON; None if it fails, which has been told then."""
    printed = io.BytesIO()
    with redirect_stdout(io.TextIOWrapper(printed, encoding="utf-8")) as text:
        code = run([*arguments, "--json"])
        text.flush()
    return json.loads(printed.getvalue()) if code == 0 else None


def gold() -> float:
    """Return the trader's gold at the fork point; 0 if there is no market to ask."""
    told = asked("state", "market", "--at", FORK_POINT)
    return 0.0 if told is None else float(told["state"]["entities"][TRADER]["gold"])


def play_on(world: str) -> None:
    """Let the traders and the engine play the turns that are left."""
    sys.path.insert(0, str(MARKET))
    import play  # noqa: PLC0415 - it stands beside its own modules

    play.main(["--world", world, "--quiet"])


def what_if(step: Callable[..., bool]) -> bool:
    """Do both; ``step`` shows and runs a command, and tells whether it worked."""
    return all([richer(step), better(step)])


def richer(step: Callable[..., bool]) -> bool:
    """Make both forks of the market, go on in each, and compare."""
    before = gold()
    if not before:
        return False

    def fork(name: str) -> list[str]:
        change = f"{TRADER}/gold={2 * before:.2f}"
        return ["fork", "market", "--at", FORK_POINT, "--as", name, "--same-noise", "--set", change]

    done = [
        step(f"What if {TRADER} had had twice its gold after turn 10?", fork("market-recorded")),
        step("What was recorded after it, decided again:", ["rerun", "market-recorded"]),
        step("The same beginning, for traders who decide anew:", fork("market-rich")),
    ]
    play_on("market-rich")
    compare = ["compare", "market", "market-rich", "-o", PAGE, "--force"]
    return step("How the market went, and how it would have gone:", compare, seconds=60) and all(done)


def has_stockfish() -> bool:
    """Return whether Stockfish is installed."""
    try:
        make_player("stockfish", seed=0)
    except InvalidPlayerError:
        return False
    return True


def forks_of_the_game() -> list[str] | None:
    """Return the forks in which the game was played on; None if they cannot be asked for."""
    worlds = asked("worlds", "--experiment", PLAYED_ON)
    if worlds is None:
        return None
    return [world["world_id"] for world in worlds if (world["fork_of"] or {}).get("world_id") == GAME]


def better(step: Callable[..., bool]) -> bool:
    """Let stockfish play the game on from before its blunder, and compare."""
    if not has_stockfish():
        print("\nThere is no stockfish here that could play Hasty Hal's game on; with one you see how it would end.")
        return True
    forks = forks_of_the_game()
    if forks == []:
        players = ["--white", "stockfish", "--black", "random", "--nodes", "1000", "--seed", "1"]
        title = "What if stockfish had gone on for Hasty Hal, before he gave a bishop for a pawn?"
        arguments = ["chess", "play", "--from", f"{GAME}@{BEFORE}", *players, "--experiment", PLAYED_ON, "--quiet"]
        if step(title, arguments, seconds=60):
            forks = forks_of_the_game()
    if not forks:
        return False
    return step("How his game went, and how it would have gone:", ["compare", GAME, forks[0]], seconds=60)


def main() -> int:
    """Do it; give 1 if a step failed, which has been told then."""
    argparse.ArgumentParser(description=__doc__).parse_args()
    from tour import step  # noqa: PLC0415 - the tour needs this module in turn

    return 0 if what_if(step) else 1


if __name__ == "__main__":
    sys.exit(main())
