"""The outbox: the service's own effects, in order, each once, through refusals and outages."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from typing import Any, cast

import pytest
from structlog.testing import capture_logs
from worldledger_service.runtime.observing import Outbox
from worldledger_service.store.event_log import EventLog

from tests.aio.virtual import loop, virtual
from worldledger.effects import EffectDraft
from worldledger.errors import InvalidEffectError, OverloadedError, RequestConflictError, StoreUnavailableError

from .helpers import draft


class Log:
    """A log that refuses some drafts by what they say, and is away now and then."""

    world_id = "w"

    def __init__(self) -> None:
        self.written: list[int] = []
        self.calls: list[list[int]] = []
        self.refusals: dict[int, Exception] = {}
        #: at which calls (from 0) it is away
        self.away: set[int] = set()

    async def append_all(self, drafts: Sequence[EffectDraft], *, system: bool = False) -> list[Any]:
        """Write the drafts, or none."""
        assert system
        numbers = [int(each["payload"]["n"]) for each in drafts]
        self.calls.append(numbers)
        await asyncio.sleep(0.001)
        if len(self.calls) - 1 in self.away:
            raise StoreUnavailableError("away")
        for n in numbers:
            if n in self.refusals:
                raise self.refusals[n]
        self.written += numbers
        return []


def outbox(log: Log, *numbers: int) -> Outbox:
    """Make an outbox with some drafts in it."""
    made = Outbox(cast("EventLog", log))
    for n in numbers:
        made.put(draft("Told", {"n": n}))
    return made


@virtual
async def test_everything_is_written_in_order(monkeypatch: pytest.MonkeyPatch) -> None:
    """What comes while others are written follows them; no call has too many."""
    monkeypatch.setattr("worldledger_service.runtime.observing._MOST_AT_ONCE", 10)
    log = Log()
    box = outbox(log, *range(25))
    assert len(box) == 25
    await asyncio.sleep(0.0015)
    for n in range(25, 40):
        box.put(draft("Told", {"n": n}))
    await box.flush()
    assert log.written == list(range(40))
    assert max(map(len, log.calls)) == 10
    assert (len(box), log.calls[0]) == (0, list(range(10)))
    await box.flush()
    await box.close()


@virtual
async def test_one_refusal_costs_no_other(monkeypatch: pytest.MonkeyPatch) -> None:
    """A draft that is refused is let go, whatever the error; those around it are written, each once."""
    log = Log()
    log.refusals = {
        2: InvalidEffectError("no", "$"),
        4: RequestConflictError("known", req_id="r"),
        5: ZeroDivisionError(),
    }
    box = outbox(log, *range(8))
    with capture_logs() as said:
        await box.flush()
    assert log.written == [0, 1, 3, 6, 7]
    assert [line["log_level"] for line in said] == ["warning", "warning", "error"]


@virtual
async def test_an_outage_in_the_middle_writes_nothing_twice() -> None:
    """What was written before it is not written again after it, though its call was cut in pieces."""
    log = Log()
    log.refusals = {1: InvalidEffectError("no", "$")}
    log.away = {3, 4, 7}
    box = outbox(log, *range(6))
    with capture_logs():
        await box.flush()
    assert log.written == [0, 2, 3, 4, 5]
    assert loop().time() > 1.0


@virtual
async def test_an_overload_is_waited_out() -> None:
    """Effects of the service's own give way, and come later."""
    log = Log()
    log.refusals = {0: OverloadedError("full", waiting=1)}
    box = outbox(log, 0)
    loop().call_later(3.0, log.refusals.clear)
    await box.flush()
    assert log.written == [0]


@virtual
async def test_what_waits_is_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    """When the database is away for too long, the oldest go, and the service's log says so."""
    monkeypatch.setattr("worldledger_service.runtime.observing._MOST", 3)
    log = Log()
    log.away = {0}
    box = outbox(log, 0)
    await asyncio.sleep(0.1)
    with capture_logs() as said:
        for n in range(1, 6):
            box.put(draft("Told", {"n": n}))
        await box.flush()
    assert log.written == [0, 3, 4, 5]
    assert len([line for line in said if line["log_level"] == "warning"]) == 2


@virtual
async def test_closing_writes_what_waits_or_gives_it_up() -> None:
    """It takes no longer than its patience, and takes nothing from then on."""
    log = Log()
    box = outbox(log, 0, 1)
    await box.close()
    assert log.written == [0, 1]
    box.put(draft("Told", {"n": 2}))
    assert len(box) == 0

    log = Log()
    log.away = set(range(100))
    box = outbox(log, 0)
    await asyncio.sleep(0.1)
    await box.close()
    assert log.written == []
    assert loop().time() < 2.0

    class Hanging(Log):
        async def append_all(self, drafts: Sequence[EffectDraft], *, system: bool = False) -> list[Any]:
            await asyncio.sleep(1000.0)
            return []

    began = loop().time()
    box = outbox(Hanging(), 0)
    await box.close(patience=7.0)
    assert loop().time() - began == pytest.approx(7.0)
    assert asyncio.all_tasks() == {asyncio.current_task()}
