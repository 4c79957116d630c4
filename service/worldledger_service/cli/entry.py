"""The entry point of the program ``worldledger``: it loads the commands, which takes a moment."""

from __future__ import annotations

import os
import signal
import sys


def main() -> None:
    """Run the command line. Ctrl-C before it has begun ends the process at once, without a word."""
    _hide_password()
    before = signal.getsignal(signal.SIGINT)
    if before is signal.default_int_handler:
        signal.signal(signal.SIGINT, signal.SIG_DFL)
    try:
        from worldledger_service.cli.main import main as run  # noqa: PLC0415 - this is what takes a moment
    except ModuleNotFoundError as error:
        sys.exit(_not_installed(error))
    signal.signal(signal.SIGINT, before)
    run()


def _not_installed(error: ModuleNotFoundError) -> int:
    """Print what to install if the server's libraries are missing; return the exit code."""
    if error.name is None or error.name.startswith("worldledger"):
        raise error
    what = f"the command needs the extra `server` ({error.name} is not installed): pip install 'worldledger[server]'"
    print(f"worldledger: {what}", file=sys.stderr)  # noqa: T201 - what says it usually cannot be loaded
    return 2


def _hide_password() -> None:
    """Restart the program without the password of ``--database-url`` in its arguments, which every user may read.

    The password is passed on as ``PGPASSWORD`` in the environment, which only this user may read.
    """
    option, arguments = "--database-url", list(sys.argv[1:])
    if not any(each.startswith(option) for each in arguments):
        return
    from worldledger_service.database.address import split_password  # noqa: PLC0415 - only here

    password = None
    for at, each in enumerate(sys.argv[1:]):
        if each == "--":
            break
        if each.startswith(f"{option}="):
            before, url = f"{option}=", each.removeprefix(f"{option}=")
        elif sys.argv[at] == option:
            before, url = "", each
        else:
            continue
        try:
            address, found = split_password(url)
        except ValueError:  # no address; it is refused later
            continue
        if found and "\0" not in found:
            arguments[at], password = before + address, found
    program = sys.orig_argv[: -len(arguments)]
    if password is not None and sys.executable and [*program, *sys.argv[1:]] == sys.orig_argv:
        environment = {**os.environ, "PGPASSWORD": password}
        os.execve(sys.executable, [sys.executable, *program[1:], *arguments], environment)  # noqa: S606 - this program
