"""``worldledger serve``: the HTTP service."""

from __future__ import annotations

import ipaddress
import shlex
from pathlib import Path
from typing import Annotated

import typer

from service.cli.connect import Target, database, target
from service.cli.options import DatabaseUrl, Home, examples
from service.cli.output import put, say

EXAMPLES = examples("worldledger serve", "worldledger serve --port 9000 --home ./data")


def command(
    ctx: typer.Context,
    host: Annotated[
        str | None,
        typer.Option(
            "--host",
            metavar="ADDRESS",
            envvar="WORLDLEDGER_HOST",
            help="The address to listen on.",
            show_default="127.0.0.1",
        ),
    ] = None,
    port: Annotated[
        int | None,
        typer.Option(
            "--port",
            metavar="PORT",
            min=0,
            max=65535,
            envvar="WORLDLEDGER_PORT",
            help="The port; 0 takes a free one.",
            show_default="8000",
        ),
    ] = None,
    no_projections: Annotated[
        bool,
        typer.Option(
            "--no-projections", help="Do not feed the projections: `worldledger project` does it, here or elsewhere."
        ),
    ] = False,
    database_url: DatabaseUrl = None,
    home: Home = None,
) -> None:
    """Serve the log over HTTP until Ctrl-C or SIGTERM, and feed the projections.

    Every other command works beside it, on the same database. There is no authentication yet, so it listens on this
    machine alone unless --host says otherwise.
    """
    where = target(ctx, database_url, home, host=host, port=port, projections=False if no_projections else None)
    with database(where, serving=True) as url:
        from service import app  # noqa: PLC0415 - FastAPI and uvicorn are slow to load

        app.run(where.settings, url, ready=lambda address: _ready(where, address, home))


def _ready(where: Target, address: str, home: Path | None) -> None:
    if not _is_loopback(where.settings.host):
        say(f"listening on {where.settings.host}: whoever can reach this address can read and write every world")
        say("(there is no authentication yet)")
    _tell(address, home if where.embedded else None)


def _is_loopback(host: str) -> bool:
    if host == "localhost":
        return True
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False


def _tell(address: str, home: Path | None) -> None:
    beside = "" if home is None else f" --home {shlex.quote(str(home))}"
    hints = {
        f"{address}/openapi.json": "the HTTP interface, for programs; for people: docs/reference/http.md",
        f"curl {address}/v1/worlds": "the worlds",
        f"worldledger worlds{beside}": "the same, in another terminal",
        f"worldledger state WORLD{beside}": "what a world is now, or was at any moment",
        f"worldledger view WORLD AGENT --at turn:N --truth{beside}": "what an agent believed then, and what was true",
        f"curl {address}/v1/games": "what projections know of the games; /v1/agents of the players",
        f"worldledger verify --all{beside}": "has anything been changed?",
    }
    width = max(map(len, hints))
    put(f"Worldledger serves {address} (Ctrl-C stops it). What to try next:")
    for hint, what in hints.items():
        put(f"  {hint.ljust(width)}  {what}")
