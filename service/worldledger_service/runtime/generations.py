"""Generations: what agents are about to say, and the tokens by which they are stopped.

A token is live at once, in the process that issued it; the effects ``GenerationStarted``, ``GenerationCancelled`` and
``GenerationFinished`` follow, with a ``generation_id`` that tells two generations of one req_id apart. Every process
follows the log, so a generation ends wherever the cause was written: by an effect that makes its context stale, by the
effect of the intent that it led to, or by what another process says of it.
"""

from __future__ import annotations

import asyncio
from collections import OrderedDict
from collections.abc import Callable, Iterator, Mapping, Sequence
from hashlib import sha256
from itertools import count
from typing import TYPE_CHECKING, Any, Final, NamedTuple

import structlog

from worldledger.aio import CancelToken
from worldledger.canonical import gate
from worldledger.core_kinds import (
    GENERATION_CANCELLED_KIND,
    GENERATION_FINISHED_KIND,
    GENERATION_LEASED_KIND,
    GENERATION_REPORTED_KIND,
    GENERATION_STARTED_KIND,
    GENERATION_TEXT_KIND,
)
from worldledger.drafts import check_req_id
from worldledger.effects import Effect, EffectDraft, own_draft
from worldledger.errors import InvalidEffectError, RequestConflictError, StoreUnavailableError, UnknownGenerationError
from worldledger.lru import Lru
from worldledger.staleness import NOT_GIVEN, Threshold, stale_by, stale_reason
from worldledger_service.runtime.sightings import Watch

if TYPE_CHECKING:
    from worldledger.config import OrchestratorConfig
    from worldledger.staleness import Staleness
    from worldledger_service.runtime.admission import IntentLists
    from worldledger_service.runtime.attachments import Attachment
    from worldledger_service.runtime.sightings import Sightings

#: Generations that ended, here or elsewhere, and are still told of.
_REMEMBERED: Final = 1000

_Key = tuple[str, str]

log = structlog.get_logger("worldledger.runtime")


#: Most bytes of what is said of a model.
_MODEL_BYTES: Final = 16_384


class Begun(NamedTuple):
    """The beginning of a generation: its context, the entities it is about, and its own threshold, if it has one."""

    context_seq: int
    about: frozenset[str] = frozenset()
    staleness_threshold: Threshold = NOT_GIVEN


class _Elsewhere(NamedTuple):
    """A generation of another process."""

    generation_id: str
    begun: Begun


class _Here(NamedTuple):
    """A generation of this process: what it began with, what was asked for, and what counts its sightings."""

    generation_id: str
    begun: Begun
    asked_seq: int | None
    watch: Watch


class UnderWay(NamedTuple):
    """A generation under way; ``is_here`` where this process cancels it."""

    agent_id: str
    req_id: str
    context_seq: int
    is_here: bool


class Generations:
    """The cancel tokens of one world in this process.

    ``put`` takes the drafts of the effects that follow; ``held`` is told of each token that comes (1) and goes (-1);
    ``sightings`` counts for them, ``lists`` knows which intents are submitted together, and ``holder`` is a name that
    no other process has.
    """

    def __init__(
        self,
        config: OrchestratorConfig,
        put: Callable[[EffectDraft], None],
        held: Callable[[str, int], None],
        sightings: Sightings,
        lists: IntentLists,
        holder: str,
    ) -> None:
        self._debounce = config.debounce_ms / 1000.0
        self._most = config.memory.max_tokens
        self._put = put
        self._held = held
        self._sightings = sightings
        self._lists = lists
        self._holder = holder
        self._numbers = count(1)
        self._here: dict[_Key, _Here] = {}
        self._live: OrderedDict[_Key, CancelToken] = OrderedDict()
        self._of_agent: dict[str, dict[str, CancelToken]] = {}
        self._ended: Lru[_Key, CancelToken] = Lru(_REMEMBERED)
        self._elsewhere: Lru[_Key, _Elsewhere] = Lru(self._most)
        #: by agent, the end of the time in which its generations that go stale are held
        self._windows: dict[str, asyncio.TimerHandle] = {}
        self._caused_at: dict[_Key, float] = {}
        self._closed = False
        #: how many tokens were cancelled, for the metrics
        self.cancelled = 0

    def __len__(self) -> int:
        return len(self._live)

    def issue(
        self,
        attachment: Attachment,
        req_id: str,
        context_seq: int | None,
        staleness: Staleness,
        *,
        head_seq: int,
        staleness_threshold: Threshold = NOT_GIVEN,
        about: frozenset[str] = frozenset(),
        model: Mapping[str, Any] | None = None,
    ) -> CancelToken:
        """Issue the token of a generation that begins now, from the view at ``context_seq``, by default the latest.

        ``model`` says by what it is made, for the log. A later seq than the agent's view means that view. The same
        generation again returns the same token, whatever the agent has been shown since. Raises RequestConflictError if
        it has another context, InvalidEffectError for an invalid req_id, and StoreUnavailableError once the world is
        being closed.
        """
        agent_id = attachment.agent_id
        if self._closed:
            raise StoreUnavailableError("the world is being closed")
        key = (agent_id, check_req_id(req_id))
        token = self._live.get(key)
        if token is not None:
            if context_seq not in {None, token.context_seq, self._here[key].asked_seq}:
                what = f"the generation {req_id!r} is under way, from the view at {token.context_seq}"
                raise RequestConflictError(what, req_id=req_id, context_seq=token.context_seq)
            return token
        made_from = attachment.view_seq if context_seq is None else min(context_seq, attachment.view_seq)
        token = CancelToken(req_id, agent_id, made_from)
        self._ended.pop(key, None)
        self._live[key] = token
        self._of_agent.setdefault(agent_id, {})[req_id] = token
        self._held(agent_id, 1)
        generation_id = f"{self._holder}-{next(self._numbers)}"
        watch = Watch(
            agent_id,
            made_from if context_seq is None else min(context_seq, head_seq),
            staleness,
            about,
            left_out=lambda seq: self._lists.same(agent_id, req_id, seq),
            became_stale=lambda: self._stale(token),
        )
        self._here[key] = _Here(generation_id, Begun(made_from, about, staleness_threshold), context_seq, watch)
        more: dict[str, Any] = {"about": sorted(about)} if about else {}
        if staleness_threshold is not NOT_GIVEN:
            more["staleness_threshold"] = staleness_threshold
        if model is not None:
            more["model"] = dict(model)
        self._say(GENERATION_STARTED_KIND, key, generation_id, context_seq=made_from, **more)
        token.add_callback(lambda: self._cancelled(key, token))
        while len(self._live) > self._most:
            _cancel(next(iter(self._live.values())), "evicted")
        if not token.cancelled:
            self._sightings.begin(watch)
            if not self._sightings.count_now(watch, attachment):
                self._sightings.count_later(watch)
        return token

    def begun(self, agent_id: str, req_id: str, *, here: bool = False) -> Begun | None:
        """Return how a generation that is under way began; with ``here`` only if it runs in this process."""
        key = (agent_id, req_id)
        found = self._here.get(key) or (None if here else self._elsewhere.get(key))
        return None if found is None else found.begun

    def under_way(self) -> Iterator[UnderWay]:
        """Return the generations under way: those of this process, and those of others that the log tells of."""
        for (agent_id, req_id), here in self._here.items():
            yield UnderWay(agent_id, req_id, here.begun.context_seq, is_here=True)
        for (agent_id, req_id), elsewhere in self._elsewhere.items():
            if (agent_id, req_id) not in self._here:
                yield UnderWay(agent_id, req_id, elsewhere.begun.context_seq, is_here=False)

    def get(self, agent_id: str, req_id: str) -> CancelToken | None:
        """Return the token of a generation that runs here, has ended here not long ago, or was cancelled elsewhere."""
        key = (agent_id, req_id)
        return self._live.get(key) or self._ended.get(key)

    def cancel(self, agent_id: str, req_id: str, reason: str) -> None:
        """Cancel a generation, also one of another process, which reads that in the log.

        A generation that is cancelled already stays as it is. Raises UnknownGenerationError for one that was never
        begun or has ended.
        """
        key = (agent_id, req_id)
        token = self._live.get(key)
        elsewhere = self._elsewhere.get(key)
        if token is not None:
            _cancel(token, reason)
        if elsewhere is not None:
            self._say(GENERATION_CANCELLED_KIND, key, elsewhere.generation_id, reason=reason, latency_ms=0.0)
            self._cancelled_elsewhere(key, reason)
        elif token is None and (key not in self._ended or not self._ended[key].cancelled):
            raise UnknownGenerationError(agent_id, req_id)

    def cancel_all(self, agent_id: str, reason: str) -> None:
        """Cancel all generations of an agent that run here."""
        for token in list(self._of_agent.get(agent_id, {}).values()):
            _cancel(token, reason)

    def finish(self, agent_id: str, req_id: str) -> bool:
        """Note that a generation has ended; return False if it does not run here."""
        key = (agent_id, req_id)
        token = self._live.get(key)
        if token is None:
            return False
        self._say(GENERATION_FINISHED_KIND, key, self._remove(key, token))
        return True

    async def cancel_if_stale(self, attachment: Attachment, req_id: str, new_view_seq: int) -> bool:
        """Cancel a generation if what its agent was shown up to this view makes it stale; tell if it did."""
        key = (attachment.agent_id, req_id)
        token = self._live.get(key)
        if token is None:
            return _was_stale(self._ended.get(key), new_view_seq)
        watch = self._here[key].watch
        await self._sightings.count(watch, attachment)
        if watch.stale_at is not None and watch.stale_at <= new_view_seq:
            self._cancel_stale(token, watch)
        return _was_stale(token, new_view_seq)

    def seen(self, effect: Effect) -> None:
        """Apply an effect to the generations, before its observers are told of it.

        The effect of an intent ends the generation of its req_id, whichever process accepted the intent. Generations of
        other processes are known by their own effects.
        """
        kind, req_id = effect["kind"], effect.get("req_id")
        if req_id is not None:
            self.finish(effect["source_id"], req_id)
        if not kind.startswith("Generation"):
            return
        payload = effect["payload"]
        agent_id, req_id, generation_id = map(payload.get, ("agent_id", "req_id", "generation_id"))
        if not (isinstance(agent_id, str) and isinstance(req_id, str) and isinstance(generation_id, str)):
            return
        key = (agent_id, req_id)
        if kind == GENERATION_STARTED_KIND:
            context_seq = payload.get("context_seq")
            if not generation_id.startswith(f"{self._holder}-") and isinstance(context_seq, int):
                threshold: Threshold = payload.get("staleness_threshold", NOT_GIVEN)
                begun = Begun(context_seq, frozenset(payload.get("about", ())), threshold)
                self._elsewhere[key] = _Elsewhere(generation_id, begun)
        else:
            reason = str(payload.get("reason")) if kind == GENERATION_CANCELLED_KIND else None
            self._ended_by_log(key, generation_id, reason)

    def close(self) -> None:
        """Cancel all live tokens, and issue no more: nothing would update them."""
        self._closed = True
        for timer in self._windows.values():
            timer.cancel()
        self._windows.clear()
        for token in list(self._live.values()):
            _cancel(token, "orchestrator_closed")

    def _ended_by_log(self, key: _Key, generation_id: str, reason: str | None) -> None:
        """Apply an effect of the log: a generation was cancelled for a reason, or has ended (None)."""
        elsewhere = self._elsewhere.get(key)
        if elsewhere is not None and elsewhere.generation_id == generation_id:
            if reason is None:
                del self._elsewhere[key]
            else:
                self._cancelled_elsewhere(key, reason)
        token = self._live.get(key)
        if token is not None and self._here[key].generation_id == generation_id:
            self._remove(key, token)
            if reason is not None:
                self.cancelled += 1
                _cancel(token, reason)

    def _cancelled_elsewhere(self, key: _Key, reason: str) -> None:
        """Remember a generation that another process had, and that is cancelled now."""
        agent_id, req_id = key
        token = CancelToken(req_id, agent_id, self._elsewhere.pop(key).begun.context_seq)
        token.cancel(reason)
        if key not in self._live:
            self._remember(key, token)

    def _stale(self, token: CancelToken) -> None:
        key = (token.agent_id, token.req_id)
        if self._live.get(key) is not token:
            return
        loop = asyncio.get_running_loop()
        self._caused_at.setdefault(key, loop.time())
        watch = self._here[key].watch
        if token.agent_id not in self._windows:
            self._open_window(token.agent_id)
            self._cancel_stale(token, watch)

    def _open_window(self, agent_id: str) -> None:
        """Hold further generations of an agent that go stale, until ``debounce_ms`` are over."""
        if self._debounce > 0 and not self._closed:
            loop = asyncio.get_running_loop()
            self._windows[agent_id] = loop.call_later(self._debounce, self._window_over, agent_id)

    def _window_over(self, agent_id: str) -> None:
        """Look again at the agent's generations: those that are stale are cancelled now, and open the next window."""
        del self._windows[agent_id]
        found = [
            (token, watch)
            for req_id, token in self._of_agent.get(agent_id, {}).items()
            if (watch := self._here[agent_id, req_id].watch).stale_at is not None
        ]
        if found:
            self._open_window(agent_id)
        for token, watch in found:
            self._cancel_stale(token, watch)

    def _cancel_stale(self, token: CancelToken, watch: Watch) -> None:
        """Cancel a token for the sighting that has made its generation stale."""
        if not token.cancelled and watch.stale_at is not None:
            token.details = watch.staleness.details()
            _cancel(token, stale_reason(watch.stale_at))

    def _cancelled(self, key: _Key, token: CancelToken) -> None:
        if self._live.get(key) is not token:
            return  # it had ended, or the log has told of it
        caused_at = self._caused_at.get(key)
        now = asyncio.get_running_loop().time()
        generation_id = self._remove(key, token)
        self.cancelled += 1
        latency_ms = 0.0 if caused_at is None else round((now - caused_at) * 1000.0, 3)
        reason = token.reason or "cancelled"
        self._say(GENERATION_CANCELLED_KIND, key, generation_id, reason=reason, latency_ms=latency_ms, **token.details)

    def _remove(self, key: _Key, token: CancelToken) -> str:
        """Remove a token from the live ones; return its generation_id."""
        agent_id, req_id = key
        del self._live[key]
        tokens = self._of_agent[agent_id]
        del tokens[req_id]
        if not tokens:
            del self._of_agent[agent_id]
        self._caused_at.pop(key, None)
        self._remember(key, token)
        self._held(agent_id, -1)
        here = self._here.pop(key)
        self._sightings.end(here.watch)
        return here.generation_id

    def _remember(self, key: _Key, token: CancelToken) -> None:
        self._ended[key] = token

    def _say(self, kind: str, key: _Key, generation_id: str, **more: Any) -> None:
        agent_id, req_id = key
        payload = {"agent_id": agent_id, "req_id": req_id, "generation_id": generation_id, **more}
        self._put(own_draft(kind, payload, source_id=agent_id))


# -- drafts of what a program tells of its agent's generations ---------------------------------------------------


def check_model(model: Mapping[str, Any] | None) -> None:
    """Raise InvalidEffectError unless this can be said of a generation's model: a JSON object that is not large."""
    if model is not None and len(gate(dict(model), path="$.model", level=3)) > _MODEL_BYTES:
        raise InvalidEffectError(f"more than {_MODEL_BYTES} bytes", "$.model")


def reports_of(
    agent_id: str, req_id: str, report: Mapping[str, Any], texts: Sequence[Mapping[str, Any]]
) -> list[EffectDraft]:
    """Return the effects that tell of a generation that has ended: its texts, and then the report."""
    whose = {"agent_id": agent_id, "req_id": check_req_id(req_id)}
    told = [(GENERATION_TEXT_KIND, text) for text in texts] + [(GENERATION_REPORTED_KIND, report)]
    key = _short(agent_id, req_id)
    return [
        own_draft(kind, {**each, **whose}, f"report:{key}:{number}", source_id=agent_id)
        for number, (kind, each) in enumerate(reversed(told))
    ][::-1]


def lease_draft(agent_id: str, holder: str, number: int, seconds: float) -> EffectDraft:
    """Return the effect of an agent's lease of that number; there is one, whichever process writes it first."""
    payload = {"agent_id": agent_id, "holder": holder, "number": number, "seconds": seconds}
    return own_draft(GENERATION_LEASED_KIND, payload, f"lease:{_short(agent_id)}:{number}", source_id=agent_id)


def _short(*names: str) -> str:
    """Return what stands for some names in a req_id, which may not be as long as they are."""
    return sha256("\0".join(names).encode()).hexdigest()[:32]


def _was_stale(token: CancelToken | None, seq: int) -> bool:
    """Return whether a generation was cancelled because of what its agent was shown up to a seq."""
    by = None if token is None else stale_by(token.reason)
    return by is not None and by <= seq


def _cancel(token: CancelToken, reason: str) -> None:
    """Cancel a token; what its owner wants to be called then must not break off what cancels it."""
    try:
        token.cancel(reason)
    except Exception:
        log.exception("a callback of a cancel token failed", agent_id=token.agent_id, req_id=token.req_id)
