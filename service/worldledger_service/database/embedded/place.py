"""Where a home's data folder and socket are: in the home, unless that is impossible.

There are two reasons why the home itself cannot be used.

*The server's user cannot reach it.* As root the server runs as another user, and a home such as ``/root/ledger`` is
behind a folder that this user may not enter. Permissions of parent folders are never changed. Instead the data go to a
folder of their own beside other services' data (``/var/lib/worldledger-<random>``: root's, 0710, the server's group; in
it ``data/`` and ``run/``, 0700, the user's), and the home keeps its path in ``data-location``.
(Passing PostgreSQL an open descriptor of the folder and ``/proc/self/fd/N`` as its path works too, but only on Linux,
with /proc mounted, and no tool could be used on such a server.) The name is random rather than derived from the home's
path, so that a home that was deleted and created again never meets old data; ``origin`` in that folder names the home,
for the administrator.

*The path of the socket is invalid.* The system limits it to about 100 bytes, and a comma in it would be read as a list
of hosts. Then the socket goes to a private folder (0700, the server's user) with a random name in /tmp, whose path is
in ``socket-location``; it is deleted when the server stops.
"""

from __future__ import annotations

import os
import re
import secrets
import shutil
import stat
import tempfile
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from worldledger.errors import EmbeddedServerError
from worldledger_service.database.embedded.accounts import Account, can_enter, choose, refusal
from worldledger_service.database.embedded.home import Home, sync_folder

# Where services keep data, on Linux and macOS; the first that exists and that the server's user can enter.
OUTSIDE: Final = ("/var/lib", "/srv", "/usr/local/var", "/opt", "/Library/Application Support")
POINTER: Final = "data-location"

_PREFIX: Final = "worldledger-"
_SOCKET_POINTER: Final = "socket-location"
# sockaddr_un holds 108 bytes on Linux and 104 on macOS, the closing zero included.
_SOCKET_PATH_LIMIT: Final = 100
_FIT_FOR_A_SOCKET: Final = re.compile(r"[^,\"'\\:;|<>*?\x00-\x1f\x7f\ud800-\udfff]+")


@dataclass(frozen=True)
class Place:
    """The folder that holds data/ and run/, and the user that owns these two."""

    root: Path
    account: Account

    @property
    def data(self) -> Path:
        """The PostgreSQL data folder; absent before the first start."""
        return self.root / "data"


def settle(home: Home) -> Place:
    """Decide where the data of this home are, once: an earlier decision is kept.

    Only the supervisor calls this. Raises ``EmbeddedServerError`` if the data are gone, out of reach of the server's
    user, or another user's.
    """
    root = located(home)
    account = choose(_owners(root, home.path))
    data = root / "data"
    if root == home.path and not can_enter(account, home.path):
        if data.exists():
            raise EmbeddedServerError(
                f"the user {account.name!r}, as whom root runs PostgreSQL, can no longer reach {data}: let it pass"
                f" through the folders above it (chmod o+x), or run this as the user who owns {home.path}",
                home=str(home.path),
            )
        root = _outside(home, account)
    if data.exists() and data.stat().st_uid != account.uid:
        owner = data.stat().st_uid
        raise EmbeddedServerError(
            f"{data} belongs to the user with id {owner}, but PostgreSQL would run as {account.name!r} (id"
            f" {account.uid}): run this as the owner, or hand the folder over (chown -R {account.name} {data})",
            home=str(home.path),
        )
    return Place(root, account)


def located(home: Home) -> Path:
    """Return the folder with this home's data (or their future folder, unless it turns out to be unusable)."""
    pointed = home.read(POINTER)
    if not pointed:
        return home.path
    root = Path(pointed)
    if not root.is_dir():
        raise EmbeddedServerError(
            f"the data of {home.path} are kept in {pointed} (see {home.path / POINTER}), which is gone: bring that"
            " folder back, or name another folder with --home to begin anew",
            home=str(home.path),
        )
    # A copied home must not share its data with the original, and no pointer may lead root to other folders.
    try:
        origin = (root / "origin").read_text(encoding="utf-8", errors="surrogateescape").removesuffix("\n")
        ours = root.stat().st_uid == 0 and root.name.startswith(_PREFIX)
    except OSError as error:
        raise refusal(error, "read", root / "origin") from error
    if not ours or origin != str(home.path):
        raise EmbeddedServerError(
            f"{home.path / POINTER} points to {root}, which belongs to the home {origin}: if that home was moved"
            f" here, write its new path into {root / 'origin'}; if it was copied, delete {home.path / POINTER}",
            home=str(home.path),
        )
    return root


def _owners(root: Path, home: Path) -> list[int]:
    owners = []
    for path in (root / "data", home):
        with suppress(OSError):
            owners.append(path.stat().st_uid)
    return owners


def _outside(home: Home, account: Account) -> Path:
    for parent in map(Path, OUTSIDE):
        if not parent.is_dir() or not can_enter(account, parent):
            continue
        root = parent.resolve() / f"{_PREFIX}{secrets.token_hex(8)}"
        try:
            root.mkdir(mode=0o700)
            os.chown(root, 0, account.gid)
            root.chmod(0o710)
            (root / "origin").write_text(f"{home.path}\n", encoding="utf-8", errors="surrogateescape")
        except OSError:
            shutil.rmtree(root, ignore_errors=True)
            continue
        home.write(POINTER, f"{root}\n")
        sync_folder(parent)
        return root
    raise EmbeddedServerError(
        f"the user {account.name!r}, as whom root runs PostgreSQL, cannot reach {home.path}, and none of"
        f" {', '.join(OUTSIDE)} can hold the data instead: name a folder that this user can reach with --home",
        home=str(home.path),
    )


def make_private(folder: Path, account: Account) -> None:
    """Create a folder (0700) of the server's user; an existing one must be just that.

    Never follows a symbolic link, and never changes the owner of an existing folder.
    """
    try:
        try:
            folder.mkdir(mode=0o700)
        except FileExistsError:
            if not _is_private(folder, account):
                raise EmbeddedServerError(
                    f"{folder} should be a private folder (0700) of the user {account.name!r}, and is not: move it"
                    " away, or correct its owner and mode",
                    path=str(folder),
                ) from None
            return
        if account.switch:
            os.chown(folder, account.uid, account.gid, follow_symlinks=False)
    except OSError as error:
        raise refusal(error, "create the folder", folder) from error


def _is_private(folder: Path, account: Account) -> bool:
    try:
        found = folder.lstat()
    except OSError:
        return False
    return stat.S_ISDIR(found.st_mode) and found.st_uid == account.uid and not found.st_mode & 0o077


# -- the socket --------------------------------------------------------------------------------------------


def socket_folder(home: Home, place: Place, port: int) -> Path:
    """Return the folder for the server's socket, created and private; raises ``EmbeddedServerError``."""
    folder = place.root / "run"
    if fits_a_socket(folder, port):
        make_private(folder, place.account)
        return folder
    known = home.read(_SOCKET_POINTER)
    if known and _is_private(Path(known), place.account):
        return Path(known)
    for parent in dict.fromkeys(("/tmp", "/var/tmp", tempfile.gettempdir())):  # noqa: S108 - 0700, random name
        try:
            made = Path(tempfile.mkdtemp(prefix=_PREFIX, dir=parent)).resolve()
            if place.account.switch:
                os.chown(made, place.account.uid, place.account.gid, follow_symlinks=False)
        except OSError:
            continue
        if fits_a_socket(made, port) and can_enter(place.account, made):
            home.write(_SOCKET_POINTER, f"{made}\n")
            return made
        made.rmdir()
    raise EmbeddedServerError(
        f"the path {folder} is too long (or has characters unfit) for the socket of PostgreSQL, and /tmp cannot"
        " hold it either: name a folder with a shorter path with --home",
        home=str(home.path),
    )


def fits_a_socket(folder: Path, port: int) -> bool:
    """Return whether PostgreSQL and its clients can use a socket in this folder."""
    path = str(folder / f".s.PGSQL.{port}")
    return _FIT_FOR_A_SOCKET.fullmatch(path) is not None and len(os.fsencode(path)) <= _SOCKET_PATH_LIMIT


def sweep_sockets(folder: Path) -> None:
    """Delete what a dead server left in its socket folder, lock files included."""
    for left in folder.glob(".s.PGSQL.*"):
        with suppress(OSError):
            left.unlink()


def drop_socket_folder(home: Home) -> None:
    """Delete the socket's folder in /tmp, if there is one; the server must have stopped."""
    known = home.read(_SOCKET_POINTER)
    if known and Path(known).name.startswith(_PREFIX):
        sweep_sockets(Path(known))
        with suppress(OSError):
            Path(known).rmdir()
    if known:
        home.delete(_SOCKET_POINTER)


def remove(home: Home) -> None:
    """Delete the data and everything that belongs to them; lock files stay. The caller holds both locks."""
    root = located(home)
    drop_socket_folder(home)
    try:
        if root != home.path:
            shutil.rmtree(root)
        else:
            for folder in (root / "data", root / "run", *root.glob("data.new-*"), *root.glob("postgresql-*")):
                if folder.is_dir():
                    shutil.rmtree(folder)
    except OSError as error:
        raise refusal(error, "delete", root) from error
    for name in (POINTER, "password", "server.json"):
        home.delete(name)
