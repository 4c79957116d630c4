"""Running agents: one program at a time runs an agent, which a lease in the log says."""

from __future__ import annotations

import asyncio
import os
import secrets
import socket
from collections.abc import Callable
from contextlib import suppress
from typing import TYPE_CHECKING, Final

from worldledger.aio import first_of
from worldledger.errors import AgentLeasedError, SimulationError, UnknownAgentError
from worldledger.llm.budgets import Budgets
from worldledger.llm.recall import ancestors, recall_from
from worldledger.llm.thinker import Generation, Thinker

if TYPE_CHECKING:
    from worldledger.client.world import RemoteHandle, RemoteWorld
    from worldledger.errors import ErrorRecoveryPolicy
    from worldledger.llm.model import Model
    from worldledger.llm.persona import Persona
    from worldledger.llm.recall import Recall

#: Seconds of a lease, and after which share of them it is renewed.
_LEASE_SECONDS: Final = 180.0
_RENEWED_AFTER: Final = 1 / 3
#: Seconds that giving an agent back may take, and the digest of the state after it.
_RELEASE_SECONDS: Final = 2.0
_DIGEST_SECONDS: Final = 5.0
_HOST: Final = socket.gethostname()[:150]


def holder_name() -> str:
    """Return a name for a program that runs an agent: its machine, its process, and what tells two of those apart."""
    return f"{_HOST}/{os.getpid()}/{secrets.token_hex(4)}"


def has_ended(holder: str) -> bool:
    """Return whether a program of `holder_name` is known to have ended: it ran on this machine, and does not now."""
    host, pid, _ = ("//" + holder).rsplit("/", 2)
    if host.removeprefix("//") != _HOST or not (pid.isascii() and pid.isdigit()):
        return False
    try:
        os.kill(int(pid), 0)
    except (ProcessLookupError, OverflowError):
        return True
    except PermissionError:  # it runs, as another user's
        pass
    return False


async def run_agent(
    world: RemoteWorld,
    agent_id: str,
    model: Model,
    persona: Persona,
    *,
    recovery: ErrorRecoveryPolicy | None = None,
    budgets: Budgets | None = None,
    recall: Recall | None = None,
    holder: str | None = None,
    lease_s: float = _LEASE_SECONDS,
    give_up_s: float | None = None,
    watch: Callable[[Generation], object] = lambda _: None,
) -> None:
    """Play an agent under a lease, until the persona's turns are used up or this is cancelled.

    An agent that is not registered is. It goes on where it was: what it has missed is observed first, and what an
    earlier program left behind is reported as lost. In a fork, answers that stand in the logs of its ancestors are
    given again instead of asking the model, wherever it would be asked the same; ``recall`` has others, and an empty
    Recall has none. The end has an order: the model's stream is closed, the report written, the agent given back, and
    last the log gets a digest of the world's state, which proves replays. Raises AgentLeasedError while another program
    runs the agent, also if that has taken it over in the meantime, and as `Thinker.run`.
    """
    holder = holder or holder_name()
    agent = await _agent(world, agent_id)
    try:
        await _lease(world, agent_id, holder, lease_s)
        try:
            if recall is None:
                recall = await recall_from(await ancestors(world), agent_id)
            thinker = Thinker(
                world,
                agent,
                model,
                persona,
                recovery=recovery,
                budgets=budgets,
                recall=recall,
                give_up_s=give_up_s,
                watch=watch,
            )
            for ended in await first_of(thinker.run(), _keep(world, agent_id, holder, lease_s)):
                if ended is not None:
                    ended.result()
        finally:
            with suppress(SimulationError, TimeoutError):
                async with asyncio.timeout(_RELEASE_SECONDS):
                    await world.lease_agent(agent_id, holder, 0)
            with suppress(SimulationError, TimeoutError):
                async with asyncio.timeout(_DIGEST_SECONDS):
                    await world.call("POST", "snapshots")
    finally:
        agent.close()


async def _agent(world: RemoteWorld, agent_id: str) -> RemoteHandle:
    try:
        return await world.agent(agent_id)
    except UnknownAgentError:
        return await world.register_agent(agent_id)


async def _lease(world: RemoteWorld, agent_id: str, holder: str, seconds: float) -> None:
    """Lease an agent, also from a program that is known to have ended."""
    try:
        await world.lease_agent(agent_id, holder, seconds)
    except AgentLeasedError as error:
        if not has_ended(error.holder):
            raise
        await world.lease_agent(agent_id, holder, seconds, instead_of=error.holder)


async def _keep(world: RemoteWorld, agent_id: str, holder: str, seconds: float) -> None:
    """Renew a lease again and again. Raises AgentLeasedError if another program has it."""
    while True:
        await asyncio.sleep(seconds * _RENEWED_AFTER)
        try:
            await world.lease_agent(agent_id, holder, seconds)
        except AgentLeasedError:
            raise
        except SimulationError:  # the service is away: the next time may go better, and the lease lasts till then
            continue
