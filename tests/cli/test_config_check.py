"""Configurations of simulations on the command line: checked without a database, and made into worlds."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from worldledger_simulation.rules import load_config

from .conftest import Cli
from .helpers import call

GOOD = """\
simulation: {name: Market day, max_turns: 20}
engine: {actions_per_turn: 2}
agents:
  - Trader_1
  - {name: Händler, state: {gold: 7}}
state_variables:
  agent_vars:
    gold: {type: int, min: 0, default: 5}
    goods: {type: dict, key_type: str, value_type: {type: float, min: 0, max: 10}}
    way: {type: list, item_type: {type: tuple, item_types: [float, str]}, max_length: 3}
    mood: {type: categorical, values: [calm, angry], default: calm}
  global_vars:
    town: {type: object, schema: {name: {type: str}, size: {type: int, default: 1}}}
observability:
  enabled: true
  variable_visibility: {external: [gold, way, mood], internal: [goods]}
  matrix:
    - [Trader_1, Trader_1, insider, 0.0]
"""
BAD = GOOD.replace("min: 0, default: 5", "mix: 0, default: x").replace("insider, 0.0", "insider, -1")

SUMMARY = """\
{file}: can be used
  simulation     Market day
  turns          at most 20 turns, actions of an agent in a turn: 2 at most
  agents (2)     Trader_1, Händler
  observability  on, 1 entry, otherwise unaware, noise 0.0
  variables of each agent:
    gold   external  int 0..
    goods  internal  dict[str, float 0..10]
    way    external  list[tuple[float, str]] of at most 3
    mood   external  categorical calm|angry
  global variables:
    town  external  object {{name: str, size: int}}
warning: {file}:13:5: state_variables.global_vars.town: in neither list of variable_visibility, so it is external
warning: {file}:17:3: observability.matrix: no entry says how Händler observe themselves; \
by default that is not at all (unaware)
"""


@pytest.fixture
def no_database(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """See to it that no database is found."""
    monkeypatch.setenv("WORLDLEDGER_DATABASE_URL", "postgresql://nobody@127.0.0.1:1/nothing")
    monkeypatch.setenv("WORLDLEDGER_HOME", str(tmp_path / "no" / "home"))


@pytest.fixture
def good(tmp_path: Path) -> Path:
    """Return a file with a good configuration."""
    file = tmp_path / "good.yaml"
    file.write_text(GOOD, encoding="utf-8")
    return file


@pytest.fixture
def bad(tmp_path: Path) -> Path:
    """Return a file with a bad one."""
    file = tmp_path / "bad.yaml"
    file.write_text(BAD, encoding="utf-8")
    return file


@pytest.mark.usefixtures("no_database")
def test_a_good_file(cli: Cli, good: Path) -> None:
    """A good configuration is summarised, its warnings with their places; no database is asked for."""
    assert cli("config", "check", str(good)) == (0, SUMMARY.format(file=good), "")


@pytest.mark.usefixtures("no_database")
def test_a_bad_file(cli: Cli, bad: Path, good: Path) -> None:
    """Every problem is a line on stderr that begins with its place; good files are summarised all the same."""
    lines = [
        f"{bad}:8:23: state_variables.agent_vars.gold.mix: unknown field 'mix'; did you mean 'min'?",
        f"{bad}:18:37: observability.matrix[0][3]: noise must be >= 0.0, not -1",
    ]
    assert cli("config", "check", str(bad), str(good)) == (1, SUMMARY.format(file=good), "\n".join(lines) + "\n")


@pytest.mark.usefixtures("no_database")
def test_a_file_that_is_none(cli: Cli, bad: Path, good: Path, tmp_path: Path) -> None:
    """A file that cannot be read is exit code 2, unless another one is bad."""
    missing = str(tmp_path / "missing.yaml")
    said = f"{missing}: cannot be read (No such file or directory)\n"
    assert cli("config", "check", missing, str(good)) == (2, SUMMARY.format(file=good), said)
    result = cli("config", "check", missing, str(bad))
    assert (result.code, result.err[: len(said)]) == (1, said)
    bad.write_text("a: 1\n\ta: 2\n")
    assert cli("config", "check", str(bad)) == (1, "", f"{bad}:2:1: a tab: YAML is indented and separated by spaces\n")


@pytest.mark.usefixtures("no_database")
def test_stdin() -> None:
    """`-` reads stdin, and is what it is called."""
    assert call("config", "check", "-", stdin=GOOD.encode()) == (0, SUMMARY.format(file="-"), "")
    result = call("config", "check", "-", stdin=BAD.encode())
    assert (result.code, result.err.splitlines()[0].partition(": ")[0]) == (1, "-:8:23")
    result = call("config", "check", "-", stdin=b"#" * (4 * 2**20 + 1))
    assert (result.code, result.err) == (1, "-: more than 4194304 bytes\n")


@pytest.mark.usefixtures("no_database")
def test_json(cli: Cli, bad: Path, good: Path, tmp_path: Path) -> None:
    """With --json each file is an object on a line, and nothing is on stderr."""
    result = cli("config", "check", "--json", str(bad), str(good), str(tmp_path / "none"))
    assert (result.code, result.err) == (1, "")
    first, second, third = map(json.loads, result.out.splitlines())
    assert (first["file"], first["valid"], first["warnings"], first["summary"]) == (str(bad), False, [], None)
    assert first["problems"][1] == {
        "path": "observability.matrix[0][3]",
        "message": "noise must be >= 0.0, not -1",
        "file": str(bad),
        "line": 18,
        "column": 37,
    }
    assert (second["valid"], second["problems"]) == (True, [])
    assert [warning["line"] for warning in second["warnings"]] == [13, 17]
    assert second["summary"]["name"] == "Market day"
    assert (second["summary"]["max_turns"], second["summary"]["actions_per_turn"]) == (20, 2)
    assert second["summary"]["agents"] == ["Trader_1", "Händler"]
    assert second["summary"]["agent_vars"]["goods"] == {"type": "dict[str, float 0..10]", "visibility": "internal"}
    assert second["summary"]["observability"] == {"enabled": True, "entries": 1, "default": ["unaware", 0.0]}
    assert (third["valid"], third["problems"][0]["message"][:14]) == (None, "cannot be read")


@pytest.mark.usefixtures("no_database")
def test_a_circle(cli: Cli, bad: Path) -> None:
    """A schema that contains itself is shown with its circle, on lines of its own."""
    text = "simulation: {name: c}\nagents: [A]\nstate_variables:\n  agent_vars:\n"
    bad.write_text(text + "    A: &a {type: object, schema: {b: *a}}\n")
    result = cli("config", "check", str(bad))
    assert result.code == 1
    assert result.err.startswith(
        f"{bad}:5:35: state_variables.agent_vars.A.schema.b: Circular reference detected in schema"
    )
    assert "  Cycle: A -> A\n" in result.err


@pytest.mark.usefixtures("no_database")
def test_what_a_file_says_cannot_steer_a_terminal(cli: Cli, good: Path) -> None:
    """Control characters of a file are shown as escapes."""
    good.write_text(GOOD.replace("Market day", '"\\e[2Jday"').replace("Händler", '"\\u202eB"'), encoding="utf-8")
    result = cli("config", "check", str(good))
    assert result.code == 0
    assert "\\x1b[2Jday" in result.out
    assert "\\u202eB" in result.out


@pytest.mark.usefixtures("no_database")
def test_many_agents(cli: Cli, good: Path) -> None:
    """Of many agents the first are named."""
    good.write_text("simulation: {name: many}\nagents:\n" + "".join(f"  - a{n}\n" for n in range(25)))
    result = cli("config", "check", str(good))
    assert "  agents (25)    a0, a1, a2, a3, a4, a5, a6, a7, a8, a9, and 15 more\n" in result.out
    assert "  turns          any number of turns\n" in result.out
    assert "  observability  off: everybody sees all\n" in result.out


@pytest.mark.usefixtures("no_database")
def test_help(cli: Cli) -> None:
    """The command and its group explain themselves, with an example."""
    for arguments in (("config", "check", "--help"), ("config", "--help")):
        result = cli(*arguments)
        assert (result.code, result.err) == (0, "")
        assert "worldledger config check simulation.yaml" in result.out
    assert cli("config", "check").code == 2


# -- worlds ------------------------------------------------------------------------------------------------------


def test_a_world_of_a_yaml_file(on: Cli, good: Path) -> None:
    """A YAML file makes a world of the ruleset simulation, with the configuration's normal form in its genesis."""
    result = on("world", "create", "market", "--config", str(good))
    assert (result.code, result.err) == (0, "")
    genesis = json.loads(on("log", "market").out.splitlines()[0])["payload"]
    assert genesis["ruleset"] == "simulation"
    assert genesis["config"]["agents"][1]["state"] == {"gold": 7}
    assert genesis["config"]["validator"] == {"type": "constraints"}


def test_a_world_of_a_json_file(on: Cli, tmp_path: Path) -> None:
    """A simulation's configuration is known by its sections; any other JSON object is a sandbox's, as it always was."""
    file, other = tmp_path / "c.json", tmp_path / "o.json"
    file.write_text('{"simulation": {"name": "s"}, "agents": ["A"]}')
    other.write_text('{"agents": ["A"]}')
    for name, config, how in (
        ("s", file, ("--ruleset", "simulation")),
        ("t", file, ()),
        ("u", file, ("--ruleset", "sandbox")),
        ("v", other, ()),
    ):
        assert on("world", "create", name, *how, "--config", str(config)).code == 0
    genesis = [json.loads(on("log", name).out.splitlines()[0])["payload"] for name in "stuv"]
    assert [each["ruleset"] for each in genesis] == ["simulation", "simulation", "sandbox", "sandbox"]
    assert genesis[1]["config"]["engine"]["type"] == "external"
    assert genesis[2]["config"] == {"simulation": {"name": "s"}, "agents": ["A"]}


def test_no_world_of_a_bad_file(on: Cli, bad: Path, tmp_path: Path) -> None:
    """A bad configuration is refused with all of its problems, and nothing is made."""
    result = on("world", "create", "market", "--config", str(bad))
    assert (result.code, result.out) == (2, "")
    assert [line.split(": ")[1] for line in result.err.splitlines()] == [f"{bad}:8:23", f"{bad}:18:37"]
    result = on("world", "create", "market", "--config", str(tmp_path / "none.yml"))
    assert result == (2, "", f"worldledger: {tmp_path / 'none.yml'}: cannot be read (No such file or directory)\n")
    assert on("worlds", "--json").out == "[]\n"


LLM_SIM = """\
simulation:
  name: Hybrid
  max_turns: 15
  checkpoint_interval: 5
  termination: {min_value: 0.0, max_value: 1000000.0}
llm: {model: "some:1b", host: "http://127.0.0.1:1", api_key: secret}
agents:
  - {name: Ann, type: nation, initial_economic_strength: 100.0, strategy: grow}
  - {name: Bob, type: econ_llm_agent, initial_economic_strength: 50, initial_location: here}
validator: {type: econ_llm_validator, domain: economic, permissive: true}
engine: {type: econ_llm_engine, interest_rate: 0.03}
logging: {level: INFO, format: console}
spatial: {topology: {type: grid, width: 3}}
"""


@pytest.mark.usefixtures("no_database")
def test_a_configuration_of_llm_sim(cli: Cli, tmp_path: Path) -> None:
    """It is recognised in one line, and converted into one that can be used; what moved and what stayed out is said."""
    file, made = tmp_path / "llm.yaml", tmp_path / "ours.yaml"
    file.write_text(LLM_SIM, encoding="utf-8")
    checked = cli("config", "check", str(file))
    (line,) = checked.err.splitlines()
    assert (checked.code, checked.out) == (1, "")
    assert "this is a configuration of llm-sim (llm, logging, spatial, simulation.termination, " in line
    assert line.endswith("`worldledger config convert` turns it into one of these")
    done = cli("config", "convert", str(file), "-o", str(made))
    assert (done.code, done.out) == (0, "")
    said = done.err.splitlines()
    for words in (
        "moved: simulation.termination to engine.parameters.termination",
        "moved: engine.interest_rate to engine.parameters.interest_rate",
        "moved: agents[Ann].initial_economic_strength to agents[Ann].state.economic_strength, and of 1 more agent",
        "moved: agents[Bob].initial_location to agents[Bob].parameters.initial_location",
        "moved: validator to engine.parameters.validator",
        "moved: the variables that llm-sim has by itself to state_variables",
        "left out: simulation.checkpoint_interval: every turn is kept, and can be exported as a checkpoint",
        "left out: logging: the service logs as its own settings say",
    ):
        assert f"worldledger: {words}" in said
    assert "secret" not in made.read_text(encoding="utf-8")
    assert cli("config", "check", str(made)).code == 0
    config = load_config(made)
    assert config.initial_agents() == {
        "Ann": {"name": "Ann", "economic_strength": 100.0},
        "Bob": {"name": "Bob", "economic_strength": 50.0},
    }
    assert config.initial_global()["total_economic_value"] == 150.0
    assert (config.initial_global()["interest_rate"], config.engine.parameters["interest_rate"]) == (0.03, 0.03)
    assert config.agents[0].parameters == {"strategy": "grow"}
    assert config.engine.parameters["spatial"] == {"topology": {"type": "grid", "width": 3}}
    assert cli("config", "convert", str(made), "--quiet") == (0, made.read_text(encoding="utf-8"), "")
    defined = LLM_SIM + "state_variables: {agent_vars: {location: {type: string}}, global_vars: {}}\n"
    file.write_text(defined, encoding="utf-8")
    odd = cli("config", "convert", str(file), "--quiet")
    assert odd.code == 1
    assert "location: here" in odd.out
    assert (
        "unknown type 'string'; the types are float, int, bool, categorical, dict, list, tuple, str and object"
        in odd.err
    )
    file.write_text("- 1", encoding="utf-8")
    assert cli("config", "convert", str(file)).code == 1
    assert cli("config", "convert", str(tmp_path / "none.yaml")).code == 2


@pytest.mark.usefixtures("no_database")
def test_very_many_problems_are_summed_up(cli: Cli, tmp_path: Path) -> None:
    """A hundred are told, and how many more there are; one sign of llm-sim is a slip, with no misleading suggestion."""
    agents = "".join(f"  - {{name: a{number}, strategy: x}}\n" for number in range(130))
    file = tmp_path / "many.yaml"
    file.write_text(f"simulation: {{name: s, termination: 3}}\nagents:\n{agents}", encoding="utf-8")
    done = cli("config", "check", str(file))
    lines = done.err.splitlines()
    assert (done.code, len(lines)) == (1, 101)
    assert lines[0].endswith("unknown field 'termination'; known are name, description, max_turns")
    assert "did you mean" not in done.err
    assert lines[-1] == f"{file}: and 31 more problems"
    found = json.loads(cli("config", "check", str(file), "--json").out)
    assert (len(found["problems"]), found["problems"][-1]["message"]) == (101, "and 31 more problems")
