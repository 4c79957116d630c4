"""What the service's log says of requests that it cannot answer."""

from __future__ import annotations

import asyncio

import pytest
from structlog.testing import capture_logs
from worldledger_service.api import problems

from tests.waiting import wait_for
from worldledger.errors import StoreUnavailableError


async def test_what_goes_on_is_told_at_its_beginning_and_summed_up(monkeypatch: pytest.MonkeyPatch) -> None:
    """Of many requests that one trouble of the database refuses, one line is of the first, one says how many more."""
    monkeypatch.setattr(problems, "_SUM_UP_SECONDS", 0.05)
    with capture_logs() as said:
        for n in range(100):
            full = StoreUnavailableError(f"could not extend file {n}", sqlstate="53100")
            assert problems.problem_of(full, "/v1/worlds/w/effects")["status"] == 503
        problems.problem_of(StoreUnavailableError("it went away"), "/v1/worlds")
        assert [line["error"] for line in said] == ["could not extend file 0", "it went away"]
        again = await wait_for(lambda: [line for line in said if "times" in line], "it is summed up")
        assert [(line["event"], line["times"]) for line in again] == [("not available again", 99)]
        await wait_for(lambda: not problems._again[asyncio.get_running_loop()], "it is over")
        problems.problem_of(full, "/v1/worlds/w/effects")
        assert said[-1]["error"] == "could not extend file 99"
