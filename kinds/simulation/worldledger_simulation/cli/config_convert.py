"""``worldledger config convert``: from configurations of llm-sim to configurations of simulations."""

from __future__ import annotations

import json
import re
from typing import TYPE_CHECKING, Annotated, Any

import typer
from worldledger_service.cli.files import written_whole
from worldledger_service.cli.options import Quiet, examples
from worldledger_service.cli.output import say

from worldledger.errors import FileRefusedError, InvalidSimulationConfigError, Problem, SimulationError
from worldledger_simulation.cli.config_check import put_problems, read_configuration

if TYPE_CHECKING:
    from worldledger_simulation.rules.configuring.converting import Conversion

#: The part in which the paths of agents differ.
_AGENT = re.compile(r"^agents\[.*?\]")
EXAMPLES = examples("worldledger config convert llm_economic.yaml -o economy.yaml")


def command(
    file: Annotated[
        str, typer.Argument(metavar="FILE", help="A configuration of llm-sim: YAML; - is stdin.", show_default=False)
    ],
    output: Annotated[
        str, typer.Option("--output", "-o", metavar="FILE", help="Where to write it; - is stdout.")
    ] = "-",
    quiet: Quiet = False,
) -> None:
    """Turn a configuration of llm-sim into one of a simulation here, and say what moved and what stayed out.

    What was said to the engine, the validator and the map goes to engine.parameters, an agent's first values to its
    state. The result is written as YAML, and checked as by `worldledger config check`: what is wrong with it is told on
    stderr, and the exit code is then 1; it is 2 if the file cannot be read. No database is needed.
    """
    from worldledger_simulation.rules.configuring.converting import converted  # noqa: PLC0415

    try:
        document = read_configuration(file)
    except InvalidSimulationConfigError as error:
        put_problems(error.problems)
        raise typer.Exit(1) from None
    except FileRefusedError as error:
        put_problems([Problem((), error.reason, file)])
        raise typer.Exit(2) from None
    done = converted({str(name): section for name, section in document.value.items()})
    text = _text(done.value, file)
    with written_whole(output) as write:
        write(text.encode())
    if not quiet:
        _tell(done)
    problems = _problems(done.value)
    if problems:
        put_problems([problem._replace(file=file if output == "-" else output) for problem in problems])
        raise typer.Exit(1)


def _tell(done: Conversion) -> None:
    alike: dict[tuple[str, str], list[tuple[str, str]]] = {}
    for before, after in done.moved:
        alike.setdefault((_AGENT.sub("", before), _AGENT.sub("", after)), []).append((before, after))
    for (before, after), *others in alike.values():
        more = f", and of {len(others)} more agent{'' if len(others) == 1 else 's'}" if others else ""
        say(f"moved: {before} to {after}{more}")
    for path, why in done.left:
        say(f"left out: {path}: {why}")
    if not done.moved and not done.left:
        say("nothing was changed")


def _text(value: dict[str, Any], file: str) -> str:
    """Write a configuration as YAML that reads back as the same. Raises SimulationError if it contains itself."""
    import yaml  # noqa: PLC0415 - slow to load; `--help` needs none of them

    from worldledger.strict_yaml import parse  # noqa: PLC0415

    class Plain(yaml.SafeDumper):
        def ignore_aliases(self, data: Any) -> bool:
            return True

    try:
        as_json = json.dumps(value, indent=2, ensure_ascii=False)
    except (ValueError, RecursionError):
        raise SimulationError(f"{file}: a definition contains itself; it cannot be written", file=file) from None
    text = yaml.dump(value, Dumper=Plain, sort_keys=False, allow_unicode=True, width=120)
    try:
        same = parse(text.encode(), name=file).value == value
    except InvalidSimulationConfigError:
        same = False
    return text if same else as_json + "\n"


def _problems(value: dict[str, Any]) -> list[Problem]:
    from worldledger_simulation.rules.config import SimulationConfig, new_config  # noqa: PLC0415

    try:
        new_config(SimulationConfig.from_value(value))
    except InvalidSimulationConfigError as error:
        return list(error.problems)
    return []
