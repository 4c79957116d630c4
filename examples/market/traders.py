"""How the traders decide: by fixed rules, from nothing but what each of them sees.

What a trader is handed is a view: the visible entities by name, some of them out of focus, some not there at all. An
agent that asks a language model would stand in the place of `decide`.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any, Final, NamedTuple

#: How much of each good a trader likes to have at home.
NEEDS: Final = {"food": 8.0, "metal": 3.0, "wood": 4.0}
#: What a trader asks beyond what seems a fair price, and bids below it, by its strategy.
MARGINS: Final = {"patient": 0.1, "fair": 0.0, "greedy": 0.15}
#: Miles that a trader walks in a turn; gold from which on some is put aside, and how much.
STRIDE: Final = 1.5
RICH: Final = 130.0
SAVED: Final = 10

#: What a trader sees: entities by name, itself and ``global`` among them.
Seen = Mapping[str, Mapping[str, Any]]


class Decision(NamedTuple):
    """What a trader does in a turn: a JSON Patch on its own variables, and why."""

    patch: list[dict[str, Any]]
    reasoning: str


def decide(name: str, seen: Seen) -> Decision:
    """Decide what to do, by what is seen."""
    me, prices = seen[name], seen["global"]["prices"]
    others = {other: seen[other] for other in sorted(seen) if other not in (name, "global")}
    strategy = strategy_of(me)
    bid, why_bid = order("bid", me, others, prices, strategy)
    ask, why_ask = order("ask", me, others, prices, strategy)
    place, towards = walk(bid if bid["amount"] else None, me["position"], others)
    changes = {"ask": ask, "bid": bid, "position": place, "strategy": strategy}
    if strategy == "greedy":
        changes |= {"gold": round(me["gold"] - SAVED, 2), "secret_reserves": me["secret_reserves"] + SAVED}
    patch = [{"op": "replace", "path": f"/{variable}", "value": value} for variable, value in changes.items()]
    return Decision(patch, f"{why_bid} {why_ask} {towards}")


def strategy_of(me: Mapping[str, Any]) -> str:
    """Choose how to bargain: the hungry cannot be choosy, the poor wait for a good price, the rich take their time."""
    if me["hungry"]:
        return "fair"
    return "greedy" if me["gold"] > RICH else "patient" if me["gold"] < 50 else "fair"


def order(
    side: str, me: Mapping[str, Any], others: Seen, prices: Mapping[str, float], strategy: str
) -> tuple[dict[str, Any], str]:
    """Make one of the two orders: bid for the good that is wanted most, or ask for what there is most of."""
    sign = 1 if side == "bid" else -1
    lacks = {good: sign * (need - me["inventory"].get(good, 0.0)) / need for good, need in NEEDS.items()}
    good = max(lacks, key=lambda each: lacks[each])
    lack = max(0.0, lacks[good])
    amount = math.ceil(lack * NEEDS[good]) if side == "bid" else math.floor(lack * NEEDS[good] / 2)
    price, why = price_of(side, good, others, prices[good])
    price *= (1.0 + sign * 0.2 * min(1.0, lack)) * (1.0 - sign * MARGINS[strategy])
    made = {"good": good, "amount": amount, "price": round(price, 2)}
    if not amount:
        return made, "I lack nothing." if side == "bid" else "I have nothing to spare."
    return made, f"I {side} {price:.2f} for {amount} {good}, since {why}."


def price_of(side: str, good: str, others: Seen, heard: float) -> tuple[float, str]:
    """Return a fair price: near what is heard of the market's, more where the others seem to have little."""
    for name, other in others.items():
        rival = other.get(side)  # only insiders see one
        if rival is not None and rival["good"] == good and rival["amount"]:
            return rival["price"] * (1.02 if side == "bid" else 0.98), f"{name} wants {rival['price']:.2f}"
    held = [other["inventory"].get(good, 0.0) for other in others.values()]
    usual = sum(held) / len(held) if held else NEEDS[good]
    scarcity = min(1.3, max(0.8, 1.0 + 0.3 * (NEEDS[good] - usual) / NEEDS[good]))
    return heard * scarcity, f"others seem to have {usual:.1f}"


def walk(bid: Mapping[str, Any] | None, place: list[float], others: Seen) -> tuple[list[float], str]:
    """Walk some way towards who seems to have most of what is wanted: the buyer pays for the way."""
    if bid is None or not others:
        return place, "I stay."
    goal = max(others, key=lambda name: others[name]["inventory"].get(bid["good"], 0.0))
    far = math.dist(place, others[goal]["position"])
    if far <= STRIDE:
        return place, f"I am near {goal}."
    step = STRIDE / far
    there = [round(here + step * (to - here), 2) for here, to in zip(place, others[goal]["position"], strict=True)]
    return there, f"I go towards {goal}."
