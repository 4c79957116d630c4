"""Where the program ``worldledger`` begins: it loads the commands, which takes a moment."""

from __future__ import annotations

import signal


def main() -> None:
    """Run the command line. Ctrl-C before it has begun ends the process at once, without a word."""
    before = signal.getsignal(signal.SIGINT)
    if before is signal.default_int_handler:
        signal.signal(signal.SIGINT, signal.SIG_DFL)
    from service.cli.main import main as run  # noqa: PLC0415 - this is what takes a moment

    signal.signal(signal.SIGINT, before)
    run()
