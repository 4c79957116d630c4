"""Models of services that speak Anthropic's protocol, well or badly: over a real socket."""

from __future__ import annotations

import asyncio
from typing import Any

import orjson
import pytest

from tests.client.helpers import soon
from tests.waiting import wait_for
from worldledger.aio import CancelToken
from worldledger.llm.model import Request, Tool, ToolCall, Usage
from worldledger.llm.streaming import Output, collect

from .provider import Answer, Call, Provider, answers

AnthropicModel = pytest.importorskip("worldledger.llm.anthropic", exc_type=ImportError).AnthropicModel

_REQUEST = Request(
    [{"role": "system", "content": "You are brief."}, {"role": "user", "content": "Well?"}],
    (Tool("Move", "Move to a position.", {"type": "object"}),),
    {"max_tokens": 9, "temperature": 0.5},
)


async def _event(call: Call, kind: str, **more: Any) -> None:
    await call.write(b"event: %b\ndata: %b\n\n" % (kind.encode(), orjson.dumps({"type": kind, **more})))


async def _begin(call: Call) -> None:
    await call.head()
    usage = {"input_tokens": 5, "cache_read_input_tokens": 2, "output_tokens": 1}
    said: dict[str, Any] = {"id": "m", "type": "message", "role": "assistant", "model": "m", "content": []}
    await _event(call, "message_start", message={**said, "stop_reason": None, "stop_sequence": None, "usage": usage})


async def _say(call: Call, *pieces: str) -> None:
    await _event(call, "content_block_start", index=0, content_block={"type": "text", "text": ""})
    await _event(call, "ping")
    for piece in pieces:
        await _event(call, "content_block_delta", index=0, delta={"type": "text_delta", "text": piece})
    await _event(call, "content_block_stop", index=0)


async def _end(call: Call, reason: str = "end_turn") -> None:
    delta = {"stop_reason": reason, "stop_sequence": None}
    await _event(call, "message_delta", delta=delta, usage={"output_tokens": 3})
    await _event(call, "message_stop")


async def _asked(provider: Provider, token: CancelToken | None = None, **settings: Any) -> Output:
    model, output = AnthropicModel("tiny", base_url=provider.url, **{"retries": 0, **settings}), Output()
    await soon(collect(model.stream(_REQUEST), token or CancelToken("r", "a"), output, most_pieces=100))
    await model.aclose()
    return output


async def _error(answer: Answer, **settings: Any) -> tuple[str, bool, str]:
    async with Provider(answer) as provider:
        output = await _asked(provider, **settings)
    assert output.error is not None
    return output.error.code, output.error.may_pass, output.text


async def test_an_answer_is_streamed() -> None:
    """Texts, calls of tools in pieces, tokens and why it ended arrive; the request is as the protocol has it."""

    async def answer(call: Call) -> None:
        await _begin(call)
        await _say(call, "Good", " day")
        block = {"type": "tool_use", "id": "t", "name": "Move", "input": {}}
        await _event(call, "content_block_start", index=1, content_block=block)
        for piece in ('{"to"', ": [1, 2]}"):
            await _event(
                call, "content_block_delta", index=1, delta={"type": "input_json_delta", "partial_json": piece}
            )
        await _end(call, "tool_use")

    async with Provider(answer) as provider:
        output = await _asked(provider)
    assert (output.text, output.finish, output.usage, output.error) == ("Good day", "tool_calls", Usage(7, 3), None)
    assert output.calls == {1: ToolCall("Move", '{"to": [1, 2]}', 1)}
    asked = provider.calls[0].asked
    assert (asked["model"], asked["system"], asked["max_tokens"]) == ("tiny", "You are brief.", 9)
    assert asked["temperature"] == 0.5
    assert asked["messages"] == [{"role": "user", "content": "Well?"}]
    tool = {"name": "Move", "description": "Move to a position.", "input_schema": {"type": "object"}}
    assert asked["tools"] == [tool]


@pytest.mark.parametrize(("reason", "finish"), [("end_turn", "stop"), ("max_tokens", "length"), ("refusal", "refusal")])
async def test_why_an_answer_ended(reason: str, finish: str) -> None:
    """The protocol's words are those of all models here."""

    async def answer(call: Call) -> None:
        await _begin(call)
        await _say(call, "Well")
        await _end(call, reason)

    async with Provider(answer) as provider:
        assert (await _asked(provider)).finish == finish


async def test_the_tokens_of_a_prompt_are_counted_at_the_beginning() -> None:
    """So they are known of an answer that was cut off; what came of it is counted by its pieces."""

    async def breaks(call: Call) -> None:
        await _begin(call)
        await _say(call, "Well", ", well")

    async with Provider(breaks) as provider:
        output = await _asked(provider)
    assert output.error is not None
    assert (output.error.code, output.usage, output.tokens_out) == ("cut", Usage(7), 2)


async def test_a_cancellation_closes_the_connection() -> None:
    """The service sees the connection end although it has sent no further token."""

    async def hangs(call: Call) -> None:
        await _begin(call)
        await _say(call, "Well")
        await call.until_gone()

    token = CancelToken("r", "a")
    async with Provider(hangs) as provider:
        asking = asyncio.create_task(_asked(provider, token))
        await wait_for(lambda: bool(provider.calls))
        token.cancel("user_requested")
        assert (await soon(asking)).interrupted
        await soon(provider.calls[0].until_gone())


@pytest.mark.parametrize(
    ("status", "code", "may_pass"),
    [("429 Too Many Requests", "http_429", True), ("529 Overloaded", "http_529", True), ("401 No", "http_401", False)],
)
async def test_a_service_that_refuses_is_told_by_its_status(status: str, code: str, may_pass: bool) -> None:
    """A refusal is an error, which says whether another try may go better."""
    assert await _error(answers(status)) == (code, may_pass, "")


async def test_a_service_that_breaks_off() -> None:
    """It says why in the stream, or ends without a reason, or falls silent, or sends what is no JSON."""

    async def overloaded(call: Call) -> None:
        await _begin(call)
        await _say(call, "Well")
        await _event(call, "error", error={"type": "overloaded_error", "message": "Overloaded"})

    async def ends(call: Call) -> None:
        await _begin(call)
        await _say(call, "Well")

    async def silent(call: Call) -> None:
        await _begin(call)
        await call.until_gone()

    async def garbage(call: Call) -> None:
        await _begin(call)
        await call.write(b"event: content_block_delta\ndata: {{\n\n")

    assert await _error(overloaded) == ("overloaded_error", True, "Well")
    assert await _error(ends) == ("cut", True, "Well")
    assert await _error(silent, silence_s=0.2) == ("timeout", True, "")
    assert await _error(garbage) == ("malformed", False, "")
