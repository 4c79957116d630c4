"""A tiny UCI engine that behaves as its first argument says, and answers "go" with the further arguments in turn.

It misbehaves at the last of them, if not before; that is then its answer for ever.

The folder that FAKE_ENGINE names gets a file for each process of it (its id), and `heard`, the lines that it read.
"""

from __future__ import annotations

import os
import subprocess
import sys
import time

BEHAVIOUR = sys.argv[1]
MOVES = sys.argv[2:] or ["e2e4"]
FOLDER = os.environ["FAKE_ENGINE"]


def note(pid: int) -> None:
    """Leave a process's id for the test."""
    with open(os.path.join(FOLDER, str(pid)), "w"):  # noqa: PTH118, PTH123 - pathlib is slow to start
        pass


def bear() -> None:
    """Start a child that holds the pipes open and never ends."""
    note(subprocess.Popen(["sleep", "3600"]).pid)


def say(text: str) -> None:
    """Write a line at once."""
    sys.stdout.write(text + "\n")
    sys.stdout.flush()


def hang() -> None:
    """Hear nothing any more, not even the end of the input."""
    while True:
        time.sleep(3600)


def flood(piece: bytes) -> None:
    """Write without end."""
    while True:
        os.write(1, piece * 4096)


def at_start() -> None:
    """Misbehave before "uciok"."""
    if BEHAVIOUR == "hang_at_start":
        hang()
    elif BEHAVIOUR == "crash_at_start":
        sys.stderr.write("no network file\nfound\n")
        sys.exit(3)
    elif BEHAVIOUR == "talk_at_start":
        say("Welcome to Rubbish 1.0!\n  \nid\nbestmove e2e4\nreadyok\nuciok?")
        sys.stdout.buffer.write(b"\xff\xfe\n option name \xff type string default \xff\r\n")
    elif BEHAVIOUR == "bad_option":
        say("option name Strange type wheel default 1")
    elif BEHAVIOUR == "flood_at_start":
        flood(b"hello\n")


def at_go(number: int) -> None:
    """Answer, or misbehave."""
    move = MOVES[min(number, len(MOVES) - 1)]
    if number < len(MOVES) - 1:
        say(f"bestmove {move}")
    elif BEHAVIOUR == "hang_at_go":
        hang()
    elif BEHAVIOUR == "hang_with_child":
        bear()
        hang()
    elif BEHAVIOUR == "leave_child":
        bear()
        os._exit(4)
    elif BEHAVIOUR == "crash_at_go":
        sys.stderr.write("x" * 100_000 + " segmentation\n")
        sys.stderr.flush()
        os.abort()
    elif BEHAVIOUR == "half_a_line":
        sys.stdout.write("bestmo")
        sys.stdout.flush()
        sys.exit(0)
    elif BEHAVIOUR == "flood":
        flood(b"y\n")
    elif BEHAVIOUR == "flood_a_line":
        flood(b"y" * 16)
    elif BEHAVIOUR == "flood_bestmoves":
        flood(b"bestmove e2e4\nreadyok\n")
    elif BEHAVIOUR == "say_nothing":
        say("bestmove")
    else:
        say("info depth 1 score cp 13 pv e2e4 e7e5 oops\ninfo string hm\n\x00\nreadyok\nReadyOK")
        say(f"bestmove {move} ponder z9z9\r")
    if BEHAVIOUR == "exit_after_move":
        sys.exit(0)


def main() -> None:
    """Read commands until "quit" or the end of the input."""
    note(os.getpid())
    number = 0
    for line in sys.stdin:
        word, _, rest = line.strip().partition(" ")
        with open(os.path.join(FOLDER, "heard"), "a") as heard:  # noqa: PTH118, PTH123
            heard.write(line)
        if word == "uci":
            at_start()
            say("id name Fake\noption name Level type spin default 1 min 0 max 9")
            if BEHAVIOUR == "chess960":
                say("option name UCI_Chess960 type check default false")
            say("uciok")
        elif word == "isready" and (BEHAVIOUR != "not_ready" or number < len(MOVES) - 1):
            say("readyok")
        elif word == "setoption" and BEHAVIOUR == "tell_option":
            MOVES[0] = rest.replace(" ", "_")
        elif word == "go":
            at_go(number)
            number += 1
        elif word == "quit":
            if BEHAVIOUR == "ignore_quit":
                hang()
            return


main()
