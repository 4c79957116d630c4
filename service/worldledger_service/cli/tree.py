"""The tree of commands, to which kinds of worlds add theirs."""

from __future__ import annotations

import inspect
from types import ModuleType
from typing import Final

import typer

from worldledger.errors import InvalidKindError


class Commands:
    """Commands by their path, such as ``verify``, ``chess play`` or ``db repair requests``.

    A command is a module with a function ``command`` for Typer and a text ``EXAMPLES``. The words before the last are
    groups where there is such a group; where there is none, as for ``export pgn``, they are the beginning of its name.
    """

    def __init__(self, app: typer.Typer) -> None:
        self._groups: Final = {"": app}
        self._added: set[str] = set()

    def group(self, path: str, about: str, examples: str) -> None:
        """Add a group of commands: what it is for, and examples below its help."""
        group = typer.Typer(no_args_is_help=True, help=about, epilog=examples, rich_markup_mode="rich")
        above, _, name = path.rpartition(" ")
        self._take(path)
        self._groups[above].add_typer(group, name=name)
        self._groups[path] = group

    def add(self, path: str, module: ModuleType, **settings: bool) -> None:
        """Add a command: its help is its docstring, its lines joined to paragraphs, and its examples.

        ``settings`` are Click's context settings. Raises InvalidKindError for a path that is taken.
        """
        self._take(path)
        above, _, name = path.rpartition(" ")
        if above not in self._groups:
            above, name = "", path
        paragraphs = (inspect.getdoc(module.command) or "").split("\n\n")
        self._groups[above].command(
            name,
            help="\n\n".join(paragraph.replace("\n", " ") for paragraph in paragraphs),
            epilog=module.EXAMPLES,
            context_settings=settings,
        )(module.command)

    def _take(self, path: str) -> None:
        if path in self._added:
            what = f"there are two commands `worldledger {path}`: a kind of worlds has one of a name that is taken"
            raise InvalidKindError(what, part="commands")
        self._added.add(path)
