"""All projections, by name: those that come with Worldledger, and those that others have written.

A projection of one's own is a class in a module that does no I/O. An installed package offers it in the entry-point
group ``worldledger.projections``; without a package it is named as ``module:Class``.
"""

from __future__ import annotations

import ast
import inspect
import sys
from collections.abc import Container, Iterator, Mapping, Sequence
from functools import cache
from importlib import import_module
from importlib.metadata import entry_points
from importlib.util import find_spec
from pathlib import Path
from types import MappingProxyType
from typing import Final

from worldledger.kinds import GROUP as KINDS
from worldledger.kinds import Kind, installed
from worldledger_projections.base import InvalidProjectionError, Projection
from worldledger_projections.effect_counts import EffectCounts
from worldledger_projections.entities import Entities
from worldledger_projections.tables import check_definitions
from worldledger_projections.world_summaries import WorldSummaries

# Whether code is pure, as far as its source says: the same input gives the same result, at any time, on any machine.
#
# Folds and projections have to be, or a log could not be replayed. What is looked at are a module's imports and the
# names that it calls. That finds what reaches for clocks, randomness or I/O by mistake; it keeps out nobody who means
# to.


_COMPUTING = """
    __future__ abc binascii bisect codecs collections contextlib copy dataclasses decimal difflib enum fractions
    functools hashlib heapq importlib.metadata itertools json math operator re string types typing unicodedata uuid
"""
_TIMES = "calendar cmath datetime numbers statistics textwrap zoneinfo"
_OUTSIDE = """
    now today utcnow uuid1 uuid4 getnode urandom default_rng getrandbits open input print exec eval __import__
    breakpoint import_module hash
"""
_IO_PACKAGES = """
    adbc_driver_manager adbc_driver_postgresql aiohttp alembic anthropic anyio asyncpg boto3 fastapi httpcore httpx
    httpx2 openai psycopg psycopg2 redis requests sqlalchemy starlette structlog trio urllib3 uvicorn uvloop
    websockets worldledger.aio worldledger.client worldledger_service
"""
#: Modules of the standard library that only compute, and what is fixed while a program runs.
COMPUTING: Final = frozenset(_COMPUTING.split())
#: What reaches outside although its module may be used, as the last part of a called or imported name.
OUTSIDE: Final = frozenset(_OUTSIDE.split())
#: Of the standard library, all that may be imported: some of the latter's names stand in `OUTSIDE`.
_ALLOWED: Final = COMPUTING | frozenset(_TIMES.split())
#: Packages that are known for I/O, of those that are no part of the standard library.
_IO: Final = frozenset(_IO_PACKAGES.split())


def prefixes(module: str) -> set[str]:
    """Return a module's name and those of the packages that it is in."""
    parts = module.split(".")
    return {".".join(parts[:end]) for end in range(1, len(parts) + 1)}


def imports(tree: ast.AST, package: str) -> Iterator[tuple[str, list[str]]]:
    """Yield the modules that a module of ``package`` imports, each with the names that are imported from it."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            yield from ((alias.name, []) for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            base = package.rsplit(".", node.level - 1)[0] if node.level else ""
            name = ".".join(filter(None, [base, node.module]))
            yield name, [alias.name for alias in node.names]


def called(tree: ast.AST) -> Iterator[str]:
    """Yield the last part of the name of whatever is called."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Call):
            yield node.func.id if isinstance(node.func, ast.Name) else getattr(node.func, "attr", "")


def impurities(tree: ast.AST, package: str) -> list[str]:
    """Return what the module of somebody else's package imports or calls that reaches outside, each once.

    Other packages are taken to be pure unless they are known for I/O.
    """
    found: dict[str, None] = {}
    for module, names in imports(tree, package):
        within = prefixes(module)
        if within & _IO or (module.split(".")[0] in sys.stdlib_module_names and not within & _ALLOWED):
            found[module] = None
        found |= dict.fromkeys(name for name in names if name in OUTSIDE)
    found |= dict.fromkeys(name for name in called(tree) if name in OUTSIDE)
    return list(found)


#: The entry-point group in which packages offer projections.
GROUP: Final = "worldledger.projections"

#: The projections over worlds of any kind; the others are parts of kinds.
OF_ALL_WORLDS: Final[tuple[Projection, ...]] = (WorldSummaries(), EffectCounts(), Entities())


def known(own: str = "") -> Mapping[str, Projection]:
    """Return all projections by name: those over all worlds, of installed kinds and packages, and ``own``.

    ``own`` is a list of ``module:Class``, separated by commas. Raises InvalidProjectionError for one that cannot be
    loaded, is no projection, reaches for clocks, randomness or I/O, or has a name that is taken.
    """
    return _known(*filter(None, map(str.strip, own.split(","))))


@cache
def _known(*named: str) -> Mapping[str, Projection]:
    found: dict[str, Projection] = {}
    offered = sorted(point.value for point in entry_points(group=GROUP))
    others = _of_others()
    kinds = [(f"kind {kind.name}", _of_kind(kind, others)) for kind in installed().values()]
    owners = [("worldledger", OF_ALL_WORLDS), *kinds]
    owners += [(place, (_load(place),)) for place in dict.fromkeys((*offered, *named))]
    for owner, projections in owners:
        for projection in projections:
            other = found.get(projection.name)
            if other is not None and type(other) is not type(projection):
                theirs = f"{type(other).__module__}:{type(other).__qualname__}"
                what = f"there is a projection named {projection.name!r} already, {theirs}: choose another name"
                raise _invalid(owner, what)
            found[projection.name] = projection
        try:
            check_definitions(found.values())
        except ValueError as error:
            raise _invalid(owner, str(error)) from None
    return MappingProxyType(found)


def _of_kind(kind: Kind, others: Container[str]) -> Sequence[Projection]:
    if kind.projections is not None and kind.name in others:
        _check_purity(f"kind {kind.name}", kind.projections.partition(":")[0])
    projections: Sequence[Projection] = kind.load("projections") or ()
    for each in projections:
        if not isinstance(each, Projection):
            raise _invalid(f"kind {kind.name}", f"{each!r} is no Projection")
    return projections


def _of_others() -> set[str]:
    """Return the names of kinds that do not come with Worldledger; that ours are pure, a test sees to."""
    points = entry_points(group=KINDS)
    return {point.name for point in points if point.dist is None or point.dist.name != "worldledger"}


# -- projections of others ------------------------------------------------------------------------------------


def _load(place: str) -> Projection:
    module, _, name = place.partition(":")
    if not (name.isidentifier() and all(part.isidentifier() for part in module.split("."))):
        raise _invalid(place, "a projection is named as module:Class, as in my_package.words:Words")
    _check_purity(place, module)
    try:
        loaded = getattr(import_module(module), name, None)
    except Exception as error:
        raise _invalid(place, f"its module cannot be loaded ({type(error).__name__}: {error})") from error
    if loaded is None:
        raise _invalid(place, f"the module {module} has no {name}")
    if not (isinstance(loaded, type) and issubclass(loaded, Projection)) or inspect.isabstract(loaded):
        raise _invalid(place, f"{name} is no class made from worldledger's Projection with a method begin")
    lacking = [each for each in ("name", "version", "comment", "columns", "key") if not hasattr(loaded, each)]
    if lacking:
        raise _invalid(place, f"the class lacks {', '.join(lacking)}")
    return loaded()


def _check_purity(place: str, module: str) -> None:
    """Look at the module, and at those of its own package that it imports, before any of them is run."""
    seen: set[str] = set()
    waiting = [module]
    while waiting:
        name = waiting.pop()
        if name in seen:
            continue
        seen.add(name)
        source = _source(name)
        if source is None:
            if name == module:
                raise _invalid(place, f"there is no module {module} with a source, on sys.path or in this folder")
            continue
        try:
            tree = ast.parse(source.read_bytes())
        except (SyntaxError, ValueError) as error:
            raise _invalid(place, f"{source.name} cannot be read ({error})") from None
        package = name if source.name == "__init__.py" else name.rpartition(".")[0]
        if outside := impurities(tree, package):
            what = f"the module {name} uses {', '.join(outside)}; a projection may use no clock, no randomness and "
            raise _invalid(place, f"{what}no I/O, or a rebuild would give other rows")
        waiting += _of_its_package(tree, package, module.split(".", maxsplit=1)[0])


def _of_its_package(tree: ast.AST, package: str, top: str) -> Iterator[str]:
    for name, names in imports(tree, package):
        if name.split(".")[0] == top:
            yield name
            yield from (f"{name}.{each}" for each in names)


def _source(module: str) -> Path | None:
    """Return the file of a module's source, None where there is none. Its package is imported, it itself is not."""
    if "" not in sys.path and str(Path.cwd()) not in sys.path:
        sys.path.append(str(Path.cwd()))  # as `python -m` has it: the file may lie in this folder
    try:
        spec = find_spec(module)
    except (ImportError, AttributeError, ValueError):  # AttributeError: what is imported from a module is no module
        return None
    if spec is None or spec.origin is None or not spec.origin.endswith(".py"):
        return None
    return Path(spec.origin)


def _invalid(place: str, why: str) -> InvalidProjectionError:
    return InvalidProjectionError(f"projection {place}: {why}", projection=place)
