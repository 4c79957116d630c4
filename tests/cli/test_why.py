"""`why`: what an effect came of, and what came of it, as a tree, as JSON and as a graph."""

from __future__ import annotations

import json
from contextlib import suppress

import pytest
from worldledger_service.cli import output

from .conftest import Cli
from .helpers import BAZAAR, record, say
from .test_verify import tamper


def bazaar(database_url: str) -> None:
    """Make the little world; its 8th and 9th effect name their causes."""
    told = [{**say("bob", "Sneezed", 9.5), "caused_by": 7}, {**say("alice", "Speak", 10.0, text="!"), "caused_by": 8}]
    record(database_url, "bazaar", [*BAZAAR, *told])  # type: ignore[list-item]


def without_checksums(text: str) -> str:
    """Return the output without the 8 digits of checksums."""
    words = [[word for word in line.split(" ") if not _is_checksum(word)] for line in text.splitlines()]
    return "\n".join(" ".join(line).rstrip() for line in words)


def _is_checksum(word: str) -> bool:
    with suppress(ValueError):
        return len(word) == 8 and int(word, 16) >= 0
    return False


@pytest.mark.filled(by=bazaar, read=True)
def test_a_way_back_for_people(on: Cli) -> None:
    """A tree of links, each with its kind; an effect that is reached twice is followed once."""
    result = on("why", "bazaar", "9")
    assert (result.code, result.err) == (0, "")
    assert without_checksums(result.out) == (
        "bazaar seq 9, back to what it came of\n"
        "9 Speak by alice\n"
        "├ told 8 Sneezed by bob\n"
        "│ └ told 7 Sneezed by bob\n"
        "└ same entity 6 Interact by bob alice\n"
        "  ├ same entity 5 Speak by alice alice\n"
        "  │ └ same entity 2 EntityCreated by alice alice\n"
        "  └ same entity 4 Move by bob bob\n"
        "    └ same entity 3 EntityCreated by bob bob"
    )


@pytest.mark.filled(by=bazaar, read=True)
def test_a_way_forward_for_people(on: Cli) -> None:
    """Forward the tree has what came of the effect, and says what the depth leaves out."""
    result = on("why", "bazaar", "7", "--forward", "--depth", "1")
    assert without_checksums(result.out) == (
        "bazaar seq 7, forward to what came of it\n"
        "7 Sneezed by bob\n"
        "└ told 8 Sneezed by bob\n"
        "1 effect at the depth of 1 not followed (--depth)"
    )


@pytest.mark.filled(by=bazaar, read=True)
def test_a_moment_names_the_effect(on: Cli) -> None:
    """The effect may be named as any moment."""
    assert on("why", "bazaar", "head").out == on("why", "bazaar", "9").out
    assert on("why", "bazaar", "sim:9.5").out == on("why", "bazaar", "seq:8").out


@pytest.mark.filled(by=bazaar, read=True)
def test_json(on: Cli) -> None:
    """With --json it is the answer of the HTTP route."""
    found = json.loads(on("why", "bazaar", "9", "--json", "--depth", "1").out)
    assert [each["global_seq"] for each in found["effects"]] == [9, 8, 6]
    assert [(link["kind"], link["global_seq"]) for link in found["effects"][0]["links"]] == [
        ("told", 8),
        ("same entity", 6),
    ]
    (checksum,) = (each["checksum"] for each in found["effects"] if each["global_seq"] == 8)
    assert found["effects"][0]["links"][0]["checksum"] == checksum


@pytest.mark.filled(by=bazaar, read=True)
def test_dot(on: Cli) -> None:
    """With --dot it is a graph from causes to what came of them, the same from either end."""
    back = on("why", "bazaar", "8", "--dot").out.splitlines()
    forward = on("why", "bazaar", "7", "--forward", "--depth", "1", "--dot").out.splitlines()
    assert (back[0], back[-1]) == ("digraph why {", "}")
    edge = '  "bazaar@7" -> "bazaar@8" [label="told"];'
    assert edge in back
    assert edge in forward


def test_names_are_quoted_in_a_graph(on: Cli, database_url: str) -> None:
    """Quotes, backslashes and control characters in names neither end a label nor reach the terminal."""
    record(database_url, "w", [say('a"\\\n\x1b', 'K"', 1.0)])
    out = on("why", "w", "2", "--dot").out
    assert "\x1b" not in out
    assert '[label="2 K\\"\\na\\"\\\\' in out


def chained(database_url: str) -> None:
    """Make a world of 60 effects with long names, each caused by the one before and naming many entities."""
    made = [{**say("an agent of a long name", "SomethingThatHappened", 1.0 + n), "caused_by": n + 1} for n in range(59)]
    record(database_url, "chained", made)  # type: ignore[arg-type]


@pytest.mark.filled(by=chained, read=True)
@pytest.mark.parametrize(("columns", "most"), [(None, 80), (80, 80), (40, 40), (1, 1)])
def test_no_line_is_wider_than_the_screen(
    on: Cli, monkeypatch: pytest.MonkeyPatch, columns: int | None, most: int
) -> None:
    """However deep it is, the tree fits a terminal, and 80 columns where there is none."""
    if columns is not None:
        monkeypatch.setattr("worldledger_service.cli.why.screen_width", lambda: columns)
    lines = on("why", "chained", "60", "--depth", "100").out.splitlines()
    head, lines = lines[:-60], lines[-60:]
    assert " ".join(" ".join(head).split()).endswith("seq 60, back to what it came of")
    assert max(map(output.width, lines)) <= most
    longest = max(map(len, " ".join(head).split()))
    assert max(map(output.width, head)) <= max(most, longest + 2)


@pytest.mark.filled(by=chained, read=True)
def test_what_is_not_looked_at_is_said(on: Cli) -> None:
    """Outside the window only what is recorded is followed, and the output says so."""
    back = on("why", "chained", "60", "--window", "10")
    assert "before 51 only what effects record themselves is followed (--window)" in back.out
    forward = on("why", "chained", "2", "--forward", "--window", "10")
    assert "after 12 only told links are followed, to the head of 60 (--window)" in forward.out
    many = on("why", "chained", "2", "--limit", "2", "--depth", "100")
    assert "not followed" not in many.out


@pytest.mark.parametrize(
    "arguments",
    [
        ("why", "nowhere", "1"),
        ("why", "chained", "61"),
        ("why", "chained", "0"),
        ("why", "chained", "soon"),
        ("why", "chained", "1", "--json", "--dot"),
        ("why", "chained", "1", "--back", "--forward"),
        ("why", "chained", "1", "--depth", "101"),
        ("why", "chained"),
    ],
)
@pytest.mark.filled(by=chained, read=True)
def test_what_cannot_be_shown(on: Cli, arguments: tuple[str, ...]) -> None:
    """A world or moment that is not there, and a wrong option, are exit code 2 and one sentence."""
    result = on(*arguments)
    assert (result.code, result.out) == (2, "")
    assert result.err


@pytest.mark.filled(by=bazaar)
def test_what_was_tampered_with_is_said(on: Cli, database_url: str) -> None:
    """An effect whose checksum does not hold is shown with that, and the exit code is 1, also with --json."""
    tamper(
        database_url,
        "update effects set effect = replace(effect::text, '9.5', '9.75')::json where world_id = 'bazaar'",
    )
    shown = on("why", "bazaar", "9")
    assert shown.code == 1
    assert shown.out.startswith("bazaar seq 9, back")
    assert "├ told 8 Sneezed by bob" in shown.out or "└ told 8 Sneezed by bob" in shown.out
    assert "the window does not hold: world bazaar, seq 8: checksum differs" in " ".join(shown.out.split())
    assert "run `worldledger verify`" in " ".join(shown.err.split())
    told = on("why", "bazaar", "9", "--json")
    assert told.code == 1
    assert "checksum differs" in json.loads(told.out)["effects"][1]["problem"]
