"""The rules are pure: clocks, uuids, randomness, files, sockets and event loops stay outside ``worldledger/``.

``worldledger/client`` and ``worldledger/llm``, which uses it, are the corners that may do I/O, and
``worldledger/aio.py`` the one that may use asyncio, without I/O and with every clock an argument.
"""

from __future__ import annotations

import ast
from pathlib import Path

from worldledger_projections.registry import COMPUTING, OUTSIDE, called, imports, prefixes

import worldledger
from tests.cases import cases

#: All that the rules may import, besides themselves: of the standard library only what computes, what is installed,
#: which is fixed while a program runs, and the pure libraries of the rulesets.
_LIBRARIES = "chess jsonpatch msgspec numpy orjson pydantic pydantic_core typing_extensions yaml"
ALLOWED = COMPUTING | frozenset(_LIBRARIES.split())

#: What only ``worldledger/aio.py`` may do: use these modules, and of them call nothing of these names.
AIO_MODULES = frozenset({"asyncio", "time", "worldledger.aio"})
_AIO_OUTSIDE = """
    monotonic perf_counter time_ns sleep run new_event_loop get_event_loop open_connection start_server to_thread
    run_in_executor create_connection create_server create_subprocess_exec create_subprocess_shell
"""
AIO_FORBIDDEN_NAMES = OUTSIDE | frozenset(_AIO_OUTSIDE.split())

#: What one module may do besides: reading a configuration's file, which it is told, is how a simulation comes in; an
#: error is remade by the parameters of its constructor, which are the same on every machine; a moment may be a time,
#: as a text; a round's times without an offset are of the zone that is given; a move of a game has a time; pauses
#: between attempts differ by chance, and a caller may sleep through them; a program that is recorded asks for that; a
#: kind of worlds has folders, by their paths.
READERS = {
    "worldledger/__init__.py": frozenset({"worldledger.client.recording"}),
    "worldledger/backoff.py": frozenset({"random", "asyncio", "AsyncFunctionDef"}),
    "worldledger/kinds.py": frozenset({"pathlib"}),
    "worldledger/remade_errors.py": frozenset({"inspect"}),
    "worldledger/moments.py": frozenset({"datetime"}),
    "kinds/chess/worldledger_chess/rules/entities.py": frozenset({"datetime"}),
    "kinds/simulation/worldledger_simulation/rules/config.py": frozenset({"os", "pathlib", "open"}),
    "kinds/social_rl/worldledger_social_rl/rules/recording.py": frozenset({"datetime"}),
    "kinds/social_rl/worldledger_social_rl/rules/rounds.py": frozenset({"datetime"}),
}

_PACKAGE = Path(worldledger.__file__).parent
_ROOT = _PACKAGE.parent
_PLACES = {path: path.relative_to(_PACKAGE).parts[0] for path in sorted(_PACKAGE.rglob("*.py"))}
_PURE = [path for path, place in _PLACES.items() if place not in {"aio.py", "client", "llm"}]
#: The rules of each kind of worlds are as pure.
_KINDS = sorted((_ROOT / "kinds").glob("*/worldledger_*"))
_FILES = [*_PURE, *(path for kind in _KINDS for path in sorted([*kind.glob("rules.py"), *kind.glob("rules/**/*.py")]))]


def _is_allowed(module: str, aio: bool) -> bool:
    names = prefixes(module)
    if names & {"worldledger.aio", "worldledger.client", "worldledger.llm", "asyncio", "time"}:
        return aio and bool(names & AIO_MODULES)
    return bool(names & (ALLOWED | {"worldledger", *(kind.name for kind in _KINDS)}))


def _is_promise(function: ast.AsyncFunctionDef) -> bool:
    """Tell whether this is a method of a Protocol: it says what others do, and does nothing."""
    last = function.body[-1]
    return isinstance(last, ast.Expr) and isinstance(last.value, ast.Constant) and last.value.value is ...


def impurities(source: str, *, aio: bool = False) -> list[str]:
    """Return every import and every name in a module's source that the rules (or ``aio``) may not use."""
    tree = ast.parse(source)
    forbidden = AIO_FORBIDDEN_NAMES if aio else OUTSIDE
    found: list[str] = []
    for module, names in imports(tree, "worldledger"):
        found += [name for name in names if name in forbidden]
        found += [] if _is_allowed(module, aio) else [module]
    nodes = [node for node in ast.walk(tree) if isinstance(node, ast.AsyncFunctionDef)]
    found += [type(node).__name__ for node in nodes if not aio and not _is_promise(node)]
    return found + [name for name in called(tree) if name in forbidden]


def test_the_rules_are_pure() -> None:
    """No module of the rules imports or calls anything that could give another result another time."""
    found = {path.relative_to(_ROOT).as_posix(): impurities(path.read_text()) for path in _FILES}
    allowed = {path: [each for each in names if each in READERS.get(path, ())] for path, names in found.items()}
    assert len(found) > 50
    assert found == allowed


def test_the_asyncio_primitives_do_no_io() -> None:
    """No primitive opens anything, sleeps, or reads a clock that it was not given."""
    assert impurities((_PACKAGE / "aio.py").read_text(), aio=True) == []


@cases(
    "source, found",
    [
        ("import time", ["time"]),
        ("import os.path", ["os.path"]),
        ("from random import random", ["random"]),
        ("def f():\n    import socket", ["socket"]),
        ("from asyncio import Queue", ["asyncio"]),
        ("from worldledger.aio import TimedQueue", ["worldledger.aio"]),
        ("import worldledger.client", ["worldledger.client"]),
        ("from worldledger.llm import Thinker", ["worldledger.llm"]),
        ("import worldledger_service.store", ["worldledger_service.store"]),
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


@cases(
    "source, found",
    [
        ("import asyncio, time\nasync def f(): pass", []),
        ("from worldledger.aio import CancelToken", []),
        ("import time\ndef f(clock=time.monotonic): clock()", []),
        ("import time\ntime.monotonic()", ["monotonic"]),
        ("import asyncio\nasync def f(): await asyncio.sleep(1)", ["sleep"]),
        ("import asyncio\nasync def f(): await asyncio.open_connection()", ["open_connection"]),
        ("import socket", ["socket"]),
        ("from worldledger.client import Client", ["worldledger.client"]),
    ],
)
def test_impurities_of_asyncio_primitives_are_seen(source: str, found: list[str]) -> None:
    """They may use asyncio and be given clocks, and nothing else beyond the rules."""
    assert impurities(source, aio=True) == found
