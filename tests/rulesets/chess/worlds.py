"""Short ways to fold chess worlds, and to ask their rules, in tests."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path
from typing import Any

import orjson
import pytest
from worldledger_chess.rules import RULESET
from worldledger_chess.rules.gamelog import GameLog
from worldledger_chess.rules.pgn import RecordedGame, read_games
from worldledger_chess.rules.writing import write_game

from tests.rulesets.counting import malformed
from worldledger.chain import StoredEffect
from worldledger.drafts import check_draft, effect_text
from worldledger.effects import Effect
from worldledger.errors import IllegalEffectError
from worldledger.folding import Fold
from worldledger.world import WorldState

PROJECT = Path(__file__).parents[3]
EXAMPLES = PROJECT / "examples" / "games"
REAL = PROJECT.parent / "shared" / "data" / "pgn"
AGENTS = {"agents": {"white": "ana", "black": "bo"}}


def draft(kind: str, payload: Any, source: str = "arena") -> dict[str, Any]:
    """Return a draft as it is posted."""
    return {"kind": kind, "payload": payload, "source_id": source, "schema_version": "1.0.0"}


def started(**payload: Any) -> dict[str, Any]:
    """Return a GameStarted."""
    return draft("GameStarted", {**AGENTS, **payload})


def moved(uci: str, **payload: Any) -> dict[str, Any]:
    """Return a MoveMade."""
    return draft("MoveMade", {"uci_notation": uci, **payload})


def row(posted: Any, seq: int) -> StoredEffect:
    """Return the row that a draft becomes; its wall_time is 1000 seconds and its seq."""
    checked = check_draft(posted)
    text = effect_text(
        checked, world_id="w", global_seq=seq, uuid="u", sim_time=checked.sim_time or 0.0, wall_time=1000.0 + seq
    )
    return StoredEffect(seq, text, b"", checked.kind, "", 0.0)


def rows(drafts: Iterable[Any]) -> list[StoredEffect]:
    """Return the rows of a world that has these effects alone."""
    return [row(posted, seq) for seq, posted in enumerate(drafts, 1)]


def effects(drafts: Iterable[Any]) -> list[Effect]:
    """Return the effects as they are read from the log."""
    return [orjson.loads(stored.text) for stored in rows(drafts)]


def pgn_of(drafts: Iterable[Any]) -> str:
    """Return the game of a world that has these effects alone as PGN."""
    return write_game(GameLog.of(effects(drafts))).text


def folded(drafts: Iterable[Any]) -> WorldState:
    """Return the state after these effects."""
    fold = Fold("w", RULESET)
    fold.feed(rows(drafts))
    return fold.state


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

    def ask(self, kind: str, payload: Any, source: str = "arena") -> dict[str, Any]:
        """Ask the rules about a draft and give the payload that is written; they change nothing.

        What they write they would give back as it is, and it says all that the draft says.
        """
        checked = check_draft(draft(kind, payload, source))
        before = self.fold.state.text()
        decided = RULESET.decide(checked, self.fold.state)
        assert RULESET.decide(decided, self.fold.state) is decided
        assert self.fold.state.text() == before
        written: dict[str, Any] = orjson.loads(decided.payload)
        loose = {"san_notation"} if kind == "MoveMade" and payload.get("uci_notation") is None else set()
        assert {name: written[name] for name in payload if payload[name] is not None and name not in loose} == {
            name: value for name, value in payload.items() if value is not None and name not in loose
        }
        return written

    def post(self, kind: str, payload: Any, source: str = "arena") -> dict[str, Any]:
        """Ask, fold what is written for what was accepted, and give it; the draft itself would fold to the same."""
        written = self.ask(kind, payload, source)
        seq = self.fold.seq + 1
        plain = Fold("w", RULESET, WorldState.from_text(self.fold.state.text()), self.fold.seq)
        plain.apply(orjson.loads(row(draft(kind, payload, source), seq).text))
        self.fold.apply(orjson.loads(row(draft(kind, written, source), seq).text))
        assert plain.state.text() == self.fold.state.text()
        assert malformed(self.fold.state) == 0
        return written

    def move(self, *ucis: str) -> Table:
        """Post moves that say nothing but what they are."""
        for uci in ucis:
            self.post("MoveMade", {"uci_notation": uci})
        return self

    def refused(self, kind: str, payload: Any, source: str = "arena") -> IllegalEffectError:
        """Return the refusal of a draft."""
        with pytest.raises(IllegalEffectError) as caught:
            self.ask(kind, payload, source)
        return caught.value


def table(fen: str | None = None, variant: str | None = None) -> Table:
    """Return a world in which ana and bo have just begun."""
    return Table(draft("GameStarted", {**AGENTS, "initial_fen": fen, "variant": variant}))


def games_in(folder: Path) -> list[RecordedGame]:
    """Read every good game of the PGN files below a folder."""
    found: list[RecordedGame] = []
    for path in sorted(folder.rglob("*.pgn")):
        with path.open("rb") as stream:
            found += [game for game in read_games(stream, name=path.name) if isinstance(game, RecordedGame)]
    return found
