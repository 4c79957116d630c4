"""Any environment of PettingZoo recorded into a world as it is played, and played again to find the first difference.

An episode is an effect ``EnvReset {seed, options, agents}`` and for each step ``StepBegan``, an ``Acted {action}`` of
each agent that acts, and ``Stepped {rewards, terminated, truncated}``, or ``StepFailed {error}`` if the environment
raised an error. What agents observed is there as digests: in an AEC environment an ``Observed {digest}`` whenever the
program looks, in a parallel one in the other effects.

Source: docs/how-to-record-pettingzoo.md.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from hashlib import sha256
from pathlib import Path
from typing import Any, Final, NamedTuple, Protocol, TypeVar, overload

import numpy as np
import orjson

try:
    from gymnasium import spaces
    from pettingzoo import AECEnv, ParallelEnv
    from pettingzoo.utils.wrappers import BaseParallelWrapper, BaseWrapper
except ImportError as error:
    what = "environments of PettingZoo need the extra pettingzoo: pip install 'worldledger[pettingzoo]'"
    raise ImportError(what, name=error.name) from error

from worldledger.client.plain import to_plain
from worldledger.errors import InvalidEffectError
from worldledger.exports import TRAILER_START, check_exports
from worldledger_recorder.rules import STEP_BEGAN

__all__ = ["Difference", "Replayed", "Run", "digest_of", "record", "replay"]

RESET: Final = "EnvReset"
ACTED: Final = "Acted"
STEPPED: Final = "Stepped"
FAILED: Final = "StepFailed"
OBSERVED: Final = "Observed"

#: Bytes of a digest: 32 hex digits of SHA-256.
_DIGEST_BYTES: Final = 16
#: Longest text that stands for a value or an error.
_MOST_CHARACTERS: Final = 1000
#: Most bytes of an effect in an export.
_MAX_EFFECT_BYTES: Final = 64 * 1024 * 1024

T = TypeVar("T")


class Run(Protocol):
    """What a recording of `worldledger.record` has of what is needed here."""

    def effect(self, kind: str, agent: str | None = None, *, payload: Mapping[str, Any] | None = None) -> object:
        """Record an effect."""
        ...

    def step(self) -> object:
        """Begin the next step."""
        ...


# -- values as they are recorded -----------------------------------------------------------------------------


def plain(value: Any) -> Any:
    """Return a value as a recording writes it; what it cannot convert by its repr."""
    try:
        return to_plain(value, lambda _: None, unknown="repr")
    except InvalidEffectError:  # two keys that become one, or very deep: no reason to end a program
        return repr(value)[:_MOST_CHARACTERS]


def digest_of(value: Any) -> str:
    """Return the digest of an observation: of an array by its type, shape and bytes, of a container by its members."""
    hashed = sha256()
    _feed(hashed.update, value)
    return hashed.digest()[:_DIGEST_BYTES].hex()


def _feed(update: Callable[[bytes], object], value: Any) -> None:
    if isinstance(value, np.ndarray | np.generic) and value.dtype != object:
        array = np.ascontiguousarray(value)
        array = array.astype(array.dtype.newbyteorder("<"))
        update(f"array {array.dtype.str} {np.shape(value)} ".encode() + array.tobytes())
    elif isinstance(value, Mapping):
        update(f"mapping {len(value)} ".encode())
        for key in sorted(value, key=str):
            update(f"{key!r} ".encode())
            _feed(update, value[key])
    elif isinstance(value, list | tuple):
        update(f"list {len(value)} ".encode())
        for item in value:
            _feed(update, item)
    else:
        update(f"{type(value).__name__} {value!r} ".encode())


def _ended(flags: Mapping[Any, bool]) -> list[str]:
    return sorted(str(agent) for agent, is_over in flags.items() if is_over)


def _step_of(env: Any, *, infos: bool) -> dict[str, Any]:
    """Return what a step of an AEC environment has led to."""
    found = {
        "rewards": plain(env.rewards),
        "terminated": _ended(env.terminations),
        "truncated": _ended(env.truncations),
        "next": str(env.agent_selection) if env.agents else None,
    }
    return {**found, "infos": plain(env.infos)} if infos else found


# -- recording -----------------------------------------------------------------------------------------------


class _Recording:
    """A recording of an environment: ``run`` gets the effects; ``close`` ends it if it was begun here."""

    def __init__(self, run: Run, close: Callable[[], object] | None, *, infos: bool) -> None:
        self.run = run
        self.infos = infos
        self._close = close

    def reset(self, seed: int | None, options: Any, agents: Iterable[Any], **more: Any) -> None:
        payload = {"seed": seed, "options": plain(options), "agents": [*map(str, agents)], **more}
        self.run.effect(RESET, payload=payload)

    def act(self, actions: Mapping[Any, Any]) -> None:
        self.run.step()
        for agent, action in actions.items():
            self.run.effect(ACTED, agent=str(agent), payload={"action": plain(action)})

    def step(self, call: Callable[[], T]) -> T:
        try:
            return call()
        except Exception as error:
            self.run.effect(FAILED, payload={"error": _told(error)})
            raise

    def stepped(self, payload: Mapping[str, Any]) -> None:
        self.run.effect(STEPPED, payload=payload)

    def close(self) -> None:
        close, self._close = self._close, None
        if close is not None:
            close()


def _told(error: Exception) -> str:
    return f"{type(error).__name__}: {error}"[:_MOST_CHARACTERS]


class RecordedEnv(BaseWrapper[Any, Any, Any]):
    """An AEC environment that is recorded."""

    def __init__(self, env: AECEnv[Any, Any, Any], recording: _Recording) -> None:
        super().__init__(env)
        self._recording = recording

    def reset(self, seed: int | None = None, options: dict[str, Any] | None = None) -> None:
        """Reset the environment."""
        super().reset(seed=seed, options=options)
        self._recording.reset(seed, options, self.env.agents, next=str(self.env.agent_selection))

    def observe(self, agent: Any) -> Any:
        """Return what an agent observes."""
        observation = super().observe(agent)
        self._recording.run.effect(OBSERVED, agent=str(agent), payload={"digest": digest_of(observation)})
        return observation

    def step(self, action: Any) -> None:
        """Act for the agent whose turn it is."""
        self._recording.act({self.env.agent_selection: action})
        self._recording.step(lambda: super(RecordedEnv, self).step(action))
        self._recording.stepped(_step_of(self.env, infos=self._recording.infos))

    def close(self) -> None:
        """Close the environment and, if `record` began it, the recording."""
        super().close()
        self._recording.close()


class RecordedParallelEnv(BaseParallelWrapper[Any, Any, Any]):
    """A parallel environment that is recorded."""

    def __init__(self, env: ParallelEnv[Any, Any, Any], recording: _Recording) -> None:
        super().__init__(env)
        self._recording = recording

    def reset(
        self, seed: int | None = None, options: dict[str, Any] | None = None
    ) -> tuple[dict[Any, Any], dict[Any, Any]]:
        """Reset the environment."""
        observations, infos = super().reset(seed=seed, options=options)
        self._recording.reset(seed, options, self.env.agents, observations=_digests(observations))
        return observations, infos

    def step(self, actions: dict[Any, Any]) -> tuple[dict[Any, Any], ...]:  # type: ignore[override]
        """Act for all agents."""
        self._recording.act(actions)
        result = self._recording.step(lambda: super(RecordedParallelEnv, self).step(actions))
        self._recording.stepped(_parallel_step(result, infos=self._recording.infos))
        return result

    def close(self) -> None:
        """Close the environment and, if `record` began it, the recording."""
        super().close()
        self._recording.close()


def _digests(observations: Mapping[Any, Any]) -> dict[str, str]:
    return {str(agent): digest_of(observation) for agent, observation in observations.items()}


def _parallel_step(result: tuple[Any, ...], *, infos: bool) -> dict[str, Any]:
    observations, rewards, terminations, truncations, told = result
    found = {
        "rewards": plain(rewards),
        "terminated": _ended(terminations),
        "truncated": _ended(truncations),
        "observations": _digests(observations),
    }
    return {**found, "infos": plain(told)} if infos else found


@overload
def record(env: AECEnv[Any, Any, Any], run: str | Run, *, infos: bool = False, **settings: Any) -> RecordedEnv: ...
@overload
def record(
    env: ParallelEnv[Any, Any, Any], run: str | Run, *, infos: bool = False, **settings: Any
) -> RecordedParallelEnv: ...
def record(
    env: AECEnv[Any, Any, Any] | ParallelEnv[Any, Any, Any], run: str | Run, *, infos: bool = False, **settings: Any
) -> RecordedEnv | RecordedParallelEnv:
    """Return the environment as one that is recorded: into a world of that name, or by a recording that has begun.

    ``settings`` are those of `worldledger.record`, for a name: ``experiment``, ``url`` and others; the recording then
    ends with ``close()``. ``infos``: whether what the environment tells besides is recorded, too.
    """
    close = None
    if isinstance(run, str):
        from worldledger import record as begin  # noqa: PLC0415 - it is not needed for a recording that has begun

        begun = begin(run, **settings).__enter__()
        run, close = begun, begun.close
    elif settings:
        raise TypeError(f"a recording that has begun has its settings already: {', '.join(settings)}")
    recording = _Recording(run, close, infos=infos)
    return RecordedEnv(env, recording) if isinstance(env, AECEnv) else RecordedParallelEnv(env, recording)


# -- replaying -----------------------------------------------------------------------------------------------


class Difference(NamedTuple):
    """The first difference of a replay: where it is, and what was recorded and came instead.

    ``step`` is the world's number of the step (0 before the first one), ``episode`` counts resets from 1 on.
    """

    global_seq: int
    episode: int
    step: int
    agent: str | None
    what: str
    recorded: Any
    found: Any

    def __str__(self) -> str:
        place = f"episode {self.episode}, step {self.step}" + ("" if self.agent is None else f", {self.agent}")
        what = f"{self.what} {_shown(self.recorded)} was recorded, {_shown(self.found)} came"
        return f"{place} (effect {self.global_seq}): {what}"


class Replayed(NamedTuple):
    """What a replay did: resets, steps, and the first difference; None if there was none."""

    episodes: int
    steps: int
    difference: Difference | None


def _shown(value: Any) -> str:
    text = orjson.dumps(value).decode()
    return text if len(text) <= 80 else f"{text[:79]}…"


class _FoundError(Exception):
    """Carries the first difference out of the replay."""

    def __init__(self, agent: str | None, what: str, recorded: Any, found: Any) -> None:
        super().__init__(what)
        self.parts = (agent, what, recorded, found)


def replay(
    env: AECEnv[Any, Any, Any] | ParallelEnv[Any, Any, Any], effects: str | Path | Iterable[Mapping[str, Any]]
) -> Replayed:
    """Play an environment again as it was recorded, up to the first difference.

    ``env`` is a new environment made like the recorded one; ``effects`` are those of the world: a file that
    ``worldledger export`` wrote, which is verified first, or the effects as objects in their order. Other effects than
    those of `record` are passed over. Raises FileRefusedError for a file that does not verify.
    """
    if isinstance(effects, str | Path):
        effects = _exported(Path(effects))
    player = _AecReplay(env) if isinstance(env, AECEnv) else _ParallelReplay(env)
    episodes = steps = number = 0
    for effect in effects:
        kind, payload = effect["kind"], effect["payload"]
        if kind == STEP_BEGAN:
            number = payload["step"]
        episodes += kind == RESET
        steps += kind in {STEPPED, FAILED}
        try:
            player.feed(kind, effect["source_id"], payload)
        except _FoundError as found:
            return Replayed(episodes, steps, Difference(effect["global_seq"], episodes, number, *found.parts))
    return Replayed(episodes, steps, None)


def _exported(file: Path) -> Iterator[Mapping[str, Any]]:
    """Yield the effects of an export, the last log in it, after verifying it."""
    with file.open("rb") as stream:
        world = check_exports(stream, name=str(file), max_effect_bytes=_MAX_EFFECT_BYTES)[-1].world.world_id
        stream.seek(0)
        for line in stream:
            if not line.startswith(TRAILER_START) and (effect := orjson.loads(line))["world_id"] == world:
                yield effect


class _Replay:
    """Plays what effects tell, and compares what comes with what they say."""

    def __init__(self, env: Any) -> None:
        self.env = env
        self._begun = False
        #: the actions that wait for their step
        self._actions: dict[str, Any] = {}

    def feed(self, kind: str, source: str, payload: Mapping[str, Any]) -> None:
        """Take an effect. Raises _FoundError at the first difference."""
        if kind == RESET:
            self._begun = True
            self._actions = {}
            self.reset(payload)
        elif not self._begun:
            return
        elif kind == OBSERVED:
            self.observe(source, payload)
        elif kind == ACTED:
            self._actions[source] = payload["action"]
        elif kind in {STEPPED, FAILED}:
            actions, self._actions = self._actions, {}
            self._step(kind, payload, actions)

    def _step(self, kind: str, payload: Mapping[str, Any], recorded: Mapping[str, Any]) -> None:
        agents = self.names()
        error, found = None, {}
        try:
            actions = {agents.get(name, name): action for name, action in recorded.items()}
            actions = {agent: _like(self.env.action_space(agent), action) for agent, action in actions.items()}
            found = self.step(actions, infos="infos" in payload)
        except _FoundError:
            raise
        except Exception as failure:  # noqa: BLE001 - that it fails may be what was recorded
            error = _told(failure)
        expected = payload.get("error") if kind == FAILED else None
        if error != expected:
            raise _FoundError(None, "the error", expected, error)
        if kind == STEPPED:
            _compare(payload, found)

    def names(self) -> dict[str, Any]:
        """Return the agents by their recorded names."""
        return {str(agent): agent for agent in (*getattr(self.env, "possible_agents", ()), *self.env.agents)}

    def reset(self, payload: Mapping[str, Any]) -> None:
        """Reset the environment as was recorded."""
        raise NotImplementedError

    def observe(self, agent: str, payload: Mapping[str, Any]) -> None:
        """Look as the program did."""
        raise NotImplementedError

    def step(self, actions: Mapping[Any, Any], *, infos: bool) -> dict[str, Any]:
        """Step the environment; return what it has led to."""
        raise NotImplementedError


class _AecReplay(_Replay):
    def reset(self, payload: Mapping[str, Any]) -> None:
        self.env.reset(seed=payload["seed"], options=payload["options"])
        found = {"agents": [*map(str, self.env.agents)], "next": str(self.env.agent_selection)}
        _compare({name: payload[name] for name in found if name in payload}, found)

    def observe(self, agent: str, payload: Mapping[str, Any]) -> None:
        digest = digest_of(self.env.observe(self.names().get(agent, agent)))
        if digest != payload["digest"]:
            raise _FoundError(agent, "the observation's digest", payload["digest"], digest)

    def step(self, actions: Mapping[Any, Any], *, infos: bool) -> dict[str, Any]:
        for agent, action in actions.items():
            if agent != self.env.agent_selection:
                raise _FoundError(str(agent), "the turn of", str(agent), str(self.env.agent_selection))
            self.env.step(action)
        return _step_of(self.env, infos=infos)


class _ParallelReplay(_Replay):
    def reset(self, payload: Mapping[str, Any]) -> None:
        observations, _ = self.env.reset(seed=payload["seed"], options=payload["options"])
        found = {"agents": [*map(str, self.env.agents)], "observations": _digests(observations)}
        _compare({name: payload[name] for name in found if name in payload}, found)

    def observe(self, agent: str, payload: Mapping[str, Any]) -> None:
        raise _FoundError(agent, "an observation of an AEC environment", payload["digest"], None)

    def step(self, actions: Mapping[Any, Any], *, infos: bool) -> dict[str, Any]:
        return _parallel_step(self.env.step(dict(actions)), infos=infos)


#: What is compared, in this order, with the words for it.
_PARTS: Final = {
    "agents": "the agents",
    "rewards": "the reward",
    "terminated": "the agents that are terminated",
    "truncated": "the agents that are truncated",
    "next": "the turn of",
    "observations": "the observation's digest",
    "infos": "what the environment tells",
}


def _compare(recorded: Mapping[str, Any], found: Mapping[str, Any]) -> None:
    """Raise _FoundError for the first part that differs; of one that is told by agent, with the first such agent."""
    for name, words in _PARTS.items():
        before, after = recorded.get(name), found.get(name)
        if name not in recorded or before == after:
            continue
        if isinstance(before, Mapping) and isinstance(after, Mapping):
            for agent in sorted({*before, *after}):
                if before.get(agent) != after.get(agent):
                    raise _FoundError(agent, words, before.get(agent), after.get(agent))
        raise _FoundError(None, words, before, after)


def _like(space: Any, value: Any) -> Any:
    """Return a recorded action as an element of a space."""
    if value is None:
        return None
    if isinstance(space, spaces.Box | spaces.MultiDiscrete | spaces.MultiBinary):
        return np.asarray(value, dtype=space.dtype)
    if isinstance(space, spaces.Dict) and isinstance(value, Mapping):
        return {name: _like(each, value[name]) for name, each in space.spaces.items() if name in value}
    if isinstance(space, spaces.Tuple) and isinstance(value, list):
        return tuple(_like(each, item) for each, item in zip(space.spaces, value, strict=False))
    return value
