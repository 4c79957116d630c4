"""Which connection is used for what: agents' own, one for a generation alone, or HTTP."""

from __future__ import annotations

import asyncio
import math
from typing import Any

import pytest

from tests.waiting import wait_for
from worldledger.aio import QueueClosedError
from worldledger.client import Client, ServiceUnavailableError
from worldledger.errors import InvalidEffectError, InvalidIntentError, RequestConflictError
from worldledger.observation import ObservationPolicy

from .helpers import emitted, kinds, soon, speak


def _open(client: Client, agent_id: str) -> int:
    """Tell how many links an agent has."""
    return len(client._links._links.get(agent_id, []))


async def _absent(client: Client, agent_id: str) -> int:
    """Register an agent that has no connection here; return its view_seq."""
    handle = await client.register_agent(agent_id, ObservationPolicy())
    handle.close()
    assert _open(client, agent_id) == 0
    return handle.view_seq


async def test_without_a_connection_http_does(client: Client) -> None:
    """Intents, acknowledgements and the end of generations need no connection of the agent."""
    seq = await _absent(client, "alice")
    first = await client.submit_intent(speak("one", agent_id="alice", req_id="r1", context_seq=seq))
    again = await client.submit_intent(speak("one", agent_id="alice", req_id="r1", context_seq=seq))
    assert (again, again.replayed) == (first, True)
    client.acknowledge("alice", first.global_seq)
    client.acknowledge("alice", seq)  # it never goes back
    handle = await client.agent("alice")
    assert handle.view_seq == first.global_seq
    assert _open(client, "alice") == 1


async def test_a_generation_alone_has_a_connection_as_long_as_it_lives(client: Client) -> None:
    """A token without a handle opens a connection that ends with it; its context is where that begins."""
    seq = await _absent(client, "alice")
    token = client.issue_cancel_token("alice", "r1")
    assert _open(client, "alice") == 1
    await kinds(client, until="GenerationStarted")
    assert token.context_seq == seq
    receipt = await client.broadcast_event(emitted("news"))
    await soon(token.wait_cancelled())
    assert token.reason == f"stale_due_to_effect_{receipt.global_seq}"
    await wait_for(lambda: _open(client, "alice") == 0)
    assert client.generation("alice", "r1") is token
    with pytest.raises(RequestConflictError):
        client.issue_cancel_token("alice", "r2", receipt.global_seq)
        client.issue_cancel_token("alice", "r2", seq)
    assert await client.finish_generation("alice", "r2")
    await wait_for(lambda: _open(client, "alice") == 0)


async def test_a_closed_handle_leaves_its_generations(client: Client) -> None:
    """The connection of a closed handle stays for the generations that it began, and then goes."""
    handle = await client.register_agent("alice", ObservationPolicy())
    token = handle.issue_cancel_token("r1")
    handle.close()
    handle.close()
    assert _open(client, "alice") == 1
    await client.broadcast_event(emitted("news"))
    await soon(token.wait_cancelled())
    await wait_for(lambda: _open(client, "alice") == 0)


async def test_a_generation_of_another_client_is_cancelled_too(service: str, client: Client) -> None:
    """Generations are cancelled and finished from anywhere; each client knows its own."""
    handle = await client.register_agent("alice", ObservationPolicy())
    token, other = handle.issue_cancel_token("r1"), handle.issue_cancel_token("r2")
    while (await kinds(client, until="GenerationStarted")).count("GenerationStarted") < 2:
        await asyncio.sleep(0.01)
    async with Client(service, client.world_id) as elsewhere:
        assert elsewhere.generation("alice", "r1") is None
        await elsewhere.cancel_generation("alice", "r1")
        await soon(token.wait_cancelled())
        assert token.reason == "user_requested"
        assert not await elsewhere.finish_generation("alice", "r1")
        assert await elsewhere.finish_generation("alice", "r2")
    await client.broadcast_event(emitted("news"))
    await soon(handle.next_observation())
    assert not other.cancelled


async def test_an_intent_ends_its_generation_whatever_way_it_goes(client: Client) -> None:
    """In a list over HTTP, too, an accepted intent ends the generation of its req_id."""
    handle = await client.register_agent("alice", ObservationPolicy())
    token = handle.issue_cancel_token("r1")
    await kinds(client, until="GenerationStarted")
    intent = speak("hello", agent_id="alice", req_id="r1", context_seq=handle.view_seq)
    (accepted,) = await client.submit_intents([intent], atomic=True)
    assert not isinstance(accepted, Exception)
    assert not await client.finish_generation("alice", "r1")
    assert not token.cancelled


async def test_closing_ends_what_is_under_way(service: str, client: Client) -> None:
    """A closed client's tokens are cancelled, in the log too; its handles end, and its requests are told so."""
    other = Client(service, client.world_id)
    handle = await other.register_agent("alice", ObservationPolicy())
    observing = asyncio.create_task(handle.next_observation())
    token = other.issue_cancel_token("alice", "r1", handle.view_seq)
    await kinds(client, until="GenerationStarted")
    await other.close()
    assert token.reason == "client_closed"
    with pytest.raises(QueueClosedError):
        await soon(observing)
    await kinds(client, until="GenerationCancelled")
    with pytest.raises(ServiceUnavailableError, match="closed"):
        await handle.submit_intent(speak("too late"))
    with pytest.raises(ServiceUnavailableError, match="closed"):
        await other.subscribe("alice")


@pytest.mark.parametrize("value", [math.nan, math.inf, 2**60, -0.0, "\ud800", {1: 2}])
async def test_what_json_would_change_is_refused_here(client: Client, value: Any) -> None:
    """Nothing is taken for something else on the way: such values are refused as an orchestrator refuses them."""
    handle = await client.register_agent("alice", ObservationPolicy())
    with pytest.raises(InvalidIntentError):
        await handle.submit_intent({"kind": "Speak", "payload": {"text": "x", "more": value}})
    with pytest.raises(InvalidEffectError):
        await client.broadcast_event({**emitted("x"), "payload": {"more": value}})


async def test_agents_may_be_called_anything(client: Client) -> None:
    """Whatever characters an id has, its connection is found."""
    for agent_id in ("a/b", "ä b?c#d", "%2F", '"', "é" * 200):
        handle = await client.register_agent(agent_id, ObservationPolicy())
        token = handle.issue_cancel_token(f"{agent_id[:100]}/r")
        accepted = await handle.submit_intent(speak("hello"))
        assert (await soon(handle.next_observation()))["view_seq"] == accepted.global_seq
        await client.cancel_generation(agent_id, f"{agent_id[:100]}/r")
        assert token.cancelled
        handle.close()
