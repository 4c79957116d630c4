"""The rules of auctions: lots are opened one after the other, bids rise, and a lot that is closed is sold or passed.

A lot is the entity ``lot-N``. Amounts are whole numbers. The refusals, each by its name:

- ``payload``: the payload cannot be read; the path names the value
- ``lot_open``: LotOpened while another lot is open
- ``lot_number``: lots are numbered 1, 2, 3 …
- ``lot_not_open``: a bid, or a closing, of a lot that is not open
- ``bid_too_low``: a bid below the reserve, or not above the highest bid so far
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from types import MappingProxyType
from typing import Any, Final

from worldledger.canonical import MAX_INT
from worldledger.drafts import CheckedDraft
from worldledger.effects import Effect
from worldledger.moments import Unit
from worldledger.rulesets import Ruleset
from worldledger.rulesets.base import Check, Handler
from worldledger.rulesets.reading import UnreadableError, read_name, refusing
from worldledger.world import WorldState

LOT_OPENED: Final = "LotOpened"
BID_PLACED: Final = "BidPlaced"
LOT_CLOSED: Final = "LotClosed"

#: Reads a payload, given the state and the source; returns the lot's entity id, and the lot as it is afterwards.
_Reader = Callable[[WorldState, Mapping[str, Any], str], tuple[str, dict[str, Any]]]


def read_whole(payload: Mapping[str, Any], name: str, least: int) -> int:
    """Read a member that is a whole number. Raises UnreadableError."""
    value = payload.get(name)
    if type(value) is int and least <= value <= MAX_INT:
        return value
    raise UnreadableError(f"{name} is a whole number of at least {least}", f"$.payload.{name}")


def entity_of(payload: Mapping[str, Any]) -> str:
    """Return the entity id of the lot that a payload names. Raises UnreadableError."""
    return f"lot-{read_whole(payload, 'lot', 1)}"


def _opened(state: WorldState, payload: Mapping[str, Any], seller: str) -> tuple[str, dict[str, Any]]:
    entity_id = entity_of(payload)
    title = None if payload.get("title") is None else read_name(payload, "title")
    reserve = read_whole(payload, "reserve", 0)
    if any(lot["status"] == "open" for lot in state.entities.values()):
        raise UnreadableError("another lot is open", "$.payload.lot", "lot_open")
    if entity_id != f"lot-{len(state.entities) + 1}":
        raise UnreadableError(f"the next lot is {len(state.entities) + 1}", "$.payload.lot", "lot_number")
    lot = {"lot": payload["lot"], "title": title, "seller": seller, "reserve": reserve}
    return entity_id, {**lot, "status": "open", "bids": 0, "price": None, "bidder": None}


def _bid(state: WorldState, payload: Mapping[str, Any], bidder: str) -> tuple[str, dict[str, Any]]:
    entity_id, lot = _open_lot(state, payload)
    amount = read_whole(payload, "amount", 1)
    least = lot["reserve"] if lot["price"] is None else lot["price"] + 1
    if amount < least:
        raise UnreadableError(f"the least bid is {least}", "$.payload.amount", "bid_too_low")
    return entity_id, {**lot, "bids": lot["bids"] + 1, "price": amount, "bidder": bidder}


def _closed(state: WorldState, payload: Mapping[str, Any], _: str) -> tuple[str, dict[str, Any]]:
    entity_id, lot = _open_lot(state, payload)
    return entity_id, {**lot, "status": "passed" if lot["price"] is None else "sold"}


def _open_lot(state: WorldState, payload: Mapping[str, Any]) -> tuple[str, dict[str, Any]]:
    entity_id = entity_of(payload)
    lot = state.entities.get(entity_id)
    if lot is None or lot["status"] != "open":
        raise UnreadableError(f"lot {payload['lot']} is not open", "$.payload.lot", "lot_not_open")
    return entity_id, lot


_READERS: Final[Mapping[str, _Reader]] = {LOT_OPENED: _opened, BID_PLACED: _bid, LOT_CLOSED: _closed}


def _handler(read: _Reader) -> Handler:
    def handle(state: WorldState, effect: Effect) -> str:
        entity_id, state.entities[entity_id] = read(state, effect["payload"], effect["source_id"])
        return entity_id

    return handle


def _check(read: _Reader) -> Check:
    def check(draft: CheckedDraft, payload: dict[str, Any], state: WorldState | None) -> None:
        if state is not None:
            read(state, payload, draft.source_id)

    return refusing(check)


class Auction(Ruleset):
    """What effects make of an auction, and which drafts are refused."""

    name = "auction"
    version = 1
    handlers = MappingProxyType({kind: _handler(read) for kind, read in _READERS.items()})
    checks = MappingProxyType({kind: _check(read) for kind, read in _READERS.items()})
    stateful = frozenset(_READERS)
    units = MappingProxyType({"lot": Unit((LOT_OPENED,), "lot")})


RULESET: Final = Auction()
