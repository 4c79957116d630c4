"""An agent that is played by a language model: it observes, is woken, has the model answer, and acts by intents.

Source: docs/how-to-llm.md.

A `Thinker` reads its agent's observations all the time. Whenever others have shown it something, it makes a request of
what it remembers and begins a generation from the view at that moment. If what it is shown meanwhile makes that stale,
the service cancels the generation: the model's stream is closed, and the recovery policy says whether it begins anew.
What each generation used and what came of it is reported to the log.
"""

from __future__ import annotations

import asyncio
import logging
import secrets
from collections.abc import Awaitable, Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final, TypeVar

from worldledger.aio import CancelToken, running
from worldledger.backoff import Backoff
from worldledger.core_kinds import GENERATION_REPORTED_KIND, GENERATION_STARTED_KIND, Outcome
from worldledger.deltas import ObservationDelta, ObservedEvent, View, apply_delta
from worldledger.errors import (
    EffectTooLargeError,
    ErrorRecoveryPolicy,
    QuotaExceededError,
    RecoveryAction,
    SimulationError,
    StaleContextError,
)
from worldledger.llm.budgets import Budgets
from worldledger.llm.model import Model, ModelError, Request
from worldledger.llm.prompts import Actions, Intended, Memory, request_for, was_not_possible
from worldledger.llm.recall import Recall, Recollection
from worldledger.llm.reports import MOST_TEXT, Prompt, answer_of, cost_of, known, plain, times_of, word
from worldledger.llm.streaming import BEYOND, Output, collect, count_prompt
from worldledger.staleness import stale_by, stale_reason

if TYPE_CHECKING:
    from worldledger.client.world import RemoteHandle, RemoteWorld
    from worldledger.llm.persona import Persona

T = TypeVar("T")

#: Effects before an agent's view in which it looks for what it remembers.
_PAST: Final = 1000
#: Most effects that are read at once.
_PAGE: Final = 1000
#: Seconds for which a call is made again while the service or its database is away.
_PATIENCE_SECONDS: Final = 300.0
#: Seconds for which what has interrupted a generation may be on its way, and for a last report.
_SIGHT_SECONDS: Final = 10.0
_LAST_SECONDS: Final = 5.0
#: Shortest wait for a budget, and the first for a model that has failed; each of the latter is twice the one before.
_LEAST_SECONDS: Final = 0.05
_FIRST_PAUSE_SECONDS: Final = 1.0
#: Recoveries of errors after which the same call is made again.
_AGAIN: Final = frozenset({RecoveryAction.RETRY, RecoveryAction.RETRY_WITH_DELAY, RecoveryAction.DEFER})

log = logging.getLogger("worldledger.llm")


@dataclass
class Generation:
    """One generation of a thinker, for those who watch it."""

    agent_id: str
    req_id: str
    context_seq: int
    request: Request
    output: Output = field(default_factory=Output)
    outcome: Outcome | None = None
    intents: list[dict[str, Any]] = field(default_factory=list)
    #: why it was cancelled
    reason: str | None = None
    #: what the model is told before it tries again
    problems: list[str] = field(default_factory=list)
    #: the answer of a log that was taken instead of asking the model
    recalled: Recollection | None = None
    #: seconds until the model is asked again, after it failed or where a budget is used up; None: it is not, for now
    again_s: float | None = None
    #: the budget that is used up, and whether the agent's turns are with this one
    budget: str | None = None
    is_last: bool = False

    def intends(self, each: Intended) -> dict[str, Any]:
        """Add something that the model wants to do; return what the report says of it. It may be a problem already."""
        told: dict[str, Any] = {"kind": word(each.kind)}
        self.intents.append(told)
        if each.intent is None:
            told |= {"code": "invalid_arguments", "reason": plain(each.problem or "")[:MOST_TEXT]}
            self.problems.append(was_not_possible(each.kind, each.problem))
        return told

    def told(self, prompt: Prompt, persona: Persona) -> tuple[dict[str, Any], list[dict[str, Any]]]:
        """Return its report and the texts that are kept, as GenerationReported and GenerationText have them."""
        report: dict[str, Any] = {"outcome": self.outcome}
        if self.outcome != "limited":
            report |= {**times_of(self.output), "intents": self.intents[:100] or None}
        if self.recalled is not None:
            report["recalled"] = {"world_id": self.recalled.world_id, "req_id": self.recalled.req_id}
        elif self.outcome != "limited":
            report |= cost_of(self.output, persona.prices)
        texts = [prompt.kept()] if self.outcome == "limited" else [prompt.kept(), answer_of(self.output)]
        return known(report), texts if persona.keeps_texts else []


class Thinker:
    """One agent of a world, played by a model; `run` does it, until it is cancelled.

    ``agent`` is an open handle that nothing else reads from. ``recovery`` says what to do after an interruption:
    REGENERATE and RETRY begin anew from what was seen since, ABORT waits to be woken again. ``recall`` has answers that
    are given again instead of asking the model. A model that fails is asked again, as the persona says; with
    ``give_up_s`` its error is raised once it has failed for so many seconds, or if asking again does not help.
    ``watch`` is called with each generation when it has ended.
    """

    def __init__(
        self,
        world: RemoteWorld,
        agent: RemoteHandle,
        model: Model,
        persona: Persona,
        *,
        recovery: ErrorRecoveryPolicy | None = None,
        budgets: Budgets | None = None,
        recall: Recall | None = None,
        give_up_s: float | None = None,
        watch: Callable[[Generation], object] = lambda _: None,
    ) -> None:
        self.agent_id = agent.agent_id
        self._world = world
        self._agent = agent
        self._model = model
        self._persona = persona
        self._recovery = recovery or ErrorRecoveryPolicy()
        self._budgets = budgets or Budgets()
        self._recall = recall or Recall()
        self._name = secrets.token_hex(6)
        self._payer: Final = (world.world_id, self.agent_id, persona.budget)
        self._give_up_s = give_up_s
        self._watch = watch
        #: how many generations it has begun, and how many of them count as turns
        self._made = self._turns = 0
        #: since when the model has failed, in the loop's time
        self._failing_since: float | None = None
        self._memory = Memory(self.agent_id, persona.remembers)
        #: whether something has woken it before this run, and it has not acted since
        self._is_due = False
        self._actions: Actions | None = None
        #: the view_seq of the last observation that is remembered, and the view there if the model is told it
        self._seen = agent.context_seq
        self._view: View | None = None
        #: the seqs of observations that nothing was made from yet, and of the agent's own effects
        self._news: set[int] = set()
        self._own: set[int] = set()
        self._observed = asyncio.Event()
        self._ended_at = 0.0

    async def run(self) -> None:
        """Play the agent until the persona's turns are used up; raises what ends its connection, and see ``give_up_s``.

        Generations that an earlier run left behind are reported as lost first.
        """
        await self._begin()
        async with running(self._read()) as reading:
            if self._due():
                await self._think()
            while not self._used_up:
                if self._news - self._own:
                    await self._think()
                    continue
                self._observed.clear()
                woken = asyncio.get_running_loop().create_task(self._observed.wait())
                try:
                    await asyncio.wait({woken, reading}, return_when=asyncio.FIRST_COMPLETED)
                finally:
                    woken.cancel()
                if reading.done():
                    reading.result()

    @property
    def _used_up(self) -> bool:
        """Whether it has made as many generations as its persona may."""
        return self._persona.turns is not None and self._turns >= self._persona.turns

    # -- observing -----------------------------------------------------------------------------------------

    async def _begin(self) -> None:
        """Learn what may be done, end what an earlier run has left, and remember what was observed so far."""
        self._actions = Actions(await self._world.call("GET", "kinds"), self._persona.may)
        acted_at = await self._end_lost()
        past, own = await self._past()
        for number, event in enumerate(past):
            self._memory.hear(event)
            is_over = number >= own and event["global_seq"] < acted_at
            self._is_due = not is_over and (
                self._wakes(event) or (self._is_due and event["source_id"] != self.agent_id)
            )
        self._is_due = self._is_due and (own < len(past) or acted_at == 0)
        if self._persona.sees == "view":
            self._view = await self._world.view(self.agent_id, at_seq=self._seen)

    async def _past(self) -> tuple[list[ObservedEvent], int]:
        """Return the last events that the agent has observed, and where those of this world's own log begin.

        Those before are of the worlds that this one is a fork of.
        """
        found: list[ObservedEvent] = []
        count = 0
        world, until = self._world, self._seen
        while True:
            after, of_world = max(0, until - _PAST), list[ObservedEvent]()
            while after < until:
                events, after = await world.observed_events(
                    self.agent_id, after_seq=after, until_seq=until, limit=_PAGE
                )
                of_world += events
                if len(events) < _PAGE:
                    break
            found = of_world + found
            count = len(of_world) if world is self._world else count
            fork_of = (await world.call("GET")).get("fork_of")
            if fork_of is None or len(found) >= self._persona.remembers:
                return found, len(found) - count
            world, until = world.world(fork_of["world_id"]), fork_of["global_seq"]

    async def _end_lost(self) -> int:
        """Report what an earlier run of this agent had begun, and could not report, as lost.

        Returns the seq of the last effect that came of a generation of this agent; 0 if there is none.
        """
        begun = await self._told_of(GENERATION_STARTED_KIND)
        reported = await self._told_of(GENERATION_REPORTED_KIND)
        for req_id, payload in begun.items():
            if req_id not in reported and isinstance(payload.get("model"), dict):
                await self._tell(req_id, {"outcome": "lost"})
        intents = (each for report in reported.values() for each in report.get("intents", ()))
        return max((each.get("global_seq", 0) for each in intents), default=0)

    async def _told_of(self, kind: str) -> dict[str, Mapping[str, Any]]:
        """Return the payloads of this agent's effects of a kind, by req_id."""
        found: dict[str, Mapping[str, Any]] = {}
        params: dict[str, Any] = {"kind": kind, "source_id": self.agent_id, "after_seq": 0, "limit": _PAGE}
        while params["after_seq"] is not None:
            page = await self._world.call("GET", "effects", params=params)
            for effect in page["effects"]:
                found[effect["payload"].get("req_id")] = effect["payload"]
            params["after_seq"] = page["next_after_seq"]
        return found

    def _due(self) -> bool:
        """Return whether it is its turn before anything happens."""
        return self._is_due or (self._persona.begins and not self._memory.has_acted)

    async def _read(self) -> None:
        while True:
            delta = await self._agent.next_observation()
            await self._observe(delta)

    async def _observe(self, delta: ObservationDelta) -> None:
        if self._view is not None:
            try:
                self._view = apply_delta(self._view, delta)
            except ValueError:  # a policy of one's own may send what does not follow
                self._view = await self._world.view(self.agent_id, at_seq=delta.view_seq)
        self._memory.see(delta)
        self._seen = delta.view_seq
        if any(map(self._wakes, delta.events)) or (delta.patches and not self._persona.woken_by):
            self._news.add(delta.view_seq)
        self._observed.set()

    def _wakes(self, event: ObservedEvent) -> bool:
        """Return whether an event makes the agent think."""
        kinds = self._persona.woken_by
        return event["source_id"] != self.agent_id and (not kinds or event["kind"] in kinds)

    async def _seen_until(self, seq: int) -> None:
        """Wait until an effect has been observed, if it is on its way to the agent."""
        with suppress(TimeoutError):
            async with asyncio.timeout(_SIGHT_SECONDS):
                while self._seen < seq:
                    self._observed.clear()
                    await self._observed.wait()

    # -- thinking ------------------------------------------------------------------------------------------

    async def _think(self) -> None:
        """Have the model answer until something has come of it, or the persona's bounds are reached."""
        interruptions = corrections = failures = 0
        problems: Sequence[str] = ()
        pauses = Backoff(_FIRST_PAUSE_SECONDS, self._persona.retry_s, spread=(0.5, 1.0))
        while not self._used_up:
            await self._rest()
            made = await self._generate(problems)
            problems = ()
            if made.output.error is not None and made.outcome == "failed":
                failures += 1
                made.again_s = self._pause(made.output.error, failures, pauses)
            else:
                self._failing_since = None
            if made.outcome == "limited":
                seconds, made.budget = await self._budgets.used_up(*self._payer)
                made.again_s = max(_LEAST_SECONDS, seconds)
            self._turns += made.outcome != "failed" or made.again_s is None  # a service that is away uses up no turns
            made.is_last = self._used_up
            self._watch(made)
            match made.outcome:
                case "interrupted" | "stale":
                    interruptions += 1
                    if not await self._begins_anew(made, interruptions):
                        return
                case "refused" if made.problems and corrections < self._persona.corrections:
                    corrections += 1
                    problems = made.problems
                case _ if made.again_s is not None:
                    await asyncio.sleep(made.again_s)
                case _:
                    return

    def _pause(self, error: ModelError, failures: int, pauses: Backoff) -> float | None:
        """Return after how many seconds a model that has failed is asked again; None if it is not, for now.

        Raises the error if the agent is to give up.
        """
        now = asyncio.get_running_loop().time()
        if self._failing_since is None:
            self._failing_since = now
        pause, most = pauses.next(), self._persona.tries
        if self._give_up_s is not None and (not error.may_pass or now + pause - self._failing_since > self._give_up_s):
            raise error
        return pause if error.may_pass and (most is None or failures < most) else None

    async def _rest(self) -> None:
        loop = asyncio.get_running_loop()
        await asyncio.sleep(max(0.0, self._ended_at + self._persona.pause_s - loop.time()))

    async def _begins_anew(self, made: Generation, times: int) -> bool:
        """Return whether to begin anew after an interruption, once what caused it is seen.

        If not, the agent is woken by what it is shown next.
        """
        seq = stale_by(made.reason)
        if seq is None:
            return False  # cancelled by hand, or the service has gone
        await self._seen_until(seq)
        stale = StaleContextError(made.req_id, max(seq, made.context_seq), made.context_seq)
        if times <= self._persona.interruptions and self._recovery.action_for(stale) is not RecoveryAction.ABORT:
            return True
        self._news = {news for news in self._news if news > seq}  # what came after it wakes
        return False

    async def _generate(self, problems: Sequence[str]) -> Generation:
        """Make one generation, from what is remembered now, and report it."""
        assert self._actions is not None  # noqa: S101 - `run` has begun
        self._made += 1
        persona, req_id, context_seq = self._persona, f"{self._name}.{self._made}", self._seen
        self._news.clear()
        request = request_for(self.agent_id, persona, self._memory, self._actions.tools, self._view, problems)
        prompt = Prompt(request)
        token = self._agent.issue_cancel_token(req_id, context_seq, model=prompt.described(self._model.name))
        made = Generation(self.agent_id, req_id, context_seq, request)
        made.recalled = self._recall.find(self._model.name, request)
        is_over = False
        try:
            if made.recalled is not None or await self._budgets.take(*self._payer):
                stream = self._model.stream(request) if made.recalled is None else made.recalled.stream()
                await collect(stream, token, made.output, most_pieces=persona.max_tokens + BEYOND)
                await self._act(made, token)
            else:
                made.outcome = "limited"
            is_over = True
            if made.recalled is None:
                await count_prompt(self._model, request, made.output)
                await self._budgets.spend(*self._payer, made.output.used)
            await self._report(made, prompt)
        except BaseException:  # told to stop: what was said until then is kept all the same
            if not is_over and made.outcome != "acted":
                made.outcome = "interrupted"
            with suppress(SimulationError, TimeoutError):
                async with asyncio.timeout(_LAST_SECONDS):
                    if made.recalled is None:
                        await count_prompt(self._model, request, made.output)
                    await self._report(made, prompt)
            raise
        self._ended_at = asyncio.get_running_loop().time()
        return made

    # -- acting --------------------------------------------------------------------------------------------

    async def _act(self, made: Generation, token: CancelToken) -> None:
        """Submit what the answer means, and note what became of it."""
        assert self._actions is not None  # noqa: S101 - `run` has begun
        made.outcome, intended = made.output.meaning(self._actions)
        if made.outcome == "interrupted":
            made.reason = token.reason
        for number, each in enumerate(intended):
            req_id = made.req_id if number == 0 else f"{made.req_id}.{number + 1}"
            if not await self._submit(made, each, req_id):
                break

    async def _submit(self, made: Generation, each: Intended, req_id: str) -> bool:
        """Submit one intent, and note what became of it; return False if nothing more can come of the answer."""
        told = made.intends(each)
        if each.intent is None:
            return True
        told["req_id"] = req_id
        intent = {**each.intent, "req_id": req_id, "context_seq": made.context_seq}
        try:
            accepted = await self._persist(lambda: self._agent.submit_intent(intent))
        except SimulationError as error:
            told |= {"code": error.code, "reason": plain(error.message)[:MOST_TEXT]}
            if isinstance(error, StaleContextError) and made.outcome != "acted":
                made.outcome = "stale"
                made.reason = stale_reason(error.expected_seq)
                return False
            made.problems.append(was_not_possible(each.kind, error.message))
            return True
        told["global_seq"] = accepted.global_seq
        self._own.add(accepted.global_seq)
        made.outcome = "acted"
        return True

    async def _report(self, made: Generation, prompt: Prompt) -> None:
        given, kept = made.told(prompt, self._persona)
        try:
            await self._tell(made.req_id, given, kept)
        except EffectTooLargeError:
            log.warning("the texts of generation %s of %s are too large for an effect", made.req_id, self.agent_id)
            await self._tell(made.req_id, given)

    async def _tell(self, req_id: str, report: Mapping[str, Any], texts: Sequence[Mapping[str, Any]] = ()) -> None:
        await self._persist(lambda: self._world.report_generation(self.agent_id, req_id, report, texts))

    async def _persist(self, call: Callable[[], Awaitable[T]]) -> T:
        """Make a call again while what it needs is away: the service, its database, or room in a quota.

        Its req_id makes it one call, however often it is made.
        """
        loop = asyncio.get_running_loop()
        given_up = loop.time() + _PATIENCE_SECONDS
        pauses = Backoff(0.2, 10.0, spread=(0.5, 1.0))
        while True:
            try:
                return await call()
            except SimulationError as error:
                action = self._recovery.action_for(error)
                wait = error.details.get("retry_after_s")
                if isinstance(error, QuotaExceededError) and wait is None:
                    raise  # waiting does not help
                pause = max(pauses.next(), wait if isinstance(wait, int | float) else 0.0)
                if isinstance(error, StaleContextError) or action not in _AGAIN or loop.time() + pause > given_up:
                    raise
                log.info("%s: %s; again in %.1f s", self.agent_id, error.message, pause)
            await asyncio.sleep(pause)
