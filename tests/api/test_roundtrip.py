"""Any JSON value either comes back byte for byte or is refused by its path."""

from __future__ import annotations

import json
from typing import Any

import httpx2
import orjson
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from tests.rules.values import ANY_JSON, GOOD_OBJECTS, offences, same
from worldledger.canonical import gate

from .helpers import JSON, draft, problem

PATH = "/v1/worlds/town/effects"
_CHECKED = settings(
    max_examples=150,
    deadline=None,
    suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow],
)


def _body(payload: Any, spaced: bool) -> bytes:
    """Write a draft as a client may: compact or not, characters escaped or not."""
    separators = None if spaced else (",", ":")
    return json.dumps(draft() | {"payload": payload}, separators=separators, ensure_ascii=True).encode()


@_CHECKED
@given(value=ANY_JSON, spaced=st.booleans())
async def test_any_value_passes_unchanged_or_is_named(
    client: httpx2.AsyncClient, world: str, value: Any, spaced: bool
) -> None:
    """Whatever the payload holds: it is stored as the gate wrote it, or refused naming an offending path."""
    body = _body({"value": value}, spaced)
    payload = json.loads(body)["payload"]  # two escaped surrogates may have met
    bad = set(offences(payload, "$.payload"))
    response = await client.post(PATH, content=body, headers=JSON)
    if bad:
        assert problem(response, 422, "invalid_effect")["path"] in bad
        return
    assert response.status_code == 201, response.text
    stored = await client.get(response.headers["location"])
    assert b'"payload":' + gate(payload) + b',"priority"' in stored.content
    assert same(json.loads(stored.content)["payload"], payload)


@_CHECKED
@given(payloads=st.lists(GOOD_OBJECTS, min_size=1, max_size=4))
async def test_good_values_come_back_from_every_route(
    client: httpx2.AsyncClient, world: str, payloads: list[dict[str, Any]]
) -> None:
    """A list of good payloads is found again, byte for byte, in the page, the stream and one by one."""
    body = orjson.dumps([draft() | {"payload": payload} for payload in payloads])
    receipts = (await client.post(PATH, content=body, headers=JSON)).json()["receipts"]
    after = receipts[0]["global_seq"] - 1
    page = (await client.get(f"{PATH}?after_seq={after}")).content
    lines = (await client.get(f"{PATH}?after_seq={after}&format=ndjson")).content.splitlines()
    single = [(await client.get(f"{PATH}/{receipt['global_seq']}")).content for receipt in receipts]
    assert lines == single
    assert b'"effects":[' + b",".join(single) + b'],"checksums":' in page
    assert all(same(json.loads(text)["payload"], sent) for text, sent in zip(single, payloads, strict=True))
