"""The fold: effects in, WorldState out. Pure: no I/O, no clock, no randomness.

``fold(a + b) == fold(b, after=fold(a))``, and the same log gives the same state, byte for byte, on every machine.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from operator import itemgetter
from typing import Any, Final

import orjson

from worldledger.chain import Finding, StoredEffect
from worldledger.core_kinds import HANDLERS
from worldledger.effects import Effect, is_system_kind
from worldledger.errors import FoldError
from worldledger.genesis import GENESIS_KIND
from worldledger.lineage import fork_point, go_on
from worldledger.log_rules import kind_problem
from worldledger.rulesets.base import Handler, MalformedEffectError, Ruleset, Touched
from worldledger.world import WorldState

_NOTHING: Final = ()


class _BrokenRuleError(Exception):
    """A log breaks the rules of every log, so it has no state."""


class Fold:
    """One world's state at a seq, which can be moved forward.

    ``state`` is changed in place. After an error the fold must not be used any more: begin again from a snapshot.
    """

    __slots__ = ("_handlers", "ruleset", "seq", "state", "world_id")

    def __init__(self, world_id: str, ruleset: Ruleset, state: WorldState | None = None, seq: int = 0) -> None:
        """Begin before the first effect, or with the state that the world had at ``seq``.

        A fork begins with the state of its parent at the fork point, at ``seq`` 0.
        """
        self.world_id = world_id
        self.ruleset = ruleset
        self.state = WorldState.initial() if state is None else state
        self.seq = seq
        self._handlers = _handlers(ruleset)

    def feed(self, rows: Sequence[StoredEffect]) -> None:
        """Fold stored rows, which must follow the fold's seq without a gap.

        Raises TamperedError if a row is missing or is not an effect, FoldError if the ruleset fails.
        """
        if not rows:
            return
        _check_order(self.world_id, self.seq, rows)
        state = self.state
        handlers = self._handlers
        loads = orjson.loads
        row = rows[0]
        try:
            for row in rows:
                effect = loads(row[1])
                handler = handlers.get(effect["kind"])
                if handler is None:
                    self._count_unknown(effect["kind"])
                    continue
                try:
                    handler(state, effect)
                except MalformedEffectError:
                    state.metadata["malformed_effects"] += 1
            self._note(effect, row[0])
        except Exception as error:
            # Parsed once more: ``effect`` may still be that of the row before, or changed by a handler.
            raise self._failed(error, row[0], _read(row[1])) from error

    def feed_each(self, rows: Sequence[StoredEffect], seen: Callable[[Effect, Touched], object]) -> None:
        """Fold stored rows as `feed` does, and call ``seen`` after each: the effect, and what it may have changed.

        The fold's ``seq``, and what the metadata says of the last effect, are set after the last row alone.
        """
        if not rows:
            return
        _check_order(self.world_id, self.seq, rows)
        row = rows[0]
        try:
            for row in rows:
                effect = orjson.loads(row[1])
                seen(effect, self._apply(effect))
            self._note(effect, row[0])
        except Exception as error:
            raise self._failed(error, row[0], _read(row[1])) from error

    def apply(self, effect: Effect) -> Touched:
        """Fold the next effect; return which entities it may have changed. Raises as `feed` does."""
        seq = effect["global_seq"]
        if seq != self.seq + 1:
            raise Finding(self.world_id, self.seq + 1, f"the fold stands before seq {self.seq + 1}, not {seq}").error()
        try:
            touched = self._apply(effect)
            self._note(effect, seq)
        except Exception as error:
            raise self._failed(error, seq, effect) from error
        return touched

    def copy(self) -> Fold:
        """Return an independent fold at the same place."""
        return Fold(self.world_id, self.ruleset, self.state.copy_deep(), self.seq)

    def _apply(self, effect: Effect) -> Touched:
        handler = self._handlers.get(effect["kind"])
        if handler is None:
            self._count_unknown(effect["kind"])
            return _NOTHING
        try:
            return handler(self.state, effect)
        except MalformedEffectError:
            self.state.metadata["malformed_effects"] += 1
            return _NOTHING

    def _count_unknown(self, kind: str) -> None:
        if not is_system_kind(kind):
            self.state.metadata["unknown_effects"] += 1

    def _note(self, effect: Effect, seq: int) -> None:
        metadata = self.state.metadata
        metadata["last_effect_seq"] = seq
        metadata["last_effect_time"] = effect["sim_time"]
        metadata["last_effect_kind"] = effect["kind"]
        self.seq = seq

    def _failed(self, error: Exception, seq: int, effect: Any) -> Exception:
        if isinstance(error, _BrokenRuleError):
            return Finding(self.world_id, seq, str(error)).error()
        if not _is_effect(effect):
            what = f"the stored text is not an effect ({type(error).__name__}: {error})"
            return Finding(self.world_id, seq, what).error()
        return FoldError(
            f"world {self.world_id}, seq {seq}: ruleset {self.ruleset.name} {self.ruleset.version} failed on "
            f"{effect['kind']} ({type(error).__name__}: {error})",
            world_id=self.world_id,
            global_seq=seq,
            ruleset=self.ruleset.name,
        )


def fold(world_id: str, ruleset: Ruleset, rows: Iterable[StoredEffect]) -> WorldState:
    """Return the state after a world's rows, from the first on."""
    folded = Fold(world_id, ruleset)
    folded.feed(list(rows))
    return folded.state


def _handlers(ruleset: Ruleset) -> dict[str, Handler]:
    """Return the handler of each kind: the core's for system kinds, the ruleset's for the others."""
    found = {kind: handler for kind, handler in ruleset.handlers.items() if not is_system_kind(kind)}
    upcasting = ruleset.upcasting
    for kind in upcasting.kinds & found.keys():
        found[kind] = _after_upcasting(ruleset, found[kind])

    def begin(state: WorldState, effect: Effect) -> Touched:
        problem = kind_problem(GENESIS_KIND, effect["source_id"], effect["global_seq"])
        config = effect["payload"].get("config")
        if problem is not None or not isinstance(config, dict):
            raise _BrokenRuleError(problem or "$.payload.config: not an object")
        point = fork_point(effect["payload"])
        if point is None:
            ruleset.begin(state, config)
        else:
            go_on(state, effect, point)
        return None

    found |= HANDLERS
    found[GENESIS_KIND] = begin
    return found


def _after_upcasting(ruleset: Ruleset, handler: Handler) -> Handler:
    upcast = ruleset.upcasting.apply

    def handle(state: WorldState, effect: Effect) -> Touched:
        return handler(state, upcast(effect))

    return handle


def _check_order(world_id: str, seq: int, rows: Sequence[StoredEffect]) -> None:
    if list(map(itemgetter(0), rows)) == list(range(seq + 1, seq + len(rows) + 1)):
        return
    for expected, row in enumerate(rows, seq + 1):
        if row[0] > expected:
            raise Finding(world_id, expected, f"missing: the next effect in the log is seq {row[0]}").error()
        if row[0] < expected:
            raise Finding(world_id, expected, f"seq {row[0]} stands where seq {expected} belongs").error()


def _read(text: bytes) -> Any:
    try:
        return orjson.loads(text)
    except ValueError:
        return None


_SHAPE: Final[Mapping[str, Any]] = {
    "kind": str,
    "payload": dict,
    "schema_version": str,
    "sim_time": (int, float),
    "source_id": str,
}


def _is_effect(value: Any) -> bool:
    """Return whether a value has the members that a fold reads."""
    return isinstance(value, dict) and all(isinstance(value.get(name), shape) for name, shape in _SHAPE.items())
