"""The rules are pure: clocks, uuids, randomness, files, sockets and event loops stay outside ``worldledger/``.

``worldledger/client`` is the one corner that may do I/O.
"""

from __future__ import annotations

import ast
from pathlib import Path

import pytest

import worldledger

#: All that the rules may import, besides themselves: of the standard library only what computes …
_COMPUTING = """
    __future__ abc bisect codecs collections contextlib copy dataclasses decimal enum fractions functools hashlib heapq
    itertools json math operator re string types typing unicodedata uuid
"""
#: … what is installed, which is fixed while a program runs, and the pure libraries of the rulesets.
_LIBRARIES = "importlib.metadata chess jsonpatch numpy orjson pydantic typing_extensions"
ALLOWED = frozenset(f"{_COMPUTING} {_LIBRARIES}".split())

#: What reaches outside although its module is allowed, as the last part of a called or imported name.
_OUTSIDE = """
    now today utcnow uuid1 uuid4 getnode urandom default_rng getrandbits open input print exec eval __import__
    breakpoint import_module hash
"""
FORBIDDEN_NAMES = frozenset(_OUTSIDE.split())

_ROOT = Path(worldledger.__file__).parent
_FILES = [path for path in sorted(_ROOT.rglob("*.py")) if path.relative_to(_ROOT).parts[0] != "client"]


def _is_allowed(module: str) -> bool:
    parts = module.split(".")
    return parts[0] == "worldledger" or any(".".join(parts[:end]) in ALLOWED for end in range(1, len(parts) + 1))


def _is_promise(function: ast.AsyncFunctionDef) -> bool:
    """Tell whether this is a method of a Protocol: it says what others do, and does nothing."""
    last = function.body[-1]
    return isinstance(last, ast.Expr) and isinstance(last.value, ast.Constant) and last.value.value is ...


def impurities(source: str) -> list[str]:
    """Give every import and every name in a module's source that the rules may not use."""
    found: list[str] = []
    for node in ast.walk(ast.parse(source)):
        modules: list[str] = []
        if isinstance(node, ast.Import):
            modules = [alias.name for alias in node.names]
        elif isinstance(node, ast.ImportFrom):
            modules = [node.module or "worldledger"]
            found += [alias.name for alias in node.names if alias.name in FORBIDDEN_NAMES]
        found += [module for module in modules if not _is_allowed(module)]
        if isinstance(node, ast.AsyncFunctionDef) and not _is_promise(node):
            found.append(type(node).__name__)
        if isinstance(node, ast.Call):
            name = node.func.id if isinstance(node.func, ast.Name) else getattr(node.func, "attr", "")
            if name in FORBIDDEN_NAMES:
                found.append(name)
    return found


@pytest.mark.parametrize("path", _FILES, ids=[str(path.relative_to(_ROOT)) for path in _FILES])
def test_the_rules_are_pure(path: Path) -> None:
    """No module of the rules imports or calls anything that could give another result another time."""
    assert impurities(path.read_text()) == []


@pytest.mark.parametrize(
    ("source", "found"),
    [
        ("import time", ["time"]),
        ("import os.path", ["os.path"]),
        ("from random import random", ["random"]),
        ("def f():\n    import socket", ["socket"]),
        ("from asyncio import Queue", ["asyncio"]),
        ("import service.store", ["service.store"]),
        ("import importlib", ["importlib"]),
        ("import secrets, json", ["secrets"]),
        ("from datetime import datetime\ndatetime.now()", ["datetime", "now"]),
        ("from uuid import uuid4", ["uuid4"]),
        ("import uuid\nuuid.uuid4()", ["uuid4"]),
        ("import numpy\nnumpy.random.default_rng()", ["default_rng"]),
        ("open('x')", ["open"]),
        ("async def f(): pass", ["AsyncFunctionDef"]),
        ("async def f(): ...", []),
        ("import importlib.metadata, json, re", []),
    ],
)
def test_impurities_are_seen(source: str, found: list[str]) -> None:
    """The judge of this test sees each way to reach outside."""
    assert impurities(source) == found
