"""Policies and latency models by name: registering, storing and making them again.

A policy is stored in the log as ``{"name", "version", "config"}``, so that every process, and every later audit, can
make the same one. A class of your own needs a name before an agent can be registered with it::

    @register_policy("scout", version=1)
    class Scout(ObservationPolicy): ...

It need not be a subclass: `worldledger.protocols` says what it has to have.

Processes that have not imported that module find it through the entry-point group ``worldledger.policies`` (or
``worldledger.latency_models``), under the policy's name. A version of a policy must always show the same: a change
needs a new version, and the old class stays for worlds that were recorded with it.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from importlib.metadata import EntryPoint, entry_points
from typing import Any, Final, Generic, TypeVar

from pydantic import ValidationError

from worldledger.canonical import MAX_INT, child, gate
from worldledger.deltas import ObservationDelta, View
from worldledger.drafts import MAX_WORD
from worldledger.effects import Effect, is_system_kind
from worldledger.errors import InvalidEffectError, InvalidPolicyError, UnregisteredPolicyError
from worldledger.kinds import installed
from worldledger.latency import AdaptedLatency, DistanceLatency, FixedLatency, LatencyModel, NoLatency, as_latency_model
from worldledger.observation import (
    FirstObservationPolicy,
    FirstPolicyConfig,
    ObservationPolicy,
    PolicyConfig,
    config_of,
)
from worldledger.protocols import MODEL_METHODS, POLICY_METHODS, ObservationPolicyProtocol, lacking
from worldledger.world import WorldState

#: The entry-point groups in which packages offer policies and latency models, beside those of kinds.
POLICIES: Final = "worldledger.policies"
LATENCY_MODELS: Final = "worldledger.latency_models"
#: The nesting level at which a stored policy stands in the effect AgentRegistered.
SPEC_LEVEL: Final = 3

_Base = TypeVar("_Base")
_Class = TypeVar("_Class", bound=type)


class _Registry(Generic[_Base]):
    """Classes of one base by name and version."""

    def __init__(self, base: type[_Base], what: str, decorator: str, group: str, methods: Sequence[str]) -> None:
        self.what = what
        self._methods = methods
        self._base = base
        self._decorator = decorator
        self._group = group
        self._classes: dict[tuple[str, int], type[_Base]] = {}
        self._names: dict[type, tuple[str, int]] = {}
        self._searched: set[str] = set()

    def add(self, name: Any, version: Any, cls: Any) -> None:
        if not (type(name) is str and 0 < len(name) <= MAX_WORD and type(version) is int and 1 <= version <= MAX_INT):
            raise ValueError(f"a {self.what} has a name of 1 to {MAX_WORD} characters and a version from 1 on")
        if not isinstance(cls, type):
            raise TypeError(f"{cls!r} is no class, so no subclass of {self._base.__name__}")
        missing = self._missing(cls)
        if missing:
            raise TypeError(
                f"{cls!r} is no {self.what}: it is no subclass of {self._base.__name__}, and lacks {', '.join(missing)}"
            )
        other = self._classes.get((name, version))
        # A module that is loaded again brings its own class again.
        if other is not None and (other.__module__, other.__qualname__) != (cls.__module__, cls.__qualname__):
            raise ValueError(
                f"{self.what} {name!r} version {version} is {other.__module__}.{other.__qualname__} already"
            )
        if cls in self._names and self._names[cls] != (name, version):
            raise ValueError(f"{cls.__qualname__} is registered already, as {self._names[cls]}")
        self._classes[name, version] = cls
        self._names[cls] = (name, version)

    def name_of(self, cls: type) -> tuple[str, int]:
        """Return name and version of a class; raise UnregisteredPolicyError if it is not registered itself."""
        known = self._names.get(cls)
        if known is None:
            raise UnregisteredPolicyError(
                f"{cls.__module__}.{cls.__qualname__} is no registered {self.what}, so it cannot be stored: put "
                f'@worldledger.policies.{self._decorator}("some-name", version=1) before the class, and name its '
                f"module in the entry-point group {self._group} for processes that do not import it",
                name=cls.__qualname__,
                known=self.known(),
            )
        return known

    def find(self, name: str, version: int | None) -> type[_Base]:
        """Return the class of that name and version (None: the newest)."""
        self._search(name)
        versions = [its for its_name, its in self._classes if its_name == name]
        if version is None and versions:
            version = max(versions)
        if version is not None and version in versions:
            return self._classes[name, version]
        wanted = repr(name) if version is None else f"{name!r} version {version}"
        raise UnregisteredPolicyError(
            f"there is no {self.what} {wanted} in this process; known: {', '.join(self.known())}. A class of your own "
            f"is registered by @worldledger.policies.{self._decorator}, in a module that is imported, or is named in "
            f"the entry-point group {self._group}",
            name=name,
            known=self.known(),
        )

    def _missing(self, cls: type) -> list[str]:
        """Return the methods that a class lacks to be used as this base; a subclass of the base has them all."""
        return [] if issubclass(cls, self._base) else lacking(cls, self._methods, methods=True)

    def known(self) -> list[str]:
        """Return the registered names, as ``name version``, sorted."""
        return [f"{name} {version}" for name, version in sorted(self._classes)]

    def _search(self, name: str) -> None:
        """Load the installed packages' classes of a name, once; a class that is not registered becomes version 1."""
        if name in self._searched:
            return
        places = [kind.policies[name] for kind in installed().values() if name in kind.policies]
        of_kinds = [EntryPoint(name, place, self._group) for place in places] if self._group == POLICIES else []
        for point in [*of_kinds, *entry_points(group=self._group, name=name)]:
            try:
                loaded = point.load()
            except Exception as error:
                raise UnregisteredPolicyError(
                    f"{self.what} {name!r} ({point.value}) cannot be loaded: {error}", name=name, known=self.known()
                ) from error
            if isinstance(loaded, type) and not self._missing(loaded) and loaded not in self._names:
                self.add(name, 1, loaded)
        self._searched.add(name)


_POLICIES: Final = _Registry(ObservationPolicy, "observation policy", "register_policy", POLICIES, POLICY_METHODS)
_MODELS: Final = _Registry(LatencyModel, "latency model", "register_latency_model", LATENCY_MODELS, MODEL_METHODS)


def register_policy(name: str, version: int = 1) -> Callable[[_Class], _Class]:
    """Register a subclass of ObservationPolicy, or a class that has the methods of `ObservationPolicyProtocol`.

    It is a class decorator.

    Raises ValueError if another class has that name and version, TypeError for a class that lacks methods.
    """
    return _adding(_POLICIES, name, version)


def register_latency_model(name: str, version: int = 1) -> Callable[[_Class], _Class]:
    """Register a subclass of LatencyModel, or a class that has the method of `LatencyModelProtocol`.

    It is a class decorator. Raises as `register_policy` does.
    """
    return _adding(_MODELS, name, version)


def _adding(registry: _Registry[Any], name: str, version: int) -> Callable[[_Class], _Class]:
    def add(cls: _Class) -> _Class:
        registry.add(name, version, cls)
        return cls

    return add


register_policy("default", 1)(FirstObservationPolicy)
register_policy("default", 2)(ObservationPolicy)
register_latency_model("none")(NoLatency)
register_latency_model("fixed")(FixedLatency)
register_latency_model("distance")(DistanceLatency)


# -- to JSON and back ----------------------------------------------------------------------------------------


class AdaptedPolicy(ObservationPolicy):
    """Wraps ``policy``, which is not an ObservationPolicy but has what `ObservationPolicyProtocol` asks for."""

    config_class = FirstPolicyConfig

    def __init__(self, policy: ObservationPolicyProtocol) -> None:
        """Raise InvalidPolicyError if the policy lacks an attribute, or one cannot be used."""
        super().__init__(config_of(policy, self.config_class))
        self.policy = policy

    def filter_world_state(self, world_state: WorldState, agent_id: str) -> View:
        """Return what the policy shows; view_seq and digest are computed here."""
        seen = self.policy.filter_world_state(world_state, agent_id)
        entities, relationships = dict(seen.visible_entities), dict(seen.visible_relationships)
        return View.of(agent_id, world_state.metadata.get("last_effect_seq", 0), entities, relationships)

    def should_observe_event(self, effect: Effect, agent_id: str, world_state: WorldState) -> bool:
        """Return the policy's answer; no agent observes system kinds."""
        if is_system_kind(effect["kind"]):
            return False
        return bool(self.policy.should_observe_event(effect, agent_id, world_state))

    def calculate_observation_delta(self, old_view: View, new_view: View) -> ObservationDelta:
        """Return the policy's delta, without events."""
        return ObservationDelta(self.policy.calculate_observation_delta(old_view, new_view), events=[])


def as_policy(policy: ObservationPolicyProtocol) -> ObservationPolicy:
    """Return a policy as an ObservationPolicy. Raises InvalidPolicyError with the missing attributes."""
    if isinstance(policy, ObservationPolicy):
        return policy
    missing = lacking(policy, POLICY_METHODS, methods=True)
    if missing:
        raise InvalidPolicyError(f"{type(policy).__qualname__} is no observation policy: it lacks {', '.join(missing)}")
    return AdaptedPolicy(policy)


def policy_spec(policy: ObservationPolicyProtocol) -> dict[str, Any]:
    """Return a policy in its stored form: ``{"name", "version", "config"}``, with every setting.

    Raises UnregisteredPolicyError if its class or that of its latency model is not registered, InvalidPolicyError if
    its configuration cannot be written as JSON.
    """
    policy = as_policy(policy)
    name, version = _POLICIES.name_of(type(policy.policy if isinstance(policy, AdaptedPolicy) else policy))
    config = policy.config.model_dump(mode="json", exclude={"latency_model"})
    if policy.config.distance_limit == float("inf"):
        config["distance_limit"] = None
    config["latency_model"] = _model_spec(policy.config.latency_model)
    spec = {"name": name, "version": version, "config": config}
    try:
        gate(spec, level=SPEC_LEVEL)
    except InvalidEffectError as error:
        raise InvalidPolicyError(error.reason, error.path) from None
    return spec


def _model_spec(model: LatencyModel) -> dict[str, Any]:
    name, version = _MODELS.name_of(type(model.model if isinstance(model, AdaptedLatency) else model))
    return {"name": name, "version": version, "config": model.config()}


def policy_from_spec(spec: Any, *, path: str = "$", stored: bool = False) -> ObservationPolicy:
    """Make the policy of a stored ``{"name", "version", "config"}``.

    Without ``version`` it is the newest, without ``config`` the default one; the configuration's ``latency_model`` is
    written the same way. ``stored`` says that the spec comes from a log, where every setting was written: a policy of
    your own that was stored without ``rules`` uses the rules 1, the only ones at that time. ``path`` is the place of
    the spec in the caller's data. Raises UnregisteredPolicyError for an unknown name or version, InvalidPolicyError
    with the path for anything else that is wrong.
    """
    cls, config = _read(_POLICIES, spec, path)
    where = f"{path}.config"
    config_class: type[FirstPolicyConfig] = getattr(cls, "config_class", FirstPolicyConfig)
    if stored and issubclass(config_class, PolicyConfig):
        config.setdefault("rules", 1)
    if "latency_model" in config:
        config["latency_model"] = _model_from_spec(config["latency_model"], f"{where}.latency_model")
    try:
        return as_policy(cls(config_class.model_validate(config)))
    except ValidationError as error:
        first = error.errors(include_url=False, include_context=False)[0]
        for part in first["loc"]:
            where = child(where, part)
        raise InvalidPolicyError(first["msg"], where) from None
    except Exception as error:  # a third party's class may raise anything
        raise InvalidPolicyError(_said(error), where) from error


def _model_from_spec(spec: Any, path: str) -> LatencyModel:
    cls, config = _read(_MODELS, spec, path)
    try:
        made = cls(**config)
    except Exception as error:  # a third party's class may raise anything
        raise InvalidPolicyError(_said(error), f"{path}.config") from error
    model: LatencyModel = as_latency_model(made)
    return model


def _said(error: Exception) -> str:
    return str(error) if isinstance(error, TypeError | ValueError) else f"{type(error).__name__}: {error}"


def _read(registry: _Registry[_Base], spec: Any, path: str) -> tuple[type[_Base], dict[str, Any]]:
    if not isinstance(spec, Mapping):
        raise InvalidPolicyError(f"a stored {registry.what} is an object of name, version and config", path)
    for name in spec:
        if name not in {"name", "version", "config"}:
            raise InvalidPolicyError("only name, version and config are known here", child(path, str(name)))
    name, version, config = spec.get("name"), spec.get("version"), spec.get("config")
    if not isinstance(name, str):
        raise InvalidPolicyError(f"the name of a registered {registry.what} is wanted", f"{path}.name")
    if version is not None and (type(version) is not int or version < 1):
        raise InvalidPolicyError("a version is a whole number from 1 on", f"{path}.version")
    if config is not None and not isinstance(config, Mapping):
        raise InvalidPolicyError("config is an object", f"{path}.config")
    return registry.find(name, version), {} if config is None else dict(config)
