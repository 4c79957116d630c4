"""Which operating-system user PostgreSQL runs as, and readable errors for what the system refuses.

PostgreSQL refuses to run as root. An ordinary user runs it as itself; root runs it as an existing unprivileged user, to
which it gives only the data folder.
"""

from __future__ import annotations

import errno
import os
import pwd
import subprocess
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from worldledger.errors import EmbeddedServerError

# The usual unprivileged users, best first: PostgreSQL's own, then the one that every system has.
_UNPRIVILEGED: Final = ("postgres", "_postgres", "nobody")

# The environment of PostgreSQL's programs: PG* variables of the caller must not reach them.
CLEAN_ENVIRONMENT: Final = {
    "PATH": "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin",
    "LC_ALL": "C.UTF-8",
    "TZ": "UTC",
}

_ADVICE: Final = {
    errno.ENOSPC: "the disk is full; free some room there, or name a folder on another disk with --home",
    errno.EDQUOT: "the disk quota is used up; free some room, or name a folder on another disk with --home",
    errno.EROFS: "that file system is read-only; name a folder that can be written with --home",
    errno.EACCES: "permission denied; name a folder of your own with --home, or run as the user who owns it",
    errno.EPERM: "the system does not permit it; name a folder of your own with --home",
    errno.ENOTDIR: "a part of that path is a file, not a folder; name another folder with --home",
    errno.EEXIST: "something that is not a folder is there; move it away, or name another folder with --home",
    errno.ELOOP: "a symbolic link stands where a plain file is expected; remove the link",
    errno.ENAMETOOLONG: "the path is too long; name a shorter one with --home",
    errno.ENOLCK: "that file system has no file locks; name a folder on a local disk with --home",
    errno.EOPNOTSUPP: "that file system has no file locks; name a folder on a local disk with --home",
}


def refusal(error: OSError, doing: str, path: Path) -> EmbeddedServerError:
    """Map the system's refusal (``doing``, e.g. "create the folder") at ``path`` to this project's error."""
    reason = error.strerror or str(error) or type(error).__name__
    advice = _ADVICE.get(error.errno or 0, "see whether the path is right, or name another folder with --home")
    return EmbeddedServerError(f"cannot {doing} {path}: {reason}: {advice}", path=str(path), errno=error.errno)


@dataclass(frozen=True)
class Account:
    """The user that the server runs as; ``switch`` is true if root has to change to it first."""

    name: str
    uid: int
    gid: int
    switch: bool

    def popen(self) -> dict[str, Any]:
        """Return the arguments of ``subprocess.Popen`` with which a program runs as this user."""
        if not self.switch:
            return {}
        return {"user": self.uid, "group": self.gid, "extra_groups": []}


#: Most seconds that a short program may take.
_RUN_SECONDS: Final = 30.0


def choose(owners: Iterable[int] = ()) -> Account:
    """Choose the server's user.

    An ordinary user: itself. Root: the first of ``owners`` (user ids: the owner of the data, of the home) that is not
    root and is known to the system, then ``postgres``, then ``nobody``.

    Raises ``EmbeddedServerError`` when root finds no unprivileged user.
    """
    uid = os.geteuid()
    if uid != 0:
        known = _by_id(uid)
        return Account(known.pw_name if known else str(uid), uid, os.getegid(), switch=False)
    for owner in owners:
        entry = _by_id(owner) if owner != 0 else None
        if entry is not None:
            return Account(entry.pw_name, entry.pw_uid, entry.pw_gid, switch=True)
    for name in _UNPRIVILEGED:
        try:
            entry = pwd.getpwnam(name)
        except KeyError:
            continue
        if entry.pw_uid != 0:
            return Account(entry.pw_name, entry.pw_uid, entry.pw_gid, switch=True)
    raise EmbeddedServerError(
        "PostgreSQL refuses to run as root, and this system has neither a user 'postgres' nor 'nobody' to run it"
        " as: create one (useradd --system postgres), run this as an ordinary user, or name a server with"
        " WORLDLEDGER_DATABASE_URL"
    )


def _by_id(uid: int) -> pwd.struct_passwd | None:
    try:
        return pwd.getpwuid(uid)
    except KeyError:
        return None


def can_enter(account: Account, folder: Path) -> bool:
    """Return whether the user can reach ``folder`` through all its parents; asks the system, so ACLs count too."""
    if not account.switch:
        return os.access(folder, os.X_OK)
    return run_as(account, ["/bin/sh", "-c", 'cd -- "$1"', "sh", str(folder)]).returncode == 0


def run_as(account: Account, command: list[str]) -> subprocess.CompletedProcess[str]:
    """Run a short program as the server's user, from ``/``, and return its exit code and output as text.

    A program that cannot be executed at all has code 126. Raises ``EmbeddedServerError`` if the system does not let
    root change its user, or the program does not end within 30 s.
    """
    try:
        return subprocess.run(  # noqa: S603 - fixed programs, no shell text from outside
            command,
            cwd="/",
            env=CLEAN_ENVIRONMENT,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            errors="replace",
            timeout=_RUN_SECONDS,
            check=False,
            **account.popen(),
        )
    except subprocess.TimeoutExpired as error:
        raise EmbeddedServerError(f"{command[0]} did not answer within {_RUN_SECONDS:g} s") from error
    except OSError as error:
        if account.switch and not _may_switch(account):
            raise EmbeddedServerError(
                f"root may not run programs as the user {account.name!r} here ({error.strerror}): the container"
                " or sandbox forbids it; run this as an ordinary user, or name a server with"
                " WORLDLEDGER_DATABASE_URL"
            ) from error
        return subprocess.CompletedProcess(command, 126, "", error.strerror or str(error))


def _may_switch(account: Account) -> bool:
    try:
        subprocess.run(["/bin/sh", "-c", ":"], cwd="/", env=CLEAN_ENVIRONMENT, check=False, **account.popen())
    except OSError:
        return False
    return True
