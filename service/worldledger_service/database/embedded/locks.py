"""Advisory locks on files (flock): the kernel releases them however their holder ends.

Two files in a home make the whole protocol between users and supervisor (see ``supervisor.py``):

- ``supervisor.lock``: exclusive, held by the one supervisor for its life. A process that wants to start one takes the
  lock first and passes the open descriptor on, so that two can never be started at once.
- ``users.lock``: shared, held by each process that uses the server. The supervisor takes it exclusively before it stops
  the server and keeps it until the server is gone.
"""

from __future__ import annotations

import errno
import fcntl
import os
from pathlib import Path
from types import TracebackType
from typing import Self

from worldledger_service.database.embedded.accounts import refusal


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
