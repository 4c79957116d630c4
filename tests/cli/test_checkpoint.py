"""`checkpoint export` and `checkpoint import`: a simulation's state as a file, and a simulation that begins with it."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import jsonschema_rs
import pytest
import yaml
from worldledger_service.api.published import published

from tests.markets import ENDED, HEAD, TURNS, market

from .conftest import Cli
from .helpers import BAZAAR, call, play, record, untouched

VALUES = ("turn", "agents", "global_state")


def played(url: str) -> None:
    """Have a simulation in its second turn."""
    play(url, "market", TURNS, ruleset="simulation", config=market())


def two_kinds(url: str) -> None:
    """Have a world of another kind, too."""
    played(url)
    record(url, "bazaar", BAZAAR)


@pytest.fixture
def config(tmp_path: Path) -> str:
    """Return the file of its configuration."""
    file = tmp_path / "simulation.yaml"
    file.write_text(yaml.safe_dump(market(), allow_unicode=True, sort_keys=False))
    return str(file)


def entities(on: Cli, world: str, *moment: str) -> dict[str, Any]:
    """Return what a world's state has of entities."""
    found: dict[str, Any] = json.loads(on("state", world, "--json", *moment).out)["state"]["entities"]
    return found


@pytest.fixture
def exported(on: Cli, tmp_path: Path) -> Path:
    """Return the checkpoint of its first turn."""
    file = tmp_path / "first-turn.json"
    assert on("checkpoint", "export", "market", "--turn", "1", "-o", str(file)).code == 0
    return file


def said(text: str) -> str:
    """Return what was said as one line without frames."""
    return " ".join(text.replace("│", " ").split())


# -- exporting -----------------------------------------------------------------------------------------------


@pytest.mark.filled(by=played, read=True)
def test_a_checkpoint_is_the_state_at_a_turn(on: Cli, exported: Path) -> None:
    """It has every value as it was, says where it was taken, and is right by its schema."""
    value = json.loads(exported.read_text())
    assert list(value) == [*VALUES, "worldledger"]
    state = entities(on, "market", "--at-turn", "1")
    assert (value["turn"], value["global_state"]) == (1, state.pop("global"))
    assert value["agents"] == state
    found = json.loads(on("state", "market", "--at-turn", "1", "--json").out)
    origin = value["worldledger"]
    assert (origin["world_id"], origin["global_seq"], origin["checksum"]) == ("market", ENDED, found["checksum"])
    assert (origin["format"], origin["paused"]) == ("checkpoint/1", {"Cid": 6})
    jsonschema_rs.validator_for(published()["checkpoint"].make()).validate(value)


@pytest.mark.filled(by=played, read=True)
def test_a_checkpoint_on_stdout(on: Cli) -> None:
    """Without a file it goes to stdout, and what is to be said of it to stderr."""
    result = on("checkpoint", "export", "market")
    assert json.loads(result.out)["turn"] == 2
    assert result.err == (
        f"worldledger: exported market at turn 2, seq {HEAD}; the turn is open: a simulation that begins with this "
        "goes on after it\n"
    )
    result = on("checkpoint", "export", "market", "--at-seq", "7", "-o", "-", "--quiet")
    assert (json.loads(result.out)["worldledger"]["global_seq"], result.err) == (7, "")


@pytest.mark.filled(by=played, read=True)
def test_a_file_is_replaced_whole_or_not_at_all(on: Cli, tmp_path: Path) -> None:
    """A file of that name is replaced if --force says so, when the new one is whole; a refused export leaves it."""
    file = tmp_path / "market.json"
    file.write_text("before")
    result = on("checkpoint", "export", "market", "-o", str(file))
    assert result == (2, "", f"worldledger: {file}: is already there; --force replaces it\n")
    result = on("checkpoint", "export", "market", "--turn", "7", "-o", str(file), "--force")
    assert (result.code, file.read_text()) == (2, "before")
    result = on("checkpoint", "export", "market", "--turn", "1", "-o", str(file), "--force")
    assert result == (0, "", f"worldledger: exported market at turn 1, seq {ENDED} to {file}\n")
    assert json.loads(file.read_text())["turn"] == 1
    assert list(tmp_path.iterdir()) == [file]
    result = on("checkpoint", "export", "market", "-o", str(tmp_path / "no" / "where.json"))
    assert (result.code, "cannot be written" in result.err) == (2, True)


@pytest.mark.filled(by=two_kinds, read=True)
@pytest.mark.parametrize(
    ("arguments", "why"),
    [
        (("bazaar",), "world 'bazaar' is of ruleset sandbox; only simulations have checkpoints"),
        (("market", "--at-seq", "1"), "world 'market' has no checkpoint at seq 1"),
        (("market", "--turn", "3"), "no turn 3; its last is 2"),
        (("market", "--turn", "1", "--at-seq", "1"), "one moment"),
        (("nowhere",), "no world named 'nowhere'"),
    ],
)
def test_checkpoints_that_there_are_not(on: Cli, arguments: tuple[str, ...], why: str) -> None:
    """What has no checkpoint is exit code 2 and says why."""
    result = on("checkpoint", "export", *arguments)
    assert (result.code, result.out) == (2, "")
    assert why in said(result.err)
    assert "Traceback" not in result.err


# -- importing -----------------------------------------------------------------------------------------------


@pytest.mark.filled(by=played)
def test_a_simulation_goes_on_from_a_checkpoint(on: Cli, exported: Path, config: str, database_url: str) -> None:
    """The new world is called like the file; it has the very values of the checkpoint, and its next turn follows."""
    result = on("checkpoint", "import", str(exported), "--config", config, "--experiment", "what-if")
    assert (result.code, result.err) == (0, "")
    assert result.out.startswith("created first-turn at turn 1, head 5:")
    assert entities(on, "first-turn") == entities(on, "market", "--at-turn", "1")
    state = json.loads(on("state", "first-turn", "--json").out)["state"]["metadata"]["simulation"]
    assert state["agents"]["Cid"] == {"paused": True, "resume_turn": 6}
    (world,) = json.loads(on("worlds", "--experiment", "what-if", "--json").out)
    assert (world["world_id"], world["ruleset"]) == ("first-turn", "simulation")
    effects = [json.loads(line) for line in on("log", "first-turn", "--kind", "SimulationStarted").out.splitlines()]
    assert effects[0]["payload"]["checkpoint"]["world_id"] == "market"
    assert effects[0]["payload"]["checkpoint"]["edited"] is False
    play(database_url, "first-turn", TURNS[:1])
    again = json.loads(on("checkpoint", "export", "first-turn", "--turn", "1").out)
    assert {name: again[name] for name in VALUES} == {
        name: value for name, value in json.loads(exported.read_text()).items() if name in VALUES
    }
    assert on("view", "first-turn", "Bea", "--turn", "2").code == 0


@pytest.mark.filled(by=played)
def test_the_same_import_again(on: Cli, exported: Path, config: str) -> None:
    """The same import again changes nothing and says so; another one under the name is refused."""
    arguments = ("checkpoint", "import", str(exported), "--config", config)
    assert on(*arguments).code == 0
    head = json.loads(on("state", "first-turn", "--json").out)["global_seq"]
    assert on(*arguments) == (0, "already there, nothing to do: first-turn, turn 1\n", "")
    assert on(*arguments, "--experiment", "other").code == 2
    assert json.loads(on("state", "first-turn", "--json").out)["global_seq"] == head
    result = on(*arguments, "--name", "market")
    assert (result.code, result.out) == (2, "")
    assert "market" in result.err
    value = json.loads(exported.read_text())
    value["agents"]["Ann"]["gold"] = 91
    exported.write_text(json.dumps(value))
    assert on(*arguments, "--edited").code == 2


@pytest.mark.filled(by=played)
def test_an_edited_checkpoint(on: Cli, exported: Path, config: str) -> None:
    """One that was edited is refused unless it is said to be; then it begins with what it has now."""
    value = json.loads(exported.read_text())
    value["agents"]["Ann"]["location"] = [1, 2]
    exported.write_text(json.dumps(value))
    arguments = ("checkpoint", "import", str(exported), "--config", config, "--name", "what-if")
    result = on(*arguments)
    assert (result.code, result.out) == (2, "")
    assert result.err == (
        f"worldledger: {exported}: it was edited since it was exported (its digest is another one); give --edited to "
        "take it as it is\n"
    )
    assert on("state", "what-if").code == 2
    assert on(*arguments, "--edited").code == 0
    assert entities(on, "what-if")["Ann"]["location"] == [1.0, 2.0]
    (line,) = on("log", "what-if", "--kind", "SimulationStarted").out.splitlines()
    assert json.loads(line)["payload"]["checkpoint"]["edited"] is True


@pytest.mark.filled(by=played)
def test_written_anew_is_not_edited(on: Cli, exported: Path, config: str) -> None:
    """Other white space and another order of the members is the same checkpoint."""
    value = json.loads(exported.read_text())
    exported.write_text(json.dumps(dict(reversed(value.items())), indent=1, sort_keys=False))
    assert on("checkpoint", "import", str(exported), "--config", config).code == 0


@pytest.mark.filled(by=played)
def test_a_byte_order_mark_is_passed_over(on: Cli, exported: Path, config: str) -> None:
    """As some editors write one; a second is no JSON."""
    exported.write_bytes(b"\xef\xbb\xbf" + exported.read_bytes())
    assert on("checkpoint", "import", str(exported), "--config", config).code == 0
    exported.write_bytes(b"\xef\xbb\xbf" + exported.read_bytes())
    result = on("checkpoint", "import", str(exported), "--config", config, "--name", "twice")
    assert (result.code, "not JSON" in result.err) == (2, True)


def test_a_checkpoint_of_scalars_alone(on: Cli, tmp_path: Path) -> None:
    """A checkpoint that does not say where it comes from is taken as it is."""
    config = tmp_path / "old.yaml"
    config.write_text(
        "simulation: {name: old}\n"
        "agents: [Trader_1]\n"
        "state_variables:\n"
        "  agent_vars:\n"
        "    wealth: {type: float, min: 0, default: 1.0}\n"
        "    level: {type: int, default: 1}\n"
        "    alive: {type: bool, default: true}\n"
        "    role: {type: categorical, values: [buyer, seller], default: buyer}\n"
        "  global_vars:\n"
        "    rate: {type: float, default: 0.1}\n"
    )
    file = tmp_path / "old.json"
    agent = {"name": "Trader_1", "wealth": 12.5, "level": 3, "alive": False, "role": "seller"}
    file.write_text(json.dumps({"turn": 5, "agents": {"Trader_1": agent}, "global_state": {"rate": 0.2}}))
    assert on("checkpoint", "import", str(file), "--config", str(config)).code == 0
    assert entities(on, "old") == {"Trader_1": agent, "global": {"rate": 0.2}}
    assert entities(on, "old", "--at-turn", "5") == entities(on, "old")


@pytest.mark.filled(by=played)
def test_variables_that_came_later(on: Cli, exported: Path, tmp_path: Path) -> None:
    """A configuration with more variables takes the checkpoint; the new ones have their defaults."""
    value = market()
    value["state_variables"]["agent_vars"]["karma"] = {"type": "int", "default": 5}
    config = tmp_path / "more.json"
    config.write_text(json.dumps(value))
    assert on("checkpoint", "import", str(exported), "--config", str(config)).code == 0
    assert [entity.get("karma") for _, entity in sorted(entities(on, "first-turn").items())] == [5, 5, 5, None]


@pytest.mark.filled(by=played)
def test_a_checkpoint_of_another_simulation(on: Cli, exported: Path, tmp_path: Path) -> None:
    """Everything that does not fit is told, each with its place, and nothing is created."""
    value = market(agents=["Ann", "Bea"], observability=None)
    del value["state_variables"]["agent_vars"]["gold"]
    value["state_variables"]["agent_vars"]["location"] = {"type": "str"}
    config = tmp_path / "other.yaml"
    config.write_text(yaml.safe_dump(value))
    result = on("checkpoint", "import", str(exported), "--config", str(config))
    assert (result.code, result.out) == (2, "")
    lines = result.err.splitlines()
    assert lines[0] == f"worldledger: {exported}: the checkpoint does not fit {config}"
    assert "other state variables" in lines[1]
    for path in ("agents[Ann].gold", "agents[Ann].location", "agents[Bea].gold", "agents[Bea].location", "agents[Cid]"):
        assert any(line.startswith(f"worldledger: {exported}: {path}: ") for line in lines), path
    assert on("state", "first-turn").code == 2


@pytest.mark.filled(by=untouched, read=True)
@pytest.mark.parametrize(
    ("text", "why"),
    [
        (b"", "not JSON: Expecting value at line 1 column 1"),
        (b"turn: 5\nagents: {}\n", "not JSON"),
        (b'{"turn": 5,\n "agents": {"Ann": {"gold": 1', "at line 2 column "),
        (b'{"turn": 5, "agents": {"Ann": {"gold": 1, "gold": 2}}}', "$.agents.Ann: the key 'gold' stands twice"),
        (b'{"turn": NaN, "agents": {}}', "$.turn: not a finite number"),
        (b'{"turn": 5, "agents": {"Ann": {"plan": "\\u0000"}}}', "$.agents.Ann.plan: a string with a NUL character"),
        (b'{"turn": 5, "agents": {}}\xff', "not UTF-8"),
        (b"[" * 100_000, "nested deeper"),
        (b"[1, 2]", "a checkpoint is an object"),
        (b"null", "a checkpoint is an object"),
        (b'{"turn": 5, "agents": {"Ann": {"gold": 1}}, "extra": 1}', "extra: unknown field"),
    ],
    ids=lambda value: value[:30] if isinstance(value, bytes) else None,
)
def test_what_is_no_checkpoint(on: Cli, tmp_path: Path, config: str, text: bytes, why: str) -> None:
    """A file that is none, was cut short or has what JSON cannot hold is refused with its place."""
    file = tmp_path / "broken.json"
    file.write_bytes(text)
    result = on("checkpoint", "import", str(file), "--config", config)
    assert (result.code, result.out) == (2, "")
    assert all(line.startswith(f"worldledger: {file}: ") for line in result.err.splitlines())
    assert why in result.err
    assert on("state", "broken").code == 2


@pytest.mark.filled(by=untouched, read=True)
def test_a_huge_file(on: Cli, tmp_path: Path, config: str) -> None:
    """A file that is far too large is refused at once, and is not read to its end."""
    file = tmp_path / "huge.json"
    with file.open("wb") as stream:
        stream.truncate(10 * 2**30)
    result = on("checkpoint", "import", str(file), "--config", config)
    assert (result.code, result.err) == (
        2,
        f"worldledger: {file}: it is larger than 67108864 bytes; no checkpoint is\n",
    )


def test_a_checkpoint_that_no_effect_can_hold(on: Cli, tmp_path: Path, config: str) -> None:
    """What is larger than an effect may be is refused, and nothing is created."""
    inventory = {f"thing {n} {'x' * 1100}": 1.0 for n in range(1000)}
    file = tmp_path / "large.json"
    file.write_text(json.dumps({"turn": 5, "agents": {"Ann": {"inventory": inventory}}}))
    result = on("checkpoint", "import", str(file), "--config", config)
    assert (result.code, result.out) == (2, "")
    assert "bytes" in result.err
    assert on("state", "large").code == 2


@pytest.mark.filled(by=played)
def test_files_that_cannot_be_read(on: Cli, exported: Path, config: str, tmp_path: Path) -> None:
    """A missing file, a folder, a missing or wrong configuration, a name that no world can have: exit code 2."""
    broken = tmp_path / "broken.yaml"
    broken.write_text("simulation: {name: x}\nagents: [Ann]\nstate_variable: {}\n")
    strange = tmp_path / "a b.json"
    strange.write_bytes(exported.read_bytes())
    for file, settings, more, why in (
        (str(tmp_path / "none.json"), config, (), "cannot be read (No such file or directory)"),
        (str(tmp_path), config, ("--name", "x"), "cannot be read (Is a directory)"),
        (str(exported), str(tmp_path / "none.yaml"), (), "cannot be read (No such file or directory)"),
        (str(exported), str(broken), (), f"{broken}:3:1: state_variable: unknown field"),
        (str(strange), config, (), "cannot be a world's name"),
        ("-", config, (), "cannot be a world's name"),
        (str(exported), config, ("--name", "a b"), "cannot be a world's name"),
        (str(exported), config, ("--experiment", ""), "--experiment"),
    ):
        result = on("checkpoint", "import", file, "--config", settings, *more)
        assert (result.code, result.out) == (2, "")
        assert why in said(result.err)
        assert "Traceback" not in result.err
    assert on("checkpoint", "import", str(strange), "--config", config, "--name", "a-b").code == 0


@pytest.mark.filled(by=played)
def test_a_checkpoint_from_stdin(database_url: str, exported: Path, config: str) -> None:
    """`-` reads stdin; the world's name is then given."""
    arguments = ("checkpoint", "import", "-", "--config", config, "--name", "piped", "--database-url", database_url)
    result = call(*arguments, stdin=exported.read_bytes())
    assert (result.code, result.err) == (0, "")
    assert result.out.startswith("created piped at turn 1, head 5:")
