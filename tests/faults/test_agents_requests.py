"""Requests that come more than once, in another order and by several ways: each is one effect, and answered alike."""

from __future__ import annotations

import asyncio
from pathlib import Path
from random import Random
from typing import Any, Final

import pytest

from worldledger.client import Client
from worldledger.config import OrchestratorConfig
from worldledger.intents import Accepted

from .living import ALL, PATIENT, Service, Two, Wire, intent, judged, living, serving, wired

pytestmark = pytest.mark.slow

_REQUESTS: Final = 18
_COPIES: Final = 4


def _wanted(n: int) -> dict[str, Any]:
    if n % 3:
        return intent("ada", f"r{n}", "Speak", text=f"this is {n}")
    return intent("ada", f"r{n}", "Move", to=[n, 0, 0])


def _shuffled(seed: int) -> list[int]:
    """Return every request several times, in an order of its own."""
    numbers = [n for n in range(_REQUESTS) for _ in range(_COPIES)]
    Random(seed).shuffle(numbers)
    return numbers


async def _send(wire: Wire, numbers: list[int]) -> list[dict[str, Any]]:
    """Send requests without waiting for anything; return the answers, one for each message."""

    async def send() -> None:
        for at, n in enumerate(numbers):
            await wire.send("intent", id=f"{at}", intent=_wanted(n) | {"context_seq": at % 3})

    sending = asyncio.ensure_future(send())
    answers = await wire.answers(len(numbers))
    await sending
    assert sorted(each["id"] for each in answers) == sorted(f"{at}" for at in range(len(numbers)))
    for each in answers:
        assert each["type"] == "accepted", each
        assert each["req_id"] == f"r{numbers[int(each['id'])]}"
    return answers


async def _send_all(service: Service, world: Client, seq: int) -> list[dict[str, Any]]:
    """Send everything over two sockets and over HTTP at once."""
    async with wired(service, "ada", seq) as one, wired(service, "ada", seq) as two:
        over_http = [_wanted(n) for n in _shuffled(3)]
        first, second, third = await asyncio.gather(
            _send(one, _shuffled(1)), _send(two, _shuffled(2)), world.submit_intents(over_http)
        )
    told = [
        {"req_id": each.req_id, "global_seq": each.global_seq, "uuid": str(each), "replayed": each.replayed}
        for each in third
        if isinstance(each, Accepted)
    ]
    assert len(told) == len(over_http)
    return [*first, *second, *told]


async def test_duplicates_in_any_order(database_url: str, tmp_path: Path) -> None:
    """Copies of requests over two sockets and HTTP, shuffled, are one effect each; so they are after a kill."""
    async with serving(database_url, tmp_path) as service, living(service) as world:
        await world.create_world(orchestrator=OrchestratorConfig(staleness_threshold=PATIENT))
        handle = await world.register_agent("ada", ALL)
        seq = handle.view_seq
        handle.close()
        answers = await _send_all(service, world, seq)
        first = {each["req_id"]: (each["global_seq"], each["uuid"]) for each in answers}
        assert len(first) == _REQUESTS
        assert all((each["global_seq"], each["uuid"]) == first[each["req_id"]] for each in answers)
        assert sorted(each["req_id"] for each in answers if not each["replayed"]) == sorted(first)
        await service.kill()
        await service.start()
        answers = await _send_all(service, world, seq)
        assert all(each["replayed"] for each in answers)
        assert all((each["global_seq"], each["uuid"]) == first[each["req_id"]] for each in answers)
    effects = await judged(database_url, "town", [])
    assert {effect["req_id"]: (effect["global_seq"], effect["uuid"]) for effect in effects[2:]} == first


@pytest.mark.group("two services")
async def test_another_body_in_between(two: Two) -> None:
    """Of bodies that share a req_id the first to come is the request, and every copy of another is told so."""
    async with living(two.one, "bodies") as world:
        await world.create_world(orchestrator=OrchestratorConfig(staleness_threshold=PATIENT))
        handle = await world.register_agent("ada", ALL)
        handle.close()
        seq = handle.view_seq
        async with wired(two.one, "ada", seq, "bodies") as first, wired(two.one, "ada", seq, "bodies") as second:
            count = 100
            for n in range(count):
                for wire, text in ((first, "one"), (second, "two")) if n % 2 else ((second, "two"), (first, "one")):
                    await wire.send("intent", id=n, intent=intent("ada", f"r{n}", "Speak", text=text))
                    if n % 5 == 0:  # and once more at once
                        await wire.send("intent", id=n, intent=intent("ada", f"r{n}", "Speak", text=text))
            answers = await asyncio.gather(*(wire.answers(count + count // 5) for wire in (first, second)))
    effects = await judged(two.url, "bodies", [])
    texts = {effect["req_id"]: effect["payload"]["text"] for effect in effects[2:]}
    assert set(texts) == {f"r{n}" for n in range(count)}
    for text, told in zip(("one", "two"), answers, strict=True):
        for each in told:
            assert (each["type"] == "accepted") == (texts[f"r{each['id']}"] == text)
            assert each["type"] == "accepted" or each["problem"]["code"] == "request_conflict"
