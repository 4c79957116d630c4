"""Files that appear whole or not at all."""

from __future__ import annotations

import fcntl
import os
import stat
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from hashlib import sha256
from pathlib import Path
from typing import Final

from worldledger.errors import SimulationError
from worldledger_service.cli.output import put_bytes

#: Longest name, in bytes, that leaves room for the prefix and suffix of the unfinished file.
_MAX_NAME: Final = 240


@contextmanager
def written_whole(output: str, *, force: bool = False) -> Iterator[Callable[[bytes], object]]:
    """Yield a function that writes; a file of that name appears at the end of the block, whole, or not at all.

    Until then it is written beside its place, as ``.NAME.part``: what a killed process left there is replaced by the
    next one, and two at once are refused. ``-`` is stdout. Raises SimulationError where it cannot be written, and,
    unless ``force`` is true, where a file of that name is already there.
    """
    if output == "-":
        yield put_bytes
        return
    path = Path(output).resolve()
    try:
        if _is_special(path):  # a device or a pipe must not be replaced by a file
            with path.open("wb") as stream:
                yield stream.write
            return
        if not force:
            _require_none(path, output)
        aside = path.with_name(_aside_name(path.name))
        with os.fdopen(_open_aside(aside, output), "wb") as stream:  # locked until it is closed
            try:
                yield stream.write
                stream.flush()
                os.fsync(stream.fileno())
                if not force:
                    _require_none(path, output)
                aside.replace(path)
            except BaseException:
                aside.unlink(missing_ok=True)
                raise
    except OSError as error:
        raise SimulationError(
            f"{output}: cannot be written ({error.strerror or error}); no file was made", file=output
        ) from error


def require_none(output: str) -> None:
    """Raise SimulationError if a regular file of that name exists, before the work for it begins."""
    path = Path(output).resolve()
    if output != "-" and not _is_special(path):
        _require_none(path, output)


def require_page(output: str, *, force: bool) -> None:
    """Raise what keeps a page with plots from being written, before the work for it begins.

    That is ExtraMissingError, or SimulationError for a file that is there, unless ``force`` is true.
    """
    from worldledger_service.report.drawing import require_drawing  # noqa: PLC0415 - `--help` needs none of it

    require_drawing()
    if not force:
        require_none(output)


def _require_none(path: Path, output: str) -> None:
    if path.exists():
        raise SimulationError(f"{output}: is already there; --force replaces it", file=output)


def _is_special(path: Path) -> bool:
    try:
        return not stat.S_ISREG(path.stat().st_mode)
    except FileNotFoundError:
        return False


def _aside_name(name: str) -> str:
    raw = os.fsencode(name)
    return f".{name if len(raw) <= _MAX_NAME else sha256(raw).hexdigest()}.part"


def _open_aside(aside: Path, output: str) -> int:
    """Create the file and lock it. Raises SimulationError while another process writes it."""
    while True:
        _remove_left_over(aside, output)
        try:
            fd = os.open(aside, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o666)
        except FileExistsError:
            continue  # another process was faster: it holds the lock, or is about to
        with suppress(OSError):  # a file system without locks
            fcntl.flock(fd, fcntl.LOCK_EX)  # who has it now only looks whether we are alive
        if _is_at(fd, aside):
            return fd
        os.close(fd)  # taken for a left-over before it was locked


def _remove_left_over(aside: Path, output: str) -> None:
    """Remove the file if no process holds its lock, as after a kill."""
    try:
        fd = os.open(aside, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
    except FileNotFoundError:
        return
    try:
        try:
            fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            raise SimulationError(f"{output}: another export is just writing this file", file=output) from None
        except OSError:  # a file system without locks
            pass
        if _is_at(fd, aside):
            aside.unlink(missing_ok=True)
    finally:
        os.close(fd)


def _is_at(fd: int, path: Path) -> bool:
    try:
        return os.path.samestat(os.fstat(fd), path.stat(follow_symlinks=False))
    except FileNotFoundError:
        return False
