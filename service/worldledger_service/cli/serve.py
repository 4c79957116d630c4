"""``worldledger serve``: the HTTP service."""

from __future__ import annotations

import ipaddress
import json
import re
import shlex
import socket
from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext
from pathlib import Path
from typing import Annotated
from urllib.parse import urlsplit

import typer

from worldledger.errors import SimulationError
from worldledger_service.cli.connect import Target, database, own, target
from worldledger_service.cli.options import DatabaseUrl, Home, OwnProjections
from worldledger_service.cli.output import plain, put, say
from worldledger_service.database.address import MOST_PORT
from worldledger_service.listening import TAKEN, ListenError, check_address

#: Seconds that a program on the port may take to answer what it is.
_PATIENCE = 3.0
#: How many characters of an invalid port are repeated in the message.
_MOST_SHOWN = 20


def serve(
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
        str | None,
        typer.Option(
            "--port",
            metavar="PORT",
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
    check_port: Annotated[
        bool,
        typer.Option(
            "--check-port", help="Only say whether the port is free (exit code 0), or serves Worldledger already (1)."
        ),
    ] = False,
    projection: OwnProjections = None,
    database_url: DatabaseUrl = None,
    home: Home = None,
) -> None:
    """Serve the log over HTTP until Ctrl-C or SIGTERM, and feed the projections.

    Every other command works beside it, on the same database. There is no authentication yet, so it listens on this
    machine alone unless --host says otherwise. If a service serves this home already, its address is printed, and that
    is all; another port serves it once more. If another program uses the port, it says so before it starts anything.

    Examples:
        worldledger serve
        worldledger serve --port 9000 --home ./data
    """
    from worldledger_service.database.embedded.home import announcing, served_at  # noqa: PLC0415

    number = None if port is None else _port(port)
    where = target(
        ctx,
        database_url,
        home,
        host=host,
        port=number,
        projections=False if no_projections else None,
        own_projections=own(projection),
    )
    there = served_at(where.settings.home) if where.embedded and not check_port else None
    if there is not None and number in {None, urlsplit(there).port}:
        put(f"already serving {there}")
        return
    check_address(where.settings.host, where.settings.port)  # on another machine's something may well answer
    serving = _serving(where.settings.host, where.settings.port)
    if check_port:
        if serving:
            put(f"already serving {serving}")
        raise typer.Exit(1 if serving else 0)
    if serving:
        what = "stop that one, or choose another port (--port, WORLDLEDGER_PORT)"
        raise SimulationError(f"already serving {serving}: {what}")
    noting: AbstractContextManager[Callable[[str], object]] = nullcontext(lambda _: None)
    if where.embedded:
        noting = announcing(where.settings.home)
    with database(where, serving=True) as url, noting as note:
        from worldledger_service import app  # noqa: PLC0415 - FastAPI and uvicorn are slow to load

        def ready(address: str) -> None:
            note(address)
            _ready(where, address, home)

        app.run(where.settings, url, ready=ready)


def _port(text: str) -> int:
    """Read the port to listen on. Raises SimulationError if it is invalid."""
    if not re.fullmatch("[0-9]{1,5}", text) or int(text) > MOST_PORT:
        what = f"a port is a number up to {MOST_PORT}, or 0 for a free one (--port, WORLDLEDGER_PORT)"
        raise SimulationError(f"cannot listen on port {plain(text[:_MOST_SHOWN])}: {what}", port=text)
    return int(text)


def _serving(host: str, port: int) -> str | None:
    """Return the address of the Worldledger that serves there; None if the port is free.

    Raises ListenError if another program uses it.
    """
    from http.client import HTTPException  # noqa: PLC0415 - slow to load; `--help` needs none of them
    from urllib.error import URLError  # noqa: PLC0415
    from urllib.request import ProxyHandler, build_opener  # noqa: PLC0415

    name = {"0.0.0.0": "127.0.0.1", "::": "::1", "": "127.0.0.1"}.get(host, host)  # noqa: S104 - where it is asked
    try:
        socket.create_connection((name, port), timeout=_PATIENCE).close()
    except OSError:  # no program listens; other problems with the address are reported by listening
        return None
    address = f"http://{f'[{name}]' if ':' in name else name}:{port}"
    try:
        with build_opener(ProxyHandler({})).open(f"{address}/livez", timeout=_PATIENCE) as answer:
            if json.load(answer) == {"status": "alive"}:
                return address
    except (URLError, HTTPException, OSError, ValueError):
        pass
    raise ListenError(host, port, TAKEN)


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
    hints = {
        address: "the console, for a browser",
        f"{address}/openapi.json": "the HTTP interface, for programs",
        "worldledger worlds": "the worlds, in another terminal",
        "worldledger state WORLD": "what a world is now, or was",
        "worldledger view WORLD AGENT --truth": "what an agent saw, and what was true",
        "worldledger projections status": "the tables made from the logs",
        "worldledger verify --all": "has anything been changed?",
    }
    width = max(map(len, hints))
    put(f"Worldledger serves {address} (Ctrl-C stops it). What to try next:")
    for hint, what in hints.items():
        put(f"  {hint.ljust(width)}  {what}")
    if home is not None:
        put(f"The commands need this home: --home {shlex.quote(str(home))}")
