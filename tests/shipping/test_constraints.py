"""constraints.txt pins everything that is installed, and nothing else stands in it."""

from __future__ import annotations

import re
from importlib.metadata import PackageNotFoundError, requires, version

import pytest
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

from .project import ROOT, pyproject

_PIN = re.compile(r"([A-Za-z0-9._-]+)==(\S+)")


@pytest.fixture(scope="module")
def pins() -> dict[str, str]:
    """Return the pinned versions by normalised name."""
    lines = (ROOT / "constraints.txt").read_text().splitlines()
    found = {}
    for line in lines:
        if line.startswith("#"):
            continue
        match = _PIN.fullmatch(line)
        assert match, f"not an exact pin: {line}"
        found[str(canonicalize_name(match[1]))] = match[2]
    return found


def _direct() -> list[Requirement]:
    project = pyproject()["project"]
    texts = [*project["dependencies"], *(text for extra in project["optional-dependencies"].values() for text in extra)]
    return [Requirement(text) for text in texts]


def test_every_requirement_is_pinned_within_its_range(pins: dict[str, str]) -> None:
    """Each requirement of the product, its tests and its benchmarks has a pin that its range admits."""
    for requirement in _direct():
        pinned = pins.get(canonicalize_name(requirement.name))
        assert pinned is not None, f"{requirement} is not in constraints.txt: run `make lock`"
        assert requirement.specifier.contains(pinned, prereleases=True), f"{requirement}: pinned is {pinned}"


def test_what_the_requirements_need_is_pinned_too(pins: dict[str, str]) -> None:
    """Everything that installed requirements bring along has a pin as well."""
    waiting = [(requirement.name, frozenset(requirement.extras)) for requirement in _direct()]
    seen: set[tuple[str, frozenset[str]]] = set()
    missing = set()
    while waiting:
        name, extras = waiting.pop()
        if (name, extras) in seen:
            continue
        seen.add((name, extras))
        if canonicalize_name(name) not in pins:
            missing.add(name)
        try:
            texts = requires(name) or []
        except PackageNotFoundError:  # of the benchmarks, or for another system
            continue
        for requirement in map(Requirement, texts):
            asked = [{"extra": extra} for extra in extras] or [{"extra": ""}]
            if requirement.marker is None or any(requirement.marker.evaluate(environment) for environment in asked):
                waiting.append((requirement.name, frozenset(requirement.extras)))
    assert not missing, f"not in constraints.txt: {sorted(missing)}; run `make lock`"


def test_the_build_backend_that_tests_use_is_the_declared_one(pins: dict[str, str]) -> None:
    """The wheel that the tests build without isolation is built by a backend that pyproject.toml admits."""
    (backend,) = map(Requirement, pyproject()["build-system"]["requires"])
    assert backend.specifier.contains(version(backend.name))
    assert backend.specifier.contains(pins[canonicalize_name(backend.name)])
