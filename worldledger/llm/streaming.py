"""Reading a model's stream until it ends or its generation is cancelled, whichever comes first."""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import AsyncGenerator
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final

from worldledger.aio import CancelToken, until_done
from worldledger.llm.model import Chunk, End, ModelError, Text, ToolCall, Usage
from worldledger.llm.reports import plain

if TYPE_CHECKING:
    from worldledger.core_kinds import Outcome
    from worldledger.llm.model import Model, Request
    from worldledger.llm.prompts import Actions, Intended

#: Pieces beyond ``max_tokens`` after which an answer is cut off here: its service should have done so.
BEYOND: Final = 16
#: Seconds that a model may take to end a request.
_CLOSE_SECONDS: Final = 5.0
#: Seconds that counting the tokens of a prompt may take.
_COUNT_SECONDS: Final = 1.0
#: What a model says when it stops because it must not answer.
_REFUSALS: Final = frozenset({"content_filter", "refusal"})

log = logging.getLogger("worldledger.llm")


@dataclass
class Output:
    """What a model has made so far, and what it took; times in seconds."""

    text: str = ""
    #: by index: name and arguments
    calls: dict[int, ToolCall] = field(default_factory=dict)
    #: pieces with content, each about a token
    pieces: int = 0
    usage: Usage | None = None
    finish: str | None = None
    error: ModelError | None = None
    interrupted: bool = False
    first_token_s: float | None = None
    took_s: float | None = None

    @property
    def tokens_out(self) -> int:
        """The tokens that the model made: as its service has counted, or else the pieces that came."""
        return self.pieces if self.usage is None or self.usage.tokens_out is None else self.usage.tokens_out

    @property
    def used(self) -> int:
        """The tokens that count against a budget."""
        return self.tokens_out + (0 if self.usage is None else self.usage.tokens_in)

    def meaning(self, actions: Actions) -> tuple[Outcome, list[Intended]]:
        """Return what the answer comes to, and what the model wants to do: ``refused``, until that is accepted."""
        intended: list[Intended] = []
        if self.interrupted:
            return "interrupted", intended
        if self.error is not None:
            return "failed", intended
        if self.finish not in _REFUSALS:
            intended = actions.of(plain(self.text), self.calls.values())
        return "refused" if intended or self.finish in _REFUSALS else "silent", intended

    def take(self, chunk: Chunk) -> bool:
        """Add a piece; return whether it has content."""
        match chunk:
            case Text(text=text):
                self.text += text
                has_content = bool(text)
            case ToolCall(name=name, arguments=arguments, index=index):
                before = self.calls.get(index, ToolCall(index=index))
                self.calls[index] = ToolCall(before.name + name, before.arguments + arguments, index)
                has_content = bool(name or arguments)
            case Usage():
                self.usage = chunk
                has_content = False
            case End(reason=reason):
                self.finish = reason
                has_content = False
        self.pieces += has_content
        return has_content


async def collect(stream: AsyncGenerator[Chunk, None], token: CancelToken, output: Output, *, most_pieces: int) -> None:
    """Read a model's stream into ``output`` until it ends, its generation is cancelled, or it has been long enough.

    A cancellation does not wait for the next piece: the stream is closed at once, and no further piece is taken. The
    event loop has its turn after each piece, however fast they come. A stream of more than ``most_pieces`` is closed,
    as one that ended by ``length``. What goes wrong is in ``output.error``. The stream is closed in any case.
    """
    loop = asyncio.get_running_loop()
    began = time.monotonic()
    cancelled = loop.create_task(token.wait_cancelled())
    piece: asyncio.Task[Chunk | None] | None = None
    try:
        while True:
            piece = loop.create_task(_next(stream))
            await asyncio.wait({piece, cancelled}, return_when=asyncio.FIRST_COMPLETED)
            if token.cancelled:
                output.interrupted = True
                return
            chunk = piece.result()
            if chunk is None:
                return
            if output.take(chunk) and output.first_token_s is None:
                output.first_token_s = time.monotonic() - began
            if output.pieces >= most_pieces and output.finish is None:
                output.finish = "length"
                return
    except ModelError as error:
        output.error = error
    except Exception as error:  # a model of one's own may raise anything; the world goes on
        log.exception("the model failed")
        output.error = ModelError("model_failed", f"{type(error).__name__}: {error}")
    finally:
        output.took_s = time.monotonic() - began
        cancelled.cancel()
        await _close(stream, piece)


async def count_prompt(model: Model, request: Request, output: Output) -> None:
    """Have the model count the tokens of the prompt of an answer that was cut off before its service has counted.

    They stay unknown where the model cannot count, or not within a second.
    """
    count = getattr(model, "count_tokens", None)
    if count is None or output.usage is not None or not (output.interrupted or output.pieces):
        return
    try:
        async with asyncio.timeout(_COUNT_SECONDS):
            found = await count(request)
    except TimeoutError:
        return
    except Exception:  # a model of one's own may raise anything
        log.exception("the model could not count the tokens of a prompt")
        return
    if found is not None:
        output.usage = Usage(found)


async def _next(stream: AsyncGenerator[Chunk, None]) -> Chunk | None:
    return await anext(stream, None)


async def _close(stream: AsyncGenerator[Chunk, None], piece: asyncio.Task[Chunk | None] | None) -> None:
    """End the request of a stream, also while its next piece is waited for."""
    if piece is not None and not piece.done():
        piece.cancel()
        await until_done([piece], _CLOSE_SECONDS)
    closing = asyncio.get_running_loop().create_task(_closed(stream))
    await until_done([closing], _CLOSE_SECONDS)
    for task in (piece, closing):
        if task is None:
            continue
        if not task.done():
            log.warning("a model's stream does not end within %g s of being closed", _CLOSE_SECONDS)
            task.cancel()
        elif not task.cancelled() and (error := task.exception()) is not None and task is closing:
            log.warning("a model's stream failed as it was closed: %s", error)


async def _closed(stream: AsyncGenerator[Chunk, None]) -> None:
    await stream.aclose()
