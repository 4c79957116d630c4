"""The drafts of a recorded game, made of what was read; what they are, `worldledger_chess.rules.pgn` says."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final

import orjson

from worldledger.canonical import canonical_json
from worldledger.drafts import check_draft
from worldledger.effects import SCHEMA_VERSION, EffectDraft
from worldledger.errors import InvalidEffectError
from worldledger.plain_drafts import PlainDrafts
from worldledger_chess.rules.endings import Ending, Player
from worldledger_chess.rules.movetext import Playthrough
from worldledger_chess.rules.tags import GameFaultError

#: The source_id of what no player did.
SOURCE: Final = "pgn-import"
#: An effect holds, beside its payload, at most this much.
_EFFECT_FRAME: Final = 4096


class Drafting:
    """Makes the drafts of one game, each an EffectDraft."""

    #: Gives a payload, which is whole, as it is kept.
    payload: Callable[[dict[str, Any]], Any] = staticmethod(lambda value: value)

    def __init__(self) -> None:
        self.drafts: list[EffectDraft] = []
        self.checked = PlainDrafts()

    def add(self, kind: str, payload: Any, source_id: str, sim_time: float) -> None:
        """Add a draft, whose payload was kept."""
        self.drafts.append(_draft(kind, payload, source_id, sim_time))

    def of(
        self,
        start: dict[str, Any],
        game: Playthrough,
        ending: Ending,
        raw_result: str | None,
        agents: dict[Player, str],
    ) -> None:
        """Make the drafts of a game that was played through, whose moves were kept by `payload`."""
        known = [took for took in game.times if took is not None]
        in_seconds = bool(game.times) and len(known) == len(game.times)
        plies = len(game.moves)
        start["sim_time_unit"] = "seconds" if in_seconds else "plies"
        self.add("GameStarted", self.payload(start), SOURCE, 0.0)
        spent = 0
        now = 0.0
        for ply, (move, mover, took) in enumerate(zip(game.moves, game.movers, game.times, strict=True), 1):
            spent += took or 0
            now = spent / 1000 if in_seconds else float(ply)
            self.add("MoveMade", move, mover, now)
        if ending.rejected is not None:
            agent = agents[ending.rejected.player]
            rejected = {
                "player": ending.rejected.player,
                "agent_id": agent,
                "attempted": ending.rejected.attempted,
                "reason": "illegal_move",
                "ply": plies + 1,
                "fen": game.fen,
            }
            now = now if in_seconds else float(plies + 1)
            self.add("MoveRejected", self.payload(rejected), agent, now)
        if ending.status != "in_progress":
            ended = {
                "status": ending.status,
                "result": ending.result,
                "reason": ending.reason,
                "raw_result": raw_result,
                "final_fen": game.fen,
                "plies": plies,
                "thinking_time_total": spent / 1000 if in_seconds else None,
                "variations_total": game.variations,
            }
            self.add("GameEnded", self.payload(ended), SOURCE, now)


class CheckedDrafting(Drafting):
    """Makes them checked as `check_draft` does, in a fraction of its time. Raises InvalidEffectError as that.

    What is looked for in a payload cannot be in these: their numbers are finite and small, their texts come out of
    bytes and have no NUL. So a payload is only written, as soon as it is whole. Who says what is checked, once.
    """

    payload: Callable[[dict[str, Any]], Any] = staticmethod(canonical_json)

    def __init__(self) -> None:
        super().__init__()
        self._known: set[tuple[str, str]] = set()

    def add(self, kind: str, payload: Any, source_id: str, sim_time: float) -> None:
        """Add a draft."""
        if (kind, source_id) not in self._known:
            try:
                check_draft(_draft(kind, {}, source_id, sim_time))
            except InvalidEffectError as error:
                raise error.at(len(self.checked)) from None
            self._known.add((kind, source_id))
        self.checked.add(kind, payload, source_id, sim_time)


def check_sizes(payloads: list[Any], limit: int) -> None:
    """Raise GameFaultError for a payload, as it was kept, whose effect would be larger than the limit."""
    for payload in payloads:
        text = payload if isinstance(payload, bytes) else canonical_json(payload)
        if len(text) > limit - _EFFECT_FRAME:
            ply = orjson.loads(text).get("ply")
            where = "the tags and the opening comment" if ply is None else f"ply {ply} with its comment"
            raise GameFaultError(f"{where} would make an effect of more than {limit} bytes")


def _draft(kind: str, payload: dict[str, Any], source_id: str, sim_time: float) -> EffectDraft:
    return {
        "kind": kind,
        "payload": payload,
        "source_id": source_id,
        "schema_version": SCHEMA_VERSION,
        "sim_time": sim_time,
    }
