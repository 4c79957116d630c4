"""Whether code is pure, as far as its source says: the same input gives the same result, at any time, on any machine.

Folds and projections have to be, or a log could not be replayed. What is looked at are a module's imports and the names
that it calls. That finds what reaches for clocks, randomness or I/O by mistake; it keeps out nobody who means to.
"""

from __future__ import annotations

import ast
import sys
from collections.abc import Container, Iterator
from typing import Final

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


def impurities(tree: ast.AST, package: str, *, own: Container[str] = ()) -> list[str]:
    """Return what the module of somebody else's package imports or calls that reaches outside, each once.

    ``own`` are calls that are allowed. Other packages are taken to be pure unless they are known for I/O.
    """
    found: dict[str, None] = {}
    for module, names in imports(tree, package):
        within = prefixes(module)
        if within & _IO or (module.split(".")[0] in sys.stdlib_module_names and not within & _ALLOWED):
            found[module] = None
        found |= dict.fromkeys(name for name in names if name in OUTSIDE)
    found |= dict.fromkeys(name for name in called(tree) if name in OUTSIDE)
    return [name for name in found if name not in own]
