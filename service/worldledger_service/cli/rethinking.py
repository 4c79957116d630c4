"""Language models in place of agents in a rerun: each thinks anew only where it sees something else than in the parent.

An agent has a turn where it had one in the parent: at the intents of each generation, or where one ended that led to
none. What it had seen when that generation began is compared, effect by effect, with what it has seen in the fork up to
the same place. If they are the same, and model, parameters, character and tools are, too, the turn is as recorded.
Otherwise it is asked what it would be asked in the fork, unless that question is answered in a log already.
"""

from __future__ import annotations

import asyncio
from collections import defaultdict, deque
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final

import orjson

from worldledger.aio import CancelToken
from worldledger.backoff import Backoff
from worldledger.core_kinds import (
    AGENT_REGISTERED_KIND,
    GENERATION_FINISHED_KIND,
    GENERATION_REPORTED_KIND,
    GENERATION_STARTED_KIND,
    INTENT_REJECTED_KIND,
)
from worldledger.deltas import apply_delta
from worldledger.effects import own_draft
from worldledger.errors import InvalidConfigError, UnknownAgentError
from worldledger.genesis import GENESIS_SEQ
from worldledger.llm.budgets import Budgets
from worldledger.llm.prompts import Actions, Memory, request_for, was_not_possible
from worldledger.llm.recall import TOLD_BY, Recall, is_whole
from worldledger.llm.reports import MOST_TEXT, Prompt, known, plain
from worldledger.llm.streaming import BEYOND, Output, collect
from worldledger.llm.thinker import Generation
from worldledger.near import near
from worldledger.views import Views
from worldledger_service.api.effect_kinds import vocabulary_of
from worldledger_service.runtime.generations import reports_of
from worldledger_service.runtime.replays import Replay, last_observed

if TYPE_CHECKING:
    from worldledger.deltas import ObservationDelta, ObservedEvent, View
    from worldledger.effects import Effect, EffectDraft
    from worldledger.llm.model import Model, Request
    from worldledger.llm.persona import Budget, Persona
    from worldledger_service.store import Store, WorldRecord
    from worldledger_service.store.rerunning import Turn

#: How often a model is asked if its service fails, unless the persona says.
_TRIES: Final = 5
_FIRST_PAUSE_SECONDS: Final = 1.0


@dataclass
class _Recorded:
    """An agent's generations according to the parent's log, by req_id."""

    contexts: dict[str, int] = field(default_factory=dict)
    #: those that came to nothing, but to their end
    without_intent: set[str] = field(default_factory=set)
    #: those that were asked as the agent would be now, if it sees the same
    same: set[str] = field(default_factory=set)
    #: the generations that led to effects, by seq, and to refused intents, by req_id
    of_effects: dict[int, str] = field(default_factory=dict)
    of_refused: dict[str, str] = field(default_factory=dict)

    def take(
        self,
        told: Sequence[Sequence[Mapping[str, Any]]],
        is_same: Callable[[Any, str], bool],
        before: Mapping[str, _Recorded],
    ) -> None:
        """Read the payloads of the effects of `TOLD_BY`.

        ``is_same`` is asked with a model and a prompt; ``before`` are those of the ancestors, for what was recalled.
        """
        begun, ended, texts = told
        models = {each["req_id"]: each["model"] for each in begun if isinstance(each.get("model"), dict)}
        self.contexts |= {each["req_id"]: each["context_seq"] for each in begun if each["req_id"] in models}
        prompts = {each["req_id"]: each["text"] for each in texts if each["part"] == "prompt"}
        for report in ended:
            req_id = report["req_id"]
            if req_id not in models or not is_whole(report) or report["outcome"] == "stale":
                continue
            intents = report.get("intents", ())
            self.of_effects |= {each["global_seq"]: req_id for each in intents if "global_seq" in each}
            self.of_refused |= {each["req_id"]: req_id for each in intents if "code" in each and "req_id" in each}
            if report["outcome"] != "acted":
                self.without_intent.add(req_id)
            whence = report.get("recalled")
            if req_id in prompts:
                is_alike = is_same(models[req_id], prompts[req_id])
            else:
                is_alike = whence is not None and whence["req_id"] in before.get(whence["world_id"], _Recorded()).same
            if is_alike:
                self.same.add(req_id)


class _Eyes:
    """One agent's observations of one log; ``pending`` has those not used yet, each with its place."""

    def __init__(self, agent_id: str, views: Views, *, digests: bool = False) -> None:
        self.pending: deque[tuple[int, ObservationDelta]] = deque()
        self._agent_id = agent_id
        self._views = views
        self._digests = digests

    def follow(self, effect: Effect, place: int) -> None:
        """Fold the next effect of the log, and keep what the agent observes by it."""
        self.pending.extend((place, seen.delta) for seen in self._views.apply(effect, digests=self._digests))
        if effect["kind"] == AGENT_REGISTERED_KIND and effect["payload"].get("agent_id") == self._agent_id:
            self._views.attach(self._agent_id)

    def until(self, place: int) -> Iterable[tuple[int, ObservationDelta]]:
        """Take the observations up to a place."""
        while self.pending and self.pending[0][0] <= place:
            yield self.pending.popleft()


class Mind:
    """One agent that a language model plays in a rerun."""

    def __init__(
        self,
        agent_id: str,
        model: Model,
        persona: Persona,
        *,
        actions: Actions,
        recorded: _Recorded,
        recall: Recall,
        budgets: Budgets,
        payer: str,
        eyes: tuple[_Eyes, _Eyes],
        past: Iterable[ObservedEvent],
        view: View | None,
        tell: Callable[[str], object],
    ) -> None:
        self.agent_id = agent_id
        self._model = model
        self._persona = persona
        self._actions = actions
        self._recorded = recorded
        self._recall = recall
        self._budgets = budgets
        self._payer: Final = (payer, agent_id, persona.budget)
        self._there, self._here = eyes
        self._view = view
        self._tell = tell
        self._memory = Memory(agent_id, persona.remembers)
        for event in past:
            self._memory.hear(event)
        #: whether it has seen the same in both so far, and of each turn by its name whether it is as recorded
        self._is_alike = True
        self._turns: dict[str, bool] = {}
        #: the context of the last turn in which it decided anew: a generation of the same one corrected that
        self._anew_at: int | None = None

    def observe(self, effect: Effect, place: int, *, there: bool) -> None:
        """Observe an effect; see `Thinking.observe`."""
        (self._there if there else self._here).follow(effect, place)

    def remember(self, effect: Effect, *, anew: bool) -> None:
        """Note a turn of an earlier rerun."""
        name, context_seq = self._turn_of(effect)
        if name is not None:
            self._see(context_seq)
            is_anew = anew or self._turns.get(name) is False
            self._turns[name] = not is_anew
            self._anew_at = context_seq if is_anew else self._anew_at

    async def take(self, effect: Effect, turn: Turn) -> bool:
        """Decide about an effect of the agent; see `Thinking.take`. Raises ModelError if the model does not answer."""
        name, context_seq = self._turn_of(effect)
        if name is None:
            return True
        if name not in self._turns:
            self._see(context_seq)
            self._turns[name] = self._is_alike and name in self._recorded.same
            is_correction = name in self._recorded.contexts and context_seq == self._anew_at
            if not self._turns[name] and not is_correction:
                self._anew_at = context_seq
                await self._think(context_seq, turn)
        if effect["kind"] != GENERATION_REPORTED_KIND:
            return self._turns[name]
        if self._turns[name]:
            self._tell_recorded(effect, turn)
        return True

    def _turn_of(self, effect: Effect) -> tuple[str | None, int]:
        """Return the name of the turn that an effect of the parent belongs to, and its context; no name: to none."""
        kind, payload, recorded = effect["kind"], effect["payload"], self._recorded
        if kind == GENERATION_REPORTED_KIND:
            name = payload["req_id"]
            is_turn = name in recorded.without_intent or name in self._turns
            return (name, recorded.contexts[name]) if is_turn else (None, 0)
        if kind == INTENT_REJECTED_KIND:
            own, context_seq = recorded.of_refused.get(payload["req_id"]), payload["context_seq"]
        else:
            own = recorded.of_effects.get(effect["global_seq"])
            context_seq = effect.get("source_metadata", {}).get("context_seq")
        if own is not None:
            return own, recorded.contexts[own]
        seq = effect["global_seq"]  # nothing was generated: it has seen all before, unless it says otherwise
        return f"seq {seq}", context_seq or seq - 1

    def _see(self, context_seq: int) -> None:
        """Take in what was observed up to a place, and whether it was the same in the parent and in the fork."""
        seen = [defaultdict[int, list[Any]](list), defaultdict[int, list[Any]](list)]
        for eyes, by_place in zip((self._there, self._here), seen, strict=True):
            for place, delta in eyes.until(context_seq):
                events = [(each["source_id"], each["kind"], each["payload"]) for each in delta.events]
                if events or delta.patches:
                    by_place[place].append((events, delta.patches))
                if eyes is self._here:
                    self._memory.see(delta)
                    self._view = None if self._view is None else apply_delta(self._view, delta)
        self._is_alike = self._is_alike and seen[0] == seen[1]

    # -- thinking ------------------------------------------------------------------------------------------

    async def _think(self, context_seq: int, turn: Turn) -> None:
        """Have the model answer, or a log, and submit what it means, until something has come of it."""
        turn.is_anew = True
        problems: Sequence[str] = ()
        for _ in range(self._persona.corrections + 1):
            request = request_for(self.agent_id, self._persona, self._memory, self._actions.tools, self._view, problems)
            made = Generation(self.agent_id, turn.next_name(), turn.place(context_seq), request)
            made.recalled = self._recall.find(self._model.name, request)
            await self._answer(made)
            prompt = Prompt(request)
            turn.tell([_begun(self.agent_id, made.req_id, made.context_seq, prompt.described(self._model.name))])
            made.outcome, intended = made.output.meaning(self._actions)
            for number, each in enumerate(intended):
                told = made.intends(each)
                if each.intent is None:
                    continue
                told["req_id"] = made.req_id if number == 0 else turn.next_name()
                found = turn.submit(self.agent_id, each.intent, made.context_seq, told["req_id"])
                if isinstance(found, int):
                    told["global_seq"] = found
                    made.outcome = "acted"
                else:
                    told |= {"code": found.code, "reason": plain(found.reason)[:MOST_TEXT]}
                    made.problems.append(was_not_possible(each.kind, found.reason))
            turn.tell(_ended(self.agent_id, made.req_id, *made.told(prompt, self._persona)))
            problems = made.problems
            if made.outcome != "refused" or not problems:
                return

    async def _answer(self, made: Generation) -> None:
        """Fill in the answer of a log, or the model's. Raises ModelError after as many tries as the persona has."""
        if made.recalled is not None:
            await collect(made.recalled.stream(), _token(made), made.output, most_pieces=1 << 30)
            return
        pauses, failures = Backoff(_FIRST_PAUSE_SECONDS, self._persona.retry_s, spread=(0.5, 1.0)), 0
        while True:
            while not await self._budgets.take(*self._payer):
                seconds, what = await self._budgets.used_up(*self._payer)
                self._tell(f"{self.agent_id}: its budget is used up: {what}, goes on in {seconds:.0f} s")
                await asyncio.sleep(max(0.05, seconds))
            made.output = output = Output()
            most_pieces = self._persona.max_tokens + BEYOND
            await collect(self._model.stream(made.request), _token(made), output, most_pieces=most_pieces)
            await self._budgets.spend(*self._payer, output.used)
            if output.error is None:
                return
            failures += 1
            if not output.error.may_pass or failures >= (self._persona.tries or _TRIES):
                raise output.error
            seconds = pauses.next()
            self._tell(f"{self.agent_id}: {output.error.message}, asks again in {seconds:.0f} s")
            await asyncio.sleep(seconds)

    def _tell_recorded(self, report: Effect, turn: Turn) -> None:
        """Write that a generation was taken from the parent as it was: its intents are effects of the fork already."""
        payload, intents, name = report["payload"], list[dict[str, Any]](), turn.name_at(report["global_seq"])
        for each in payload.get("intents", ()):
            if "global_seq" not in each:
                intents.append(each)
                continue
            told = {"kind": each["kind"], "req_id": turn.name_at(each["global_seq"])}
            name = name if intents else told["req_id"]
            own = turn.found(each["global_seq"])
            intents.append(told | ({"code": "refused"} if own is None else {"global_seq": own}))
        if turn.is_told(self.agent_id, name):
            return
        is_acted = any("global_seq" in each for each in intents)
        outcome = payload["outcome"] if payload["outcome"] != "acted" or is_acted else "refused"
        whence = {"world_id": report["world_id"], "req_id": payload["req_id"]}
        told = known({"outcome": outcome, "recalled": whence, "intents": intents or None})
        model = {"name": self._model.name, "parameters": self._persona.asked_with()}
        context_seq = turn.place(self._recorded.contexts[payload["req_id"]])
        turn.tell([_begun(self.agent_id, name, context_seq, model), *_ended(self.agent_id, name, told, [])])


def _token(made: Generation) -> CancelToken:
    """Return a token that nothing cancels: in a rerun nobody interrupts."""
    return CancelToken(made.req_id, made.agent_id, made.context_seq)


def _begun(agent_id: str, req_id: str, context_seq: int, model: Mapping[str, Any]) -> EffectDraft:
    payload = {"agent_id": agent_id, "req_id": req_id, "generation_id": req_id, "context_seq": context_seq}
    return own_draft(GENERATION_STARTED_KIND, {**payload, "model": dict(model)}, source_id=agent_id)


def _ended(
    agent_id: str, req_id: str, report: Mapping[str, Any], texts: Sequence[Mapping[str, Any]]
) -> list[EffectDraft]:
    payload = {"agent_id": agent_id, "req_id": req_id, "generation_id": req_id}
    end = own_draft(GENERATION_FINISHED_KIND, payload, source_id=agent_id)
    return [end, *reports_of(agent_id, req_id, report, texts)]


class Minds:
    """All agents that language models play in a rerun; see `worldledger_service.store.rerunning.Thinking`."""

    def __init__(self, minds: Iterable[Mind]) -> None:
        self._minds = {mind.agent_id: mind for mind in minds}

    @property
    def agents(self) -> Collection[str]:
        """The agents' names."""
        return self._minds.keys()

    def observe(self, effect: Effect, seq: int, *, there: bool) -> None:
        """Have each observe an effect."""
        for mind in self._minds.values():
            mind.observe(effect, seq, there=there)

    def remember(self, effect: Effect, *, anew: bool) -> None:
        """Have the agent remember a turn that it had in an earlier rerun."""
        mind = self._of(effect)
        if mind is not None:
            mind.remember(effect, anew=anew)

    async def take(self, effect: Effect, turn: Turn) -> bool:
        """Have the agent decide about an effect of its own."""
        mind = self._of(effect)
        return True if mind is None else await mind.take(effect, turn)

    def _of(self, effect: Effect) -> Mind | None:
        """Return the agent whose intent, or report of a generation, an effect is; None for all else."""
        if effect["kind"] in {GENERATION_REPORTED_KIND, INTENT_REJECTED_KIND}:
            return self._minds.get(effect["payload"].get("agent_id", ""))
        return self._minds.get(effect["source_id"]) if "context_seq" in effect.get("source_metadata", {}) else None


# -- making them ------------------------------------------------------------------------------------------------


async def minds_of(
    store: Store,
    world: WorldRecord,
    played: Mapping[str, tuple[Model, Persona]],
    *,
    budget: Budget | None,
    recall: str,
    tell: Callable[[str], object] = lambda _: None,
) -> Minds:
    """Return what plays agents of a fork in its rerun.

    ``recall`` says whose answers are given again instead of asking: ``ancestors``, ``off``, or those of a world.
    ``tell`` is called with a sentence when an agent waits, for a budget or a service that has failed. Raises
    InvalidConfigError for a world that is no fork, UnknownAgentError for an agent that its parent does not have,
    WorldNotFoundError, and as `Replay.begin`.
    """
    *line, _ = await store.states.line(world)
    if not line:
        what = f"world {world.world_id!r} is no fork: there is nothing to rerun"
        raise InvalidConfigError(what, path="$.fork_of")
    head_seq = (await store.world(line[-1].world_id)).head_seq
    known_there = (await store.states.state_at(line[-1].world_id, head_seq)).state.metadata["agents"]
    for agent_id in played:
        if agent_id not in known_there:
            raise UnknownAgentError(agent_id, line[-1].world_id, near=near(agent_id, known_there))
    budgets, vocabulary = Budgets(budget), vocabulary_of(world)
    sources = {"off": [], "ancestors": [each.world_id for each in reversed(line)]}.get(recall, [recall])
    for name in sources:
        await store.world(name)
    minds = []
    for agent_id, (model, persona) in played.items():
        actions = Actions(vocabulary, persona.may)
        asked = request_for(agent_id, persona, Memory(agent_id, 1), actions.tools)
        is_same, recorded, recalled = _same_as(asked, model), dict[str, _Recorded](), Recall()
        told = {name: await _told(store, name, agent_id) for name in {line[-1].world_id, *sources}}
        for name in reversed(sources) if recall == "ancestors" else [line[-1].world_id]:
            own = _Recorded()
            own.take(told[name], is_same if recall == "ancestors" else lambda model, prompt: False, recorded)
            recorded[name] = own
        for name in sources:
            recalled.take(name, *told[name])
        there = await _views(store, line[-1].world_id, agent_id, line[-1].head_seq)
        here = await _views(store, world.world_id, agent_id, GENESIS_SEQ)
        shows = persona.sees == "view"
        minds.append(
            Mind(
                agent_id,
                model,
                persona,
                actions=actions,
                recorded=recorded[line[-1].world_id],
                recall=recalled,
                budgets=budgets,
                payer=world.world_id,
                eyes=(_Eyes(agent_id, there), _Eyes(agent_id, here, digests=shows)),
                past=await _past(store, line, agent_id, persona.remembers),
                view=here.view(agent_id) if shows and agent_id in here.attached else None,
                tell=tell,
            )
        )
    return Minds(minds)


def _same_as(asked: Request, model: Model) -> Callable[[Any, str], bool]:
    """Return what tells whether a generation was asked as an agent is now, apart from what it had seen."""

    def is_same(recorded: Any, prompt: str) -> bool:
        is_like = (recorded["name"], recorded["parameters"]) == (model.name, dict(asked.parameters))
        return is_like and asked.is_of_same_role(orjson.loads(prompt))

    return is_same


async def _told(store: Store, world_id: str, agent_id: str) -> list[list[dict[str, Any]]]:
    """Return the payloads of an agent's effects of the kinds of `TOLD_BY` in a world's own log, kind by kind."""
    found = []
    for kind in TOLD_BY:
        batches = store.reader.batches(world_id, kind=kind, source_id=agent_id)
        found.append([orjson.loads(row.text)["payload"] async for batch in batches for row in batch])
    return found


async def _views(store: Store, world_id: str, agent_id: str, seq: int) -> Views:
    """Return the views of an agent at a seq; it is not attached if it is registered later."""
    try:
        return (await Replay.begin(store, world_id, agent_id, seq)).views
    except UnknownAgentError:
        return Views(await store.states.fold_at(world_id, seq))


async def _past(store: Store, line: Sequence[WorldRecord], agent_id: str, most: int) -> list[ObservedEvent]:
    """Return the last events that an agent had observed in the ancestors of a fork, up to each one's fork point."""
    found: list[ObservedEvent] = []
    for record in reversed(line):
        agents = (await store.states.state_at(record.world_id, record.head_seq)).state.metadata["agents"]
        if agent_id not in agents or len(found) >= most:
            break
        events, _ = await last_observed(
            store,
            record.world_id,
            agent_id,
            record.head_seq,
            registered_seq=agents[agent_id]["registered_seq"],
            most=most,
        )
        found = events + found
    return found[-most:]
