"""Homes for servers that these tests may kill."""

from __future__ import annotations

import asyncio
import shutil
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from service.database import embedded, schema


@pytest.fixture
def home() -> Iterator[Path]:
    """Give a home for an embedded server that only this test uses, where any user can reach it."""
    folder = Path(tempfile.mkdtemp(prefix="worldledger-faults-"))
    folder.chmod(0o755)
    yield folder / "home"
    embedded.stop(folder / "home")
    embedded.remove(folder / "home")
    shutil.rmtree(folder)


@pytest.fixture
def url(home: Path) -> Iterator[str]:
    """Give the address of a server of this test's own."""
    with embedded.attach(home) as server:
        asyncio.run(schema.upgrade(server.url()))
        yield server.url()
