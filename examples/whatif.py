"""What if: the example market forked at turn 10, where one trader gets twice its gold, and compared with its parent.

    python examples/whatif.py

Two forks begin alike. In ``market-recorded`` everything that was recorded is decided again: the engine's effects say
what each trader has at the end of a turn, so by turn 11 the extra gold is gone. In ``market-rich`` the traders look and
decide anew, and the engine settles what they want: that is what the gold changes. The world ``market`` has to be played
(`make run` does it, or ``examples/market/play.py --world market``). What is there already is left as it is, so this may
be run again at any time; the page ``whatif.html`` is written anew.
"""

from __future__ import annotations

import argparse
import io
import json
import sys
from collections.abc import Callable
from contextlib import redirect_stdout
from pathlib import Path

from worldledger_service.cli.main import run

MARKET = Path(__file__).with_name("market")
TRADER = "Trader_1"
FORK_POINT = "turn:10"
PAGE = "whatif.html"


def gold() -> float:
    """Return the trader's gold at the fork point; 0 if there is no market to ask, which has been told then."""
    printed = io.BytesIO()
    with redirect_stdout(io.TextIOWrapper(printed, encoding="utf-8")) as text:
        code = run(["state", "market", "--at", FORK_POINT, "--json"])
        text.flush()
    return float(json.loads(printed.getvalue())["state"]["entities"][TRADER]["gold"]) if code == 0 else 0.0


def play_on(world: str) -> None:
    """Let the traders and the engine play the turns that are left."""
    sys.path.insert(0, str(MARKET))
    import play  # noqa: PLC0415 - it stands beside its own modules

    play.main(["--world", world, "--quiet"])


def what_if(step: Callable[..., bool]) -> bool:
    """Make both forks, go on in each, and compare; ``step`` shows and runs a command, and tells whether it worked."""
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


def main() -> int:
    """Do it; give 1 if a step failed, which has been told then."""
    argparse.ArgumentParser(description=__doc__).parse_args()
    from tour import step  # noqa: PLC0415 - the tour needs this module in turn

    return 0 if what_if(step) else 1


if __name__ == "__main__":
    sys.exit(main())
