"""Homes for servers that these tests may kill, and services that none of them kills."""

from __future__ import annotations

import asyncio
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from worldledger_service.database import embedded, schema

from tests.embedded.helpers import copied, new_folder

from .living import Service, Two


@pytest.fixture(scope="session")
def migrated() -> Iterator[Path]:
    """Return a home whose server does not run, and whose database has our schema; tests use copies of it."""
    folder = new_folder()
    with embedded.attach(folder / "home", linger=0) as server:
        asyncio.run(schema.upgrade(server.url()))
    embedded.stop(folder / "home")
    yield folder / "home"
    shutil.rmtree(folder)


@pytest.fixture
def home(migrated: Path) -> Iterator[Path]:
    """Return a home for an embedded server that only this test uses, where any user can reach it."""
    folder = new_folder()
    yield copied(migrated, folder / "home")
    embedded.stop(folder / "home")
    embedded.remove(folder / "home")
    shutil.rmtree(folder)


@pytest.fixture
def url(home: Path) -> Iterator[str]:
    """Return the address of a server of this test's own."""
    with embedded.attach(home) as server:
        yield server.url()


@pytest.fixture(scope="session")
def two(servers: Any, server_kind: str, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Two]:
    """Serve a database twice, for all tests that need two services and kill neither; each has worlds of its own."""
    url = servers.create(server_kind, servers.template(server_kind))
    folder = tmp_path_factory.mktemp("two")
    services = [Service(url, folder / f"{name}.log", {}) for name in ("one", "two")]
    for service in services:
        service.launch()
    try:
        for service in services:
            service.wait_until_it_serves()
        yield Two(url, *services)
    finally:
        for service in services:
            service.end()
    servers.drop(server_kind, url)
    assert "Traceback" not in (said := "".join(service.said() for service in services)), said
