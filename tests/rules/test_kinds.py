"""Kinds of worlds: those that are installed, their parts, and what is wrong with some."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from worldledger_projections import registry as projections
from worldledger_projections.base import InvalidProjectionError

from worldledger import kinds, rulesets
from worldledger.errors import InvalidKindError
from worldledger.kinds import Kind, installed
from worldledger.policies import policy_from_spec
from worldledger.rulesets import known_rulesets, load_ruleset

HERE = Path(__file__).parent
_KIND = """
from worldledger.kinds import Kind

KIND = Kind(
    name="auction",
    ruleset="somebodys_rules:RULESET",
    policies={"bidder": "somebodys_rules"},
    projections="somebodys_rules:PROJECTIONS",
    report="somebodys_rules:MISSING",
)
OTHER = Kind(name="lottery")
NO_KIND = object()
"""
_RULES = """
from worldledger.observation import ObservationPolicy
from worldledger.policies import register_policy
from worldledger.rulesets import Ruleset


class Auction(Ruleset):
    name = "auction"
    version = 3


@register_policy("bidder")
class Bidder(ObservationPolicy):
    pass


RULESET = Auction()
PROJECTIONS = (object(),)
"""


def _forget() -> None:
    for cached in (kinds.installed, rulesets._offered, rulesets.load_ruleset, projections._known):
        cached.cache_clear()


@pytest.fixture
def offer(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Callable[..., None]]:
    """Return a function that installs a package of somebody else's with these entry points."""
    monkeypatch.syspath_prepend(tmp_path)
    (tmp_path / "somebodys_kind.py").write_text(_KIND)
    (tmp_path / "somebodys_rules.py").write_text(_RULES)

    def install(*points: str) -> None:
        info = tmp_path / "somebodys_kind-1.0.dist-info"
        info.mkdir()
        (info / "METADATA").write_text("Metadata-Version: 2.1\nName: somebodys_kind\nVersion: 1.0\n")
        (info / "entry_points.txt").write_text("\n".join(["[worldledger.kinds]", *points]))
        _forget()

    yield install
    for module in ("somebodys_kind", "somebodys_rules"):
        sys.modules.pop(module, None)
    _forget()


def test_every_part_of_ours_can_be_loaded() -> None:
    """The kinds of Worldledger are installed, under their names, and each part that they name is there."""
    assert list(installed()) == ["chess", "recorder", "sandbox", "simulation", "social_rl"]
    for kind in installed().values():
        for part in ("ruleset", "projections", "commands", "routes", "report"):
            assert (kind.load(part) is None) is (getattr(kind, part) is None)
        assert all(kind.load(part).is_dir() for part in ("analytics", "queries") if getattr(kind, part))
        assert kind.panel is None or kind.load("panel").is_file()
        assert load_ruleset(kind.name) is kind.load("ruleset")


def test_somebody_elses_kind_is_found(offer: Callable[..., None]) -> None:
    """A kind of another package adds its ruleset and its policies; its modules are loaded when they are wanted."""
    offer("auction = somebodys_kind:KIND")
    assert {"auction", "sandbox"} <= set(known_rulesets())
    assert "somebodys_rules" not in sys.modules
    assert load_ruleset("auction").version == 3
    assert type(policy_from_spec({"name": "bidder", "version": 1, "config": {}})).__name__ == "Bidder"


@pytest.mark.parametrize(
    ("point", "what"),
    [
        ("auction = somebodys_kind:NO_KIND", r"auction .*is no worldledger\.kinds\.Kind of that name"),
        ("auction = somebodys_kind:OTHER", r"auction .*is no worldledger\.kinds\.Kind of that name"),
        ("auction = somebodys_kind:MISSING", "auction .*cannot be loaded: AttributeError"),
        ("auction = nowhere_at_all:KIND", "auction .*cannot be loaded: ModuleNotFoundError"),
    ],
)
def test_what_is_no_kind_is_told(offer: Callable[..., None], point: str, what: str) -> None:
    """An entry point that leads nowhere, or to something else, is an error that names it."""
    offer(point)
    with pytest.raises(InvalidKindError, match=what) as caught:
        installed()
    assert caught.value.details == {"kind": "auction"}


def test_a_part_that_is_not_there_is_told(offer: Callable[..., None]) -> None:
    """The error names kind, part and place; what is no part at all is None."""
    offer("auction = somebodys_kind:KIND")
    kind = installed()["auction"]
    assert kind.load("routes") is None
    with pytest.raises(InvalidKindError, match=r"auction: its report \(somebodys_rules:MISSING\)") as caught:
        kind.load("report")
    assert caught.value.details == {"kind": "auction", "part": "report"}


def test_what_is_no_projection_of_a_kind_is_told(offer: Callable[..., None]) -> None:
    """A kind's projections are objects of projections' classes."""
    offer("auction = somebodys_kind:KIND")
    with pytest.raises(InvalidProjectionError, match=r"projection kind auction: .* is no Projection"):
        projections.known()


def test_our_projections_are_pure() -> None:
    """What is looked for in the projections of others' kinds is in none of ours."""
    for kind in installed().values():
        if kind.projections is not None:
            projections._check_purity(kind.name, kind.projections.partition(":")[0])


def test_a_projection_of_a_kind_that_is_not_pure_is_told(offer: Callable[..., None], tmp_path: Path) -> None:
    """The module of somebody else's projections is refused before it is run, where it uses clocks."""
    (tmp_path / "somebodys_rules.py").write_text(f"import time\n{_RULES}\nraise RuntimeError('this was run')\n")
    offer("auction = somebodys_kind:KIND")
    with pytest.raises(InvalidProjectionError, match="projection kind auction: the module somebodys_rules uses time"):
        projections.known()


def test_a_folder_is_named_or_given(tmp_path: Path) -> None:
    """A part that is a folder is its path, or a text that leads to it."""
    assert Kind(name="auction", analytics=tmp_path).load("analytics") is tmp_path
    assert Kind(name="auction", analytics="tests.rules.test_kinds:HERE").load("analytics") == HERE


def test_a_kind_is_small() -> None:
    """Its name is all that a kind needs; it cannot be changed."""
    kind = Kind(name="nothing")
    assert [kind.load(part) for part in ("ruleset", "projections", "commands", "routes", "report")] == [None] * 5
    with pytest.raises(AttributeError):
        kind.name = "other"  # type: ignore[misc]
