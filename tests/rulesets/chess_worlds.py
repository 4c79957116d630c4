"""Short ways to fold chess worlds, and to ask their rules, in tests."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path
from typing import Any

import orjson
import pytest

from worldledger.chain import StoredEffect
from worldledger.drafts import check_draft, effect_text
from worldledger.effects import Effect
from worldledger.errors import IllegalEffectError
from worldledger.folding import Fold
from worldledger.rulesets.chess import RULESET
from worldledger.rulesets.chess.pgn import RecordedGame, read_games
from worldledger.world import WorldState

PROJECT = Path(__file__).parents[2]
EXAMPLES = PROJECT / "examples" / "games"
REAL = PROJECT.parent / "shared" / "data" / "pgn"
AGENTS = {"agents": {"white": "ana", "black": "bo"}}


def draft(kind: str, payload: Any, source: str = "arena") -> dict[str, Any]:
    """Give a draft as it is posted."""
    return {"kind": kind, "payload": payload, "source_id": source, "schema_version": "1.0.0"}


def started(**payload: Any) -> dict[str, Any]:
    """Give a GameStarted."""
    return draft("GameStarted", {**AGENTS, **payload})


def moved(uci: str, **payload: Any) -> dict[str, Any]:
    """Give a MoveMade."""
    return draft("MoveMade", {"uci_notation": uci, **payload})


def row(posted: Any, seq: int) -> StoredEffect:
    """Give the row that a draft becomes; its wall_time is 1000 seconds and its seq."""
    checked = check_draft(posted)
    text = effect_text(
        checked, world_id="w", global_seq=seq, uuid="u", sim_time=checked.sim_time or 0.0, wall_time=1000.0 + seq
    )
    return StoredEffect(seq, text, b"", checked.kind, "", 0.0)


def rows(drafts: Iterable[Any]) -> list[StoredEffect]:
    """Give the rows of a world that has these effects alone."""
    return [row(posted, seq) for seq, posted in enumerate(drafts, 1)]


def effects(drafts: Iterable[Any]) -> list[Effect]:
    """Give the effects as they are read from the log."""
    return [orjson.loads(stored.text) for stored in rows(drafts)]


def folded(drafts: Iterable[Any]) -> WorldState:
    """Give the state after these effects."""
    fold = Fold("w", RULESET)
    fold.feed(rows(drafts))
    return fold.state


def malformed(state: WorldState) -> int:
    """Give how many effects could not be read; none may have been unknown."""
    assert state.metadata["unknown_effects"] == 0
    count: int = state.metadata["malformed_effects"]
    return count


class Table:
    """A world that is played in: every draft is decided on and folded."""

    def __init__(self, *posted: Any) -> None:
        self.fold = Fold("w", RULESET)
        for one in posted:
            self.post(one["kind"], one["payload"], one["source_id"])

    @property
    def board(self) -> dict[str, Any]:
        """The entity ``board``."""
        found: dict[str, Any] = self.fold.state.entities["board"]
        return found

    def ask(self, kind: str, payload: Any, source: str = "arena") -> None:
        """Ask the rules about a draft; they give it back as it is and change nothing."""
        checked = check_draft(draft(kind, payload, source))
        before = self.fold.state.text()
        assert RULESET.decide(checked, self.fold.state) is checked
        assert self.fold.state.text() == before

    def post(self, kind: str, payload: Any, source: str = "arena") -> None:
        """Ask, and fold what was accepted."""
        self.ask(kind, payload, source)
        stored = row(draft(kind, payload, source), self.fold.seq + 1)
        self.fold.apply(orjson.loads(stored.text))
        assert malformed(self.fold.state) == 0

    def move(self, *ucis: str) -> Table:
        """Post moves that say nothing but what they are."""
        for uci in ucis:
            self.post("MoveMade", {"uci_notation": uci})
        return self

    def refused(self, kind: str, payload: Any, source: str = "arena") -> IllegalEffectError:
        """Give the refusal of a draft."""
        with pytest.raises(IllegalEffectError) as caught:
            self.ask(kind, payload, source)
        return caught.value


def table(fen: str | None = None, variant: str | None = None) -> Table:
    """Give a world in which ana and bo have just begun."""
    return Table(draft("GameStarted", {**AGENTS, "initial_fen": fen, "variant": variant}))


def games_in(folder: Path) -> list[RecordedGame]:
    """Read every good game of the PGN files below a folder."""
    found: list[RecordedGame] = []
    for path in sorted(folder.rglob("*.pgn")):
        with path.open("rb") as stream:
            found += [game for game in read_games(stream, name=path.name) if isinstance(game, RecordedGame)]
    return found
