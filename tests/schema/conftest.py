"""These tests run on the newest and on the oldest PostgreSQL that is supported."""

from __future__ import annotations

import pytest


@pytest.fixture(scope="session", params=["embedded", "system"])
def server_kind(request: pytest.FixtureRequest) -> str:
    """Name the server that a test runs on."""
    return str(request.param)
