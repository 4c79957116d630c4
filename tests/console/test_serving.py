"""The routes of the console: the page, its files and what they say to browsers."""

from __future__ import annotations

import gzip
import re
from collections.abc import AsyncIterator
from html import unescape
from pathlib import Path

import httpx2
import orjson
import pytest
from starlette.applications import Starlette
from worldledger_service import console

from worldledger.kinds import installed


@pytest.fixture
def built(tmp_path: Path) -> Path:
    """Return a folder as the build leaves it."""
    (tmp_path / "assets").mkdir()
    (tmp_path / "assets" / "main-ABC.js").write_text("console.log(1);\n" * 100)
    (tmp_path / "assets" / "icon-ABC.svg").write_text("<svg/>")
    (tmp_path / "index.html").write_text('<meta content="{{panels}}"><script src="/assets/main-ABC.js"></script>')
    return tmp_path


@pytest.fixture
async def client(built: Path) -> AsyncIterator[httpx2.AsyncClient]:
    """Talk to an application that has nothing but the console."""
    app = Starlette(routes=console.routes(built))
    async with httpx2.AsyncClient(transport=httpx2.ASGITransport(app=app), base_url="http://127.0.0.1") as made:
        yield made


async def test_the_page_lets_browsers_load_nothing_from_elsewhere(client: httpx2.AsyncClient) -> None:
    """Page and files carry a policy by which only this service is asked, and no other page may frame it."""
    for path in ("/", "/assets/main-ABC.js"):
        response = await client.get(path)
        assert response.status_code == 200
        policy = response.headers["content-security-policy"]
        assert policy.startswith("default-src 'self'; ")
        assert "frame-ancestors 'none'" in policy
        assert "unsafe" not in policy
        assert response.headers["x-content-type-options"] == "nosniff"


async def test_files_are_kept_for_ever_and_the_page_is_asked_for_again(client: httpx2.AsyncClient) -> None:
    """A file with a hash in its name is immutable; the page is revalidated, and 304 where the browser has it."""
    assert "immutable" in (await client.get("/assets/main-ABC.js")).headers["cache-control"]
    page = await client.get("/")
    assert page.headers["cache-control"] == "no-cache"
    again = await client.get("/", headers={"If-None-Match": page.headers["etag"]})
    assert (again.status_code, again.content) == (304, b"")


async def test_files_are_compressed_for_those_that_ask(client: httpx2.AsyncClient) -> None:
    """With `Accept-Encoding: gzip` a file comes compressed, without it as it is; a small one always does."""
    async with client.stream("GET", "/assets/main-ABC.js", headers={"Accept-Encoding": "gzip"}) as response:
        raw = b"".join([piece async for piece in response.aiter_raw()])
    assert response.headers["content-encoding"] == "gzip"
    plain = await client.get("/assets/main-ABC.js", headers={"Accept-Encoding": "identity"})
    assert "content-encoding" not in plain.headers
    assert gzip.decompress(raw) == plain.content
    assert "content-encoding" not in (await client.get("/assets/icon-ABC.svg")).headers


async def test_the_page_names_the_panels_of_the_installed_kinds(client: httpx2.AsyncClient) -> None:
    """Each kind with a panel is named with the address of its module, which is a script."""
    told = re.search(r'content="(.*?)"', (await client.get("/")).text)
    assert told is not None
    panels = orjson.loads(unescape(told[1]))
    assert panels.keys() == {name for name, kind in installed().items() if kind.panel is not None}
    for path in panels.values():
        response = await client.get(path)
        assert response.headers["content-type"].startswith("text/javascript")
        assert "export function panel(" in response.text


async def test_a_file_that_is_not_there_is_404(client: httpx2.AsyncClient) -> None:
    """No name leads out of the folder."""
    for name in ("main-XYZ.js", "..%2Findex.html", "%2e%2e/index.html"):
        assert (await client.get(f"/assets/{name}")).status_code == 404


async def test_without_a_build_the_page_says_what_to_do(tmp_path: Path) -> None:
    """Where nothing was built, `/` is a page that names the command."""
    app = Starlette(routes=console.routes(tmp_path / "nothing"))
    async with httpx2.AsyncClient(transport=httpx2.ASGITransport(app=app), base_url="http://127.0.0.1") as client:
        response = await client.get("/")
    assert response.status_code == 200
    assert "pip install -e ." in response.text
