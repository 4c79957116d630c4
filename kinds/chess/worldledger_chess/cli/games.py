"""Games of chess in the logs of their worlds: read, and their boards drawn as text."""

from __future__ import annotations

import sys
from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Any, cast

from worldledger_service.cli.log import read_effect

from worldledger.errors import SimulationError

if TYPE_CHECKING:
    from worldledger_service.cli.output import Piece
    from worldledger_service.store import Store, WorldRecord

    from worldledger.effects import Effect


def require_chess(world: WorldRecord) -> None:
    """Raise SimulationError for a world that is no game of chess."""
    if world.ruleset != "chess":
        raise SimulationError(
            f"world {world.world_id!r} is no game of chess; its ruleset is {world.ruleset}",
            world_id=world.world_id,
            ruleset=world.ruleset,
        )


async def history_of(store: Store, world: WorldRecord) -> list[Effect]:
    """Return the effects of a world up to the head in its record; for a fork, after those of its ancestors.

    A game is short, so they are held at once. Raises TamperedError if they do not verify, ParentMissingError.
    """
    from worldledger.chain import Verifier  # noqa: PLC0415 - slow to load; `--help` needs none of it

    effects: list[Effect] = []
    for each in await store.states.line(world):
        head = each.head.position
        verifier = Verifier(each.world_id)
        async for batch in store.reader.batches(each.world_id, until_seq=head.global_seq):
            if not verifier.feed(batch):
                break
            effects += [cast("Effect", read_effect(each.world_id, row)) for row in batch]
        verdict = verifier.finish(head)
        if verdict.finding is not None:
            raise verdict.finding.error()
    return effects


# A chess world's board, drawn as text.


def pictured(entities: Mapping[str, Any]) -> tuple[str, list[list[Piece]]]:
    """Return the title and the lines with which `worldledger state` shows a game's board."""
    return "board", list(board_lines(entities))


def board_lines(entities: Mapping[str, Any]) -> Iterator[list[Piece]]:
    """Draw the position in the state of a chess world; nothing if it cannot be read."""
    from worldledger_chess.rules.positions import UNREADABLE, position  # noqa: PLC0415
    from worldledger_chess.rules.state import BOARD  # noqa: PLC0415

    state = entities.get(BOARD)
    if not isinstance(state, dict):
        return
    try:
        pieces = position(state["variant"], state["fen"]).piece_map()
        last = state["last_move"] or {}
        moved = {last.get("from_square"), last.get("to_square")}
        caption = _caption(state, entities)
    except (*UNREADABLE, TypeError, AttributeError):
        return
    drawn = _can_be_written("♔♟·")
    for rank in range(7, -1, -1):
        line: list[Piece] = [(f"  {rank + 1}  ", "dim")]
        for file in range(8):
            piece = pieces.get(8 * rank + file)
            text = ("·" if drawn else ".") if piece is None else piece.unicode_symbol() if drawn else piece.symbol()
            line += [(text, "yellow" if f"{'abcdefgh'[file]}{rank + 1}" in moved else ""), (" ", "")]
        yield line
    yield [("     a b c d e f g h", "dim")]
    yield [(f"  {caption}", "")]


def _caption(state: Mapping[str, Any], entities: Mapping[str, Any]) -> str:
    white, black = (entities[side]["name"] or entities[side]["agent_id"] for side in ("white", "black"))
    last = state["last_move"]
    after = f", {last['san_notation']} at ply {last['ply']}" if last else ""
    if state["status"] == "in_progress":
        return f"{white} against {black}{after}, {state['turn']} to move"
    reason = f" ({state['reason'].replace('_', ' ')})" if state["reason"] else ""
    return f"{white} against {black}{after}, {(state['result'] or state['status']).replace('_', ' ')}{reason}"


def _can_be_written(text: str) -> bool:
    try:
        text.encode(sys.stdout.encoding or "utf-8")
    except UnicodeEncodeError:
        return False
    return True
