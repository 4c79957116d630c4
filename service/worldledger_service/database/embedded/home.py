"""The files of a home, the folder that ``--home`` names, and reading and writing the small ones.

::

    <home>/
      users.lock, supervisor.lock   lock files, empty; never deleted while anything runs
      service.lock                  held by the service that serves the database; its address (below)
      server.json                   what the running supervisor serves; absent when there is none
      password                      the password of the database user "postgres", 0600
      logs/postgres.log             what the server says; logs/supervisor.log: starts, restarts, stops
      data/                         the PostgreSQL data folder, 0700, owned by the user that the server runs as
      run/                          the Unix socket, 0700, same owner
      data-location                 only if data/ and run/ had to be placed elsewhere (place.py): where
      socket-location               only if the path of run/ is unfit for a socket (place.py): where
      postgresql-<version>/         only for root: a copy of the binaries, if the server's user cannot read them

Every file that this module writes appears whole or not at all (written aside, then renamed).
"""

from __future__ import annotations

import errno
import fcntl
import json
import os
import secrets
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import asdict, dataclass
from pathlib import Path
from types import TracebackType
from typing import Final, Literal, Self

from worldledger.errors import EmbeddedServerError
from worldledger_service.database.embedded.accounts import choose, refusal

# The database's superuser, whose password the home keeps.
USER: Final = "postgres"

# A log over this size (bytes) is set aside as <name>.1 when a supervisor starts.
_MOST_LOG_BYTES: Final = 8 * 1024 * 1024


@dataclass(frozen=True)
class ServerState:
    """The content of ``server.json``; valid only while ``supervisor.lock`` is held."""

    state: Literal["starting", "ready", "stopping"]
    supervisor_pid: int
    postmaster_pid: int | None = None
    socket_dir: str = ""
    port: int = 5432
    tcp_port: int | None = None
    major: int = 0


@dataclass(frozen=True)
class Home:
    """An existing home folder, by its resolved path."""

    path: Path

    @property
    def users_lock(self) -> Path:
        """Held shared by every process that uses the server."""
        return self.path / "users.lock"

    @property
    def supervisor_lock(self) -> Path:
        """Held exclusively by the supervisor."""
        return self.path / "supervisor.lock"

    @property
    def server_log(self) -> Path:
        """PostgreSQL's log."""
        return self.path / "logs" / "postgres.log"

    @property
    def supervisor_log(self) -> Path:
        """The supervisor's log."""
        return self.path / "logs" / "supervisor.log"

    # -- small files ---------------------------------------------------------------------------------------

    def write(self, name: str, text: str, *, durable: bool = True) -> None:
        """Write a small private file (0600) of the home, on disk on return unless it need not be durable.

        Raises ``EmbeddedServerError``.
        """
        target = self.path / name
        aside = self.path / f".{name}.{secrets.token_hex(4)}"
        try:
            try:
                fd = os.open(aside, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600)
                with os.fdopen(fd, "w", encoding="utf-8", errors="surrogateescape") as file:
                    self._adopt(fd)
                    file.write(text)
                    file.flush()
                    if durable:
                        os.fsync(fd)
                aside.rename(target)
                if durable:
                    sync_folder(self.path)
            except OSError:
                aside.unlink(missing_ok=True)
                raise
        except OSError as error:
            raise refusal(error, "write", target) from error

    def read(self, name: str) -> str | None:
        """Read a small file of the home without its last newline; None if there is none."""
        target = self.path / name
        try:
            text = target.read_text(encoding="utf-8", errors="surrogateescape")
        except FileNotFoundError:
            return None
        except OSError as error:
            raise refusal(error, "read", target) from error
        return text.removesuffix("\n")

    def delete(self, name: str) -> None:
        """Delete a small file of the home if it is there."""
        try:
            (self.path / name).unlink(missing_ok=True)
        except OSError as error:
            raise refusal(error, "delete", self.path / name) from error

    def _adopt(self, fd: int) -> None:
        # Root, working in another user's home, leaves its files to that user.
        if os.geteuid() == 0:
            owner = self.path.stat()
            if owner.st_uid != 0:
                os.fchown(fd, owner.st_uid, owner.st_gid)

    # -- the server's state and password -------------------------------------------------------------------

    def write_state(self, state: ServerState) -> None:
        """Publish the state of the server."""
        self.write("server.json", json.dumps(asdict(state)) + "\n", durable=False)

    def read_state(self) -> ServerState | None:
        """Return the last published state; None if there is none (or none of this version)."""
        text = self.read("server.json")
        if text is None:
            return None
        try:
            return ServerState(**json.loads(text))
        except (ValueError, TypeError):
            return None

    def password(self) -> str | None:
        """Return the password of the database user, or None before the first start."""
        return self.read("password") or None

    def make_password(self) -> str:
        """Create a new password, keep it in the home and return it."""
        password = secrets.token_urlsafe(24)
        self.write("password", password + "\n")
        return password

    # -- logs ----------------------------------------------------------------------------------------------

    def open_log(self, path: Path) -> int:
        """Open a log for appending (0600) and return the descriptor, which the caller closes."""
        try:
            if not path.parent.exists():
                path.parent.mkdir(mode=0o700, exist_ok=True)
                self._adopt_folder(path.parent)
            fd = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC | os.O_NOFOLLOW, 0o600)
            self._adopt(fd)
        except OSError as error:
            raise refusal(error, "open the log", path) from error
        return fd

    def _adopt_folder(self, folder: Path) -> None:
        if os.geteuid() == 0:
            owner = self.path.stat()
            os.chown(folder, owner.st_uid, owner.st_gid, follow_symlinks=False)

    def rotate_logs(self) -> None:
        """Rotate logs that are too long; for the holder of the supervisor's lock, before one is opened."""
        for log in (self.server_log, self.supervisor_log):
            with suppress(OSError):
                if log.stat().st_size > _MOST_LOG_BYTES:
                    log.replace(log.with_name(log.name + ".1"))


def sync_folder(folder: Path) -> None:
    """Sync the names in a folder to disk: only then is a rename durable. Raises ``OSError``."""
    fd = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        os.fsync(fd)
    finally:
        os.close(fd)


def log_size(log: Path) -> int:
    """Return the length of a log in bytes, 0 if there is none: the position from which ``log_tail`` reads."""
    try:
        return log.stat().st_size
    except OSError:
        return 0


def log_tail(log: Path, since: int = 0, lines: int = 8) -> str:
    """Return the last lines that were written to a log after the byte ``since``; empty if there are none."""
    try:
        with log.open("rb") as file:
            file.seek(max(since, log_size(log) - 8192))
            text = file.read().decode("utf-8", errors="replace")
    except OSError:
        return ""
    return "\n".join(text.splitlines()[-lines:])


def open_home(path: Path, *, create: bool = True) -> Home:
    """Find the home folder, and create it if it is missing and ``create`` is true.

    A new home is private: 0700, and for root 0710 with the group of the server's user, which may pass through it to the
    data folder but cannot list anything. Existing folders keep their modes and owners.

    Raises ``EmbeddedServerError`` if the path cannot be used; ``FileNotFoundError`` if it is missing and was not to be
    created.
    """
    try:
        resolved = Path(path).expanduser().resolve()
    except (OSError, RuntimeError, ValueError) as error:
        raise EmbeddedServerError(f"cannot use {str(path)!r} as the home: {error}", path=str(path)) from error
    if any(ord(character) < 32 or ord(character) == 127 for character in str(resolved)):
        # PostgreSQL keeps the path in files with one value a line.
        raise EmbeddedServerError(
            f"cannot use {str(resolved)!r} as the home: its path has control characters; name another folder"
            " with --home",
            path=str(resolved),
        )
    if not create and not resolved.exists():
        raise FileNotFoundError(errno.ENOENT, "no such home", str(resolved))
    try:
        if not resolved.is_dir():
            _create(resolved)
    except OSError as error:
        raise refusal(error, "create the folder", resolved) from error
    return Home(resolved)


def _create(path: Path) -> None:
    """Create the folder in one step, mode and group included: another process may use it at once."""
    account = choose()
    path.parent.mkdir(parents=True, exist_ok=True)
    aside = Path(tempfile.mkdtemp(prefix=f".{path.name[:64]}.", dir=path.parent))
    try:
        if account.switch:
            os.chown(aside, 0, account.gid)
            aside.chmod(0o710)
        aside.rename(path)
    except OSError as error:
        aside.rmdir()
        # ENOTEMPTY, EEXIST: another process was first, and its folder is in use already.
        if error.errno not in {errno.ENOTEMPTY, errno.EEXIST} or not path.is_dir():
            raise


# -- advisory locks on files (flock): the kernel releases them however their holder ends ------------------
#
# Two files in a home make the whole protocol between users and supervisor (see ``supervisor.py``):
#
# - ``supervisor.lock``: exclusive, held by the one supervisor for its life. A process that wants to start one takes
#   the lock first and passes the open descriptor on, so that two can never be started at once.
# - ``users.lock``: shared, held by each process that uses the server. The supervisor takes it exclusively before it
#   stops the server and keeps it until the server is gone.


class FileLock:
    """An open lock file. Not held at first; descriptors are inherited only on purpose."""

    def __init__(self, path: Path, fd: int | None = None) -> None:
        """Open (or create, 0600) the lock file; ``fd`` adopts an open descriptor that may hold it already."""
        self.path = path
        self._owner = os.getpid()
        if fd is not None:
            os.set_inheritable(fd, False)
            self.fd = fd
            return
        try:
            self.fd = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW, 0o600)
            owner = path.parent.stat().st_uid
            if os.geteuid() == 0 and os.fstat(self.fd).st_uid != owner:
                os.fchown(self.fd, owner, -1)  # root, working in another user's home, must not lock that user out
        except OSError as error:
            raise refusal(error, "open the lock file", path) from error

    def try_shared(self) -> bool:
        """Take the lock together with others; False if another process holds it exclusively."""
        return self._try(fcntl.LOCK_SH)

    def try_exclusive(self) -> bool:
        """Take the lock alone; False if another process holds it."""
        return self._try(fcntl.LOCK_EX)

    def _try(self, kind: int) -> bool:
        try:
            fcntl.flock(self.fd, kind | fcntl.LOCK_NB)
        except OSError as error:
            if error.errno in {errno.EWOULDBLOCK, errno.EACCES, errno.EINTR}:
                return False
            raise refusal(error, "lock", self.path) from error
        return True

    def release(self) -> None:
        """Release the lock, also for descriptors that forked children have inherited."""
        fcntl.flock(self.fd, fcntl.LOCK_UN)

    def close(self) -> None:
        """Release and close; a second call does nothing, and a forked child does not release its parent's lock."""
        if self.fd >= 0:
            if os.getpid() == self._owner:
                self.release()
            self.forget()

    def forget(self) -> None:
        """Close only this process's descriptor: a child that inherited it keeps the lock."""
        if self.fd >= 0:
            os.close(self.fd)
            self.fd = -1

    def touch(self) -> None:
        """Note on the file that it was used now; the supervisor's linger counts from the last use."""
        os.utime(self.fd)

    def touched(self) -> int:
        """Return the time of the last use, in nanoseconds of the file's clock: compare it for change only."""
        return os.fstat(self.fd).st_mtime_ns

    def in_place(self) -> bool:
        """Return whether the path still leads to this very file (False after the home was deleted)."""
        try:
            return os.path.samestat(self.path.stat(), os.fstat(self.fd))
        except OSError:
            return False

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()


# -- which service serves the database of a home: it holds ``service.lock``, which says at what address ----
#
# The kernel releases the lock however the service ends, so what is read here is true. Of several services on one home
# it is the first; the others serve without it.

_SERVICE_LOCK: Final = "service.lock"
#: Bytes of the longest address.
_ADDRESS_BYTES: Final = 1000
#: How often the lock is tried, and seconds between two attempts: who reads it holds it for a moment.
_ATTEMPTS: Final = 5
_PAUSE_SECONDS: Final = 0.02


@contextmanager
def announcing(home: Path) -> Iterator[Callable[[str], None]]:
    """Yield a function that takes the address at which this process serves a home's database; it holds until the end.

    Raises EmbeddedServerError for a home that cannot be used.
    """
    with FileLock(open_home(home).path / _SERVICE_LOCK) as lock:

        def announce(address: str) -> None:
            for _ in range(_ATTEMPTS):
                if lock.try_exclusive():
                    os.ftruncate(lock.fd, 0)
                    os.pwrite(lock.fd, address.encode(), 0)
                    return
                time.sleep(_PAUSE_SECONDS)

        yield announce


def served_at(home: Path) -> str | None:
    """Return the address of the service that serves a home's database; None if there is none that says so."""
    try:
        path = open_home(home, create=False).path / _SERVICE_LOCK
        if not path.exists():
            return None
        with FileLock(path) as lock:
            if lock.try_shared():
                return None
            return os.pread(lock.fd, _ADDRESS_BYTES, 0).decode(errors="replace") or None
    except (OSError, EmbeddedServerError):
        return None
