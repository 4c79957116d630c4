"""What a language model is to an agent: a stream of pieces for a request, which ends at once when it is closed.

Source: docs/how-to-llm.md, "A model of your own".
"""

from __future__ import annotations

from collections.abc import AsyncGenerator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Protocol, TypeAlias


@dataclass(frozen=True)
class Tool:
    """Something that a model may do besides writing: its name, what it is for, and the JSON Schema of its arguments."""

    name: str
    description: str
    schema: Mapping[str, Any]

    def to_value(self) -> dict[str, Any]:
        """Return it as JSON, for the digest of a prompt."""
        return {"name": self.name, "description": self.description, "schema": dict(self.schema)}


@dataclass(frozen=True)
class Request:
    """What a model is asked: messages, each ``{"role", "content"}`` with the role system, user or assistant.

    ``parameters`` are passed on as they are: ``temperature``, ``max_tokens``, ``seed`` and what else the model's
    service knows.
    """

    messages: Sequence[Mapping[str, str]]
    tools: Sequence[Tool] = ()
    parameters: Mapping[str, Any] = field(default_factory=dict)

    def to_value(self) -> dict[str, Any]:
        """Return messages and tools as JSON: what the digest of the prompt is made of."""
        return {"messages": list(map(dict, self.messages)), "tools": [tool.to_value() for tool in self.tools]}

    def is_of_same_role(self, other: Mapping[str, Any]) -> bool:
        """Return whether another request, as `to_value` has it, begins with the same message and has the same tools."""
        own = self.to_value()
        return (other["messages"][0], other["tools"]) == (own["messages"][0], own["tools"])


@dataclass(frozen=True)
class Text:
    """A piece of what the model writes, usually one token."""

    text: str


@dataclass(frozen=True)
class ToolCall:
    """A call of a tool, or a piece of one: the pieces of one ``index`` are joined. ``arguments`` is JSON."""

    name: str = ""
    arguments: str = ""
    index: int = 0


@dataclass(frozen=True)
class Usage:
    """How many tokens the model's service has counted so far; ``tokens_out`` is None where it counts those at the end.

    The last one of an answer counts.
    """

    tokens_in: int
    tokens_out: int | None = None


@dataclass(frozen=True)
class End:
    """Why the model stopped: ``stop``, ``length``, ``tool_calls``, ``content_filter``, ``refusal``, or its own word."""

    reason: str


Chunk: TypeAlias = Text | ToolCall | Usage | End


class ModelError(Exception):
    """The model did not answer, or not to the end.

    ``code`` is a stable name: ``unreachable``, ``timeout``, ``cut``, ``malformed``, ``http_429``, … ``may_pass`` says
    that another try may go better.
    """

    def __init__(self, code: str, message: str, *, may_pass: bool = False) -> None:
        super().__init__(message)
        self.code = code
        self.message = message
        self.may_pass = may_pass


class Model(Protocol):
    """A language model.

    ``stream`` returns an async generator. Its pieces come as they are made. When it is closed or cancelled it ends the
    request, so that nothing more is made and paid. It raises ModelError; any other error is taken for one. It must not
    block the event loop: a model that computes in this process does so in a thread.

    A model may also have ``async count_tokens(request) -> int | None``: how many tokens a prompt has. It is asked after
    an answer that was cut off before its tokens were counted; see `worldledger.llm.streaming.count_prompt`.
    """

    @property
    def name(self) -> str:
        """The model's name, for the log."""
        ...

    def stream(self, request: Request) -> AsyncGenerator[Chunk, None]:
        """Answer a request."""
        ...
