"""Claude, by Anthropic's protocol of messages; the extra ``anthropic``."""

from __future__ import annotations

import os
from collections.abc import AsyncGenerator, Iterator, Mapping
from typing import Any, Final

import anthropic

from worldledger.llm.model import Chunk, End, ModelError, Request, Text, ToolCall, Usage
from worldledger.llm.persona import DEFAULT_MAX_TOKENS
from worldledger.llm.services import Errors, mapped, text_of, without_end

_ERRORS: Final = Errors(
    anthropic.APIStatusError, anthropic.APITimeoutError, anthropic.APIConnectionError, anthropic.AnthropicError
)
#: The protocol's reasons of an end as those of `End`; others stay as they are.
_REASONS: Final[Mapping[str, str]] = {
    "end_turn": "stop",
    "stop_sequence": "stop",
    "max_tokens": "length",
    "tool_use": "tool_calls",
}
#: Errors within a stream by which the service says that another try may go better.
_PASSING: Final = frozenset({"overloaded_error", "api_error", "rate_limit_error", "timeout_error"})


class AnthropicModel:
    """A model by its name, at Anthropic or another service with this protocol.

    ``base_url`` is the service's address, by default Anthropic's own (or ``ANTHROPIC_BASE_URL``), ``api_key`` by
    default ``ANTHROPIC_API_KEY``. ``retries`` and ``silence_s`` are those of `worldledger.llm.openai.OpenAIModel`.
    """

    def __init__(
        self,
        name: str,
        *,
        base_url: str | None = None,
        api_key: str | None = None,
        retries: int = 2,
        silence_s: float = 60.0,
    ) -> None:
        self.name = name
        key = api_key or os.environ.get("ANTHROPIC_API_KEY") or (None if base_url is None else "none")
        if key is None:
            raise ModelError("no_key", "the key of the service is missing: set ANTHROPIC_API_KEY")
        self._client = anthropic.AsyncAnthropic(base_url=base_url, api_key=key, max_retries=retries, timeout=silence_s)

    async def stream(self, request: Request) -> AsyncGenerator[Chunk, None]:
        """Answer a request; closing the generator closes the connection."""
        rest = dict(request.parameters)
        system = "\n\n".join(each["content"] for each in request.messages if each["role"] == "system")
        tools = [
            {"name": tool.name, "description": tool.description, "input_schema": dict(tool.schema)}
            for tool in request.tools
        ]
        asked: dict[str, Any] = {
            "model": self.name,
            "max_tokens": rest.pop("max_tokens", DEFAULT_MAX_TOKENS),
            "messages": [dict(each) for each in request.messages if each["role"] != "system"],
            "stream": True,
            **({"system": system} if system else {}),
            **({"tools": tools} if tools else {}),
        }
        read, begun = _Answer(), False
        with mapped(_ERRORS, self.name, "unreachable", "the service cannot be reached"):
            answer = await self._client.messages.create(**asked, extra_body=rest or None)
        with mapped(_ERRORS, self.name, "cut", "the answer was cut off"):
            try:
                async for event in answer:
                    begun = True
                    for piece in read.pieces(event):
                        yield piece
            except anthropic.APIStatusError as error:
                raise _told_within(self.name, error) from error
            finally:
                await answer.close()
        if not read.has_ended:
            raise without_end(self.name, answer.response, begun=begun)

    async def aclose(self) -> None:
        """Close all connections."""
        await self._client.close()


class _Answer:
    """Reads the events of one answer. The library does not check their shape."""

    def __init__(self) -> None:
        self.has_ended = False
        self._tokens_in = 0

    def pieces(self, event: Any) -> Iterator[Chunk]:
        """Return what an event holds."""
        match event.type:
            case "message_start":
                self._tokens_in = _tokens_in(event.message.usage)
                yield Usage(self._tokens_in)
            case "content_block_start" if event.content_block.type == "tool_use":
                yield ToolCall(text_of(event.content_block.name), "", int(event.index))
            case "content_block_delta" if event.delta.type == "text_delta":
                yield Text(text_of(event.delta.text))
            case "content_block_delta" if event.delta.type == "input_json_delta":
                yield ToolCall("", text_of(event.delta.partial_json), int(event.index))
            case "message_delta":
                reason = event.delta.stop_reason
                if reason:
                    self.has_ended = True
                    yield Usage(self._tokens_in, int(event.usage.output_tokens))
                    yield End(_REASONS.get(text_of(reason), reason))


def _tokens_in(usage: Any) -> int:
    """Return the tokens of a prompt, also those that the service has kept from another one."""
    kept = (getattr(usage, f"cache_{what}_input_tokens", None) or 0 for what in ("creation", "read"))
    return int(usage.input_tokens) + sum(map(int, kept))


def _told_within(name: str, error: anthropic.APIStatusError) -> ModelError:
    """Return an error that the service has told of within its answer, by its own name."""
    told = error.body.get("error") if isinstance(error.body, dict) else None
    what = told if isinstance(told, dict) else {}
    code = str(what.get("type", "provider"))
    said = f"{name}: the service broke off: {what.get('message', error.message)}"
    return ModelError(code, said, may_pass=code in _PASSING)
