"""Reading a model's stream: it ends when its generation is cancelled, not when its next piece comes."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator
from typing import Any, cast

from tests.cases import cases
from tests.client.helpers import soon
from worldledger.aio import CancelToken
from worldledger.llm.model import Chunk, End, ModelError, Request, Text, ToolCall, Usage
from worldledger.llm.persona import Prices
from worldledger.llm.reports import cost_of, known
from worldledger.llm.streaming import Output, collect, count_prompt


class Stream:
    """Pieces of a model of our own, and what becomes of its request."""

    def __init__(self, *pieces: Chunk, then: BaseException | None = None, hangs: bool = False) -> None:
        self._pieces = pieces
        self._then = then
        self._hangs = hangs
        self.waits = asyncio.Event()
        self.closed = False

    async def pieces(self) -> AsyncGenerator[Chunk, None]:
        """Give the pieces, then wait for ever or fail."""
        try:
            for piece in self._pieces:
                yield piece
            if self._hangs:
                self.waits.set()
                await asyncio.Event().wait()
            if self._then is not None:
                raise self._then
        finally:
            self.closed = True


async def _collected(stream: Stream, token: CancelToken | None = None, most: int = 100) -> Output:
    output = Output()
    await soon(collect(stream.pieces(), token or CancelToken("r", "a"), output, most_pieces=most))
    return output


async def test_pieces_are_joined() -> None:
    """Text is joined, the pieces of each call are, and the service's own count of tokens goes before that of pieces."""
    stream = Stream(Text("Good "), ToolCall("Move", '{"to":'), Text("day"), ToolCall("", " [1]}"), End("stop"))
    output = await _collected(stream)
    assert (output.text, output.finish, output.tokens_out) == ("Good day", "stop", 4)
    assert output.calls == {0: ToolCall("Move", '{"to": [1]}')}
    assert (output.interrupted, output.error, stream.closed) == (False, None, True)
    assert output.first_token_s is not None
    assert output.took_s is not None
    counted = await _collected(Stream(Text("a"), Usage(5, 9), End("stop")))
    assert (counted.usage, counted.tokens_out) == (Usage(5, 9), 9)


async def test_a_cancelled_generation_does_not_wait_for_the_next_piece() -> None:
    """A token that is cancelled while the model is silent ends the request at once; what was said is kept."""
    stream, token, output = Stream(Text("Well"), hangs=True), CancelToken("r", "a"), Output()
    reading = asyncio.create_task(collect(stream.pieces(), token, output, most_pieces=100))
    await soon(stream.waits.wait())
    token.cancel("stale_due_to_effect_9")
    await soon(reading)
    assert (output.text, output.interrupted, output.tokens_out) == ("Well", True, 1)
    assert stream.closed


async def test_no_piece_is_taken_after_the_cancellation() -> None:
    """A piece that has come at the moment of the cancellation is not used."""
    token = CancelToken("r", "a")

    async def pieces() -> AsyncGenerator[Chunk, None]:
        yield Text("one")
        token.cancel("user_requested")
        yield Text("two")

    output = Output()
    await soon(collect(pieces(), token, output, most_pieces=100))
    assert (output.text, output.interrupted) == ("one", True)


async def test_a_quick_model_lets_others_have_their_turn() -> None:
    """Between two pieces that are there at once the event loop turns, so that a cancellation can come."""
    turns = 0

    async def turn() -> None:
        nonlocal turns
        while True:
            turns += 1
            await asyncio.sleep(0)

    turning = asyncio.create_task(turn())
    await _collected(Stream(*[Text("x")] * 50))
    turning.cancel()
    assert turns >= 50


async def test_an_endless_answer_is_cut_off() -> None:
    """A model that does not keep to its bound is closed, as one that ended by its length."""
    stream = Stream(*[Text("x")] * 50, hangs=True)
    output = await _collected(stream, most=20)
    assert (output.text, output.finish, stream.closed) == ("x" * 20, "length", True)


@cases(
    "error, code",
    [
        (ModelError("http_500", "down"), "http_500"),
        (KeyError("choices"), "model_failed"),
    ],
)
async def test_what_a_model_raises_is_its_result(error: Exception, code: str) -> None:
    """What fails is told with its code, beside what was said before."""
    output = await _collected(Stream(Text("Well"), then=error))
    assert output.error is not None
    assert (output.error.code, output.text) == (code, "Well")


async def test_a_reader_that_is_told_to_stop_closes_the_stream() -> None:
    """Where the program ends the request ends, too."""
    stream, output = Stream(Text("Well"), hangs=True), Output()
    reading = asyncio.create_task(collect(stream.pieces(), CancelToken("r", "a"), output, most_pieces=100))
    await soon(stream.waits.wait())
    reading.cancel()
    (ended,) = await asyncio.gather(reading, return_exceptions=True)
    assert isinstance(ended, asyncio.CancelledError)
    assert (stream.closed, output.text) == (True, "Well")


async def test_a_model_that_cannot_be_closed_is_left(caplog: Any) -> None:
    """A stream that fails as it is closed is told in the program's log, and stops nothing."""

    async def pieces() -> AsyncGenerator[Chunk, None]:
        try:
            yield Text("Well")
            yield End("stop")
            await asyncio.Event().wait()
        finally:
            raise RuntimeError("no")

    output = Output()
    await soon(collect(pieces(), CancelToken("r", "a"), output, most_pieces=1))
    assert output.text == "Well"
    assert "failed as it was closed: no" in caplog.text


class _Counting:
    """A model that counts by itself."""

    name = "counting"

    def __init__(self, found: Any) -> None:
        self._found = found

    def stream(self, request: Request) -> AsyncGenerator[Chunk, None]:
        """Answer nothing."""
        raise NotImplementedError

    async def count_tokens(self, request: Request) -> int | None:
        """Return what was given, or raise it."""
        if isinstance(self._found, Exception):
            raise self._found
        return cast("int | None", self._found)


async def test_the_prompt_of_an_answer_that_was_cut_off_is_counted() -> None:
    """If its service has not done so; the tokens of the answer stay its pieces. Unknown is None, and not 0."""
    cut = Output("Well", pieces=1, interrupted=True)
    await count_prompt(_Counting(9), Request([]), cut)
    assert (cut.usage, cut.tokens_out, cut.used) == (Usage(9), 1, 10)
    prices = Prices(tokens_in=1e6, tokens_out=1e6)
    told = {"tokens_in": 9, "tokens_out": 1, "counted": "chunks", "price": 10.0, "currency": "USD"}
    assert cost_of(cut, prices) == told
    for found in (None, OSError("away")):
        cut = Output("Well", pieces=1, interrupted=True)
        await count_prompt(_Counting(found), Request([]), cut)
        assert known(cost_of(cut, prices)) == {"tokens_out": 1, "counted": "chunks"}
    assert cost_of(cut, Prices(tokens_out=1e6))["price"] == 1.0
    whole = Output("Well", usage=Usage(5, 1), interrupted=True)
    await count_prompt(_Counting(9), Request([]), whole)
    assert whole.usage == Usage(5, 1)
    never = Output(error=ModelError("unreachable", "away"))
    await count_prompt(_Counting(9), Request([]), never)
    assert never.usage is None
