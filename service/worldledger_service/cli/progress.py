"""A progress bar on stderr, where that is a terminal and nobody asked for quiet."""

from __future__ import annotations

import os
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from worldledger_service.cli.output import above

#: Told how much is done, how much there is in all (None: not known), and a remark to show.
Tell = Callable[[float, float | None, str], None]

#: Seconds until a bar shows: what is done sooner needs none. The variable is for tests.
_SHOWN_AFTER = float(os.environ.get("WORLDLEDGER_BAR_AFTER", "0.3"))


def effects(tell: Tell) -> Callable[[int, int], None]:
    """Return what tells how many effects are done, and of how many."""
    return lambda done, total: tell(done, total, f"{done} effects")


@contextmanager
def progress_bar(label: str, *, quiet: bool = False) -> Iterator[Tell]:
    """Lend a function that moves the bar; without a terminal it does nothing."""
    if quiet or not sys.stderr.isatty():
        yield lambda done, total, remark: None
        return
    from rich.console import Console  # noqa: PLC0415 - slow to load, and only people look at it
    from rich.progress import BarColumn, Progress, TaskProgressColumn, TextColumn, TimeRemainingColumn  # noqa: PLC0415

    columns = (
        TextColumn("{task.description}"),
        BarColumn(),
        TaskProgressColumn(),
        TextColumn("{task.fields[remark]}"),
        TimeRemainingColumn(),
    )
    console = Console(stderr=True)

    def print_above(line: str) -> None:  # as it is: neither wrapped nor coloured, so that it can be copied
        console.print(line, markup=False, highlight=False, emoji=False, soft_wrap=True)

    bar = Progress(*columns, console=console, transient=True, redirect_stdout=False, redirect_stderr=False)
    task = bar.add_task(label, total=None, remark="")
    show_at = time.monotonic() + _SHOWN_AFTER

    def tell(done: float, total: float | None, remark: str) -> None:
        bar.update(task, completed=done, total=total, remark=remark)
        if not bar.live.is_started and time.monotonic() >= show_at:
            bar.start()

    with above(print_above):
        try:
            yield tell
        finally:
            bar.stop()
