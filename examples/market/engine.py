"""How a turn is settled: by what is true, whatever anybody believed.

Pure functions from values to values, without luck: the same turn settled again is the same.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from copy import deepcopy
from typing import Any, Final, NamedTuple

from worldledger.effects import EffectDraft
from worldledger.patches import diff

SEASONS: Final = ("spring", "summer", "autumn", "winter")


class Trade(NamedTuple):
    """Goods that went from one trader to another: ``price`` is for one, ``toll`` what the buyer paid for the way."""

    seller: str
    buyer: str
    good: str
    amount: int
    price: float
    toll: float

    def __str__(self) -> str:
        return f"{self.seller} sold {self.amount} {self.good} to {self.buyer} at {self.price:.2f}"


class Settled(NamedTuple):
    """A turn as it ends: all variables, and the trades that have led there."""

    agents: dict[str, dict[str, Any]]
    world: dict[str, Any]
    trades: list[Trade]


def settle(turn: int, agents: dict[str, Any], world: dict[str, Any], rules: Mapping[str, Any]) -> Settled:
    """Match the orders, move the prices, and let everybody work and eat.

    ``rules`` are the engine's parameters in the configuration. What is handed in is left as it is.
    """
    agents, world = deepcopy(agents), deepcopy(world)
    trades: list[Trade] = []
    for good, price in world["prices"].items():
        wanted, offered = (sum(agent[side]["amount"] for agent in with_order(agents, side, good)) for side in SIDES)
        trades += match(good, agents, 0.0 if world["festival"] else rules["toll_per_mile"])
        if wanted + offered:
            pressure = (wanted - offered) / (wanted + offered)
            world["prices"][good] = min(1000.0, max(0.1, round(price * (1.0 + 0.1 * pressure), 2)))
    for agent in agents.values():
        live(agent, rules["harvest"][world["season"]], rules["eaten"])
    world["turnover"] = round(sum(trade.amount * trade.price for trade in trades), 2)
    world["bulletin"] = [str(trade) for trade in trades[-4:]]
    world["season"] = SEASONS[turn // rules["turns_per_season"] % 4]  # the next turn's, and so is the festival
    world["festival"] = (turn + 1) % rules["festival_every"] == 0
    return Settled(agents, world, trades)


#: The two variables that hold orders, and how their prices are sorted: the best first.
SIDES: Final = {"bid": -1, "ask": 1}


def with_order(agents: Mapping[str, Any], side: str, good: str) -> list[dict[str, Any]]:
    """Return those who have an order for a good: the best price first, then by name."""
    found = [agent for agent in agents.values() if agent[side]["good"] == good and agent[side]["amount"]]
    return sorted(found, key=lambda agent: (SIDES[side] * agent[side]["price"], agent["name"]))


def match(good: str, agents: Mapping[str, Any], toll_per_mile: float) -> list[Trade]:
    """Let the best bid meet the best asks for as long as they agree; they meet halfway."""
    trades = []
    for buyer in with_order(agents, "bid", good):
        for seller in with_order(agents, "ask", good):
            bid, ask = buyer["bid"], seller["ask"]
            price = round((bid["price"] + ask["price"]) / 2, 2)
            if bid["price"] < ask["price"] or price == 0:
                break
            toll = round(toll_per_mile * math.dist(buyer["position"], seller["position"]), 2)
            affordable = math.floor((buyer["gold"] - toll) / price)
            amount = min(bid["amount"], ask["amount"], math.floor(seller["inventory"][good]), affordable)
            if seller is not buyer and amount > 0:
                trades.append(Trade(seller["name"], buyer["name"], good, amount, price, toll))
                carry_out(trades[-1], seller, buyer)
    return trades


def carry_out(trade: Trade, seller: dict[str, Any], buyer: dict[str, Any]) -> None:
    """Move goods and gold, and take what was traded off the orders."""
    paid = trade.amount * trade.price
    for agent, side, goods, gold in (
        (seller, "ask", -trade.amount, paid),
        (buyer, "bid", trade.amount, -paid - trade.toll),
    ):
        agent["inventory"][trade.good] = round(agent["inventory"].get(trade.good, 0.0) + goods, 3)
        agent["gold"] = max(0.0, round(agent["gold"] + gold, 2))
        agent[side]["amount"] -= trade.amount
        agent["trades"] += 1
        agent["history"] = [*agent["history"], str(trade)][-5:]


def live(agent: dict[str, Any], harvest: float, eaten: Mapping[str, float]) -> None:
    """Let a trader work, half as well where it was hungry, and then use up what it needs."""
    goods = agent["inventory"]
    for good, made in agent["output"].items():
        grown = made * (harvest if good == "food" else 1.0) * (0.5 if agent["hungry"] else 1.0)
        goods[good] = round(goods.get(good, 0.0) + grown, 3)
    agent["hungry"] = goods["food"] < eaten["food"]
    for good, used in eaten.items():
        goods[good] = max(0.0, round(goods[good] - used, 3))


def drafts(turn: int, agents: Mapping[str, Any], world: Mapping[str, Any], settled: Settled) -> list[EffectDraft]:
    """Return the effects that end a turn. Each has a req_id, so it is one effect however often it is sent."""
    made = []
    for name, before in agents.items():
        if patch := diff(before, settled.agents[name]):
            made.append(draft("AgentStateChanged", f"turn-{turn}-{name}", agent_id=name, patch=patch))
    if patch := diff(world, settled.world):
        made.append(draft("GlobalStateChanged", f"turn-{turn}-global", patch=patch))
    return [*made, draft("TurnEnded", f"turn-{turn}-end", turn=turn)]


def draft(kind: str, req_id: str, **payload: Any) -> EffectDraft:
    """Write an effect of the engine."""
    return {"kind": kind, "payload": payload, "source_id": "engine", "schema_version": "1.0.0", "req_id": req_id}
