"""``worldledger kind new``: the beginning of a package with a kind of worlds."""

from __future__ import annotations

import re
from importlib.resources import as_file, files
from pathlib import Path
from typing import Annotated, Final

import typer

from worldledger.errors import SimulationError
from worldledger.kinds import installed
from worldledger_service.cli.options import examples
from worldledger_service.cli.output import put

EXAMPLES = examples("worldledger kind new auction", "worldledger kind new auction --folder work/auctions")

#: Short, and in the letters that a name of a module, of a table and of a package may have.
_NAME: Final = re.compile(r"[a-z][a-z]*(?:_[a-z]+)*")
_LONGEST: Final = 30
#: What stands in the skeleton, in the names of files too, for the kind's name and for the one of its classes.
_PLACEHOLDERS: Final = ("__name__", "__Name__")


def command(
    name: Annotated[str, typer.Argument(metavar="NAME", help="Lower-case letters and _.", show_default=False)],
    folder: Annotated[
        Path | None,
        typer.Option("--folder", metavar="FOLDER", help="Where to write it.", show_default="worldledger-NAME"),
    ] = None,
) -> None:
    """Write a package with a kind of worlds that works, to go on from: rules, a projection, and tests of both.

    A folder that is there already is refused.
    """
    if not _NAME.fullmatch(name) or len(name) > _LONGEST:
        what = f"{name!r} is no name for a kind: use lower-case letters and _, at most {_LONGEST}"
        raise SimulationError(what, kind=name)
    if name in installed():
        raise SimulationError(f"there is a kind {name!r} already; choose another name", kind=name)
    place = Path(f"worldledger-{name.replace('_', '-')}") if folder is None else folder
    _write(name, place)
    put(f"wrote {place}; install it with `pip install -e {place}`, and run its tests there with `python -m pytest`")


def _write(name: str, place: Path) -> None:
    """Write the skeleton. Raises SimulationError for a folder that is there, or cannot be written."""
    called = dict(zip(_PLACEHOLDERS, (name, "".join(map(str.capitalize, name.split("_")))), strict=True))

    def named(text: str) -> str:
        for placeholder, value in called.items():
            text = text.replace(placeholder, value)
        return text

    try:
        place.mkdir(parents=True)
        with as_file(files("worldledger_service") / "cli" / "skeleton") as skeleton:
            for file in sorted(skeleton.rglob("*.txt")):
                target = place / named(str(file.relative_to(skeleton).with_suffix("")))
                target.parent.mkdir(parents=True, exist_ok=True)
                target.write_text(named(file.read_text(encoding="utf-8")), encoding="utf-8")
    except FileExistsError:
        raise SimulationError(f"{place} is there already; name another one with --folder", folder=str(place)) from None
    except OSError as error:
        what = f"{error.filename or place} cannot be written ({error.strerror or error})"
        raise SimulationError(what, folder=str(place)) from error
