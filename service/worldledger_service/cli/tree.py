"""The tree of commands, to which kinds of worlds add theirs."""

from __future__ import annotations

import inspect
import sys
from types import ModuleType
from typing import Any, Final

import typer
from typer._click.exceptions import UsageError
from typer.core import TyperCommand, TyperGroup

from worldledger.errors import InvalidKindError


class _Usage:
    """What commands and groups do otherwise than Typer's: flags show no type, and every error knows its command."""

    def get_params(self, ctx: Any) -> Any:
        params = super().get_params(ctx)  # type: ignore[misc]
        for param in params:
            if getattr(param, "is_flag", False) and param.metavar is None:
                param.metavar = ""  # else the help shows `<bool>`, as if a flag took a value
        return params

    def parse_args(self, ctx: Any, args: list[str]) -> Any:
        try:
            return super().parse_args(ctx, args)  # type: ignore[misc]
        except UsageError as error:  # the parser leaves it out where an option's value is missing
            error.ctx = error.ctx or ctx
            raise


class Command(_Usage, TyperCommand):
    """A command."""


class Group(_Usage, TyperGroup):
    """A group of commands. Where a file's name stands instead of one, it suggests the command that reads such files."""

    def resolve_command(self, ctx: Any, args: list[str]) -> Any:
        """Return the name, the command and the arguments that are left. Raises UsageError."""
        try:
            return super().resolve_command(ctx, args)
        except UsageError as error:
            for name, command in self.commands.items():
                if args[0].endswith(_reads(command)):
                    what = f"no such command {args[0]!r}. Did you mean `{ctx.command_path} {name} {args[0]}`?"
                    raise UsageError(what, ctx) from error
            raise


def _reads(command: Any) -> tuple[str, ...]:
    """Return the endings of the files that a command reads, as its module has them."""
    module = sys.modules[command.callback.__module__] if command.callback else None
    endings: tuple[str, ...] = getattr(module, "READS", ())
    return endings


class Commands:
    """Commands by their path, such as ``verify``, ``kind list`` or ``db repair requests``.

    A command is a module with a function ``command`` for Typer and a text ``EXAMPLES``; one that reads files may name
    their endings in ``READS``. The words before the last are groups where there is such a group; where there is none,
    as for ``export parquet``, they are the beginning of its name.
    """

    def __init__(self, app: typer.Typer) -> None:
        self._groups: Final = {"": app}
        self._added: set[str] = set()

    def group(self, path: str, about: str, examples: str) -> None:
        """Add a group of commands: what it is for, and examples below its help."""
        group = typer.Typer(cls=Group, no_args_is_help=True, help=about, epilog=examples, rich_markup_mode="rich")
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
            cls=Command,
            context_settings=settings,
        )(module.command)

    def _take(self, path: str) -> None:
        if path in self._added:
            what = f"there are two commands `worldledger {path}`: a kind of worlds has one of a name that is taken"
            raise InvalidKindError(what, part="commands")
        self._added.add(path)
