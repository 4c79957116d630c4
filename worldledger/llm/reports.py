"""What the log is told of a generation: by what it was made, what was said, and what it took."""

from __future__ import annotations

import hashlib
import secrets
from typing import TYPE_CHECKING, Any, Final

import orjson

from worldledger.drafts import MAX_WORD

if TYPE_CHECKING:
    from worldledger.llm.model import Request
    from worldledger.llm.persona import Prices
    from worldledger.llm.streaming import Output

#: Longest message of an error that is kept.
MOST_TEXT: Final = 2000


class Prompt:
    """The text of a request, with a salt: its digest tells nothing about a text that is gone."""

    def __init__(self, request: Request) -> None:
        self._request = request
        self._text = orjson.dumps(request.to_value(), option=orjson.OPT_SORT_KEYS)
        self._salt = secrets.token_hex(16)

    def described(self, model: str) -> dict[str, Any]:
        """Return by what the generation is made, as GenerationStarted has it."""
        parameters = dict(self._request.parameters)
        digest = hashlib.sha256(self._salt.encode() + self._text).hexdigest()
        seed = {"seed": parameters["seed"]} if "seed" in parameters else {}
        return {"name": model, "parameters": parameters, "prompt_digest": digest, **seed}

    def kept(self) -> dict[str, Any]:
        """Return the text as GenerationText has it."""
        return {"part": "prompt", "text": self._text.decode(), "salt": self._salt}


def answer_of(output: Output) -> dict[str, Any]:
    """Return what a model has said as GenerationText has it."""
    answer: dict[str, Any] = {"part": "output", "text": plain(output.text)}
    if output.calls:
        answer["calls"] = [
            {"name": plain(call.name), "arguments": plain(call.arguments)} for call in output.calls.values()
        ]
    return answer


def times_of(output: Output) -> dict[str, Any]:
    """Return the times of an answer and why it ended, as GenerationReported has them; None for what is not known."""
    return {
        "took_ms": _ms(output.took_s),
        "first_token_ms": _ms(output.first_token_s),
        "finish": None if output.finish is None else word(output.finish),
    }


def cost_of(output: Output, prices: Prices | None) -> dict[str, Any]:
    """Return the tokens, the price and the error of an answer of a model, as GenerationReported has them."""
    usage = output.usage
    tokens_in = None if usage is None else usage.tokens_in
    counted = "chunks" if usage is None or usage.tokens_out is None else "provider"
    cost: dict[str, Any] = {"tokens_in": tokens_in, "tokens_out": output.tokens_out, "counted": counted}
    if prices is not None and (tokens_in is not None or not prices.tokens_in):
        price = (tokens_in or 0) * prices.tokens_in + output.tokens_out * prices.tokens_out
        cost |= {"price": round(price / 1e6, 12), "currency": prices.currency}
    if output.error is not None:
        cost["error"] = {"code": word(output.error.code), "message": plain(output.error.message)[:MOST_TEXT]}
    return cost


def known(report: dict[str, Any]) -> dict[str, Any]:
    """Return a report without what is not known."""
    return {name: value for name, value in report.items() if value is not None}


def plain(text: str) -> str:
    """Return a text as the log can hold it: without NUL and lone surrogates."""
    return text.replace("\0", "\ufffd").encode("utf-8", "replace").decode("utf-8")


def word(text: str) -> str:
    """Return a name as the log can hold it."""
    return plain(text)[:MAX_WORD] or "?"


def _ms(seconds: float | None) -> float | None:
    return None if seconds is None else round(seconds * 1000.0, 3)
