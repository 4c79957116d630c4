"""Hypothesis: any JSON value comes back from PostgreSQL byte for byte, or was refused with its path."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import orjson
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from worldledger_service.store import EventLog

from tests.rules.values import ANY_JSON, GOOD_JSON, offences, same
from worldledger.canonical import gate
from worldledger.errors import InvalidEffectError

from .helpers import draft

if TYPE_CHECKING:
    from .helpers import Connection

_SETTINGS = settings(max_examples=40, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])


async def _stored(admin: Connection, world_id: str, seqs: list[int]) -> list[Any]:
    """Return the stored texts; PostgreSQL must also be able to take each payload apart."""
    rows = await admin.fetch(
        "select effect::text as text, effect -> 'payload' ->> 'n' as n from effects"
        " where world_id = $1 and global_seq = any($2) order by global_seq",
        *(world_id, seqs),
    )
    return [row["text"] for row in rows]


@pytest.mark.both_servers
@_SETTINGS
@given(st.lists(GOOD_JSON, min_size=1, max_size=12))
async def test_what_passes_comes_back_to_the_byte(log: EventLog, admin: Connection, values: list[Any]) -> None:
    """What the gate lets through is stored as the bytes that it wrote, and reads as the same value."""
    receipts = await log.append_all([draft(value) for value in values])
    texts = await _stored(admin, log.world_id, [receipt.global_seq for receipt in receipts])
    rows = [row async for batch in log.batches(after_seq=receipts[0].global_seq - 1) for row in batch]
    for value, text, row in zip(values, texts, rows, strict=True):
        assert row.text == text.encode()
        assert b'"payload":' + gate({"n": value}) + b',"priority"' in row.text
        assert same(orjson.loads(text)["payload"]["n"], value)


@_SETTINGS
@given(st.lists(ANY_JSON, min_size=1, max_size=12))
async def test_the_rest_is_refused_with_its_path(log: EventLog, admin: Connection, values: list[Any]) -> None:
    """Of any values each is stored, or refused with its path; a list with one that is refused is refused whole."""
    bad = [list(offences(value, "$.payload.n")) for value in values]
    for value, paths in zip(values, bad, strict=True):
        if not paths:
            seq = await log.append(draft(value))
            (text,) = await _stored(admin, log.world_id, [seq])
            assert same(orjson.loads(text)["payload"]["n"], value)
            continue
        with pytest.raises(InvalidEffectError) as caught:
            await log.append(draft(value))
        assert caught.value.path == paths[0]
    if any(bad):
        first = next(index for index, paths in enumerate(bad) if paths)
        with pytest.raises(InvalidEffectError) as caught:
            await log.append_all([draft(value) for value in values])
        assert caught.value.path == bad[first][0]
        assert caught.value.index == (first if len(values) > 1 else None)


@pytest.mark.both_servers
async def test_everything_that_was_written_verifies(log: EventLog) -> None:
    """The oddest texts chain like any other."""
    await log.append_all([draft({"\U0001f600\x01\x7f ": [1e-7, 123456789012345.6, -0.1, "\u2028\ufeff\\u0000"]})])
    assert await log.validate_integrity()
