"""Options and arguments that several commands have."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

_DATABASE = "Database"

DatabaseUrl = Annotated[
    str | None,
    typer.Option(
        "--database-url",
        envvar="WORLDLEDGER_DATABASE_URL",
        metavar="URL",
        help="An existing PostgreSQL, 15 or newer: postgresql://user@host/database. Without it: an embedded one.",
        show_default=False,
        rich_help_panel=_DATABASE,
    ),
]
Home = Annotated[
    Path | None,
    typer.Option(
        "--home",
        envvar="WORLDLEDGER_HOME",
        metavar="FOLDER",
        help="The folder of the embedded PostgreSQL.",
        show_default="~/.worldledger",
        rich_help_panel=_DATABASE,
    ),
]
OwnProjections = Annotated[
    list[str] | None,
    typer.Option(
        "--projection",
        envvar="WORLDLEDGER_OWN_PROJECTIONS",
        metavar="MODULE:CLASS",
        help="A projection of your own, besides those of installed packages; may be given several times.",
        show_default=False,
    ),
]
Force = Annotated[bool, typer.Option("--force", help="Replace a file that is already there.")]
Quiet = Annotated[bool, typer.Option("--quiet", "-q", help="Show no progress, no remarks, and not what was done.")]
Json = Annotated[bool, typer.Option("--json", help="Write JSON: a list of objects.")]
World = Annotated[str, typer.Argument(metavar="WORLD", help="A world's name.", show_default=False)]
PersonaFile = Annotated[
    Path | None,
    typer.Option("--persona", metavar="FILE", help="YAML: whom the model plays; one persona, or one an agent."),
]
ModelAddress = Annotated[
    str | None,
    typer.Option(
        "--base-url",
        metavar="URL",
        help="Another service with the provider's protocol; OpenAI's: llama.cpp, vLLM, Ollama, …",
        show_default="the provider's",
    ),
]
Place = Annotated[
    str,
    typer.Argument(metavar="WORLD[@MOMENT]", help="A world's name, and the moment, if not now.", show_default=False),
]
OtherPlace = Annotated[
    str | None,
    typer.Argument(metavar="[WORLD@MOMENT]", help="Another moment, of any world, to see both side by side."),
]
