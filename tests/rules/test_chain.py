"""The chain: its checksum, and what verification finds (every attack, in memory)."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import orjson
import pytest

from tests.cases import cases
from worldledger.chain import ORIGIN, ChainRow, Finding, Position, StoredEffect, Verifier, chain_checksum, link, verify
from worldledger.errors import SimulationError, TamperedError
from worldledger.log_rules import LoggedRequest

from . import chains
from .chains import chained, end, honest, make_effect, recomputed, stored, verdicts

Rows = list[StoredEffect]
COUNT = 9


def _replaced(rows: Rows, seq: int, **changed: Any) -> Rows:
    return [row._replace(**changed) if row.global_seq == seq else row for row in rows]


def _edited(rows: Rows, seq: int) -> Rows:
    return _replaced(rows, seq, text=rows[seq - 1].text.replace(b'"x":', b'"x":1'))


def _swapped(rows: Rows, one: int, other: int, *columns: str) -> Rows:
    first, second = rows[one - 1], rows[other - 1]
    rows = _replaced(rows, one, **{name: getattr(second, name) for name in columns})
    return _replaced(rows, other, **{name: getattr(first, name) for name in columns})


def _renumbered(rows: Rows, seq: int, new: int) -> Rows:
    return sorted(_replaced(rows, seq, global_seq=new), key=lambda row: row.global_seq)


_EVERYTHING = ("text", "checksum", "kind", "source_id", "sim_time")

ATTACKS: dict[str, tuple[Callable[[Rows], Rows], int, str]] = {
    "a value is changed": (lambda rows: _edited(rows, 5), 5, "checksum differs"),
    "a value of the first effect is changed": (lambda rows: _edited(rows, 1), 1, "checksum differs"),
    "a value of the last effect is changed": (lambda rows: _edited(rows, 9), 9, "checksum differs"),
    "a checksum is changed": (lambda rows: _replaced(rows, 5, checksum=bytes(32)), 5, "checksum differs"),
    "a checksum is cut short": (lambda rows: _replaced(rows, 5, checksum=rows[4].checksum[:31]), 5, "checksum differs"),
    "the column kind is changed": (lambda rows: _replaced(rows, 5, kind="Other"), 5, "column kind is 'Other'"),
    "the column source_id is changed": (lambda rows: _replaced(rows, 5, source_id="x"), 5, "column source_id is 'x'"),
    "the column sim_time is changed": (lambda rows: _replaced(rows, 5, sim_time=1.2500001), 5, "column sim_time"),
    "an effect is deleted": (lambda rows: rows[:4] + rows[5:], 5, "missing: the next effect in the log is seq 6"),
    "the first effect is deleted": (lambda rows: rows[1:], 1, "missing: the next effect in the log is seq 2"),
    "the last effect is deleted": (lambda rows: rows[:-1], 9, "the head names seq 9, the log ends at seq 8"),
    "all effects are deleted": (lambda _: [], 1, "the head names seq 9, the log ends at seq 0"),
    "two texts change places": (lambda rows: _swapped(rows, 4, 6, "text"), 4, "checksum differs"),
    "two effects change places": (lambda rows: _swapped(rows, 4, 6, *_EVERYTHING), 4, "checksum differs"),
    "the order of the rows is changed": (lambda rows: [*rows[:3], rows[4], rows[3], *rows[5:]], 4, "missing"),
    "a row comes twice": (lambda rows: [*rows[:5], rows[4], *rows[5:]], 6, "seq 5 stands where seq 6 belongs"),
    "a row is inserted": (
        lambda rows: [
            *rows[:5],
            rows[5]._replace(text=b"{}"),
            *(row._replace(global_seq=row.global_seq + 1) for row in rows[5:]),
        ],
        6,
        "checksum differs",
    ),
    "a row is appended beyond the head": (
        lambda rows: [*rows, stored(make_effect("w", 10), rows[-1].checksum.hex())],
        10,
        "the head names seq 9, the log ends at seq 10",
    ),
    "an effect is renumbered into a gap": (lambda rows: _renumbered(rows, 5, 12), 5, "missing"),
    "everything is renumbered": (
        lambda rows: [row._replace(global_seq=row.global_seq + 1) for row in rows],
        1,
        "missing",
    ),
    "deletion and renumbering": (
        lambda rows: rows[:4] + [row._replace(global_seq=row.global_seq - 1) for row in rows[5:]],
        5,
        "checksum differs",
    ),
    "another world's row": (lambda rows: [*rows[:4], honest(COUNT, "v")[4], *rows[5:]], 5, "checksum differs"),
    "another world's effect, chained in": (lambda rows: recomputed(rows, 4, world_id="v"), 5, "column world_id is 'w'"),
    "a number of its own, chained in": (lambda rows: recomputed(rows, 4, global_seq=7)[:5], 5, "missing"),
    "a number that only equals its own, chained in": (
        lambda rows: [row._replace(global_seq=int(row.global_seq)) for row in recomputed(rows, 4, global_seq=5.0)],
        5,
        "differ",
    ),
    "a chain recomputed from some seq on": (lambda rows: recomputed(rows, 4, payload={}), 9, "the head's checksum"),
    "sim_time goes back": (
        lambda rows: recomputed(rows, 4, sim_time=0.5),
        5,
        "$.sim_time: 0.5 is lower than the 1.0 before",
    ),
    "wall_time goes back": (lambda rows: recomputed(rows, 4, wall_time=5), 5, "$.wall_time: 5 is lower than the 17000"),
    "wall_time is a text": (lambda rows: recomputed(rows, 4, wall_time="now"), 5, "not numbers"),
    "a cause to come": (lambda rows: recomputed(rows, 4, caused_by=5), 5, "$.caused_by: not the global_seq of"),
    "a cause before the log": (lambda rows: recomputed(rows, 4, caused_by=0), 5, "$.caused_by"),
    "a cause between two effects": (lambda rows: recomputed(rows, 4, caused_by=2.0), 5, "$.caused_by"),
    "a uuid twice": (lambda rows: recomputed(rows, 4, uuid=f"{2:032x}"), 5, "the uuid is that of seq 2, too"),
    "a uuid that is no text": (lambda rows: recomputed(rows, 4, uuid=["a"]), 5, "$.uuid: not 32 hex digits"),
    "a uuid that is null": (lambda rows: recomputed(rows, 4, uuid=None), 5, "$.uuid: not 32 hex digits"),
    "a uuid of another form": (lambda rows: recomputed(rows, 4, uuid="x"), 5, "$.uuid: not 32 hex digits"),
    "a uuid in upper case": (lambda rows: recomputed(rows, 4, uuid="A" * 32), 5, "$.uuid: not 32 hex digits"),
    "a fork without its digest": (
        lambda rows: recomputed(rows, 0, payload={"fork_of": {"depth": 1}}),
        2,
        "the second effect of a fork is the StateDigest",
    ),
    "a second genesis": (
        lambda rows: recomputed(rows, 4, kind="WorldCreated", source_id="worldledger"),
        5,
        "$.kind: WorldCreated stands at seq 1 alone",
    ),
    "an agent's system kind": (
        lambda rows: recomputed(rows, 4, kind="StateDigest"),
        5,
        "StateDigest effects are written by the service alone, not by 'agent-2'",
    ),
    "a system kind that there is not": (lambda rows: recomputed(rows, 4, kind="WorldEnds"), 5, "by the service alone"),
    "the service's name behind the beginning": (
        lambda rows: recomputed(rows, 4, source_id="worldledger"),
        5,
        "$.source_id: 'worldledger' writes no EntityMoved after a world's beginning",
    ),
    "a req_id that comes again": (
        lambda rows: recomputed(recomputed(rows, 1, req_id="r"), 4, req_id="r"),
        5,
        "the req_id was used before, by seq 2",
    ),
    "text that is no JSON, chained in": (
        lambda rows: [*rows[:8], rows[8]._replace(text=b"{", checksum=link(rows[7].checksum, b"{"))],
        9,
        "not an effect",
    ),
    "text that is no effect, chained in": (
        lambda rows: [*rows[:8], rows[8]._replace(text=b"[]", checksum=link(rows[7].checksum, b"[]"))],
        9,
        "not an effect",
    ),
}


@cases("attack, seq, what", ATTACKS.values(), ids=ATTACKS.keys())
def test_finds_what_was_done_to_the_log(attack: Callable[[Rows], Rows], seq: int, what: str) -> None:
    """What was done is found at the first seq concerned, whatever the batches, and what it is gets said."""
    rows = honest(COUNT)
    verdict = verdicts(attack(rows), head=end(rows))
    assert verdict.finding is not None
    assert (verdict.finding.world_id, verdict.finding.global_seq) == ("w", seq)
    assert what in verdict.finding.what
    assert not verdict.verified


@cases("start", range(COUNT + 1))
def test_an_honest_log_is_verified_from_any_position(start: int) -> None:
    """An honest log verifies from its origin and from any position in it, up to its head."""
    rows = honest(COUNT)
    verdict = verdicts(
        rows[start:], start=end(rows[:start]), head=end(rows), noted=[end(rows[:7])] if start < 7 else []
    )
    assert verdict.verified
    assert verdict.position == end(rows)


def test_a_verdict_is_where_the_next_check_begins() -> None:
    """The position of one check is the start of the next, which sees what was done since."""
    rows = honest(COUNT)
    first = verify("w", rows[:4])
    assert verify("w", rows[4:], start=first.position, head=end(rows)).effects == 5
    edited = verify("w", _edited(rows, 5)[4:], start=first.position)
    assert edited.finding is not None
    assert edited.finding.global_seq == 5


def test_a_fork_begins_with_the_digest_of_its_state() -> None:
    """A fork's second effect is the StateDigest of its genesis, also where a check begins between both."""
    genesis = make_effect("w", 1, payload={"fork_of": {"depth": 1}})
    digest = make_effect("w", 2, kind="StateDigest", payload={"at_seq": 1})
    rows = chained([genesis, digest, make_effect("w", 3)])
    assert verdicts(rows, head=end(rows)).verified
    assert verdicts(rows[:1], head=end(rows[:1])).verified  # as the beginning of a world has it, and a log cut off
    for second in (make_effect("w", 2), digest | {"payload": {"at_seq": 2}}, digest | {"payload": {}}):
        rows = chained([genesis, second])
        for start, before in ((ORIGIN, None), (end(rows[:1]), rows[0].text)):
            verifier = Verifier("w", start=start, before=before)
            assert not verifier.feed(rows[start.global_seq :])
            finding = verifier.finish().finding
            assert finding is not None
            assert (finding.global_seq, "second effect of a fork" in finding.what) == (2, True)


def test_a_wrong_start_is_found_at_the_next_effect() -> None:
    """A start that is not of this chain shows at the first effect after it."""
    rows = honest(COUNT)
    verdict = verdicts(rows[4:], start=Position(4, bytes(32)), head=end(rows))
    assert verdict.finding is not None
    assert verdict.finding.global_seq == 5


def test_a_start_beyond_the_end_is_said_to_be_that() -> None:
    """A start that the log does not reach is found, naming where the log ends."""
    rows = honest(COUNT)
    verdict = verdicts([], start=Position(999, bytes(32)), head=end(rows))
    assert verdict.finding is not None
    assert verdict.finding.what == f"the log ends at seq {COUNT}, before the given start 999"
    assert verdict.head == end(rows)


@cases("text", [f"0:{'0' * 64}", f"00:{'0' * 64}", f"01:{'0' * 64}", "0:", "1", f"-1:{'0' * 64}"])
def test_a_position_begins_at_seq_1(text: str) -> None:
    """Before the first effect there is no checksum to note."""
    with pytest.raises(SimulationError, match="a number from 1 on"):
        Position.parse(text)


@cases("seq", range(1, COUNT + 1))
def test_a_recomputed_chain_misses_a_noted_head(seq: int) -> None:
    """A chain that was recomputed, together with its head, does not pass through a position noted before."""
    rows = honest(COUNT)
    forged = recomputed(rows, seq - 1, payload={"forged": True})
    for noted in range(1, COUNT + 1):
        verdict = verdicts(forged, head=end(forged), noted=[end(rows[:noted])])
        assert verdict.verified is (noted < seq)
        if verdict.finding is not None:
            assert verdict.finding.global_seq == noted
            assert verdict.position.global_seq == noted - 1
    every = verdicts(forged, head=end(forged), noted=[end(rows[: at + 1]) for at in range(COUNT)])
    assert every.finding is not None
    assert every.finding.global_seq == seq


def test_a_noted_head_is_looked_at_before_a_later_fault() -> None:
    """Of two faults the earlier is named, also when one is a noted head's and the other is in the same batch."""
    rows = honest(COUNT)
    noted = [Position(3, bytes(32))]
    for later in (_edited(rows, 6), _replaced(rows, 6, kind="Other"), rows[:5] + rows[6:]):
        verdict = verdicts(later, noted=noted)
        assert verdict.finding is not None
        assert verdict.finding.global_seq == 3


def test_a_tail_cut_off_with_its_head_misses_a_noted_head() -> None:
    """A log whose tail and head were cut off together ends before a position noted before."""
    rows = honest(COUNT)
    verdict = verdicts(rows[:6], head=end(rows[:6]), noted=[end(rows)])
    assert verdict.finding is not None
    assert verdict.finding.global_seq == 7
    assert "before the given head 9" in verdict.finding.what


def test_noted_heads_before_or_at_the_start() -> None:
    """A noted head before the start cannot be checked and is said to be so; at the start it must agree."""
    rows = honest(COUNT)
    start = end(rows[:5])
    before = verdicts(rows[5:], start=start, noted=[end(rows[:3])])
    assert before.finding is not None
    assert "before the start" in before.finding.what
    assert verdicts(rows[5:], start=start, noted=[start]).verified
    other = verdicts(rows[5:], start=start, noted=[Position(5, bytes(32))])
    assert other.finding is not None
    assert other.finding.global_seq == 5


def test_requests_of_several_effects_and_sources() -> None:
    """Effects of one request stand together, and each source has its own req_ids."""
    rows = recomputed(honest(COUNT), 2, req_id="r", source_id="a")
    for at, source in ((3, "a"), (4, "b"), (5, "b")):
        rows = recomputed(rows, at, req_id="r", source_id=source)
    assert verdicts(rows, head=end(rows)).verified
    heard: list[LoggedRequest] = []
    verifier = Verifier("w", heard=heard.extend)
    assert verifier.feed(rows)
    verifier.finish()
    assert [(source_id, *seqs) for source_id, _, _, *seqs in heard] == [("a", 3, 4), ("b", 5, 6)]


@cases(
    "old, new, what",
    [
        (b'"x":5', b'"x": 5', "white space"),
        (b'"payload":{"x":5,', b'"payload":{"z":1,"x":5,', "not sorted"),
        (b'"priority":0', b'"priority":0.5', "$.priority: not an integer"),
        (b'"wall_time"', b'"vote":1,"wall_time"', "unknown field 'vote'"),
        (b'"\xe2\x82\xac"', b'"\\u20ac"', "not canonical text"),
        (b'"schema_version":"1', b'"schema_version":"\\u0031', "not canonical text"),
    ],
)
def test_a_full_check_also_holds_texts_to_their_profile(old: bytes, new: bytes, what: str) -> None:
    """A text that is not canonical, or an effect of another shape, chained in by an able forger, is found by `full`."""
    rows = honest(COUNT)
    assert verify("w", rows, head=end(rows), is_full=True).verified
    assert old in rows[4].text
    text = rows[4].text.replace(old, new)
    forged = [*rows[:4], rows[4]._replace(text=text, checksum=link(rows[3].checksum, text))]
    assert verify("w", forged, head=end(forged)).verified
    finding = verify("w", forged, head=end(forged), is_full=True).finding
    assert finding is not None
    assert (finding.global_seq, what in finding.what) == (5, True), finding


def test_system_kinds_in_the_name_of_others() -> None:
    """The service writes the service's kinds, and generations, ticks and refusals also in others' names."""
    rows = recomputed(honest(COUNT), 1, kind="StateDigest", source_id="worldledger")
    for at, kind in enumerate(("GenerationStarted", "WorldTimeSet", "IntentRejected"), 3):
        rows = recomputed(rows, at, kind=kind)
    assert verdicts(rows, head=end(rows)).verified


def test_times_are_compared_with_those_at_the_start() -> None:
    """Of a check that begins in the middle, the first effect's times are judged by those of the effect before."""
    rows = recomputed(honest(COUNT), 4, wall_time=5)
    for before, seq in ((rows[3].text, 5), (None, None)):
        verifier = Verifier("w", start=end(rows[:4]), before=before)
        verifier.feed(rows[4:])
        finding = verifier.finish().finding
        assert (None if finding is None else finding.global_seq) == seq


def test_the_documented_lines_agree() -> None:
    """The lines of docs/reference/effects.md give the library's checksums, from an effect and from its stored bytes."""
    previous: str | None = None
    for row in honest(COUNT):
        effect = orjson.loads(row.text)
        theirs = chains.chain_checksum(effect, previous)
        assert theirs == chain_checksum(effect, previous) == chain_checksum(row.text, previous) == row.checksum.hex()
        assert link(bytes.fromhex(previous) if previous else None, row.text).hex() == theirs
        previous = theirs


def test_a_checksum_known_by_heart() -> None:
    """The chain's checksums are these, for ever and on every machine."""
    first = chain_checksum(b'{"a":1}', None)
    assert first == "015abd7f5cc57a2dd94b7590f04ad8084273905ee33ec5cebeae62276a97f862"
    assert (
        chain_checksum({"b": 2, "a": "é"}, first) == "20b644eb306b6b603683c5fad8652a449bcb35367dcb9332cbed6d51ddc29a29"
    )


def test_the_chain_alone_can_be_checked() -> None:
    """Rows without query columns are checked for their order and their checksums."""
    rows = [ChainRow(row.global_seq, row.text, row.checksum) for row in honest(COUNT)]
    verifier = Verifier("w")
    assert verifier.feed_chain(rows[:4])
    assert verifier.feed_chain(iter(rows[4:]))
    assert verifier.finish().effects == COUNT
    assert not Verifier("w").feed_chain(rows[:2] + rows[3:])


def test_a_finding_stays() -> None:
    """After its first finding a verifier looks at nothing more."""
    rows = honest(COUNT)
    verifier = Verifier("w")
    assert not verifier.feed(_edited(rows, 2)[:2])
    assert not verifier.feed(rows[2:])
    assert not verifier.feed_chain([])
    verdict = verifier.finish(end(rows))
    assert verdict.finding is not None
    assert (verdict.finding.global_seq, verdict.position.global_seq, verdict.effects) == (2, 1, 1)


def test_an_iterator_is_read_no_further_than_the_fault() -> None:
    """Verification stops reading with the batch in which something does not hold, and holds one batch at a time."""
    rows = _edited(honest(COUNT), 3)
    taken: list[int] = []

    def reading() -> Iterator[StoredEffect]:
        for row in rows:
            taken.append(row.global_seq)
            yield row

    verdict = verify("w", reading(), batch=2)
    assert verdict.finding is not None
    assert verdict.finding.global_seq == 3
    assert taken == [1, 2, 3, 4]


def test_an_empty_log_ends_at_its_origin() -> None:
    """Nothing at all verifies as nothing; a head that promises more does not."""
    assert verify("w", []).position == ORIGIN
    assert verify("w", [], head=ORIGIN).verified


def test_a_finding_can_be_raised() -> None:
    """A finding as an error names the world, the seq and what differs, for people and for programs."""
    finding = verify("w", _edited(honest(3), 2)).finding
    assert finding is not None
    error = finding.error()
    assert isinstance(error, TamperedError)
    assert str(error).startswith("world w, seq 2: checksum differs")
    assert error.details["global_seq"] == 2


def test_positions_are_read_as_they_are_printed() -> None:
    """A position prints as SEQ:CHECKSUM and is read back; anything else is an error that shows the form."""
    position = end(honest(2))
    assert Position.parse(f" {position}\n") == position
    assert Position.parse(str(position).upper()) == position
    for text in (
        "",
        "5",
        ":",
        "5:abc",
        f"-1:{'0' * 64}",
        f"5:{'g' * 64}",
        f"{'9' * 40}:{'0' * 64}",
        f"\u0665:{'0' * 64}",
    ):
        with pytest.raises(SimulationError, match="SEQ:CHECKSUM"):
            Position.parse(text)


@cases(
    "seq, changed, what",
    [
        (4, {"sim_time": True}, "column sim_time is 1.0, the effect says True"),
        (1, {"wall_time": True}, "$.sim_time, $.wall_time: not numbers"),
        (1, {"wall_time": False}, "$.sim_time, $.wall_time: not numbers"),
        (3, {"payload": {"a": ["\0"]}}, "$.payload.a[0]"),
        (3, {"payload": {"a\0": 1}}, "$.payload"),
    ],
)
def test_what_the_database_cannot_read_is_found_without_a_full_check(
    seq: int, changed: dict[str, Any], what: str
) -> None:
    """Times that are true or false and zero characters are found in a chain that was computed again."""
    rows = recomputed(honest(6), seq - 1, **changed)
    verdict = verdicts(rows, head=end(rows))
    assert verdict.finding is not None
    assert verdict.finding.global_seq == seq
    assert what in verdict.finding.what


def test_a_zero_character_s_name_is_a_text_like_any_other() -> None:
    """A backslash that is itself escaped makes no zero character of the letters behind it."""
    rows = recomputed(honest(4), 2, payload={"a": "\\u0000"})
    assert verdicts(rows, head=end(rows)).verified


def _with_payload(payload: bytes) -> Rows:
    """Return a log whose last effect has a payload of these bytes, chained in."""
    *rows, last = honest(4)
    start, end = last.text.index(b'"payload":') + 10, last.text.index(b',"priority":')
    text = last.text[:start] + payload + last.text[end:]
    return [*rows, last._replace(text=text, checksum=link(rows[-1].checksum, text))]


@cases(
    "payload",
    [
        b'{"a":1e400}',
        b'{"a":[-1.5E+0999]}',
        b'{"a":"1e999","b":1.' + b"5" * 199 + b"e999}",
        b"1e999",
        b'{"a":1' + b"0" * 250 + b"e99}",
        b'{"a":"\xff"}',
        b'{"a":"\xed\xa0\x80"}',
        b'{"a":"\\ud800"}',
        b'{"a":"\x01"}',
        b'{"a":01}',
        b'{"a":' + b"[" * 1500 + b"]" * 1500 + b"}",
        b'{"a":1',
    ],
)
def test_a_payload_that_nobody_can_read_is_found_without_a_full_check(payload: bytes) -> None:
    """A payload that is no JSON, or JSON that no reader takes, is found in a chain that was computed again."""
    rows = _with_payload(payload)
    verdict = verdicts(rows, head=end(rows))
    assert verdict.finding is not None
    assert verdict.finding.global_seq == 4
    assert "the stored text is not an effect" in verdict.finding.what


@cases("payload", [b'{"a":1e300}', b'{"a":"1e999"}', '{"a":"é💡"}'.encode(), b'{"a":"' + b"[" * 3000 + b'"}'])
def test_a_payload_that_only_looks_like_that(payload: bytes) -> None:
    """Large numbers, digits in a text, other alphabets and many brackets are no fault."""
    rows = _with_payload(payload)
    assert verdicts(rows, head=end(rows)).verified


def test_a_digest_is_not_taken_for_a_number(monkeypatch: pytest.MonkeyPatch) -> None:
    """Digits in hex that look like a large exponent do not make a batch be read twice."""
    monkeypatch.setattr(Verifier, "_read_numbers", None)  # which would read it again
    rows = _with_payload(b'{"digest":"1e999","more":["a0e123","00e123"]}')
    assert verdicts(rows, head=end(rows)).verified


def test_a_name_breaks_no_line_of_a_finding() -> None:
    """What somebody has written past the service as a world's name cannot look like another message."""
    error = Finding("a\nverified b", 1, "it differs").error()
    assert error.message == r"world a\nverified b, seq 1: it differs"
    assert error.details["world_id"] == "a\nverified b"
