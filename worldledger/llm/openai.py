"""Models of any service that speaks OpenAI's protocol of chat completions: llama.cpp, vLLM, Ollama, OpenAI itself.

It needs the extra ``llm``. Why this library and no other: docs/explanation.md, "Which library speaks to models".
"""

from __future__ import annotations

from collections.abc import AsyncGenerator, Iterator
from typing import TYPE_CHECKING, Any, Final, cast

import openai

from worldledger.llm.model import Chunk, End, ModelError, Request, Text, ToolCall, Usage
from worldledger.llm.services import Errors, mapped, text_of, without_end

if TYPE_CHECKING:
    from openai.types.chat import ChatCompletionChunk

_ERRORS: Final = Errors(openai.APIStatusError, openai.APITimeoutError, openai.APIConnectionError, openai.OpenAIError)


#: Statuses of a route that a service does not have.
_NOT_THERE: Final = frozenset({404, 405, 501})
#: Where the protocol's owner serves: there is no route that counts.
_OWN_HOST: Final = "api.openai.com"


class OpenAIModel:
    """A model by its name at a service.

    ``base_url`` is the service's address, by default OpenAI's own (or ``OPENAI_BASE_URL``), ``api_key`` by default
    ``OPENAI_API_KEY``. A request that the service does not take is made again, up to ``retries`` times with growing
    pauses, or when the service says; ``silence_s`` are the most seconds between two pieces of an answer.
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
        if api_key is None and base_url is not None:
            api_key = _key_or("none")  # a service of one's own seldom asks for a key, and the library always does
        try:
            self._client = openai.AsyncOpenAI(
                base_url=base_url, api_key=api_key, max_retries=retries, timeout=silence_s
            )
        except openai.OpenAIError:
            what = "the key of the service is missing: set OPENAI_API_KEY, or name the address of one that needs none"
            raise ModelError("no_key", what) from None
        #: what counts the tokens of prompts; "": that is not known yet
        self._tokenizer = "none" if self._client.base_url.host == _OWN_HOST else ""

    async def stream(self, request: Request) -> AsyncGenerator[Chunk, None]:
        """Answer a request; closing the generator closes the connection."""
        tools = _tools(request)
        asked: dict[str, Any] = {
            "model": self.name,
            "messages": list(map(dict, request.messages)),
            "stream": True,
            "stream_options": {"include_usage": True},
            **({"tools": tools} if tools else {}),
        }
        known, others = _parted(request.parameters)
        begun = ended = refused = False
        with mapped(_ERRORS, self.name, "unreachable", "the service cannot be reached"):
            answer = cast(
                "openai.AsyncStream[ChatCompletionChunk]",
                await self._client.chat.completions.create(**asked, **known, extra_body=others or None),
            )
        with mapped(_ERRORS, self.name, "cut", "the answer was cut off"):
            try:
                async for chunk in answer:
                    begun = True
                    for piece in _pieces(chunk):
                        refused = refused or isinstance(piece, _Refusal)
                        if isinstance(piece, End):
                            ended = True
                            yield End("refusal") if refused else piece
                        else:
                            yield piece
            finally:
                await answer.close()
        if not ended:
            raise without_end(self.name, answer.response, begun=begun)

    async def count_tokens(self, request: Request) -> int | None:
        """Return how many tokens a prompt has, by the service's tokenizer; None if it has none that is known.

        vLLM counts messages at ``/tokenize``; llama.cpp makes a text of them at ``/apply-template`` first.
        """
        if self._tokenizer == "none":
            return None
        asked: dict[str, Any] = {"model": self.name, "messages": list(map(dict, request.messages))}
        if request.tools:
            asked["tools"] = _tools(request)
        try:
            if self._tokenizer != "llama.cpp":
                found = await self._ask("tokenize", asked)
                if type(count := found.get("count")) is int:
                    self._tokenizer = "vLLM"
                    return count
            self._tokenizer = "llama.cpp"
            text = await self._ask("apply-template", asked)
            tokens = await self._ask("tokenize", {"content": text["prompt"], "add_special": True})
            return len(tokens["tokens"])
        except openai.APIStatusError as error:
            if error.status_code in _NOT_THERE:
                self._tokenizer = "none"
        except (openai.OpenAIError, AttributeError, KeyError, TypeError, ValueError):
            pass
        return None

    async def _ask(self, path: str, body: dict[str, Any]) -> Any:
        """Return what a route of the service beside those of the protocol answers."""
        address = self._client.base_url.join(f"../{path}")
        return await self._client.with_options(max_retries=0).post(str(address), cast_to=object, body=body)

    async def aclose(self) -> None:
        """Close all connections."""
        await self._client.close()


def _tools(request: Request) -> list[dict[str, Any]]:
    return [
        {
            "type": "function",
            "function": {"name": tool.name, "description": tool.description, "parameters": dict(tool.schema)},
        }
        for tool in request.tools
    ]


class _Refusal(Text):
    """A piece of a text by which the model says that it will not answer."""


def _key_or(default: str) -> str:
    import os  # noqa: PLC0415 - only here

    return os.environ.get("OPENAI_API_KEY") or default


#: Parameters that the library passes on by their names; others go into the body as they are.
_KNOWN: Final = frozenset(
    ("temperature", "top_p", "max_tokens", "max_completion_tokens", "seed", "stop", "presence_penalty")
) | frozenset(("frequency_penalty", "logit_bias", "response_format", "tool_choice", "parallel_tool_calls", "user"))


def _parted(parameters: Any) -> tuple[dict[str, Any], dict[str, Any]]:
    known = {name: value for name, value in parameters.items() if name in _KNOWN}
    return known, {name: value for name, value in parameters.items() if name not in _KNOWN}


def _pieces(chunk: ChatCompletionChunk) -> Iterator[Chunk]:
    """Return what a message of the stream holds. The library does not check its shape."""
    for choice in chunk.choices or ():
        delta = choice.delta
        if delta is not None:
            if delta.content:
                yield Text(text_of(delta.content))
            if getattr(delta, "refusal", None):
                yield _Refusal(text_of(delta.refusal))
            for call in delta.tool_calls or ():
                function = call.function
                if function is not None:
                    yield ToolCall(text_of(function.name or ""), text_of(function.arguments or ""), int(call.index))
        if choice.finish_reason:
            yield End(text_of(choice.finish_reason))
    usage = chunk.usage
    if usage is not None:
        yield Usage(int(usage.prompt_tokens), int(usage.completion_tokens))
