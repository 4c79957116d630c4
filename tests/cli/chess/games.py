"""Effects of games of chess that are played here."""

from __future__ import annotations

from typing import Any

from worldledger.effects import EffectDraft


def posted(kind: str, **payload: Any) -> EffectDraft:
    """Return a draft as it is posted."""
    return {"kind": kind, "payload": payload, "source_id": "arena", "schema_version": "1.0.0"}


def started(**payload: Any) -> EffectDraft:
    """Return a GameStarted: ana and bo play."""
    return posted("GameStarted", agents={"white": "ana", "black": "bo"}, **payload)


def moved(uci: str, **payload: Any) -> EffectDraft:
    """Return a MoveMade."""
    return posted("MoveMade", uci_notation=uci, **payload)


def rejected(attempted: str | None, reason: str = "illegal_move") -> EffectDraft:
    """Return a MoveRejected of White's."""
    return posted("MoveRejected", player="white", attempted=attempted, reason=reason)
