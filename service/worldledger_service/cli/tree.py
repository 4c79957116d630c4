"""The tree of commands, to which kinds of worlds add their own."""

from __future__ import annotations

import inspect
import re
from collections.abc import Callable
from typing import Any, ClassVar, Final

import typer
from typer._click.exceptions import UsageError
from typer.core import TyperCommand, TyperGroup

from worldledger.errors import InvalidKindError


class _Usage:
    """Changes to Typer's commands and groups: flags show no type, and every usage error knows its command."""

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

    #: The endings of the files that it reads.
    reads: ClassVar[tuple[str, ...]] = ()


class Group(_Usage, TyperGroup):
    """A group of commands. For a file's name in place of a command, it suggests the command that reads such files."""

    def resolve_command(self, ctx: Any, args: list[str]) -> Any:
        """Return the name, the command and the arguments that are left. Raises UsageError."""
        try:
            return super().resolve_command(ctx, args)
        except UsageError as error:
            for name, command in self.commands.items():
                if args[0].endswith(getattr(command, "reads", ())):
                    what = f"no such command {args[0]!r}. Did you mean `{ctx.command_path} {name} {args[0]}`?"
                    raise UsageError(what, ctx) from error
            raise


class Commands:
    """Commands by their path, such as ``verify``, ``kind list`` or ``db repair requests``.

    The words before the last are groups where there is such a group; where there is none, as for ``export parquet``,
    they are the beginning of its name.
    """

    def __init__(self, app: typer.Typer) -> None:
        self._groups: Final = {"": app}
        self._added: set[str] = set()

    def group(self, path: str, about: str, *examples: str) -> None:
        """Add a group of commands: what it is for, and the examples below its help."""
        group = typer.Typer(
            cls=Group, no_args_is_help=True, help=about, epilog=_examples(*examples), rich_markup_mode="rich"
        )
        above, _, name = path.rpartition(" ")
        self._take(path)
        self._groups[above].add_typer(group, name=name)
        self._groups[path] = group

    def add(self, path: str, command: Callable[..., None], *, reads: tuple[str, ...] = (), **settings: bool) -> None:
        """Add a command: a function with Typer's parameters. Its docstring is its help.

        A docstring ends with a section of examples, headed ``Example:`` or ``Examples:``, one a line; in the text above
        it the lines of a paragraph are joined. ``reads`` are the endings of the files that the command reads, for a
        hint where such a file is named in place of a command. ``settings`` are Click's context settings. Raises
        InvalidKindError for a path that is taken.
        """
        self._take(path)
        above, _, name = path.rpartition(" ")
        if above not in self._groups:
            above, name = "", path
        about, *examples = re.split(r"\n\nExamples?:\n", inspect.getdoc(command) or "")
        self._groups[above].command(
            name,
            help="\n\n".join(paragraph.replace("\n", " ") for paragraph in about.split("\n\n")),
            epilog=_examples(*(line.strip() for text in examples for line in text.splitlines())),
            cls=type("Command", (Command,), {"reads": reads}),
            context_settings=settings,
        )(command)

    def _take(self, path: str) -> None:
        if path in self._added:
            what = f"there are two commands `worldledger {path}`: a kind of worlds has one of a name that is taken"
            raise InvalidKindError(what, part="commands")
        self._added.add(path)


def _examples(*lines: str) -> str | None:
    """Return the examples that stand below a help; None where there are none."""
    if not lines:
        return None
    return "\n".join(["Example:" if len(lines) == 1 else "Examples:", "", *(f"  {line}" for line in lines)])
