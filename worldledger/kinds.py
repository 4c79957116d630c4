"""Kinds of worlds as plug-ins: what a package declares to add one, and finding the installed ones.

A kind is one small object, `Kind`, that an installed package offers in the entry-point group ``worldledger.kinds``
under the kind's name. Its parts are named, not imported: each is loaded when it is needed, so that a client of a world
loads no server. The kinds that come with Worldledger (the folder ``kinds``) are made of the same parts as those of
third parties.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cache
from importlib.metadata import EntryPoint, entry_points
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, Final

from worldledger.errors import InvalidKindError

if TYPE_CHECKING:
    from pathlib import Path

#: The entry-point group in which packages offer kinds.
GROUP: Final = "worldledger.kinds"
#: The kind of worlds that name none.
DEFAULT: Final = "sandbox"


@dataclass(frozen=True, kw_only=True)
class Kind:
    """One kind of world. Nearly every part is a text ``module:attribute``; a kind has those that it needs.

    - ``name``: the name of its ruleset, by which worlds refer to it.
    - ``ruleset``: a `worldledger.rulesets.Ruleset`, the rules. A kind may leave it out and add to another's worlds.
    - ``units``: the names of its ruleset's units, in which moments of its worlds are counted, for messages and help.
    - ``policies``: observation policies by name, each with the module that registers it (`worldledger.policies`).
    - ``projections``: a sequence of `worldledger_projections.base.Projection` objects, tables over its worlds. Their
      module is refused where it uses clocks, randomness or I/O.
    - ``queries``: a folder with questions in SQL, each a file ``NAME.sql`` as those of
      `worldledger_service.database.analytics.cookbook` are; its path (`pathlib.Path`), or a text that leads to that.
    - ``analytics``: a folder, given likewise, with numbered files of SQL, ``0001_views.sql`` …, that make views over
      the log; see `worldledger_service.database.analytics.of_kinds`.
    - ``commands``: a function that is called with `worldledger_service.cli.tree.Commands`, and adds commands to it.
    - ``read_config``: a function ``(file, *, named)`` from a path to a world's configuration, for ``worldledger world
      create --config``; None for a file that is not of this kind, unless the kind is ``named`` on the command line.
    - ``pictured``: a function from a state's entities to a title and lines, with which ``worldledger state`` begins.
    - ``routes``: a sequence of Starlette's routes, those of a FastAPI ``APIRouter`` for example.
    - ``tags``: the groups of these routes in the OpenAPI document, objects with ``name`` and ``description``.
    - ``serves``: a function from `worldledger_service.api.context.Services` to an asynchronous context manager, entered
      as long as the service serves; routes find what it yields in ``Services.of_kinds``, by the kind's name.
    - ``problems``: classes of errors, each with its `worldledger_service.api.problems.Answer`.
    - ``errors``: a sequence of classes, those of ``problems`` that its client raises again.
    - ``schemas``: JSON Schemas that are served, `worldledger_service.api.published.Published` objects by name.
    - ``panel``: a file, given likewise, with an ES module by which the console shows states; see docs/console.md.
    - ``measures``: a `worldledger.measures.Measures`, what runs of its worlds are compared by.
    - ``outcomes``: a `worldledger_service.store.outcomes.Outcomes`, how its worlds stand, in a line each.
    - ``report``: a `worldledger_service.report.blocks.KindSection`, what an experiment's report says of its worlds.
    """

    name: str
    ruleset: str | None = None
    units: tuple[str, ...] = ()
    policies: Mapping[str, str] = field(default_factory=dict)
    projections: str | None = None
    queries: str | Path | None = None
    analytics: str | Path | None = None
    commands: str | None = None
    read_config: str | None = None
    pictured: str | None = None
    routes: str | None = None
    tags: str | None = None
    serves: str | None = None
    problems: str | None = None
    errors: str | None = None
    schemas: str | None = None
    report: str | None = None
    measures: str | None = None
    outcomes: str | None = None
    panel: str | Path | None = None

    def load(self, part: str) -> Any:
        """Load a part, such as ``projections``; None if the kind does not have it.

        Raises InvalidKindError, which names kind and part, if the part cannot be loaded.
        """
        place = getattr(self, part)
        if not isinstance(place, str):  # a path, or nothing
            return place
        try:
            return EntryPoint(self.name, place, GROUP).load()
        except Exception as error:
            what = f"kind {self.name}: its {part} ({place}) cannot be loaded: {type(error).__name__}: {error}"
            raise InvalidKindError(what, kind=self.name, part=part) from error


@cache
def installed() -> Mapping[str, Kind]:
    """Return the kinds that installed packages offer, by name, in the order of the names.

    Raises InvalidKindError for one that cannot be loaded, is not a Kind, or is not named like its entry point.
    """
    found: dict[str, Kind] = {}
    for point in sorted(entry_points(group=GROUP), key=lambda point: point.name):
        try:
            kind = point.load()
        except Exception as error:
            what = f"kind {point.name} ({point.value}) cannot be loaded: {type(error).__name__}: {error}"
            raise InvalidKindError(what, kind=point.name) from error
        if not isinstance(kind, Kind) or kind.name != point.name:
            what = f"kind {point.name} ({point.value}): this is no worldledger.kinds.Kind of that name"
            raise InvalidKindError(what, kind=point.name)
        found[point.name] = kind
    return MappingProxyType(found)


def parts(part: str) -> Mapping[str, Any]:
    """Return this part of each installed kind that has one, by the kind's name. Raises InvalidKindError."""
    return {kind.name: kind.load(part) for kind in installed().values() if getattr(kind, part) is not None}
