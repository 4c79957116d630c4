"""Models of services that speak OpenAI's protocol, well or badly: over a real socket."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any

import pytest

from tests.client.helpers import soon
from tests.waiting import wait_for
from worldledger.aio import CancelToken
from worldledger.llm.model import Request, Tool, ToolCall, Usage
from worldledger.llm.openai import OpenAIModel
from worldledger.llm.streaming import Output, collect

from .provider import Answer, Call, Provider, answers, begins, calls, says

_REQUEST = Request([{"role": "user", "content": "Well?"}], parameters={"temperature": 0.5, "top_k": 40})


async def _asked(provider: Provider, *, token: CancelToken | None = None, most: int = 100, **settings: Any) -> Output:
    """Ask, and read the answer as an agent does."""
    model, output = OpenAIModel("tiny", base_url=provider.url, **{"retries": 0, **settings}), Output()
    await soon(collect(model.stream(_REQUEST), token or CancelToken("r", "a"), output, most_pieces=most))
    await model.aclose()
    return output


async def _error(answer: Answer, **settings: Any) -> tuple[str, bool, str]:
    """Return what became of a request: the error's code, whether it may pass, and what was said before."""
    async with Provider(answer) as provider:
        output = await _asked(provider, **settings)
    assert output.error is not None
    return output.error.code, output.error.may_pass, output.text


async def test_an_answer_is_streamed() -> None:
    """The text, why it ended and the service's count of tokens arrive; parameters go out, unknown ones too."""
    async with Provider(says("Good", " day")) as provider:
        output = await _asked(provider)
    assert (output.text, output.finish, output.usage, output.error) == ("Good day", "stop", Usage(7, 2), None)
    asked = provider.calls[0].asked
    assert (asked["model"], asked["temperature"], asked["top_k"], asked["stream"]) == ("tiny", 0.5, 40, True)
    assert "tools" not in asked


async def test_calls_of_tools_are_put_together() -> None:
    """A call's arguments come in pieces; the service is told the tools with their schemas."""
    tool = Tool("Move", "Move to a position.", {"type": "object"})
    async with Provider(calls("Move", '{"to"', ": [1, 2]}")) as provider:
        model, output = OpenAIModel("tiny", base_url=provider.url), Output()
        request = Request(_REQUEST.messages, (tool,))
        await soon(collect(model.stream(request), CancelToken("r", "a"), output, most_pieces=100))
        await model.aclose()
    assert output.calls == {0: ToolCall("Move", '{"to": [1, 2]}')}
    function = {"name": "Move", "description": "Move to a position.", "parameters": {"type": "object"}}
    assert provider.calls[0].asked["tools"] == [{"type": "function", "function": function}]


async def test_a_cancellation_closes_the_connection() -> None:
    """The service sees the connection end although it has sent no further token."""
    token = CancelToken("r", "a")
    async with Provider(begins("Well", ", then")) as provider:
        asking = asyncio.create_task(_asked(provider, token=token))
        await wait_for(lambda: bool(provider.calls))
        token.cancel("user_requested")
        output = await soon(asking)
        await soon(provider.calls[0].until_gone())
    assert output.interrupted
    assert output.error is None


async def test_a_cancellation_ends_a_request_that_is_not_answered() -> None:
    """A service that has not even begun to answer loses its connection, too."""

    async def hangs(call: Call) -> None:
        await call.until_gone()

    token = CancelToken("r", "a")
    async with Provider(hangs) as provider:
        asking = asyncio.create_task(_asked(provider, token=token))
        await wait_for(lambda: bool(provider.calls))
        token.cancel("user_requested")
        assert (await soon(asking)).interrupted
        await soon(provider.calls[0].until_gone())


async def test_an_endless_answer_is_closed() -> None:
    """A service that does not stop at the bound loses its connection."""

    async def endless(call: Call) -> None:
        await call.head()
        while not call.is_gone:
            await call.say("x")
            await asyncio.sleep(0)

    async with Provider(endless) as provider:
        output = await _asked(provider, most=20)
        await soon(provider.calls[0].until_gone())
    assert (output.text, output.finish) == ("x" * 20, "length")


async def test_a_refusal_is_told_as_one() -> None:
    """A model that refuses ends with that reason, whatever the service calls it."""

    async def refuses(call: Call) -> None:
        await call.head()
        await call.delta(refusal="I would rather not.")
        await call.end()

    async with Provider(refuses) as provider:
        output = await _asked(provider)
    assert (output.finish, output.text) == ("refusal", "I would rather not.")


async def test_a_service_that_is_busy_is_asked_again() -> None:
    """After a 429 the request is made again when the service says."""
    busy = answers("429 Too Many Requests", "Retry-After-Ms: 1")
    async with Provider(busy, says("Now")) as provider:
        output = await _asked(provider, retries=1)
    assert (output.text, len(provider.calls)) == ("Now", 2)


@pytest.mark.parametrize(
    ("status", "code", "may_pass"),
    [("429 Too Many Requests", "http_429", True), ("503 Away", "http_503", True), ("401 No", "http_401", False)],
)
async def test_a_service_that_refuses_is_told_by_its_status(status: str, code: str, may_pass: bool) -> None:
    """A refusal that stays is an error, which says whether another try may go better."""
    assert await _error(answers(status)) == (code, may_pass, "")


async def test_what_goes_wrong_says_what_to_do() -> None:
    """A wrong key, an unknown model, a garbled answer, silence and a service that does not run are told with advice."""

    async def garbled(call: Call) -> None:
        await call.head()
        await call.event(b"{{")

    async def silent(call: Call) -> None:
        await call.until_gone()

    advice = {"the key": answers("401 No"), "the model's name": answers("404 None"), "this protocol": garbled}
    for what, answer in {**advice, "a smaller model": silent}.items():
        async with Provider(answer) as provider:
            output = await _asked(provider, silence_s=0.2 if answer is silent else 60.0)
        assert output.error is not None
        assert what in output.error.message
    output = await _asked(provider)  # it has ended
    assert output.error is not None
    assert "look whether it runs" in output.error.message


async def test_an_answer_that_breaks_off_is_no_answer() -> None:
    """An end without a reason is an error, whether the body has ended or the connection; what was said is kept."""

    async def ends(call: Call) -> None:
        await call.head()
        await call.say("Well")

    async def breaks(call: Call) -> None:
        await call.head("200 OK", "Transfer-Encoding: chunked")
        body = b'data: {"choices": [{"index": 0, "delta": {"content": "Well"}}]}\n\n'
        await call.write(b"%x\r\n%b\r\n" % (len(body), body))

    assert await _error(ends) == ("cut", True, "Well")
    assert await _error(breaks) == ("cut", True, "Well")


@pytest.mark.parametrize("garbage", [b"{not json", b'{"choices": 7}', b'{"choices": [{"delta": {"content": 5}}]}'])
async def test_garbage_is_told_as_such(garbage: bytes) -> None:
    """A message that cannot be read is an error, not a crash."""

    async def rubbish(call: Call) -> None:
        await call.head()
        await call.say("Well")
        await call.event(garbage)
        await call.end()

    code, _, text = await _error(rubbish)
    assert (code, text) == ("malformed", "Well")


@pytest.mark.parametrize("kind", ["text/html; charset=utf-8", "application/json"])
async def test_an_answer_that_is_no_stream_is_told_as_such(kind: str) -> None:
    """Another service at the address may answer 200 as well; asking it again does not help."""

    async def page(call: Call) -> None:
        await call.write(f"HTTP/1.1 200 OK\r\nContent-Type: {kind}\r\nConnection: close\r\n\r\n".encode())
        await call.write(b'{"hello": "<html>"}')

    async with Provider(page) as provider:
        output = await _asked(provider)
    assert output.error is not None
    assert (output.error.code, output.error.may_pass) == ("malformed", False)
    assert f"{kind.partition(';')[0]}, which is no stream of this protocol; look at its address (--base-url)" in str(
        output.error
    )


async def test_an_error_in_the_stream_is_told() -> None:
    """A service may fail in the middle, and say so."""

    async def fails(call: Call) -> None:
        await call.head()
        await call.say("Well")
        await call.event({"error": {"message": "out of memory"}})

    code, _, text = await _error(fails)
    assert (code, text) == ("provider", "Well")


async def test_a_service_that_falls_silent_is_given_up() -> None:
    """Without a piece for so long, the answer has failed."""
    assert await _error(begins("Well"), silence_s=1.0) == ("timeout", True, "Well")


async def test_a_service_that_is_not_there_is_told() -> None:
    """Nothing listens at the address."""
    async with Provider(says("x")) as provider:
        url = provider.url
    model, output = OpenAIModel("tiny", base_url=url, retries=0), Output()
    await soon(collect(model.stream(_REQUEST), CancelToken("r", "a"), output, most_pieces=9))
    await model.aclose()
    assert output.error is not None
    assert (output.error.code, output.error.may_pass) == ("unreachable", True)


async def _counted(counting: dict[str, Callable[[dict[str, Any]], Any]]) -> tuple[int | None, list[str]]:
    """Return the tokens of a prompt as a service counts them when asked twice, and the routes that were asked."""
    asked: list[str] = []

    def noted(path: str) -> Callable[[dict[str, Any]], Any]:
        def answer(body: dict[str, Any]) -> Any:
            asked.append(path)
            return counting[path](body)

        return answer

    async with Provider(says("Well.")) as provider:
        provider.counting = {path: noted(path) for path in counting}
        model = OpenAIModel("tiny", base_url=provider.url)
        counts = {await soon(model.count_tokens(_REQUEST)) for _ in range(2)}
        await model.aclose()
    assert provider.calls == []
    (count,) = counts
    return count, asked


async def test_the_tokens_of_a_prompt_are_counted_by_the_services_tokenizer() -> None:
    """As vLLM does it, or llama.cpp, whichever answers. A service that cannot is asked once, and it stays unknown."""
    vllm = {"/tokenize": lambda body: {"count": 10 + len(body["messages"]), "tokens": []}}
    assert await _counted(vllm) == (10 + len(_REQUEST.messages), ["/tokenize"] * 2)
    llama = {
        "/tokenize": lambda body: {"tokens": list(body.get("content", ""))},
        "/apply-template": lambda body: {"prompt": "".join(each["role"][0] for each in body["messages"])},
    }
    route = ["/apply-template", "/tokenize"]
    assert await _counted(llama) == (len(_REQUEST.messages), ["/tokenize", *route, *route])
    assert await _counted({"/tokenize": lambda _: "no"}) == (None, ["/tokenize"] * 2)
    assert await _counted({"/tokenize": lambda _: {}}) == (None, ["/tokenize"])
    assert await _counted({}) == (None, [])
    assert await OpenAIModel("tiny", api_key="none").count_tokens(_REQUEST) is None
