"""A supervisor that is killed beside a service: the service has it back by itself."""

from __future__ import annotations

import asyncio
import json
import os
import signal
import urllib.error
import urllib.request
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest
from worldledger_service.database import embedded
from worldledger_service.settings import Settings
from worldledger_service.store import Store

from tests.store.helpers import assert_sound
from tests.waiting import block_until

from .helpers import Service

pytestmark = pytest.mark.slow


def _post(port: int, path: str, body: Any) -> Any:
    request = urllib.request.Request(
        f"http://127.0.0.1:{port}{path}", json.dumps(body).encode(), {"Content-Type": "application/json"}
    )
    try:
        with urllib.request.urlopen(request, timeout=60) as answer:
            return json.load(answer)
    except urllib.error.HTTPError as error:
        if error.code != 503:
            raise
        return None


def _append(port: int, n: int) -> int:
    draft = {"kind": "Said", "payload": {"n": n}, "source_id": "a", "schema_version": "1.0.0", "req_id": str(n)}
    return int(block_until(lambda: _post(port, "/v1/worlds/w/effects", draft), "it is appended")["global_seq"])


async def _judge(url: str) -> list[Any]:
    async with Store.open(url, Settings(pool_size=2)) as store:
        return await assert_sound(store, "w")


def test_a_service_outlives_its_supervisor(home: Path, tmp_path: Path) -> None:
    """After kills of the supervisor a service is ready again by itself, and no acknowledged effect is lost."""
    with closing(Service(home)) as service:
        block_until(service.is_ready, "the service answers")
        _post(service.port, "/v1/worlds", {"world_id": "w"})
        acknowledged = [_append(service.port, 0)]
        for kill in range(1, 3):
            state = embedded.status(home)
            assert state is not None
            os.kill(state.supervisor_pid, signal.SIGKILL)
            acknowledged += [_append(service.port, 10 * kill + n) for n in range(5)]
            block_until(service.is_ready, "the service is ready again")
            now = embedded.status(home)
            assert now is not None
            assert now.supervisor_pid != state.supervisor_pid
        assert acknowledged == list(range(2, 13))
        with embedded.attach(home) as server:
            assert asyncio.run(_judge(server.url())) == [0, 10, 11, 12, 13, 14, 20, 21, 22, 23, 24]
        said = home.with_name("service.log").read_text()
        assert "Traceback" not in said, said
        assert "retry_scheduled" not in said
        assert said.count("the supervisor of the embedded PostgreSQL was killed") == 2
        assert said.count("the database is away") == said.count("the database is back")
        assert 1 <= said.count("the database is away") <= 4
