"""Exported files: what their check finds, and that it names the line."""

from __future__ import annotations

import io
import re
from typing import Any

import orjson
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.cases import cases
from worldledger.chain import Position, link
from worldledger.errors import FileRefusedError
from worldledger.exports import MAX_MARKS, CheckedExport, Marks
from worldledger.genesis import REQUIRED

from .exports import WORLD_UUID, checked, effect, export_of, genesis, text, texts

WHOLE = export_of(texts(6))
LINES = WHOLE.splitlines(keepends=True)


def check(data: bytes, *noted: Position, max_effect_bytes: int = 1024 * 1024) -> CheckedExport:
    """Check a file's bytes."""
    return checked(io.BytesIO(data), *noted, max_effect_bytes=max_effect_bytes)


def refusal(data: bytes, *noted: Position) -> tuple[int, str]:
    """Return the line and the reason for which a file is refused."""
    with pytest.raises(FileRefusedError) as caught:
        check(data, *noted)
    line = caught.value.details["line"]
    assert caught.value.message == f"some.ndjson:{line}: {caught.value.reason}"
    return line, caught.value.reason


def trailer(**fields: object) -> bytes:
    """Return the file with other fields in its trailer."""
    found = orjson.loads(LINES[-1])["trailer"]
    return b"".join(LINES[:-1]) + text({"trailer": found | fields})


def test_whole_file_passes() -> None:
    """What is in a whole file is told: world, head and clocks."""
    found = check(WHOLE)
    assert (found.world.world_id, found.world.ruleset, found.trailer.count) == ("w", "sandbox", 6)
    assert found.genesis + b"\n" == LINES[0]
    assert (found.sim_time, found.wall_time) == (6.0, 1006.0)


def test_last_line_end_is_optional() -> None:
    """A file without the last LF is whole."""
    assert check(WHOLE.removesuffix(b"\n")) == check(WHOLE)


def _edited(number: int, old: bytes, new: bytes) -> bytes:
    lines = list(LINES)
    assert old in lines[number - 1]
    lines[number - 1] = lines[number - 1].replace(old, new)
    return b"".join(lines)


@pytest.mark.parametrize(
    ("data", "line", "reason"),
    [
        pytest.param(b"", 1, "empty", id="empty"),
        pytest.param(b"".join(LINES[:4]), 4, "without a trailer: it was truncated", id="no trailer"),
        pytest.param(b"".join(LINES[:3]) + LINES[3][:40], 4, "in the middle of this line: it was truncated", id="cut"),
        pytest.param(WHOLE[:-40], 7, "the trailer cannot be read.*truncated", id="cut trailer"),
        pytest.param(b"".join(LINES[:2] + LINES[3:]), 3, "global_seq is 4 where 3 belongs", id="line missing"),
        pytest.param(b"".join(LINES[1:]), 1, "not the effect WorldCreated", id="genesis missing"),
        pytest.param(b"".join([*LINES[:3], LINES[2], *LINES[3:]]), 4, "global_seq is 3 where 4 belongs", id="twice"),
        pytest.param(
            b"".join([*LINES[:2], LINES[3], LINES[2], *LINES[4:]]), 3, "global_seq is 4 where 3", id="reordered"
        ),
        pytest.param(_edited(4, b'"n":4', b'"n":5'), 4, "this line was changed", id="payload edited"),
        pytest.param(_edited(1, b'"config":{}', b'"config":{"a":1}'), 1, "this line was changed", id="genesis edited"),
        pytest.param(_edited(3, b'"source_id":"a1"', b'"source_id":"a2"'), 3, "was changed", id="source edited"),
        pytest.param(_edited(3, b'"world_id":"w"', b'"world_id":"v"'), 3, "another world .'v', not 'w'", id="world"),
        pytest.param(_edited(3, b'"sim_time":3.0', b'"sim_time":1.0'), 3, "lower than the 2.0", id="time"),
        pytest.param(_edited(3, b'"priority":0', b'"priority":0.5'), 3, r"\$.priority", id="priority"),
        pytest.param(_edited(3, b'"kind":"Said"', b'"kind":""'), 3, r"\$.kind", id="kind"),
        pytest.param(_edited(3, b'"req_id":null', b'"req_id":7'), 3, r"\$.req_id", id="req_id"),
        pytest.param(_edited(3, b'"kind":"Said",', b""), 3, "the field kind is missing", id="field missing"),
        pytest.param(_edited(3, b'"kind"', b'"extra":1,"kind"'), 3, "not sorted", id="unsorted"),
        pytest.param(
            _edited(3, b'"wall_time"', b'"vote":1,"wall_time"'), 3, "unknown field 'vote'", id="foreign field"
        ),
        pytest.param(_edited(3, b'"kind":', b'"kind": '), 3, "white space", id="white space"),
        pytest.param(
            _edited(3, b'"n":3', b'"n":3,"n":3'), 3, r"\$.payload: the key 'n' stands twice", id="twice a key"
        ),
        pytest.param(
            _edited(3, b'"n":3', b'"n":9007199254740993'), 3, r"\$.payload.n: an integer beyond", id="big int"
        ),
        pytest.param(_edited(3, b'"a1"', b'"\xff"'), 3, "not UTF-8", id="not UTF-8"),
        pytest.param(_edited(3, b"}\n", b"}\r\n"), 3, "CR LF", id="CR LF"),
        pytest.param(_edited(3, b"}\n", b"}\n\n"), 4, "a blank line", id="blank line"),
        pytest.param(WHOLE + b"\n", 8, "text after the trailer", id="blank line at the end"),
        pytest.param(WHOLE + LINES[1], 8, "text after the trailer", id="text after the trailer"),
        pytest.param(WHOLE + WHOLE, 8, "text after the trailer", id="two files"),
        pytest.param(LINES[-1], 1, "a trailer without effects", id="trailer alone"),
        pytest.param(b'[Event "a game"]\n', 1, "not a worldledger export", id="another kind of file"),
        pytest.param(trailer(count=7), 7, "count is 7, the lines before it say 6", id="count"),
        pytest.param(trailer(head_seq=5), 7, "head_seq is 5", id="head_seq"),
        pytest.param(trailer(world_id="v"), 7, "world_id is 'v', the lines before it say 'w'", id="trailer's world"),
        pytest.param(trailer(world_uuid="0" * 32), 7, "world_uuid is", id="trailer's uuid"),
        pytest.param(trailer(ruleset="chess"), 7, "ruleset is 'chess'", id="trailer's ruleset"),
        pytest.param(trailer(profile="other/1"), 7, "profile is 'other/1'", id="trailer's profile"),
        pytest.param(trailer(format="worldledger-export/9"), 7, "unknown to this version", id="format"),
        pytest.param(trailer(head_checksum="0" * 64), 7, "a line before, or the trailer, was changed", id="checksum"),
        pytest.param(trailer(head_checksum="0"), 7, "the trailer cannot be read: head_checksum", id="no checksum"),
        pytest.param(trailer(marks={"every": 1, "checksums": "0" * 48}), 7, "marks were changed", id="marks"),
        pytest.param(trailer(more=1), 7, "the trailer cannot be read: more", id="foreign trailer field"),
    ],
)
def test_a_changed_file_is_refused_by_line(data: bytes, line: int, reason: str) -> None:
    """Whatever is wrong with a file, the line and the reason are named."""
    found, said = refusal(data)
    assert found == line
    assert re.search(reason, said), said


@pytest.mark.parametrize(
    ("again", "line", "reason"),
    [
        ({2: {"uuid": "a" * 32}, 5: {"uuid": "a" * 32}}, 5, "the uuid is that of seq 2, too"),
        ({3: {"req_id": "r"}, 5: {"req_id": "r"}}, 5, "the req_id was used before, by seq 3"),
        ({3: {"wall_time": 1.0}}, 3, "$.wall_time: 1.0 is lower than the 1002.0 before"),
        ({3: {"caused_by": 3}}, 3, "$.caused_by"),
        ({3: {"uuid": "x"}}, 3, "$.uuid: not 32 hex digits"),
        ({4: {"kind": "WorldCreated", "source_id": "worldledger"}}, 4, "$.kind: WorldCreated stands at seq 1 alone"),
        ({4: {"kind": "StateDigest"}}, 4, "$.kind: StateDigest effects are written by the service alone, not by 'a1'"),
        ({4: {"source_id": "worldledger"}}, 4, "$.source_id: 'worldledger' writes no "),
    ],
)
def test_a_log_that_breaks_its_own_rules_is_refused(again: dict[int, Any], line: int, reason: str) -> None:
    """Though its chain and its trailer hold, a file of a log that no service writes is refused, naming the line."""
    lines = [text(genesis()), *(text(effect(seq, **again.get(seq, {}))) for seq in range(2, 7))]
    assert refusal(export_of(lines))[0] == line
    assert reason in refusal(export_of(lines))[1]


@pytest.mark.parametrize(
    ("change", "reason"),
    [
        ({"canonical_profile": "other/1"}, "profile 'other/1' is unknown"),
        ({"world_uuid": "no uuid"}, "world_uuid: not 32 hex digits"),
        ({"ruleset_version": "1"}, "ruleset_version: not a version number"),
        ({"time_authority": "A B"}, "time_authority"),
        ({"experiment": ""}, "experiment"),
        ({"time_authority": "wall", "time_zero": 1.0}, "time_zero: 1.0, which does not go with"),
    ],
)
def test_a_genesis_that_makes_no_world_is_refused(change: dict[str, Any], reason: str) -> None:
    """A file whose chain holds, but whose first effect makes no world of this version, is refused."""
    line, said = refusal(export_of([text(genesis(**change))]))
    assert line == 1
    assert reason in said


@cases("name", REQUIRED)
def test_a_genesis_without_a_field_that_each_has_is_refused(name: str) -> None:
    """A file whose chain holds, but whose genesis lacks a field that every version has written, is refused."""
    made = genesis()
    del made["payload"][name]
    line, said = refusal(export_of([text(made), text(effect(2))]))
    assert (line, name in said) == (1, True)


#: The log of a parent in which an engine has taken over time, and its head, from which the fork goes on.
_PARENT = [
    *texts(2),
    text(
        effect(
            3,
            kind="WorldTimeAuthoritySet",
            source_id="worldledger",
            payload={"authority": "unity", "offset": 2.5},
        )
    ),
]
_POINT = {
    "world_uuid": WORLD_UUID,
    "world_id": "w",
    "global_seq": 3,
    "checksum": link(link(link(b"", _PARENT[0]), _PARENT[1]), _PARENT[2]).hex(),
    "time_offset": 2.5,
}


def _with_fork(
    *, sim_time: float = 3.0, digest: bool = True, point: dict[str, Any] | None = None, **said: Any
) -> bytes:
    """Make the file of a fork, after its parent's log."""
    fork_of = _POINT | (point or {})
    made = genesis("f", world_uuid="f" * 32, **{"time_authority": "unity", "fork_of": fork_of} | said)
    second = {"kind": "StateDigest", "payload": {"at_seq": 1}} if digest else {"kind": "Said"}
    lines = [
        made | {"sim_time": sim_time},
        effect(2, "f", **{"sim_time": 3.0, "source_id": "worldledger"} | second),
        effect(3, "f"),
    ]
    return export_of(_PARENT) + export_of([text(line) for line in lines], "f")


def test_a_fork_after_its_parents_log_passes() -> None:
    """The file of a fork has its parent's log before its own, and says of it what that log does."""
    found = check(_with_fork())
    assert (found.world.world_id, found.trailer.count, found.authority.name) == ("f", 3, "unity")


@cases(
    "changed, line, reason",
    [
        ({"sim_time": 1.0}, 5, "$.sim_time: 1.0 in the fork, by the log of its parent it is 3.0"),
        ({"point": {"depth": 5}}, 5, "$.payload.fork_of.depth: 5 in the fork"),
        ({"point": {"time_offset": 5.0}}, 5, "$.payload.fork_of.time_offset: 5.0 in the fork"),
        ({"point": {"silence": "no_tick"}}, 5, "$.payload.fork_of.silence: 'no_tick' in the fork"),
        ({"time_authority": "client"}, 5, "$.payload.time_authority: 'client' in the fork"),
        ({"ruleset": "chess"}, 5, "$.payload.ruleset: 'chess' in the fork"),
        ({"digest": False}, 6, "the second effect of a fork is the StateDigest"),
    ],
)
def test_a_fork_that_its_parents_log_refutes_is_refused(changed: dict[str, Any], line: int, reason: str) -> None:
    """Though all chains and trailers hold, a fork that says otherwise than the log before it is refused, by line."""
    found, said = refusal(_with_fork(**changed))
    assert (found, reason in said) == (line, True), said


def test_a_world_name_outside_the_allowed_set_is_refused() -> None:
    """A world that could not be named here is refused."""
    assert "cannot be a world's name" in refusal(export_of([text(genesis("a b"))], "a b"))[1]


def test_escapes_that_canonical_text_has_not_are_refused() -> None:
    """A text that says the same by other escapes is not what the service wrote, though chain and trailer hold."""
    plain = text(effect(2, payload={"s": "A/b"}))
    for spelt in (plain.replace(b"A", b"\\u0041"), plain.replace(b"/", b"\\/")):
        assert orjson.loads(spelt) == orjson.loads(plain)
        line, reason = refusal(export_of([text(genesis()), spelt]))
        assert (line, "not canonical text" in reason) == (2, True)


def test_floats_spelt_by_another_orjson_are_accepted() -> None:
    """Files written by a version that spells 1e16 otherwise pass, each with its own checksums."""
    plus = text(effect(2, payload={"x": 1e16}))
    assert b"1e+16" in plus
    for spelt in (plus, plus.replace(b"1e+16", b"1e16")):
        assert check(export_of([text(genesis()), spelt])).trailer.count == 2


def test_noted_heads_must_lie_on_the_chain() -> None:
    """The chain must pass through every noted head; a rewritten file does not, nor one that was cut before it."""
    middle, end = (check(export_of(texts(count))).trailer.head for count in (3, 6))
    assert check(WHOLE, middle, end).trailer.head == end
    rewritten = texts(6)
    rewritten[3] = text(effect(4, payload={"n": 5}))
    assert check(export_of(rewritten), middle).trailer.count == 6
    line, reason = refusal(export_of(rewritten), end)
    assert line == 6
    assert "the given head says" in reason
    assert "ends at seq 3, before the given head 6" in refusal(export_of(texts(3)), end)[1]


class _Endless(io.RawIOBase):
    """A line that never ends, and a count of what was read of it."""

    def __init__(self) -> None:
        super().__init__()
        self.given = 0

    def readable(self) -> bool:
        """It is a source."""
        return True

    def readinto(self, buffer: object) -> int:
        """Fill the buffer with the letter a."""
        view = memoryview(buffer)  # type: ignore[arg-type]
        view[:] = b"a" * len(view)
        self.given += len(view)
        return len(view)


def test_an_overlong_line_is_refused_before_it_is_read() -> None:
    """Of a line beyond the limit no more is read than shows its length."""
    source = _Endless()
    with pytest.raises(FileRefusedError, match="more than 1048576 bytes"):
        checked(io.BufferedReader(source))
    assert source.given < 2 * 1024 * 1024


def test_effect_limit_follows_the_setting() -> None:
    """An effect over the given limit is refused, one of just that size is not."""
    size = max(len(line) - 1 for line in LINES[:-1])
    assert check(WHOLE, max_effect_bytes=size).trailer.count == 6
    with pytest.raises(FileRefusedError, match="WORLDLEDGER_MAX_EFFECT_BYTES"):
        check(WHOLE, max_effect_bytes=size - 1)


@given(st.integers(0, len(WHOLE) - 2), st.integers(1, 255))
def test_every_changed_byte_is_found(at: int, difference: int) -> None:
    """Whichever byte of a file is changed, the file is refused."""
    changed = bytearray(WHOLE)
    changed[at] ^= difference
    line, _ = refusal(bytes(changed))
    assert line <= WHOLE.count(b"\n", 0, at) + 2


@given(st.integers(1, 3 * MAX_MARKS), st.data())
def test_marks_tell_where_a_log_was_changed(count: int, data: st.DataObject) -> None:
    """Marks stay few, follow from the number of effects, and hold a change between two of them."""
    place = data.draw(st.integers(1, count))
    mine, other = Marks(), Marks()
    for seq in range(1, count + 1):
        mine.add(f"{seq:064x}"[::-1])
        other.add(f"{seq + (seq >= place):064x}"[::-1])
    written = other.written()
    assert len(written.checksums) <= MAX_MARKS * 8
    assert written.every == 1 or count > MAX_MARKS
    found = mine.first_difference(written)
    assert found is not None
    first, last = found
    assert first <= place <= last
    assert last - first < written.every
    assert mine.first_difference(mine.written()) in {None, (count // mine.every * mine.every + 1, count)}


def test_a_change_in_a_long_file_is_narrowed_down() -> None:
    """In a file with more lines than marks the refusal names the lines among which the change lies."""
    lines = texts(MAX_MARKS + 100)
    end = export_of(lines)
    changed = end.replace(b'"n":1001}', b'"n":1010}')
    line, reason = refusal(changed)
    assert line == 1001
    assert reason == "this line or one of those up to line 1002 was changed"
