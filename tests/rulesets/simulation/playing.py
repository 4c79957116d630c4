"""Simulations for tests: played draft by draft without a database, and random ones of every kind of variable."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from copy import deepcopy
from typing import Any, Final

import orjson
from hypothesis import strategies as st
from worldledger_simulation.rules import RULESET, SimulationConfig

from tests.rules.chains import make_effect
from tests.rules.variables import kinds
from tests.rules.variables.kinds import SCALARS, Definition, definitions
from worldledger.drafts import CheckedDraft, check_draft
from worldledger.effects import Effect
from worldledger.errors import IllegalEffectError
from worldledger.folding import Fold
from worldledger.genesis import GENESIS_KIND
from worldledger.intents import registration_draft
from worldledger.policies import policy_spec
from worldledger.world import WorldState

KEY: Final = "0123456789abcdef0123456789abcdef"

#: Two traders who see each other blurred, and a third who is not aware of anything, itself included.
TRADE: Final[dict[str, Any]] = {
    "simulation": {"name": "trade", "max_turns": 4},
    "engine": {"actions_per_turn": 2},
    "agents": [{"name": "Ann", "state": {"gold": 50}}, "Bob", "Café"],
    "state_variables": {
        "agent_vars": {
            "gold": {"type": "float", "min": 0, "max": 100, "default": 10},
            "count": {"type": "int", "min": 0, "default": 3},
            "awake": {"type": "bool", "default": True},
            "mood": {"type": "categorical", "values": ["calm", "angry"], "default": "calm"},
            "place": {"type": "tuple", "item_types": ["float", "int"], "default": [0, 0]},
            "bag": {"type": "dict", "key_type": "str", "value_type": "float"},
            "ranks": {"type": "dict", "key_type": "int", "value_type": "int"},
            "past": {"type": "list", "item_type": "str", "max_length": 3},
            "note": {"type": "str", "max_length": 9},
            "health": {
                "type": "object",
                "schema": {"hp": {"type": "float", "max": 9, "default": 9}, "ill": {"type": "str", "default": None}},
            },
        },
        "global_vars": {"price": {"type": "float", "min": 1, "default": 2}, "season": {"type": "str"}},
    },
    "observability": {
        "enabled": True,
        "variable_visibility": {"external": ["gold", "price"], "internal": ["note", "bag"]},
        "matrix": [
            ["Ann", "Ann", "insider", 0.0],
            ["Ann", "Bob", "external", 0.2],
            ["Ann", "global", "external", 0.1],
            ["Bob", "Bob", "insider", 0.0],
            ["Bob", "Ann", "external", 0.3],
            ["Café", "Café", "unaware", None],
        ],
        "default": {"level": "unaware", "noise": 0.0},
    },
}


def trade(**changes: Any) -> dict[str, Any]:
    """Return its configuration, with other sections where they are named."""
    return {**deepcopy(TRADE), **changes}


def checked(
    kind: str, payload: Mapping[str, Any], source_id: str = "engine", req_id: str | None = None
) -> CheckedDraft:
    """Return a draft as it comes to be decided."""
    return check_draft(
        {"kind": kind, "payload": payload, "source_id": source_id, "schema_version": "1.0.0", "req_id": req_id}
    )


def setting(path: str, value: Any) -> list[dict[str, Any]]:
    """Return the patch that sets a value."""
    return [{"op": "add", "path": path, "value": value}]


class Play:
    """A simulation that is played: what is posted is decided by the state, then folded. ``log`` has its effects."""

    def __init__(
        self,
        config: Mapping[str, Any] | SimulationConfig | None = None,
        checkpoint: Mapping[str, Any] | None = None,
        *,
        world_uuid: str = KEY,
    ) -> None:
        given = trade() if config is None else config
        self.config = given if isinstance(given, SimulationConfig) else SimulationConfig.from_value(given)
        value = self.config.to_value()
        self.uuid = world_uuid
        self.fold = Fold("w", RULESET)
        self.log: list[Effect] = []
        self.write(GENESIS_KIND, {"config": value, "world_uuid": world_uuid, "ruleset": "simulation"}, "worldledger")
        for draft in RULESET.opening(value, world_uuid=world_uuid, checkpoint=checkpoint):
            self.write(draft["kind"], draft["payload"], draft["source_id"])

    @property
    def state(self) -> WorldState:
        """The state now."""
        return self.fold.state

    @property
    def simulation(self) -> dict[str, Any]:
        """What the state knows of the simulation besides its values."""
        known: dict[str, Any] = self.state.metadata["simulation"]
        return known

    def write(self, kind: str, payload: Mapping[str, Any], source_id: str = "engine", **fields: Any) -> Effect:
        """Have an effect in the log without asking anybody."""
        made: Any = make_effect("w", self.fold.seq + 1, kind=kind, payload=payload, source_id=source_id, **fields)
        effect: Effect = orjson.loads(orjson.dumps(made))
        self.log.append(effect)
        self.fold.apply(orjson.loads(orjson.dumps(made)))
        return effect

    def decide(self, kind: str, source_id: str = "engine", /, **payload: Any) -> CheckedDraft:
        """Return the draft that would be written."""
        return RULESET.decide(checked(kind, payload, source_id), self.state)

    def post(self, kind: str, source_id: str = "engine", /, **payload: Any) -> Effect:
        """Post a draft; it is decided and folded, and what was decided is never malformed."""
        malformed = self.state.metadata["malformed_effects"]
        draft = self.decide(kind, source_id, **payload)
        effect = self.write(kind, orjson.loads(draft.payload), source_id)
        assert self.state.metadata["malformed_effects"] == malformed
        return effect

    def refused(self, kind: str, source_id: str = "engine", /, **payload: Any) -> IllegalEffectError:
        """Return the error that a draft is refused with; nothing has changed by it."""
        before = self.state.text()
        try:
            self.decide(kind, source_id, **payload)
        except IllegalEffectError as error:
            assert self.state.text() == before
            return error
        raise AssertionError(f"{kind} {payload} was not refused")

    def change(self, agent: str, path: str, value: Any, **payload: Any) -> Effect:
        """Have an agent set one of its values."""
        return self.post("AgentStateChanged", agent, patch=setting(path, value), **payload)

    def turn(self) -> None:
        """End the open turn, if there is one, and start the next."""
        if self.simulation["open"]:
            self.post("TurnEnded")
        self.post("TurnStarted")

    def register(self, agent: str) -> None:
        """Register an agent with the policy that the configuration has for it."""
        policy = RULESET.policy_for(agent, self.config.to_value())
        assert policy is not None
        draft = registration_draft(agent, policy_spec(policy.for_world(self.uuid)))
        self.write(draft["kind"], draft["payload"], draft["source_id"])


# -- random ones ---------------------------------------------------------------------------------------------

AGENTS: Final = ["Ann", "Bob", "a/b~c", "Café"]
_LEVELS: Final = ["unaware", "external", "insider"]
_NOISES: Final = [0.0, 0.0, 0.1, 2.0]
_VARIABLES: Final = st.dictionaries(
    st.sampled_from(["gold", "position", "copy", "größe", "name_"]),
    SCALARS.map(dict) | definitions(levels=2),
    max_size=4,
)


def values(definition: Definition) -> st.SearchStrategy[Any]:
    """Values that a variable may have, and that a log may hold: no text in it has a NUL."""
    return kinds.values(definition).map(_without_nul)


def _without_nul(value: Any) -> Any:
    if isinstance(value, str):
        return value.replace("\0", "0")
    if isinstance(value, list):
        return [_without_nul(item) for item in value]
    return {key: _without_nul(item) for key, item in value.items()} if isinstance(value, dict) else value


@st.composite
def configs(draw: st.DrawFn) -> SimulationConfig:
    """Draw a configuration: variables of all types, a matrix with noise or none, agents with values of their own."""
    agent_vars, global_vars = draw(_VARIABLES), draw(_VARIABLES)
    for definition in global_vars.values():  # there is no other place for their first values
        definition.setdefault("default", draw(values(definition)))
    agents: list[dict[str, Any]] = []
    for name in draw(st.lists(st.sampled_from(AGENTS), min_size=1, max_size=4, unique=True)):
        agents.append({"name": name, "state": {each: draw(values(of)) for each, of in agent_vars.items()}})
    return SimulationConfig.from_value(
        {
            "simulation": {"name": "random", "max_turns": draw(st.sampled_from([None, None, 2]))},
            "engine": {"actions_per_turn": draw(st.sampled_from([None, 1]))},
            "agents": agents,
            "state_variables": {"agent_vars": agent_vars, "global_vars": global_vars},
            "observability": draw(_observability([each["name"] for each in agents], {*agent_vars, *global_vars})),
        }
    )


@st.composite
def _observability(draw: st.DrawFn, agents: list[str], variables: set[str]) -> dict[str, Any] | None:
    if not variables or draw(st.integers(0, 9)) == 0:
        return None
    external, *rest = draw(st.permutations(sorted(variables)))
    pairs = st.tuples(st.sampled_from(agents), st.sampled_from([*agents, "global"]))
    matrix = draw(st.dictionaries(pairs, st.tuples(st.sampled_from(_LEVELS), st.sampled_from(_NOISES)), max_size=9))
    internal = [name for name in rest if draw(st.booleans())]
    found: dict[str, Any] = {
        "enabled": draw(st.integers(0, 9)) > 0,
        "variable_visibility": {"external": [external], "internal": internal},
        "matrix": [[*pair, *sight] for pair, sight in matrix.items()],
    }
    if draw(st.booleans()):
        found["default"] = {"level": draw(st.sampled_from(_LEVELS)), "noise": draw(st.sampled_from(_NOISES))}
    return found


def _patch(draw: Callable[..., Any], variables: Mapping[str, Definition]) -> list[dict[str, Any]]:
    if not variables:
        return []
    names = draw(st.lists(st.sampled_from(sorted(variables)), max_size=2))
    return [{"op": "add", "path": f"/{name}", "value": draw(_changed(variables[name]))} for name in names]


def _changed(definition: Definition) -> st.SearchStrategy[Any]:
    """Values that a variable may take, some written otherwise than they are kept."""
    if definition["type"] in {"float", "int"}:
        return values(definition).map(lambda value: str(value) if value is not None and value % 2 == 0 else value)
    return values(definition)


def step(draw: Callable[..., Any], play: Play) -> None:
    """Let something happen that the simulation does not refuse, or that it refuses without a trace."""
    value = play.config.to_value()["state_variables"]
    agent = draw(st.sampled_from(AGENTS))
    what = draw(st.sampled_from("TTTTCCCCCEEGGARPUXWSN"))
    try:
        if what == "T":
            play.post("TurnEnded" if play.simulation["open"] else "TurnStarted")
        elif what == "C":
            play.post("AgentStateChanged", agent, patch=_patch(draw, value["agent_vars"]))
        elif what == "E":
            play.post("AgentStateChanged", agent_id=agent, patch=_patch(draw, value["agent_vars"]))
        elif what == "G":
            play.post("GlobalStateChanged", patch=_patch(draw, value["global_vars"]))
        elif what == "A":
            state = {name: draw(values(of)) for name, of in value["agent_vars"].items()}
            play.post("AgentAdded", agent_id=agent, state=state)
        elif what == "R":
            play.post("AgentRemoved", agent_id=agent)
        elif what == "P":
            play.post("AgentPaused", agent_id=agent, turns=draw(st.none() | st.integers(1, 2)))
        elif what == "U":
            play.post("AgentResumed", agent_id=agent)
        elif what == "X":
            play.post("ReasoningRecorded", agent, reasoning="secret thoughts")
        elif what == "N":
            play.register(agent)
        else:
            play.write("Waved" if what == "W" else "Speak", {"text": "hey", "gold": 5, "agent_id": agent}, agent)
    except IllegalEffectError:
        pass


@st.composite
def plays(draw: st.DrawFn, most: int = 25) -> Play:
    """Draw a simulation that was played."""
    play = Play(draw(configs()))
    for _ in range(draw(st.integers(most // 3, most))):
        step(draw, play)
    return play
