"""The files of the console: those that the build made, and the panels of the installed kinds."""

from __future__ import annotations

from collections.abc import Mapping
from hashlib import sha256
from pathlib import Path
from typing import Any, Final

import orjson

from worldledger.kinds import parts

#: Where the build puts its files; the folder is not there where nothing was built.
BUILT: Final = Path(__file__).parent / "dist"


def assets(built: Path = BUILT) -> dict[str, bytes]:
    """Return the files by name. Raises InvalidKindError if the panel of an installed kind cannot be loaded."""
    return {**{path.name: path.read_bytes() for path in sorted(built.glob("assets/*"))}, **dict(_panels().values())}


def panels() -> Mapping[str, str]:
    """Return the addresses of the kinds' panels, by the kind. Raises as `assets`."""
    return {kind: f"/assets/{name}" for kind, (name, _) in _panels().items()}


def units() -> dict[str, dict[str, Any]]:
    """Return the units in which installed kinds count, by kind and name, each once, if payloads say their numbers.

    Raises InvalidKindError if the ruleset of an installed kind cannot be loaded.
    """
    found = {}
    for kind, ruleset in parts("ruleset").items():
        once = {unit: name for name, unit in reversed(ruleset.units.items()) if isinstance(unit.number, str)}
        found[kind] = {name: {"kinds": unit.kinds, "number": unit.number} for unit, name in reversed(once.items())}
    return found


def of_kinds() -> dict[str, str]:
    """Return what a page says of the installed kinds in its head, as JSON by name. Raises InvalidKindError."""
    return {"panels": orjson.dumps(panels()).decode(), "units": orjson.dumps(units()).decode()}


def _panels() -> dict[str, tuple[str, bytes]]:
    found = {}
    for kind, panel in parts("panel").items():
        text = Path(panel).read_bytes()
        found[kind] = f"panel-{kind}-{sha256(text).hexdigest()[:8]}.js", text
    return found
