"""Moves of chess games: one row for each move that was made."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from datetime import datetime
from functools import lru_cache
from operator import itemgetter
from types import MappingProxyType
from typing import Any, Final

import orjson
from worldledger_projections.base import (
    EARLIEST,
    AppendingWorld,
    Column,
    Projection,
    Row,
    WorldProjection,
    moment,
    needed,
    stated_moment,
)

from worldledger.effects import Effect
from worldledger.folding import Fold
from worldledger.world import WorldState
from worldledger_chess.projections.play import Play
from worldledger_chess.rules.claims import PLAYERS
from worldledger_chess.rules.endings import Player
from worldledger_chess.rules.moves import FIELDS, Type, facts_of

_FIELDS: Final = tuple(field for field in FIELDS if field.has_column)
_COLUMNS: Final = (
    Column("world_id", "text", "The name of the world, and so of the game."),
    *(Column(field.name, field.type, field.says, field.nullable) for field in _FIELDS),
    Column("global_seq", "bigint", "The effect that tells of the move."),
    Column("sim_time", "double precision", "The sim_time of that effect, in seconds."),
    Column("recorded_at", "timestamptz", "The wall_time of that effect."),
)
_FACTS: Final = tuple(field.name for field in _FIELDS if field.fact is not None)
_told: Final = itemgetter(*_FACTS)


@lru_cache(maxsize=16_384)
def _facts(uci: str, san: str) -> tuple[Any, ...]:
    cells: tuple[Any, ...] = _told(facts_of(uci, san))
    return cells


def _text(value: Any) -> str | None:
    return value if type(value) is str else None


def _json(value: Any) -> str | None:
    return orjson.dumps(value, option=orjson.OPT_SORT_KEYS).decode() if type(value) is dict else None


_READERS: Final[Mapping[Type, Callable[[Any], Any]]] = {"text": _text, "json": _json, "timestamptz": stated_moment}
#: A recorder's words, which the fold does not read: they are in the row where they are of the column's type.
_RECORDED: Final = tuple(
    (field.name, _READERS[field.type])
    for field in _FIELDS
    if field.fact is None and field.nullable and field.type in _READERS
)
#: The columns in the order in which `_World._add` has their cells.
_CELLS: Final = (
    "world_id",
    "global_seq",
    "sim_time",
    "recorded_at",
    "ply",
    "player",
    "agent_id",
    "uci_notation",
    "san_notation",
    "thinking_time",
    "clock",
    "fen",
    *_FACTS,
    *(name for name, _ in _RECORDED),
)
_row_of: Final[Callable[[Row], Row]] = itemgetter(*(_CELLS.index(column.name) for column in _COLUMNS))


class _World(AppendingWorld):
    def __init__(self, world_id: str, state: WorldState) -> None:
        super().__init__(world_id)
        self._play = Play.of(state)
        self._agents: dict[Player, str] = {
            player: state.entities[player]["agent_id"] for player in PLAYERS if player in state.entities
        }
        # Effects that were written together have one wall_time.
        self._wall_time: float | None = None
        self._moment: datetime = EARLIEST

    def apply(self, effect: Effect) -> None:
        kind = effect["kind"]
        if kind == "MoveMade":
            if self._play.move(effect):
                self._add(effect)
        elif kind == "GameStarted":
            start = self._play.start(effect["payload"])
            if start is not None:
                self._agents = start.agents
        elif kind == "GameContinued":
            players = self._play.go_on(effect)
            if players is not None:
                self._agents = players.agents
        elif kind == "GameEnded":
            self._play.end(effect["payload"])

    def _add(self, effect: Effect) -> None:
        play, payload = self._play, effect["payload"]
        wall_time = effect["wall_time"]
        if wall_time != self._wall_time:
            self._wall_time, self._moment = wall_time, moment(wall_time)
        cells = (
            self._world_id,
            effect["global_seq"],
            effect["sim_time"],
            self._moment,
            play.ply,
            play.mover,
            self._agents[play.mover],
            play.uci,
            play.san,
            play.thinking_time,
            play.clock,
            play.fen,
            *_facts(play.uci, play.san),
            *[None if (said := payload.get(name)) is None else read(said) for name, read in _RECORDED],
        )
        self._rows.append(_row_of(cells))


class Moves(Projection):
    """One row for each move that the fold of a chess world takes as made (see `projections.play`).

    So a move has a row that is whole even where its payload was not: what follows from the notations and the position
    is worked out. ``agent_id`` is the agent of the colour that moved, whoever sent the effect.
    """

    name = "moves"
    version = 1
    comment = "Moves of chess games: one row for each move that was made."
    columns = _COLUMNS
    key = ("world_id", "ply")
    rulesets = frozenset({"chess"})
    published = MappingProxyType(
        {field.name: field.published for field in _FIELDS if field.published is not None} | {"sim_time": "sim_time_s"}
    )
    indexes = (("agent_id", "world_id"),)
    kinds = frozenset({"GameStarted", "GameContinued", "MoveMade", "GameEnded"})
    inherited_by = ("global_seq",)
    needs_state = True
    append_only = True

    def begin(self, world_id: str, rows: Sequence[Row], fold: Fold | None) -> WorldProjection:
        """Return the moves' fold from the state's position on."""
        return _World(world_id, needed(fold).state)
