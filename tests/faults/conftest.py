"""Homes for servers that these tests may kill."""

from __future__ import annotations

import shutil
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from service.database import embedded


@pytest.fixture
def home() -> Iterator[Path]:
    """Give a home for an embedded server that only this test uses, where any user can reach it."""
    folder = Path(tempfile.mkdtemp(prefix="worldledger-faults-"))
    folder.chmod(0o755)
    yield folder / "home"
    embedded.stop(folder / "home")
    embedded.remove(folder / "home")
    shutil.rmtree(folder)
