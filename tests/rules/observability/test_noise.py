"""The draws of noise: by their definition, the same everywhere, and bell-shaped."""

from __future__ import annotations

import ast
import json
import math
import os
import subprocess
import sys
from hashlib import sha256
from pathlib import Path
from typing import Any

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

import worldledger.observability
from tests.cases import cases
from worldledger.observability import Draws, noise_of

KEY = "0123456789abcdef0123456789abcdef"
#: Worked out once; whoever changes these changes what recorded worlds have shown.
VECTORS: list[tuple[tuple[str, str, str, str, int], float]] = [
    ((KEY, "Agent1", "Agent2", "/gold", 0), 0.4299865816305824),
    ((KEY, "Agent1", "Agent2", "/gold", 1), 0.4430821500990635),
    ((KEY, "Agent2", "Agent1", "/gold", 1), -0.8238579376059085),
    ((KEY, "Agent1", "Agent2", "/inventory/food", 7), -0.2211974980765948),
    ((KEY, "café", 'a"b\\c', "/a~1b/0", 12), -0.32925245606526293),
    (("f" * 32, "Agent1", "global", "/history/10", 2**53 - 1), -0.6707018946697874),
]


def plainly(*parts: Any) -> float:
    """Work a draw out the plain way."""
    digest = sha256(json.dumps(list(parts), separators=(",", ":"), ensure_ascii=False).encode()).digest()
    total = sum(int.from_bytes(digest[index : index + 2], "big") for index in range(0, 32, 2))
    return (total - 16 * 32767.5) * (0.8660254037844386 / 65536)


@cases("parts, draw", VECTORS)
def test_draws_are_those_that_were_recorded(parts: tuple[str, str, str, str, int], draw: float) -> None:
    """Test vectors; the plain way gives the same."""
    assert noise_of(*parts) == draw
    assert plainly(*parts) == draw


def test_draws_for_a_value_are_made_of_its_text() -> None:
    """The number stands in place of the turn, as it is written; 5 and 5.0 are two texts."""
    assert noise_of(KEY, "Spy", "Mark", "/gold", value=731.25) == plainly(KEY, "Spy", "Mark", "/gold", 731.25)
    assert noise_of(KEY, "Spy", "Mark", "/gold", value=5) == plainly(KEY, "Spy", "Mark", "/gold", 5)
    assert noise_of(KEY, "Spy", "Mark", "/gold", value=5.0) == plainly(KEY, "Spy", "Mark", "/gold", 5.0)
    assert len({noise_of(KEY, "Spy", "Mark", "/gold", value=value) for value in (5, 5.0, 6)}) == 3
    for parts in ({}, {"turn": 1, "value": 2.0}):
        with pytest.raises(ValueError, match="one of them is wanted"):
            noise_of(KEY, "Spy", "Mark", "/gold", **parts)  # type: ignore[arg-type]  # one or the other


def test_however_a_uuid_is_written_its_draws_are_the_same() -> None:
    """Hyphens and capitals make no difference; what is no UUID is refused, for it would give other noise silently."""
    (_, *rest), draw = VECTORS[0]
    for text in (KEY.upper(), "01234567-89ab-cdef-0123-456789abcdef", "01234567-89AB-CDEF-0123-456789ABCDEF"):
        assert noise_of(text, *rest) == draw  # type: ignore[arg-type]  # mypy: the rest of a tuple
    for text in ("", "zz", KEY[:-1], KEY + "0", "g" * 32, "-" * 32 + KEY, KEY + "\n"):
        with pytest.raises(ValueError, match="world_uuid is the UUID of a world, 32 hex digits, not"):
            noise_of(text, *rest)  # type: ignore[arg-type]  # mypy: the rest of a tuple


_TEXTS = st.text(st.characters(exclude_categories=["Cs"]), max_size=300)


@given(_TEXTS, _TEXTS, _TEXTS, st.integers(0, 2**53 - 1))
@example("", "", "", 0)
@example('"', "\\", "\x00\n\t\x7f", 1)
def test_a_draw_is_what_its_definition_says(observer: str, target: str, path: str, turn: int) -> None:
    """For any names, also if many draws are made of one target."""
    expected = plainly(KEY, observer, target, path, turn)
    assert noise_of(KEY, observer, target, path, turn) == expected
    draws = Draws(KEY, observer, turn)
    draw = draws.toward(target)
    draw("/else")
    draws.toward("else")
    assert draw(path) == expected
    assert abs(expected) <= 6.93


def test_every_part_counts() -> None:
    """Another world, observer, target, path or turn gives another draw, and nothing runs together."""
    found = {
        noise_of(*parts)
        for parts in (
            (KEY, "a", "b", "/c", 1),
            ("f" * 32, "a", "b", "/c", 1),
            (KEY, "b", "b", "/c", 1),
            (KEY, "a", "a", "/c", 1),
            (KEY, "a", "b", "/d", 1),
            (KEY, "a", "b", "/c", 2),
            (KEY, 'a","b', "b", "/c", 1),
            (KEY, "ab", "", "/c", 1),
        )
    }
    assert len(found) == 8


def test_draws_are_the_same_in_another_process() -> None:
    """With another seed of Python's own hashes, and in another order."""
    program = (
        "import json, sys\n"
        "from worldledger.observability import noise_of\n"
        "print(json.dumps([noise_of(*parts) for parts in json.load(sys.stdin)]))\n"
    )
    parts = [list(each) for each, _ in reversed(VECTORS)]
    for seed in ("1", "4711"):
        run = subprocess.run(
            [sys.executable, "-c", program],
            input=json.dumps(parts),
            capture_output=True,
            text=True,
            check=True,
            cwd=Path(worldledger.observability.__file__).parents[2],
            env={**os.environ, "PYTHONHASHSEED": seed},
        )
        assert json.loads(run.stdout) == [draw for _, draw in reversed(VECTORS)]


def test_draws_have_mean_0_and_spread_1() -> None:
    """Over many paths and turns: like a bell curve, and one turn tells nothing of the next."""
    draws = [noise_of(KEY, "a", "b", f"/v{number}", turn) for number in range(200) for turn in range(200)]
    count = len(draws)
    mean = sum(draws) / count
    spread = math.sqrt(sum((draw - mean) ** 2 for draw in draws) / count)
    assert abs(mean) < 4 / math.sqrt(count)
    assert abs(spread - 1) < 4 / math.sqrt(2 * count)
    within = [sum(abs(draw) <= limit for draw in draws) / count for limit in (1, 2, 3)]
    assert within == pytest.approx([0.6827, 0.9545, 0.9973], abs=0.01)
    following = sum(draws[index] * draws[index + 1] for index in range(count - 1)) / count
    assert abs(following) < 4 / math.sqrt(count)


def test_nothing_random_is_used() -> None:
    """Neither Python's own hashes nor anything of chance is in the package."""
    for path in Path(worldledger.observability.__file__).parent.glob("*.py"):
        for node in ast.walk(ast.parse(path.read_text())):
            if isinstance(node, ast.Call) and isinstance(node.func, ast.Name):
                assert node.func.id not in {"hash", "id"}, path
            names = [alias.name for alias in node.names] if isinstance(node, ast.Import | ast.ImportFrom) else []
            modules = [node.module] if isinstance(node, ast.ImportFrom) else names
            for name in (*names, *modules):
                assert name not in {"random", "secrets", "numpy", "time", "uuid", "os"}, path
