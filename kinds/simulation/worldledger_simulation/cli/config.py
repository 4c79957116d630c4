"""``worldledger config check`` and ``convert``: configurations of simulations."""

from __future__ import annotations

import json
import re
import sys
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Annotated, Any, Final

import typer
from worldledger_service.cli.files import written_whole
from worldledger_service.cli.options import Quiet
from worldledger_service.cli.output import Above, Piece, counted, cut, plain, put_bytes, put_lines, say, table

from worldledger.errors import FileRefusedError, Problem, SimulationError, dotted, summed_up, told
from worldledger_simulation.rules.sections import InvalidSimulationConfigError

if TYPE_CHECKING:
    from worldledger.variables import VariableDefinition
    from worldledger_simulation.rules.config import SimulationConfig
    from worldledger_simulation.rules.converting import Conversion
    from worldledger_simulation.rules.strict_yaml import Document


#: Most agents that are listed by name.
_MOST_NAMED: Final = 10
#: Longest description of a type.
_MOST_CHARACTERS: Final = 100


def check_config(
    files: Annotated[
        list[str],
        typer.Argument(
            metavar="FILE", help="Configurations of simulations: YAML or JSON; - is stdin.", show_default=False
        ),
    ],
    as_json: Annotated[bool, typer.Option("--json", help="Write JSON: one object a line for each file.")] = False,
) -> None:
    """Check configurations of simulations, and show what they say. No database is needed.

    Everything that is wrong is a line on stderr, FILE:LINE:COLUMN: PATH: MESSAGE, and the exit code is then 1; it is 2
    if a file cannot be read, and nothing is wrong with the others.

    Examples:
        worldledger config check simulation.yaml
        worldledger config check simulations/*.yaml --json | jq .problems
    """
    codes = [_check(file, as_json=as_json) for file in files]
    if any(codes):
        raise typer.Exit(1 if 1 in codes else 2)


def _check(file: str, *, as_json: bool) -> int:
    """Report on one file; return its exit code."""
    from worldledger_simulation.rules.config import config_of, located  # noqa: PLC0415

    problems: Sequence[Problem] = ()
    warnings: Sequence[Problem] = ()
    summary = None
    code = 0
    try:
        document = read_configuration(file)
        config = config_of(document)
        warnings = located(config.warnings(), document)
        summary = _summary(config)
    except InvalidSimulationConfigError as error:
        code, problems = 1, error.problems
    except FileRefusedError as error:
        code, problems = 2, [Problem((), error.reason, file)]
    if as_json:
        answer = {
            "file": file,
            "valid": None if code == 2 else code == 0,
            "problems": [_value(problem) for problem in summed_up(problems)],
            "warnings": [_value(problem) for problem in warnings],
            "summary": summary,
        }
        put_bytes(json.dumps(answer, ensure_ascii=False).encode() + b"\n")
    elif summary is not None:
        put_lines(_lines(file, summary, warnings))
    else:
        put_problems(problems)
    return code


def put_problems(problems: Sequence[Problem]) -> None:
    """Write problems to stderr, without the program's name in front, so that editors can jump to the place."""
    for problem in summed_up(problems):
        for line in told(problem).splitlines():
            Above().write(plain(line) + "\n")


def read_configuration(file: str) -> Document:
    """Read a file, or stdin for ``-``. Raises the errors of `load_config`."""
    from worldledger_simulation.rules.config import read_document  # noqa: PLC0415
    from worldledger_simulation.rules.strict_yaml import MAX_BYTES  # noqa: PLC0415

    return read_document(sys.stdin.buffer.read(MAX_BYTES + 1) if file == "-" else file, name=file)


def _value(problem: Problem) -> dict[str, Any]:
    return {**problem._asdict(), "path": dotted(problem.path)}


def _summary(config: SimulationConfig) -> dict[str, Any]:
    """Return a summary of a configuration."""
    seen = config.observability
    internal = frozenset() if seen is None else seen.internal
    enabled = seen is not None and seen.enabled

    def variables(definitions: dict[str, VariableDefinition]) -> dict[str, dict[str, str]]:
        return {
            name: {"type": _type(definition), "visibility": "internal" if name in internal else "external"}
            for name, definition in definitions.items()
        }

    return {
        "name": config.simulation.name,
        "max_turns": config.simulation.max_turns,
        "actions_per_turn": config.engine.actions_per_turn,
        "agents": [agent.name for agent in config.agents],
        "agent_vars": variables(config.state_variables.agent_vars),
        "global_vars": variables(config.state_variables.global_vars),
        "observability": {
            "enabled": enabled,
            "entries": 0 if seen is None else len(seen.matrix),
            "default": None if seen is None else [seen.default.level.value, seen.default.noise],
        },
    }


def _lines(file: str, summary: dict[str, Any], warnings: Sequence[Problem]) -> Iterator[list[Piece]]:
    agents, turns, actions = summary["agents"], summary["max_turns"], summary["actions_per_turn"]
    named = [plain(name) for name in agents[:_MOST_NAMED]]
    more = len(agents) - len(named)
    seen = summary["observability"]
    limits = ["any number of turns" if turns is None else f"at most {turns} turns"]
    limits += [] if actions is None else [f"actions of an agent in a turn: {actions} at most"]
    level = seen["default"] and f"otherwise {seen['default'][0]}, noise {seen['default'][1]}"
    rows: list[Sequence[str | Sequence[str]]] = [
        ("simulation", plain(summary["name"])),
        ("turns", limits),
        (f"agents ({len(agents)})", [*named, f"and {more} more"] if more else named),
        (
            "observability",
            ["on", "1 entry" if seen["entries"] == 1 else f"{seen['entries']} entries", level]
            if seen["enabled"]
            else "off: everybody sees all",
        ),
    ]
    yield [(f"{file}: ", "bold"), ("can be used", "green")]
    yield from table(rows)
    for kind, title in (("agent_vars", "variables of each agent"), ("global_vars", "global variables")):
        if summary[kind]:
            yield [(f"  {title}:", "")]
            shown = [(plain(name), each["visibility"], each["type"]) for name, each in summary[kind].items()]
            yield from table(shown, indent=4)
    for warning in warnings:
        yield [("warning: ", "yellow"), (told(warning), "")]


def _type(definition: VariableDefinition | str) -> str:
    """Describe the type of a variable: ``float 0..100``, ``dict[str, list[int]]``, ``object {name: str}``."""
    return plain(cut(_described(definition), _MOST_CHARACTERS))


def _described(definition: VariableDefinition | str) -> str:
    if isinstance(definition, str):
        return definition
    kind: str = definition.type
    if definition.schema_ is not None:
        return f"{kind} {{{', '.join(f'{name}: {_described(each)}' for name, each in definition.schema_.items())}}}"
    if kind == "dict":
        return f"dict[{definition.key_type}, {_described(definition.value_type or '?')}]"
    if kind == "tuple":
        return f"tuple[{', '.join(_described(each) for each in definition.item_types or ())}]"
    if kind == "list":
        kind = f"list[{_described(definition.item_type or '?')}]"
    if kind == "categorical":
        return f"categorical {'|'.join(definition.values or ())}"
    if definition.max_length is not None:
        kind += f" of at most {definition.max_length}"
    low, high = (("" if bound is None else f"{bound:g}") for bound in (definition.min, definition.max))
    return f"{kind} {low}..{high}" if low or high else kind


# ``worldledger config convert``: configurations of llm-sim as configurations of simulations.

#: The part of a path that differs between agents.
_AGENT = re.compile(r"^agents\[.*?\]")


def convert_config(
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

    Example:
        worldledger config convert llm_economic.yaml -o economy.yaml
    """
    from worldledger_simulation.rules.converting import converted  # noqa: PLC0415

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
        more = f", and of {counted(len(others), 'more agent')}" if others else ""
        say(f"moved: {before} to {after}{more}")
    for path, why in done.left:
        say(f"left out: {path}: {why}")
    if not done.moved and not done.left:
        say("nothing was changed")


def _text(value: dict[str, Any], file: str) -> str:
    """Return a configuration as YAML that reads back as the same. Raises SimulationError if it contains itself."""
    import yaml  # noqa: PLC0415 - slow to load; `--help` needs none of them

    from worldledger_simulation.rules.strict_yaml import parse  # noqa: PLC0415

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
