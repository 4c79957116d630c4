"""``worldledger agent run``: agents of a served world that are played by a language model."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Final

import typer

from worldledger.errors import SimulationError, WorldNotFoundError
from worldledger.extras import llm_needed
from worldledger_service.cli.options import ModelAddress, PersonaFile, Quiet, World
from worldledger_service.cli.output import counted, plain, put, say
from worldledger_service.running import run_blocking

if TYPE_CHECKING:
    from worldledger.client import Client
    from worldledger.llm import Budget, Generation, Model, Persona, Personas

#: Seconds for which a call is tried again while the service is away or asked too often; and the first one, so that a
#: service that is not there is told soon.
_PATIENCE_SECONDS: Final = 60.0
_FIRST_SECONDS: Final = 1.0
#: Where a service listens that is not told otherwise.
_USUAL_ADDRESS: Final = "http://127.0.0.1:8000"
#: Most characters of what an agent says that are shown.
_SHOWN: Final = 200


def run(
    world: World,
    agents: Annotated[
        list[str] | None,
        typer.Argument(metavar="[AGENT]...", help="The agents; all of the file if none is named.", show_default=False),
    ] = None,
    model: Annotated[
        str,
        typer.Option("--model", metavar="PROVIDER:NAME", help="openai or anthropic, and the model as that calls it."),
    ] = "",
    persona: PersonaFile = None,
    base_url: ModelAddress = None,
    recall: Annotated[
        str,
        typer.Option(
            "--recall",
            metavar="ancestors|off|WORLD",
            help="Take answers that stand in the logs of the worlds that this one is a fork of, or in another world's.",
        ),
    ] = "ancestors",
    paced: Annotated[
        bool,
        typer.Option(
            "--recorded-pace", help="Give the answers of a log as fast as they were made then, instead of at once."
        ),
    ] = False,
    url: Annotated[
        str | None,
        typer.Option(
            "--url",
            metavar="URL",
            help="The service that serves the world.",
            show_default=f"where the home is served, or {_USUAL_ADDRESS}",
        ),
    ] = None,
    give_up: Annotated[
        float | None,
        typer.Option(
            "--give-up",
            metavar="SECONDS",
            min=0.0,
            help="End with exit code 2 when the model's service has failed for so long, or asking again does not help.",
            show_default="never",
        ),
    ] = None,
    quiet: Quiet = False,
) -> None:
    """Have a language model play agents of a world, until their turns are used up or Ctrl-C.

    Each observes, is interrupted when others act first, and acts by intents; the log has what every answer was made
    from and what it cost. An agent is run by one program at a time. After a kill, the same command goes on where it
    was. In a fork, the model is asked only where an agent sees something else than it did in the parent. While the
    model's service is away the agents wait, and ask again. The key of that service is read from OPENAI_API_KEY or
    ANTHROPIC_API_KEY.

    Examples:
        worldledger agent run parlour ann --model openai:gpt-5-mini --persona ann.yaml
        worldledger agent run parlour --model openai:smollm2 --persona parlour.yaml --base-url http://127.0.0.1:8133/v1
    """
    with llm_needed():
        from worldledger.client import Client  # noqa: PLC0415 - slow to load
        from worldledger.llm import ModelError, read_personas  # noqa: PLC0415 - only where the extra is installed
        from worldledger.llm.providers import split  # noqa: PLC0415
    named = split(model)
    if named is None:
        what = f"{model!r} is not openai:NAME or anthropic:NAME, such as openai:gpt-5-mini"
        raise typer.BadParameter(what, param_hint="'--model'")
    if persona is None:
        raise typer.BadParameter("name a file that says whom the model plays", param_hint="'--persona'")
    found = read_personas(persona)
    played = played_as(found, agents or [], persona)
    url = url or _served() or _USUAL_ADDRESS
    try:
        client = Client(url, world, patience=_PATIENCE_SECONDS)
    except ValueError as error:
        raise SimulationError(str(error)) from None
    answering = model_of(named, base_url)
    run_blocking(_found(Client(url, world, patience=_FIRST_SECONDS)))
    try:
        run_blocking(_run(client, played, answering, found.budget, recall, paced=paced, give_up_s=give_up, quiet=quiet))
    except ModelError as error:
        raise SimulationError(error.message) from None


def model_of(named: tuple[str, str], base_url: str | None) -> Model:
    """Return a provider's model. Raises SimulationError if there is no key, and ExtraMissingError."""
    from worldledger.llm import ModelError  # noqa: PLC0415 - only where the extra is installed
    from worldledger.llm.providers import provided  # noqa: PLC0415

    try:
        return provided(*named, base_url=base_url)
    except ModelError as error:
        raise SimulationError(error.message) from None


def _served() -> str | None:
    """Return the address at which the home is served; None if it is not, or another database is used."""
    from pydantic import ValidationError  # noqa: PLC0415 - slow to load, as the next

    from worldledger_service.database.embedded.home import served_at  # noqa: PLC0415
    from worldledger_service.settings import Settings, refusal  # noqa: PLC0415

    try:
        settings = Settings()
    except ValidationError as error:
        raise refusal(error) from None
    return served_at(settings.home) if settings.database_url is None else None


def played_as(found: Personas, agents: list[str], file: Path) -> dict[str, Persona]:
    """Return whom to play as whom. Raises BadParameter for an agent that the file does not have."""
    played: dict[str, Persona] = {}
    for agent_id in agents or found.of_agents:
        own = found.of(agent_id)
        if own is None:
            known = ", ".join(found.of_agents)
            raise typer.BadParameter(f"{file} has no persona for {agent_id!r}, only for {known}", param_hint="AGENT")
        played[agent_id] = own
    if not played:
        raise typer.BadParameter("name the agent: the file has one persona and no name", param_hint="AGENT")
    return played


async def _found(client: Client) -> None:
    """Raise the error of a service or a world that is not there; it names the address."""
    async with client:
        try:
            await client.call("GET")
        except WorldNotFoundError as error:
            what = f"{error.message} (at {client.url}; --url names another service)"
            raise WorldNotFoundError(what, **error.details) from None


async def _run(
    client: Client,
    played: dict[str, Persona],
    model: Model,
    budget: Budget | None,
    recall: str,
    *,
    paced: bool = False,
    give_up_s: float | None = None,
    quiet: bool,
) -> None:
    from worldledger.aio import all_of  # noqa: PLC0415 - slow to load
    from worldledger.llm import ancestors, recall_from, run_agent  # noqa: PLC0415
    from worldledger.llm.budgets import Budgets  # noqa: PLC0415

    budgets = Budgets(budget)
    async with client:
        match recall:
            case "off":
                worlds = []
            case "ancestors":
                worlds = await ancestors(client)
            case _:
                worlds = [client.world(recall)]
        known = {agent_id: await recall_from(worlds, agent_id, paced=paced) for agent_id in played}
        if not quiet:
            what = f"; {counted(sum(map(len, known.values())), 'answer')} to recall" if worlds else ""
            say(f"playing {counted(len(played), 'agent')} of {client.world_id}{what}; Ctrl-C stops")
        watch = (lambda _: None) if quiet else _show
        await all_of(
            run_agent(
                client,
                name,
                model,
                persona,
                budgets=budgets,
                recall=known[name],
                give_up_s=give_up_s,
                watch=watch,
            )
            for name, persona in played.items()
        )


def _show(made: Generation) -> None:
    """Print what became of a generation, and when the model is asked again if it was not answered."""
    from worldledger.llm.reports import plain as storable  # noqa: PLC0415 - slow to load

    output = made.output
    took = 0.0 if output.took_s is None else output.took_s
    told = [f"{made.agent_id}: {made.outcome}", counted(output.tokens_out, "token"), f"{took:.1f} s"]
    if made.recalled is not None:
        told.append(f"recalled from {made.recalled.world_id}")
    if made.reason:
        told.append(made.reason)
    if output.error is not None:
        told.append(output.error.message)
    elif output.text.strip():
        told.append(plain(" ".join(output.text.split())[:_SHOWN]))
    if storable(output.text) != output.text:
        told.append("NUL characters and lone surrogates are replaced")
    if made.budget is not None:
        told.append(f"its budget is used up: {made.budget}")
    if made.again_s is not None:
        told.append(f"asks again in {made.again_s:.0f} s")
    elif made.outcome == "failed" and not made.is_last:
        told.append("waits until somebody acts")
    put(", ".join(told))
