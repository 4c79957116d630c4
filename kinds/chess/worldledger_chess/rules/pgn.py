"""Recorded chess games: a PGN file in, the effects of each game out.

Pure: bytes in, values out, no clock and no randomness. The same game gives the same drafts in any file: they contain
neither the file's name nor its encoding or layout (except for white space inside comments and tags, verbatim). One game
gives, in this order,

- ``GameStarted`` (source ``pgn-import``): ``white``, ``black``, ``event``, ``site``, ``date``, ``round`` and
  ``time_control`` (as in the tags, null if missing or ``?``), ``agents`` (the source_id of each colour), ``variant``
  (standard, chess960 or python-chess's name), ``initial_fen``, ``tags`` (all of them, raw strings), ``comment`` (the
  text before the first move, verbatim), ``sim_time_unit`` (seconds or plies) and ``digest``.
- ``MoveMade`` for every move of the main line (source: the player): see `worldledger_chess.rules.moves.play_move`.
- ``MoveRejected`` (source: the player) if the game ended by an illegal move: ``player``, ``agent_id``, ``attempted``
  (text or null), ``reason`` (illegal_move), ``ply`` (the one it would have been), ``fen`` (where it was tried).
- ``GameEnded`` (source ``pgn-import``): ``status``, ``result``, ``reason`` (see `worldledger_chess.rules.endings`),
  ``raw_result``, ``final_fen``, ``plies``, ``thinking_time_total`` (seconds; null unless every move's is known) and
  ``variations_total`` (omitted sidelines, nested ones included).

A game with the result ``*``, or without one, is unfinished: it has no GameEnded, its status is in_progress and its
result and reason are None. But if its last position ends the game by the rules, it ended that way, with a warning.

A player's agent_id is the name in the tag; ``white`` or ``black`` if there is none. If both have the same name they are
one agent, and ``player`` distinguishes the colours.

sim_time is the thinking time so far in seconds if every move's is known, and the ply otherwise; one scale for a whole
game, never decreasing.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Any, BinaryIO, Final

import orjson

from worldledger.canonical import canonical_json
from worldledger.drafts import PlainDrafts, check_draft
from worldledger.effects import SCHEMA_VERSION, EffectDraft
from worldledger.errors import InvalidEffectError
from worldledger_chess.rules.clocks import read_time_control
from worldledger_chess.rules.endings import MAX_RESULT, Ending, Player, ending_of, raw_result_of, standard_result
from worldledger_chess.rules.gamelog import game_digest, world_name
from worldledger_chess.rules.movetext import Playthrough
from worldledger_chess.rules.splitter import UTF16_NOTE, RawGame, split_games
from worldledger_chess.rules.tags import MAX_WARNINGS, GameFaultError, read_tags, set_up, standard_names

# -- making the drafts of a recorded game ----------------------------------------------------------------------

#: The source_id of effects that are not a player's.
SOURCE: Final = "pgn-import"
#: Most bytes of an effect besides its payload.
_EFFECT_FRAME: Final = 4096


class Drafting:
    """Makes the drafts of one game, each an EffectDraft."""

    #: Returns the form in which a complete payload is kept.
    payload: Callable[[dict[str, Any]], Any] = staticmethod(lambda value: value)

    def __init__(self) -> None:
        self.drafts: list[EffectDraft] = []
        self.checked = PlainDrafts()

    def add(self, kind: str, payload: Any, source_id: str, sim_time: float) -> None:
        """Add a draft with a payload in its kept form."""
        self.drafts.append(_draft(kind, payload, source_id, sim_time))

    def of(
        self,
        start: dict[str, Any],
        game: Playthrough,
        ending: Ending,
        raw_result: str | None,
        agents: dict[Player, str],
    ) -> None:
        """Make the drafts of a game whose moves were played, and kept by `payload`."""
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
    """Makes drafts with the result of `check_draft`, in a fraction of its time. Raises InvalidEffectError likewise.

    These payloads cannot contain what the check looks for: their numbers are finite and small, their texts come from
    bytes and have no NUL. So a payload is only written, as soon as it is complete. Source ids are checked once.
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
    """Raise GameFaultError for a kept payload whose effect would exceed the limit."""
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


__all__ = ["MAX_AGENT_ID", "SOURCE", "BrokenGame", "RecordedGame", "read_games"]

#: Most characters of a player's name in a source_id.
MAX_AGENT_ID: Final = 200


@dataclass(frozen=True)
class RecordedGame:
    """A game that is ready to be appended to the log.

    - ``index``, ``line``: its number in the file and the line it begins at, from 1.
    - ``digest``: its identity, hex of SHA-256 over tags (in order) and movetext; ``name``: a world's name that ends in
      - ``drafts``: its effects in order; if checked ones were requested, ``checked`` has them instead.
      - ``moves``: plies of the main line; ``final_fen``: the last position.
      - ``status``, ``result``, ``reason``, ``raw_result``: as in GameEnded; in_progress and None for an unfinished
        game.
      - ``warnings``: oddities, for users; they are not in the drafts.
    """

    index: int
    line: int
    digest: str
    name: str
    drafts: list[EffectDraft]
    moves: int
    final_fen: str
    status: str
    result: str | None
    reason: str | None
    raw_result: str | None
    warnings: list[str] = field(default_factory=list)
    checked: PlainDrafts = field(default_factory=PlainDrafts)

    @property
    def effects(self) -> int:
        """The number of its effects."""
        return len(self.drafts) or len(self.checked)


@dataclass(frozen=True)
class BrokenGame:
    """A game that is refused: its number in the file, its first line, and the reason, with line and move."""

    index: int
    line: int
    reason: str

    @property
    def effects(self) -> int:
        """It gives no effects."""
        return 0


def read_games(
    stream: BinaryIO,
    *,
    name: str,
    max_game_bytes: int = 4 * 1024 * 1024,
    max_plies: int = 20_000,
    max_effect_bytes: int = 1024 * 1024,
    wanted: Callable[[int], bool] | None = None,
    checked: bool = False,
    strict: bool = False,
) -> Iterator[RecordedGame | BrokenGame]:
    """Read the games of a PGN file one by one, holding at most one in memory.

    ``name`` is the file's name in errors; ``wanted`` decides by a game's number whether it is read at all; ``checked``
    requests drafts in the form of `check_draft`, and refuses a game with a draft that it refuses; ``strict`` refuses
    every game with a warning. A game over ``max_game_bytes`` or ``max_plies``, or with an effect over
    ``max_effect_bytes``, is refused; the reader continues after it. UTF-8 (with or without BOM), Windows-1252 and
    Latin-1 (decided game by game), UTF-16 with BOM; LF, CRLF and CR. NUL characters become U+FFFD, with a warning.
    Raises FileRefusedError for a file without any game; OSError of the stream is passed on.
    """
    for raw in split_games(stream, name=name, max_game_bytes=max_game_bytes):
        if wanted is not None and not wanted(raw.index):
            continue
        try:
            game = _read_game(raw, max_plies, max_effect_bytes, checked=checked)
            yield _strictly(game) if strict else game
        except GameFaultError as fault:
            yield BrokenGame(raw.index, raw.line, str(fault))
        except InvalidEffectError as error:
            yield BrokenGame(raw.index, raw.line, error.message)


def _strictly(game: RecordedGame) -> RecordedGame | BrokenGame:
    """Refuse a game with a warning; the encoding of the file does not count."""
    odd = [warning for warning in game.warnings if warning != UTF16_NOTE]
    return BrokenGame(game.index, game.line, "; ".join(odd)) if odd else game


def _read_game(raw: RawGame, max_plies: int, max_effect_bytes: int, *, checked: bool) -> RecordedGame:
    if raw.text is None:
        raise GameFaultError(raw.fault or "there is no text")
    tags = read_tags(raw.text, raw.line)
    all_tags = tags.as_dict()
    by_name = standard_names(all_tags)
    warnings = raw.warnings + tags.warnings
    board, variant = set_up(by_name, warnings)
    players: dict[Player, str | None] = {"white": _known(by_name, "White"), "black": _known(by_name, "Black")}
    agents: dict[Player, str] = {color: (player or color)[:MAX_AGENT_ID] for color, player in players.items()}
    drafting = CheckedDrafting() if checked else Drafting()
    periods = read_time_control(by_name.get("TimeControl", ""))
    game = Playthrough(board, agents, periods, max_plies=max_plies, keep=drafting.payload)

    initial_fen = game.fen
    result_tag = _known(by_name, "Result")
    end = _start_of_odd_result(raw.text, tags.end, result_tag)
    game.play(raw.text[:end], tags.end, raw.line)
    if end < len(raw.text):
        game.end_with(raw.text[end:])
    if not tags.pairs and not game.moves and not game.result:
        raise GameFaultError(f"line {raw.line}: neither a tag nor a move")
    ending = ending_of(
        game.board,
        tag=_on_one_line(result_tag),
        said=_on_one_line(game.result),
        termination=by_name.get("Termination", ""),
        players={color: player or color for color, player in players.items()},
    )

    digest = game_digest(tags.pairs, game.tokens)
    start = {
        "white": players["white"],
        "black": players["black"],
        "agents": dict(agents),
        "variant": variant,
        "initial_fen": initial_fen,
        "event": _known(by_name, "Event"),
        "site": _known(by_name, "Site"),
        "date": _known(by_name, "Date"),
        "round": _known(by_name, "Round"),
        "time_control": _known(by_name, "TimeControl"),
        "tags": all_tags,
        "comment": " ".join(game.opening_comments) or None,
        "digest": digest,
    }
    raw_result = raw_result_of(None if result_tag is None else by_name["Result"], game.result)
    drafting.of(start, game, ending, raw_result, agents)
    if len(raw.text) > max_effect_bytes // 32:  # JSON writes a character in up to 6 bytes, some tags several times
        check_sizes(drafting.checked.payloads or [draft["payload"] for draft in drafting.drafts], max_effect_bytes)
    return RecordedGame(
        index=raw.index,
        line=raw.line,
        digest=digest,
        name=world_name(players["white"], players["black"], by_name.get("Date", ""), digest),
        drafts=drafting.drafts,
        checked=drafting.checked,
        moves=len(game.moves),
        final_fen=game.fen,
        status=ending.status,
        result=ending.result,
        reason=ending.reason,
        raw_result=raw_result,
        warnings=list(dict.fromkeys(warnings + game.warnings + ending.warnings))[:MAX_WARNINGS],
    )


def _known(tags: dict[str, str], name: str) -> str | None:
    """Return a tag's value; None if it is missing or means unknown."""
    value = tags.get(name, "").strip()
    return None if value.strip("?.- ") == "" else value


def _on_one_line(text: str | None) -> str | None:
    return text if text is None or "\n" not in text else " ".join(text.split())


def _start_of_odd_result(text: str, start: int, tag: str | None) -> int:
    """Return the place after the moves at which an unusual Result tag is repeated; by default the text's end."""
    if tag is None or len(tag) > MAX_RESULT or standard_result(tag) is not None:
        return len(text)
    tail = max(start, len(text) - 2 * len(tag) - 200)
    words = r"\s+".join(map(re.escape, tag.split()))
    found = re.compile(rf"(?<!\S){words}\s*\Z").search(text, tail)
    return found.start() if found else len(text)
