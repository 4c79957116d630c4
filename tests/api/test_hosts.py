"""By which names the service may be called: a web page cannot lead a browser to it under the page's own name."""

from __future__ import annotations

import httpx2
import pytest
from worldledger_service.api.hosts import allowed_hosts
from worldledger_service.app import create_app

from .helpers import Served, draft, problem, settings

_OWN = {"localhost", "127.0.0.1", "[::1]"}


_TAKEN = ["localhost", "LOCALHOST:8000", "127.0.0.1", "127.0.0.1:1", "[::1]", "[::1]:8000", "testserver", ""]
_REFUSED = ["example.org", "example.org:8000", "localhost.example.org", "127.0.0.1.example.org"]
_REFUSED += ["[::1].example.org", "[::2]"]


async def test_its_own_names_are_taken(client: httpx2.AsyncClient, subtests: pytest.Subtests) -> None:
    """A service on loopback answers to the loopback names and those that are nobody's on the internet."""
    for host in _TAKEN:
        with subtests.test(host=host):
            assert (await client.get("/livez", headers={"Host": host})).status_code == 200


async def test_another_name_is_refused(client: httpx2.AsyncClient, world: str, subtests: pytest.Subtests) -> None:
    """A request under any other name reads and writes nothing, on whatever route."""
    for host in _REFUSED:
        with subtests.test(host=host):
            headers = {"Host": host}
            for path in ("/v1/worlds", "/livez", "/nowhere", "/openapi.json"):
                problem(await client.get(path, headers=headers), 421, "host_refused", recovery="abort")
            response = await client.post(f"/v1/worlds/{world}/effects", json=draft(), headers=headers)
            problem(response, 421, "host_refused")
            assert (await client.head("/livez", headers=headers)).content == b""
            assert (await client.get(f"/v1/worlds/{world}")).json()["head_seq"] == 1


async def test_further_names_can_be_allowed(database_url: str) -> None:
    """What the setting names is taken beside the loopback names, behind a proxy for instance."""
    made = create_app(settings(allowed_hosts="ledger.example.org"), database_url)
    async with (
        made.router.lifespan_context(made),
        httpx2.AsyncClient(
            transport=httpx2.ASGITransport(app=made), base_url="http://ledger.example.org:8000"
        ) as named,
    ):
        assert (await named.get("/livez")).status_code == 200
        assert (await named.get("/livez", headers={"Host": "127.0.0.1"})).status_code == 200
        problem(await named.get("/livez", headers={"Host": "example.org"}), 421, "host_refused", host="example.org")


async def test_the_name_in_a_target_counts(served: Served) -> None:
    """A request whose target is a whole URL is for the name there, whatever Host says beside it (RFC 9112, 3.2.2)."""
    for target, host, status in (
        ("http://evil.example/livez", "localhost", b"421"),
        ("http://evil.example:8000/livez", "localhost", b"421"),
        ("http://localhost@evil.example/livez", "localhost", b"421"),
        ("http://localhost:8000/livez", "evil.example", b"200"),
        ("HTTP://127.0.0.1/livez", "localhost", b"200"),
        ("/livez", "localhost", b"200"),
    ):
        reader, writer = await served.connect()
        writer.write(f"GET {target} HTTP/1.1\r\nHost: {host}\r\nConnection: close\r\n\r\n".encode())
        assert (await reader.read()).split()[1] == status, target
        writer.close()


async def test_a_request_without_a_name_is_taken(served: Served) -> None:
    """A request without Host, which no browser sends, is answered."""
    reader, writer = await served.connect()
    writer.write(b"GET /livez HTTP/1.0\r\n\r\n")
    assert (await reader.read()).startswith(b"HTTP/1.1 200 ")
    writer.close()


def test_the_names_follow_from_the_settings() -> None:
    """Names are compared on loopback, or where some are named; a star allows all."""
    for host, named, expected in (
        ("127.0.0.1", None, _OWN),
        ("localhost", "", _OWN),
        ("::1", None, _OWN),
        ("127.0.0.2", None, {*_OWN, "127.0.0.2"}),
        ("127.0.0.1", " Ledger.example.org , ::2,b:8000", {*_OWN, "ledger.example.org", "[::2]", "b"}),
        ("127.0.0.1", "*", set()),
        ("0.0.0.0", None, set()),
        ("", None, set()),
        ("ledger.example.org", None, set()),
        ("0.0.0.0", "ledger.example.org", {*_OWN, "ledger.example.org"}),
    ):
        assert allowed_hosts(settings(host=host, allowed_hosts=named)) == expected, (host, named)
