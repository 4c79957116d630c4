"""How often one address may ask: who is counted, what is told, and what it costs in memory."""

from __future__ import annotations

import asyncio
import time
from typing import Any
from unittest import mock

import httpx2
import pytest
from pydantic import ValidationError
from websockets.asyncio.client import connect
from websockets.exceptions import InvalidStatus
from worldledger_service.api import edge
from worldledger_service.api.edge import Limiter, Standing, counted_as
from worldledger_service.settings import parse_rate_limit

from worldledger.client import Client
from worldledger.errors import RateLimitedError
from worldledger.observation import ObservationPolicy

from .helpers import Served, problem, serving, settings

#: An address of somebody else's, as a proxy on this machine names it.
FAR = {"X-Forwarded-For": "203.0.113.7"}


class _Time:
    """A clock that goes on only where the test says so."""

    def __init__(self) -> None:
        self.now = 1_700_000_040.25  # a quarter of a second after the library's windows of a minute, or two, begin

    def __call__(self) -> float:
        return self.now


@pytest.fixture
def now(monkeypatch: pytest.MonkeyPatch) -> _Time:
    """Have time stand still."""
    clock = _Time()
    monkeypatch.setattr(time, "time", clock)
    return clock


def _limiter(rate: str = "100/minute", **changes: Any) -> Limiter:
    made = Limiter.of(settings(rate_limit=rate, **changes))
    assert made is not None
    return made


async def _passes(limiter: Limiter, address: str) -> bool:
    return (await limiter.count(address)).error is None


# -- the window ----------------------------------------------------------------------------------------------


async def test_a_hundred_a_minute(now: _Time) -> None:
    """In no minute does an address ask more than a hundred times, and to wait as told is enough."""
    limiter = _limiter()
    taken: list[float] = []
    end = now.now + 300
    while now.now < end:
        standing = await limiter.count("203.0.113.7")
        if standing.error is None:
            taken.append(now.now)
            continue
        wait = standing.error.details["retry_after_s"]
        assert 0 < wait <= 60
        now.now += wait + 0.002
        assert await _passes(limiter, "203.0.113.7")
        taken.append(now.now)
    assert len(taken) >= 400
    steady = [at for at in taken if at >= taken[0] + 60]
    for n in range(len(steady) - 110):
        assert steady[n + 110] - steady[n] > 60, "the window is an estimate, but a close one"


async def test_what_is_told(now: _Time) -> None:
    """The headers tell the policy, what is left of it, and in how many seconds there is more."""
    limiter = _limiter("3 per 2 minutes")
    now.now += 100.0
    told = [dict((await limiter.count("a")).headers) for _ in range(4)]
    assert {each[b"ratelimit-policy"] for each in told} == {b'"default";q=3;w=120'}
    now.now += 60
    assert [each[b"ratelimit"] for each in told] == [f'"default";r={left};t=20'.encode() for left in (2, 1, 0, 0)]


async def test_addresses_are_counted_by_themselves(now: _Time) -> None:
    """What one asks takes nothing from another."""
    limiter = _limiter("2/minute")
    for address in ("a", "b"):
        assert [await _passes(limiter, address) for _ in range(3)] == [True, True, False]


@pytest.mark.parametrize(
    ("host", "counted", "own"),
    [
        ("203.0.113.7", "203.0.113.7", False),
        ("::ffff:203.0.113.7", "203.0.113.7", False),
        ("2001:db8:1:2:3:4:5:6", "2001:db8:1:2::/64", False),
        ("2001:db8:1:2::", "2001:db8:1:2::/64", False),
        ("fe80::1%eth0", "fe80::1%eth0", False),
        ("127.8.9.1", "127.8.9.1", True),
        ("::1", "::1", True),
        ("::ffff:127.0.0.1", "127.0.0.1", True),
        ("", "an unknown address", False),
        ("unknown", "an unknown address", False),
        ("127.0.0.1, 8.8.8.8", "an unknown address", False),
    ],
)
def test_what_counts_as_one_address(host: str, counted: str, own: bool) -> None:
    """An IPv4 address however it is written, a /64 of IPv6; whatever is none counts as one."""
    assert counted_as(host) == (counted, own)


async def test_a_flood_of_addresses_has_its_bound(now: _Time, monkeypatch: pytest.MonkeyPatch) -> None:
    """What is remembered of many addresses is let go in time, and has its bound before that."""
    monkeypatch.setattr(edge, "MOST_COUNTERS", 500)
    limiter = _limiter("2/minute")
    for n in range(400):
        await limiter.count(f"a{n}")
    assert len(limiter) == 400
    assert [await _passes(limiter, "a0") for _ in range(2)] == [True, False]
    now.now += 121
    await limiter.count("b")
    assert len(limiter) == 1, "two windows later nothing is left of those who were quiet"
    for n in range(2000):
        await limiter.count(f"c{n}")
    assert len(limiter) == 500
    assert [await _passes(limiter, "c1999") for _ in range(2)] == [True, False]


# -- settings ------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "text", ["", "fast", "100", "100/fortnight", "-1/minute", "0/minute", "5/second; 100/minute", "1/month", "9" * 11]
)
def test_a_rate_that_is_none_is_refused_at_the_start(text: str) -> None:
    """Whatever is no rate is named, with what one looks like."""
    with pytest.raises(ValidationError, match=r"rate_limit\n.*(100/minute|at most a day)"):
        settings(rate_limit=text)


def test_a_rate_can_be_written_in_words() -> None:
    """The library's own ways of writing a rate are taken."""
    for text, most, window in (("20 per 5 seconds", 20, 5), ("1000/hour", 1000, 3600), (" 7 / minute", 7, 60)):
        limit = parse_rate_limit(text)
        assert limit is not None
        assert (limit.amount, limit.get_expiry()) == (most, window)
    assert parse_rate_limit(" OFF ") is None
    assert Limiter.of(settings(rate_limit="off")) is None


@pytest.mark.parametrize("text", ["localhost", "10.0.0.0/33", "127.0.0.1;::1", "*, 10.0.0.1"])
def test_a_proxy_that_is_no_address_is_refused_at_the_start(text: str) -> None:
    """Proxies are named by their addresses or networks."""
    with pytest.raises(ValidationError, match="neither an address nor a network"):
        settings(forwarded_allow_ips=text)


# -- served --------------------------------------------------------------------------------------------------


async def test_who_asks_too_often_is_refused(database_url: str) -> None:
    """On whatever route: 429 with when to come again, and nothing is done; supervisors and this machine are free."""
    async with (
        serving(database_url, rate_limit="4/hour") as served,
        httpx2.AsyncClient(base_url=served.url, timeout=60) as client,
    ):
        first = await client.post("/v1/worlds", json={"world_id": "town"}, headers=FAR)
        assert (first.status_code, first.headers["ratelimit-policy"]) == (201, '"default";q=4;w=3600')
        assert first.headers["ratelimit"].startswith('"default";r=3;t=')
        for path in ("/livez", "/readyz", "/metrics"):
            assert "ratelimit" not in (await client.get(path, headers=FAR)).headers
        for path, status in (("/nowhere", 404), ("/v1/worlds/town/tail?after_seq=x", 422), ("/v1/worlds/town", 200)):
            answer = await client.head(path, headers=FAR)
            assert (answer.status_code, "ratelimit" in answer.headers) == (status, True)
        refused = await client.post("/v1/worlds", json={"world_id": "village"}, headers=FAR)
        found = problem(refused, 429, "rate_limited", recovery="retry_with_delay", limit=4, window_s=3600)
        assert "203.0.113.7 has asked 4 times" in found["detail"]
        assert refused.headers["ratelimit"].startswith('"default";r=0;t=')
        assert int(refused.headers["retry-after"]) == -(-found["retry_after_s"] // 1)
        assert (await client.head("/v1/worlds", headers=FAR)).content == b""
        own = [await client.get("/v1/worlds") for _ in range(6)]
        assert [(answer.status_code, "ratelimit" in answer.headers) for answer in own] == [(200, False)] * 6
        assert [world["world_id"] for world in own[0].json()["worlds"]] == ["town"]
        assert (await client.get("/v1/worlds", headers={"X-Forwarded-For": "2001:db8::7"})).status_code == 200
        metrics = (await client.get("/metrics")).text
        assert "worldledger_http_requests_limited_total 2.0" in metrics
        assert 'worldledger_http_requests_total{method="POST",route="none",status="429"} 1.0' in metrics


async def test_blocks_and_pages_have_a_budget_of_their_own(database_url: str) -> None:
    """What a viewer asks for often is counted apart from everything else, and refused apart."""
    async with (
        serving(database_url, rate_limit="3/hour", rate_limit_blocks="5/hour") as served,
        httpx2.AsyncClient(base_url=served.url, timeout=60) as client,
    ):
        await client.post("/v1/worlds", json={"world_id": "town"})
        await client.post("/v1/worlds/town/agents", json={"agent_id": "a/b"})
        for place, path in enumerate(("frames", "agents/a%2Fb/frames", "density", "effects", "frames?from_seq=2")):
            answer = await client.get(f"/v1/worlds/town/{path}", headers=FAR)
            assert (answer.status_code, answer.headers["ratelimit-policy"]) == (200, '"blocks";q=5;w=3600'), path
            assert answer.headers["ratelimit"].startswith(f'"blocks";r={4 - place};t=')
        problem(await client.get("/v1/worlds/town/effects", headers=FAR), 429, "rate_limited", limit=5)
        for path in ("", "/effects/1", "/agents/a%2Fb/view"):
            answer = await client.get(f"/v1/worlds/town{path}", headers=FAR)
            assert (answer.status_code, answer.headers["ratelimit-policy"]) == (200, '"default";q=3;w=3600'), path
        problem(await client.post("/v1/worlds/town/effects", json=[], headers=FAR), 429, "rate_limited", limit=3)


def test_blocks_and_pages_may_be_free() -> None:
    """Without a rate for them they are not counted; without any rate nothing is."""
    scope = {"type": "http", "method": "GET", "client": ("203.0.113.7", 1), "path": "/v1/worlds/town/frames"}
    assert _limiter(rate_limit_blocks="off").counted(scope) is None
    assert _limiter().counted(scope) is not None
    assert _limiter(rate_limit_blocks="off").counted({**scope, "path": "/v1/worlds/town"}) is not None


async def test_sockets_are_counted_as_they_open(database_url: str) -> None:
    """A handshake is one request, whatever is said afterwards; the headers of its answer tell how it stands."""
    async with serving(database_url, rate_limit="2/hour") as served, httpx2.AsyncClient(base_url=served.url) as client:
        game = {"game_id": "g", "white": {"agent_id": "w"}, "black": {"agent_id": "b"}}
        assert (await client.post("/v1/games", json=game)).status_code == 201
        url = served.url.replace("http", "ws", 1) + "/v1/games/g/watch"
        how: dict[str, Any] = {"additional_headers": FAR, "proxy": None}
        async with connect(url, **how) as socket:
            assert socket.response is not None
            assert socket.response.headers["RateLimit"].startswith('"default";r=1;t=')
            for _ in range(5):
                await socket.send('{"type": "ping"}')
            with pytest.raises(InvalidStatus) as caught:
                await connect(url + "er", **how)
            assert caught.value.response.status_code == 404
            with pytest.raises(InvalidStatus) as caught:
                await connect(url, **how)
            assert caught.value.response.status_code == 429
            assert int(caught.value.response.headers["Retry-After"]) > 0
            assert b'"rate_limited"' in caught.value.response.body


async def test_who_is_believed(database_url: str) -> None:
    """Only the proxies that the settings name say for whom they ask; of what others say nothing is believed."""
    async with serving(database_url, rate_limit="1/hour", forwarded_allow_ips="10.0.0.0/8") as served:
        assert await _asked(served, FAR, FAR) == [200, 200]
    limited = {"rate_limit": "1/hour", "rate_limit_loopback": True}
    async with serving(database_url, forwarded_allow_ips="", **limited) as served:
        assert await _asked(served, FAR, {"X-Forwarded-For": "203.0.113.8"}) == [200, 429]
    async with serving(database_url, **limited) as served:
        through = {"X-Forwarded-For": "198.51.100.1, 203.0.113.7"}  # what the client itself said stands first
        assert await _asked(served, {}, {}, FAR, through, {"X-Forwarded-For": "203.0.113.9"}) == [
            200,
            429,
            200,
            429,
            200,
        ]
        assert await _asked(served, {"X-Forwarded-For": "x" * 9000}, {"X-Forwarded-For": "y"}) == [200, 429]


async def _asked(served: Served, *headers: dict[str, str]) -> list[int]:
    async with httpx2.AsyncClient(base_url=served.url) as client:
        return [(await client.get("/v1/worlds", headers=each)).status_code for each in headers]


async def test_the_client_waits_for_its_turn(database_url: str) -> None:
    """Where each call and each handshake is refused at first, the client makes it again when it was told to."""
    loop = asyncio.get_running_loop()
    times: list[float] = []

    async def every_second(*_: object) -> Standing:
        times.append(loop.time())
        refused = len(times) % 2 == 1
        return Standing([], RateLimitedError("not yet", retry_after_s=0.2) if refused else None)

    with mock.patch.object(Limiter, "count", every_second):
        async with serving(database_url, rate_limit_loopback=True) as served:
            async with Client(served.url, "town") as client:
                assert await client.create_world()
                handle = await client.register_agent("alice", ObservationPolicy())
                accepted = await handle.submit_intent({"kind": "Speak", "payload": {"text": "late, but here"}})
                assert accepted.global_seq == 3
            assert len(times) == 6, "a world, an agent and a socket: each asked for twice"
            assert all(again - first >= 0.2 for first, again in zip(times[::2], times[1::2], strict=True))
            async with Client(served.url, "town", patience=0.1) as hasty:
                with pytest.raises(RateLimitedError, match="not yet"):
                    await hasty.agents()


async def test_a_free_request_costs_nothing(database_url: str) -> None:
    """Whoever is not limited is not counted at all."""
    async with serving(database_url) as served:
        with mock.patch.object(Limiter, "count", side_effect=AssertionError):
            assert await _asked(served, {}, {}) == [200, 200]
