"""Play the example market, import the example experiment, and show what can be asked of an example game.

`make run` does this after it has imported the games. The market is the world ``market``; once it has been played, it is
only looked whether that is so, and so it is with the runs of the experiment ``social-rl-example``. What is shown of a
game is its state, its players' statistics, and what its end changed. Last come two forks of the market, and one of a
game (`whatif.py`). Each step is a command, and its output is what that command prints; they run one after the other in
this process, because starting Python for each would take longer than they do.
"""

from __future__ import annotations

import argparse
import io
import signal
import sys
from contextlib import redirect_stdout
from pathlib import Path

from worldledger_service.cli.main import run

#: Hasty Hal lost it by an illegal move.
GAME = "examples-hasty-hal-vs-cautious-cora-2026-01-03-4c8135ce83ce"
STATISTICS = """
    select agent_id, sum(games_played) as played, sum(games_won) as won, sum(games_lost) as lost,
           sum(games_drawn) as drawn, sum(total_moves) as moves, sum(illegal_moves_attempted) as illegal
    from agent_stats where experiment = 'examples' and agent_id in ('Cautious Cora', 'Hasty Hal')
    group by agent_id order by agent_id"""

STEPS = {
    "Tables for queries follow from the logs:": ["project", "--once"],
    "A game as it stands:": ["state", GAME],
    "Its players, over all their games:": ["sql", STATISTICS],
    "What its last two effects changed, an illegal move and the end of the game:": ["diff", GAME, "26", "head"],
}
#: The folder of the example market.
MARKET = Path(__file__).with_name("market")
#: The folder of the example experiment.
RUNS = Path(__file__).with_name("social_rl")
#: Seconds for one step: where very much has to be read first, the service goes on with it.
MOST = 10


def shown(arguments: list[str]) -> str:
    """Write a command as it is typed."""
    return " ".join(["worldledger", *(f'"{argument}"' if " " in argument else argument for argument in arguments)])


def step(title: str, arguments: list[str], seconds: int = MOST) -> bool:
    """Show a command and what it prints; tell whether it did its work within so many seconds."""
    print(f"\n{title}\n\n$ {shown(arguments)}", flush=True)
    signal.alarm(seconds)
    try:
        return run(arguments) == 0
    finally:
        signal.alarm(0)


def play_market() -> None:
    """Play what is left to play of the example market. What becomes of that is told there, and stops nothing here."""
    sys.path.insert(0, str(MARKET))
    import play  # noqa: PLC0415 - it stands beside its own modules

    play.main(["--world", "market", "--quiet"])


def import_runs() -> None:
    """Import the runs of the example experiment; say so only where they were not there."""
    with redirect_stdout(io.StringIO()) as said:
        run(["import", "social-rl", str(RUNS), "--experiment", "social-rl-example"])
    if not said.getvalue().startswith("imported 0 runs"):
        print(said.getvalue(), end="", flush=True)


def ask_what_if() -> bool:
    """Fork the example market and an example game, go on in the forks, and compare; tell whether that was done."""
    sys.path.insert(0, str(Path(__file__).parent))
    import whatif  # noqa: PLC0415 - it stands beside this module

    done: bool = whatif.what_if(step)
    return done


def main() -> int:
    """Do all of it; give 1 if a step failed, which has been told then."""
    argparse.ArgumentParser(description=__doc__).parse_args()
    signal.signal(signal.SIGALRM, lambda *_: signal.raise_signal(signal.SIGTERM))  # which ends a command in order
    play_market()
    import_runs()
    done = [step(title, arguments) for title, arguments in STEPS.items()]
    done.append(ask_what_if())
    print(flush=True)
    return 0 if all(done) else 1


if __name__ == "__main__":
    sys.exit(main())
