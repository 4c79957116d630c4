"""Play the market of market.yaml: twenty turns by scripted traders, and then ask of a turn what they believed.

In this process, on the database that WORLDLEDGER_DATABASE_URL names or else on the embedded server:

    python examples/market/play.py

Against a service that runs, with the very same `play`:

    python examples/market/play.py --url http://127.0.0.1:8000

A world that is there already is not begun anew: it goes on from where it stands, and one that has ended is only shown.
So this may be stopped and started again at any time; in this process it also goes on with a fork that was made between
two turns. The traders' rules are fixed, and the noise in what they see is
drawn for the world by its uuid: so two worlds take different courses, and one world has one course.
"""

from __future__ import annotations

import argparse
import asyncio
import sys
import uuid
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import engine
import traders
from worldledger_simulation.rules import RULESET, SimulationConfig, SimulationState, load_config

from worldledger.errors import (
    IllegalEffectError,
    RequestConflictError,
    SimulationError,
    StaleContextError,
    WorldExistsError,
)
from worldledger.folding import Fold
from worldledger.observability import construct_observation

if TYPE_CHECKING:
    from worldledger.client import Client, World
    from worldledger.client.protocol import Log

CONFIG = Path(__file__).with_name("market.yaml")
EXPERIMENT = "examples"


class Ended(NamedTuple):
    """A turn that is over: the seq of its last effect, and what was true then."""

    seq: int
    state: SimulationState


class Truth:
    """What is true, as it follows from the log. Nobody but the engine and the reader of the outcome looks here."""

    def __init__(self, world_id: str, log: Log, beginning: Fold | None = None) -> None:
        self._log = log
        #: where the log begins: a fork has its parent's state there
        self._fold = beginning or Fold(world_id, RULESET)
        self.genesis: dict[str, Any] = {}
        self.ended: dict[int, Ended] = {}
        #: the values by which the open turn is to be settled: those after the last trader's action
        self.before: dict[str, Any] = {}

    async def follow(self) -> None:
        """Read what is new in the log."""
        for entry in await self._log.get_entries_since(self._fold.seq):
            effect = entry.effect
            self.genesis = self.genesis or effect["payload"]
            if self.genesis["ruleset"] != RULESET.name:
                return
            self._fold.apply(effect)
            if effect["kind"] == "TurnStarted" or effect["source_id"] in self.course["agents"]:
                self.before = self._state().to_value()
            elif effect["kind"] == "TurnEnded":
                self.ended[self.turn] = Ended(entry.global_seq, self._state())

    def _state(self) -> SimulationState:
        return SimulationState.of(self._fold.state, world_uuid=self.genesis["world_uuid"])

    @property
    def course(self) -> dict[str, Any]:
        """What the state has of the course of turns."""
        course: dict[str, Any] = self._fold.state.metadata["simulation"]
        return course

    @property
    def turn(self) -> int:
        """The last turn that has begun."""
        turn: int = self._fold.state.metadata["turn"]
        return turn

    def waiting(self) -> list[str]:
        """Return the traders that have yet to act in the open turn."""
        acted, agents = self.course["acted"], self.course["agents"]
        return [name for name, known in agents.items() if not known["paused"] and name not in acted]

    def is_over(self) -> bool:
        """Tell whether the last turn has ended."""
        return self.turn == self.course["max_turns"] and not self.course["open"]


async def play(world: World, config: SimulationConfig, truth: Truth, *, quiet: bool) -> None:
    """Play the turns that are left."""
    if not quiet and not truth.is_over():
        goods = " ".join(f"{good:>5}" for good in config.initial_global()["prices"])
        print(f"turn season  {goods} traded  dearest trade (*: a festival)")
    while not truth.is_over():
        if not truth.course["open"]:
            turn = truth.turn + 1
            await world.broadcast_event(engine.draft("TurnStarted", f"turn-{turn}-start", turn=turn))
            await truth.follow()
        while waiting := truth.waiting():
            await act(world, waiting[0], truth)
        agents, market = truth.before["agents"], truth.before["global_state"]
        settled = engine.settle(truth.turn, agents, market, config.engine.parameters)
        for draft in engine.drafts(truth.turn, agents, market, settled):
            await world.broadcast_event(draft)
        if not quiet:
            print(line(truth.turn, market, settled))
        await truth.follow()


async def act(world: World, name: str, truth: Truth) -> None:
    """Let a trader look, decide and act: its reasoning and its action are written together or not at all."""
    turn = truth.turn
    view = await world.view(name)
    decision = traders.decide(name, view.visible_entities)
    payloads: dict[str, dict[str, Any]] = {
        "reason": {"kind": "ReasoningRecorded", "reasoning": decision.reasoning, "model": "examples/market"},
        "action": {"kind": "AgentStateChanged", "patch": decision.patch},
    }
    common = {"kind": "Custom", "agent_id": name, "context_seq": view.view_seq}
    intents = [{**common, "payload": each, "req_id": f"turn-{turn}-{what}"} for what, each in payloads.items()]
    try:
        await world.submit_intents(intents, atomic=True)
    except StaleContextError:  # something has changed since it looked: it is asked again
        pass
    except (IllegalEffectError, RequestConflictError):
        await truth.follow()
        if truth.turn == turn and name in truth.waiting():
            raise
        # Somebody else plays this world, too, and was first.
    await truth.follow()


# -- what is printed -----------------------------------------------------------------------------------------


def line(turn: int, before: dict[str, Any], settled: engine.Settled) -> str:
    """Tell of a turn in one line."""
    prices = " ".join(f"{price:5.2f}" for price in settled.world["prices"].values())
    dearest = max(settled.trades, key=lambda trade: trade.amount * trade.price, default="no trade")
    season = before["season"] + ("*" if before["festival"] else "")
    return f"{turn:>4} {season:<7} {prices} {settled.world['turnover']:6.2f}  {dearest}"


async def tell(world: World, config: SimulationConfig, truth: Truth, turn: int, observer: str) -> bool:
    """Show what was true at the end of a turn, and what a trader believed; tell whether the one gives the other."""
    seq, state = truth.ended[turn]
    seen = (await world.view(observer, at_seq=seq)).visible_entities
    print(f"\nAt the end of turn {turn}, what {observer} believed, and what was true:\n")
    print(f"  {'':<10} {'':<17} {'believed':>9} {'true':>9}")
    for name, entity in state.to_value()["agents"].items():
        for path in ("gold", "inventory.food", "inventory.metal", "inventory.wood", "secret_reserves"):
            believed = seen.get(name, {})
            print(f"  {name:<10} {path:<17} {shown(believed, path):>9} {shown(entity, path):>9}")
    again = construct_observation(observer, state, config.observability).to_value()
    return {**again["agents"], "global": again["global_state"]} == seen


def shown(entity: dict[str, Any], path: str) -> str:
    """Write a value of an entity, and a dash where there is none."""
    value: Any = entity
    for name in path.split("."):
        value = value.get(name) if isinstance(value, dict) else None
    return "-" if value is None else f"{value:.2f}"


# -- where it is played --------------------------------------------------------------------------------------


def is_ours(truth: Truth, config: SimulationConfig, wanted: argparse.Namespace) -> bool:
    """Tell whether the world is this market, and say what becomes of it."""
    if truth.genesis["config"] != config.to_value():
        print(f"World {wanted.world} is there already, made of something else: it is left as it is.", file=sys.stderr)
        return False
    if truth.turn == 0:
        print(f"World {wanted.world}: {len(config.agents)} traders, {config.simulation.max_turns} turns")
    elif not truth.is_over():
        print(f"World {wanted.world} is there already, in turn {truth.turn}: it goes on from there.")
    elif not wanted.quiet:
        print(f"World {wanted.world} is there already, and all of its turns have been played.")
    return True


async def whole(world: World, config: SimulationConfig, truth: Truth, wanted: argparse.Namespace) -> int:
    """Play what is left to play, and show a turn."""
    await play(world, config, truth, quiet=wanted.quiet)
    if wanted.quiet:
        return 0
    if not await tell(world, config, truth, wanted.turn, "Trader_1"):
        print("That is not what the truth, the matrix and the world's uuid give.", file=sys.stderr)
        return 1
    print("\nWhat it believed follows from the truth, the configuration and the world's uuid:")
    print("worked out anew, it is the same. To ask for more:\n")
    print(f"$ worldledger view {world.world_id} Trader_5 --at turn:{wanted.turn} --truth")
    return 0


async def remotely(client: Client, config: SimulationConfig, wanted: argparse.Namespace) -> int:
    """Play it in a world of a service."""
    async with client:
        await client.create_world(ruleset=RULESET.name, config=config.to_value(), experiment=EXPERIMENT)
        truth = Truth(wanted.world, client.event_log)
        await truth.follow()
        return await whole(client, config, truth, wanted) if is_ours(truth, config, wanted) else 1


async def here(database_url: str, config: SimulationConfig, wanted: argparse.Namespace) -> int:
    """Play it in a world of this process."""
    from worldledger_service.store import Store  # noqa: PLC0415 - not needed against a service

    from worldledger.genesis import NewWorld  # noqa: PLC0415

    new = NewWorld(world_id=wanted.world, ruleset=RULESET.name, config=config.to_value(), experiment=EXPERIMENT)
    async with Store.open(database_url) as store:
        with suppress(WorldExistsError):
            await store.create_world(new)
        beginning = await store.states.fold_at(wanted.world, 0)
        truth = Truth(wanted.world, await store.log(wanted.world), beginning.copy())
        await truth.follow()
    if not is_ours(truth, config, wanted):
        return 1
    if wanted.quiet and truth.is_over():
        return 0
    from worldledger_service.runtime import Orchestrator  # noqa: PLC0415

    async with Orchestrator.open(database_url, world_id=wanted.world) as world:
        truth = Truth(wanted.world, world.event_log, beginning)
        await truth.follow()
        return await whole(world, config, truth, wanted)


def client_of(wanted: argparse.Namespace) -> Client | None:
    """Return the client of the service that was named, if one was. Raises ValueError for a URL that is none."""
    if wanted.url is None:
        return None
    from worldledger.client import Client  # noqa: PLC0415 - not needed in this process

    return Client(wanted.url, wanted.world)


def run(client: Client | None, wanted: argparse.Namespace) -> int:
    """Play where the client's service is, or else in this process."""
    config = load_config(CONFIG)
    if client is not None:
        return asyncio.run(remotely(client, config, wanted))
    from worldledger_service.cli.connect import Target, database  # noqa: PLC0415 - not needed against a service
    from worldledger_service.settings import Settings  # noqa: PLC0415

    settings = Settings()
    named = settings.database_url
    with database(Target(named.get_secret_value() if named else None, settings)) as database_url:
        return asyncio.run(here(database_url, config, wanted))


def main(arguments: Sequence[str] | None = None) -> int:
    """Play; what keeps it from that is told: then give 1, or 2 for a URL that is none, 130 for Ctrl-C."""
    parser = argparse.ArgumentParser(
        prog=Path(__file__).name, description="Five scripted traders on a market, each with its own view of it."
    )
    parser.add_argument("--url", help="a running service; without it, the world lives in this process")
    parser.add_argument("--world", help="the world's name; a new one each time if it is left out")
    parser.add_argument("--turn", type=int, choices=range(1, 21), default=10, help="which to ask about; 10 if left out")
    parser.add_argument("--quiet", action="store_true", help="only play, and hardly say so")
    wanted = parser.parse_args(arguments)
    wanted.world = wanted.world or f"market-{uuid.uuid4().hex[:8]}"
    try:
        client = client_of(wanted)
    except ValueError as error:
        print(f"{parser.prog}: {error}", file=sys.stderr)
        return 2
    try:
        return run(client, wanted)
    except SimulationError as error:
        print(f"{parser.prog}: {error}", file=sys.stderr)
        return 1
    except KeyboardInterrupt:
        print(f"{parser.prog}: stopped; with --world {wanted.world} it goes on from here", file=sys.stderr)
        return 130


if __name__ == "__main__":
    sys.exit(main())
