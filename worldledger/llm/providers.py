"""Models by provider and name: ``openai:gpt-5-mini``, ``anthropic:claude-sonnet-5``."""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from worldledger.errors import ExtraMissingError

if TYPE_CHECKING:
    from worldledger.llm.model import Model


class _Provider(NamedTuple):
    """Where a provider's class is, and the extra and the package that it needs."""

    module: str
    name: str
    extra: str
    package: str


_PROVIDERS: Final = {
    "openai": _Provider("worldledger.llm.openai", "OpenAIModel", "llm", "openai"),
    "anthropic": _Provider("worldledger.llm.anthropic", "AnthropicModel", "anthropic", "anthropic"),
}


def split(text: str) -> tuple[str, str] | None:
    """Return provider and name of ``PROVIDER:NAME``; None for a text that has no provider that is known."""
    provider, _, name = text.partition(":")
    return (provider, name) if name and provider in _PROVIDERS else None


def provided(provider: str, name: str, **settings: Any) -> Model:
    """Make a provider's model; ``settings`` are those of its class, such as ``base_url``.

    Raises ExtraMissingError, and ModelError if there is no key.
    """
    known = _PROVIDERS[provider]
    with ExtraMissingError.where_missing({known.package: known.package}, known.extra):
        made = getattr(import_module(known.module), known.name)
    found: Model = made(name, **settings)
    return found
