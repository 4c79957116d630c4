"""Running on in a fork: the drafts that its parent got from outside after the fork point are decided again, in order.

The fork's own state decides, so a draft may be refused here that was accepted there, and the other way round. Each
batch is one write, which fails if somebody else writes to the fork meanwhile. What is written names the parent's effect
(``rerun_of`` in its source_metadata), so a rerun that was stopped goes on where it was. It reports the whole then: what
was refused before is decided once more, and the logs are folded from where they part.

Agents that think (`Thinking`), such as those that a language model plays, have their turns where they had them in the
parent: at each of their intents, and at each generation that led to none. Their drafts are issued as recorded where
they see what they saw there; else they decide anew, and what they decide is written at once, for it has cost something.
"""

from __future__ import annotations

import asyncio
import json
from collections import Counter, deque
from collections.abc import AsyncIterator, Awaitable, Callable, Collection, Mapping, Sequence
from contextlib import aclosing, asynccontextmanager
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, Final, NamedTuple, Protocol

import orjson

from worldledger.chain import Finding, Position, Verifier
from worldledger.comparing import LEFT_OUT, OWN_OF_STATES, Ignored, left_out_of, state_differences, touched_by
from worldledger.core_kinds import GENERATION_REPORTED_KIND, INTENT_REJECTED_KIND
from worldledger.drafts import check_draft, effect_body_digest
from worldledger.effects import SCHEMA_VERSION, Effect, EffectDraft
from worldledger.errors import InvalidEffectError, PolicyFailedError, RerunConflictError, SimulationError
from worldledger.folding import Fold
from worldledger.genesis import GENESIS_SEQ
from worldledger.intents import check_intent, intent_draft
from worldledger.lineage import with_own_noise
from worldledger.log_rules import RERUN_PREFIX
from worldledger.rerunning import RERUN_OF, Again, Fate, again, fate_of, judge_intent_again
from worldledger.time_authority import CLIENT, TimeAuthority
from worldledger.views import Views
from worldledger_service.database.engine import transaction
from worldledger_service.store.records import Head
from worldledger_service.store.sealing import Group, LiveState, Sealer
from worldledger_service.store.statements import write_groups
from worldledger_service.store.units import Unit

if TYPE_CHECKING:
    from worldledger.chain import StoredEffect
    from worldledger.deltas import View
    from worldledger.world import WorldState
    from worldledger_service.store.reader import Reader
    from worldledger_service.store.records import WorldRecord
    from worldledger_service.store.states import States

#: Effects that are written together.
_BATCH: Final = 200
#: Refusals that a report names.
_NAMED: Final = 100
#: Members of an effect that states are made from.
_FOLDED: Final = ("kind", "payload", "source_id", "sim_time", "priority", "schema_version")

#: What becomes of an effect that is not issued again.
_NOT_ISSUED: Final[Mapping[Fate, str]] = {
    "anew": "the service makes it anew, where one is due in the fork",
    "left out": "it is left out in any case",
}

#: A user's own policy: called with an agent's name, its view in the fork and the recorded draft's kind and payload.
#: It returns the kind and the payload to submit instead (``{"kind": …, "payload": …}``), or None for nothing.
Playing = Callable[[str, "View", dict[str, Any]], Any]
#: Called with the parent's seq that has been reached, and the last one.
Progress = Callable[[int, int], None]


class Refusal(NamedTuple):
    """A draft that the fork's state refuses: the parent's global_seq, the draft's kind and source, and why."""

    seq: int
    kind: str
    source_id: str
    code: str
    reason: str


@dataclass
class Report:
    """The result of a rerun. Seqs are the parent's, except for ``head_seq``, which is the fork's.

    ``issued`` drafts were submitted, of which ``accepted`` became effects; ``refusals`` names the first hundred of the
    others, ``newly_accepted`` those that the parent had refused. ``left_out`` counts effects by kind. Of the
    generations of agents that think, ``recalled`` were answered from a log, ``asked`` by a model. The states first
    differ after ``differs_after`` (the fork point: already there), at ``differs_at``, a JSON Pointer; both are None if
    they never do.

    If it went on where an earlier rerun was stopped, after ``resumed_after``, the report is that of both together, as
    of one that ran in one go. Which drafts the earlier one was told to skip is not recorded: one that would be accepted
    counts as left out.
    """

    world_id: str
    parent: str
    after_seq: int
    until_seq: int
    head_seq: int
    issued: int = 0
    accepted: int = 0
    refused: int = 0
    refusals: list[Refusal] = field(default_factory=list)
    newly_accepted: list[int] = field(default_factory=list)
    left_out: dict[str, int] = field(default_factory=dict)
    recalled: int = 0
    asked: int = 0
    differs_after: int | None = None
    differs_at: str | None = None
    resumed_after: int | None = None


class Thinking(Protocol):
    """Agents that decide anew in a rerun wherever they see something else than they did in the parent."""

    @property
    def agents(self) -> Collection[str]:
        """The agents' names."""
        ...

    def observe(self, effect: Effect, seq: int, *, there: bool) -> None:
        """Have them observe an effect of the parent (``there``) or of the fork, as of the parent's effect at ``seq``.

        The logs come in order: of the parent what follows the fork point, of the fork what follows its genesis.
        """
        ...

    def remember(self, effect: Effect, *, anew: bool) -> None:
        """Note an effect of the parent that an earlier rerun had come to; ``anew``: it decided anew there."""
        ...

    async def take(self, effect: Effect, turn: Turn) -> bool:
        """Have the agent whose effect of the parent this is decide about it; return whether it is issued as recorded.

        If not, the agent has submitted and told by ``turn`` what is to stand in its place.
        """
        ...


class Asked(NamedTuple):
    """The changes of a rerun: effects of the parent to skip or to replace, and what plays agents.

    ``thinking`` plays its agents, the policy ``playing`` all others.
    """

    skip: Collection[int] = ()
    replace: Mapping[int, EffectDraft] = {}
    playing: Playing | None = None
    thinking: Thinking | None = None


class RecordedTimes(Sealer):
    """A sealer whose drafts state the recorded sim_time, whoever has the authority over it."""

    def effect(self, draft: Any, seq: int, *, sim_time: float, **more: Any) -> tuple[bytes, str, float]:
        """Write the effect that a draft becomes; see `Sealer.effect`."""
        return super().effect(draft, seq, sim_time=sim_time, **{**more, "authority": TimeAuthority(CLIENT)})


class Rerun:
    """One rerun of a fork. ``written`` is called with the fork's name and head after each batch."""

    def __init__(
        self,
        reader: Reader,
        states: States,
        world: WorldRecord,
        parent: WorldRecord,
        until: int,
        asked: Asked,
        sealer: RecordedTimes,
        written: Callable[[str, int], None],
    ) -> None:
        self._reader = reader
        self._states = states
        self._world = world
        self._parent = parent
        self._asked = asked
        self._sealer = sealer
        self._written = written
        #: of the parent's effects after the fork point
        self._chain = Verifier(parent.world_id, start=Position(parent.head_seq, bytes.fromhex(parent.head_checksum)))
        self.places: dict[int, int] = {}
        #: by the parent's seq, what an earlier rerun told of the generations of agents that think
        self._told: dict[int, list[dict[str, Any]]] = {}
        #: the agents and req_ids of all generations that the fork's log tells of
        self.told_of: set[tuple[str, str]] = set()
        self._views: Views | None = None
        #: None if the fork's agents draw the noise of the parent
        self._ancestors: set[str] | None = None
        self._left_out: Counter[str] = Counter()
        self._ignored = Ignored((*OWN_OF_STATES, *left_out_of(world.ruleset)))
        self.report = Report(world.world_id, parent.world_id, parent.head_seq, until, world.head_seq)

    async def run(self, progress: Progress | None = None) -> Report:
        """Run on up to the seq. Raises TamperedError, FoldError, StoreUnavailableError, RerunConflictError."""
        report, world_id = self.report, self._world.world_id
        fork_of = (await self._states.rules(world_id)).fork_of
        if fork_of is not None and not fork_of.same_noise:
            self._ancestors = {record.world_uuid for record in await self._states.line(self._parent)}
        start = await self._resume()
        await self._check(start)
        checked = fork_of is None or not fork_of.unverified  # it was forked anyway, and the genesis says so
        if self._asked.thinking is not None:
            await self._remember(self._asked.thinking, start)
        if report.resumed_after is not None:
            await self._recover(start, checked=checked)
        theirs = (await self._states.base_at(self._parent.world_id, start, check=checked)).fold
        own = await self._states.fold_at(world_id, self._world.head_seq)
        if self._asked.playing is not None:
            self._views = Views(own.copy())
        self._look(start, theirs, own)
        self._sealer.live = LiveState(own, 0, lambda _: None)
        head = self._world.head
        group = Group(world_id, head, head)
        async for batch in self._parents_effects(report.until_seq):
            for row in batch:
                effect: Effect = orjson.loads(row.text)
                group, has_thought = await self._take(effect, theirs, own, group)
                if has_thought or len(group.texts) >= _BATCH:
                    group = await self._write(group)
            if progress is not None:
                progress(batch[-1].global_seq - report.after_seq, report.until_seq - report.after_seq)
        await self._write(group)
        report.left_out = dict(sorted(self._left_out.items()))
        return report

    async def _resume(self) -> int:
        """Look at what an earlier rerun has written already; return the parent's seq that it came to."""
        last = self._parent.head_seq
        async for batch in self._reader.batches(self._world.world_id, until_seq=self._world.head_seq):
            for row in batch:
                effect = orjson.loads(row.text)
                of = effect.get("source_metadata", {}).get(RERUN_OF)
                if type(of) is int and of > last:  # by a rerun they ascend
                    self.places[of] = row.global_seq
                    last = self.report.resumed_after = of
                if row.kind == GENERATION_REPORTED_KIND:
                    payload = effect["payload"]
                    self.told_of.add((payload["agent_id"], payload["req_id"]))
                    if payload["req_id"].startswith(RERUN_PREFIX):
                        self.count_generation(payload)
                    if of in self.places:
                        self._told.setdefault(of, []).append(payload)
        return last

    def count_generation(self, payload: Mapping[str, Any]) -> None:
        """Count what the fork's log is told of a generation."""
        if "recalled" in payload:
            self.report.recalled += 1
        else:
            self.report.asked += 1

    async def _remember(self, thinking: Thinking, start: int) -> None:
        """Have the agents that think observe what they saw up to a seq of the parent, there and in the fork."""
        stamp = self.report.after_seq
        async for batch in self._reader.batches(self.report.parent, after_seq=stamp, until_seq=start):
            for row in batch:
                effect: Effect = orjson.loads(row.text)
                thinking.observe(effect, row.global_seq, there=True)
                thinking.remember(effect, anew=row.global_seq in self._told)
        world_id, until = self._world.world_id, self._world.head_seq
        async for batch in self._reader.batches(world_id, after_seq=GENESIS_SEQ, until_seq=until):
            for row in batch:
                effect = orjson.loads(row.text)
                of = effect.get("source_metadata", {}).get(RERUN_OF)
                stamp = of if of in self.places else stamp
                thinking.observe(effect, stamp, there=False)

    async def _parents_effects(self, until_seq: int) -> AsyncIterator[list[StoredEffect]]:
        """Yield the parent's effects after those that were read already, in batches whose checksums hold.

        Raises TamperedError for the first that does not, before anything of its batch is yielded.
        """
        chain, parent = self._chain, self._parent.world_id
        rows = self._reader.batches(parent, after_seq=chain.position.global_seq, until_seq=until_seq)
        async for batch in rows:
            chain.feed_chain(batch)
            if chain.finding is not None:
                raise chain.finding.error()
            yield batch
        if chain.position.global_seq < until_seq:
            raise Finding(parent, chain.position.global_seq + 1, "missing from the log").error()

    # -- what an earlier rerun has done ------------------------------------------------------------------------

    async def _recover(self, start: int, *, checked: bool) -> None:
        """Report what an earlier rerun did, up to the seq that it came to: what it refused, and the first difference.

        The states are alike as long as the logs are. So they are folded only from where they part until the states
        differ, and the fork's also for what is missing in it, which is decided once more.
        """
        report, fork = self.report, self._world.world_id
        begun = min(self.places.values()) - 1
        parting, missing = await self._side_by_side(begun, start)
        theirs: Fold | None
        theirs = before = (await self._states.base_at(report.parent, report.after_seq, check=checked)).fold
        own = await self._states.fold_at(fork, begun)
        self._look(report.after_seq, before, own)
        first = [*missing[:1], *([] if parting is None or report.differs_after is not None else [parting])]
        if not first:
            return
        since = min(first)
        begun = max((place for seq, place in self.places.items() if seq < since), default=begun)
        if report.differs_after is not None:
            theirs = None
        elif since > report.after_seq + 1:
            theirs = (await self._states.base_at(report.parent, since - 1, check=checked)).fold
        if begun > own.seq:
            own = await self._states.fold_at(fork, begun)
        if self._asked.playing is not None and missing:
            self._views = Views(own.copy())
        await self._go_over(since, start, theirs, own, missing)

    async def _side_by_side(self, begun: int, start: int) -> tuple[int | None, list[int]]:
        """Read what was run on in both logs, and count it.

        Returns the parent's seq from which on the two are not alike, if there is one, and the drafts that are missing
        in the fork: refused, or left out as the rerun was told. Raises RerunConflictError if what is to be replaced was
        issued otherwise.
        """
        report, missing = self.report, list[int]()
        parting: int | None = None
        async with _reading(self._reader, self._world.world_id, begun) as read:
            async for batch in self._parents_effects(start):
                for row in batch:
                    place = self.places.get(row.global_seq)
                    is_alike = row.kind in LEFT_OUT
                    told = self._told.get(row.global_seq)
                    if told is not None and place is not None:
                        await read(place)
                        is_alike = False
                        self._count_told(row, told)
                    elif place is not None:
                        *more, own = await read(place)
                        if row.global_seq in self._asked.replace and not self._is_replaced(row, own):
                            raise self._issued_already(row.global_seq, "replace")
                        if parting is None:
                            is_alike = all(each.kind in LEFT_OUT for each in more) and _are_alike(row, own)
                        report.issued += 1
                        report.accepted += 1
                        if row.kind == INTENT_REJECTED_KIND:
                            report.newly_accepted.append(row.global_seq)
                    elif fate_of(row.kind) == "again":
                        missing.append(row.global_seq)
                    else:
                        self._left_out[row.kind] += 1
                    if parting is None and not is_alike:
                        parting = row.global_seq
        return parting, missing

    def _count_told(self, row: StoredEffect, told: Sequence[Mapping[str, Any]]) -> None:
        """Count what an agent that thinks had decided anew in place of a parent's effect."""
        submitted = [each for payload in told for each in payload.get("intents", ()) if "req_id" in each]
        for each in submitted:
            self.report.issued += 1
            if "global_seq" in each:
                self.report.accepted += 1
            else:
                self.refuse(Refusal(row.global_seq, each["kind"], told[0]["agent_id"], each["code"], each["reason"]))
        if not submitted or fate_of(row.kind) != "again":
            self._left_out[row.kind] += 1

    async def _go_over(self, since: int, start: int, theirs: Fold | None, own: Fold, missing: list[int]) -> None:
        """Decide once more what is missing in the fork, and look where the states (None: they do) first differ."""
        fork, lacking = self._world.world_id, set(missing)
        head = Head(own.seq, b"", (await self._reader.effect(fork, own.seq)).sim_time, 0.0)
        async with _reading(self._reader, fork, own.seq) as read:
            async for batch in self._reader.batches(self.report.parent, after_seq=since - 1, until_seq=start):
                for row in batch:
                    seq = row.global_seq
                    if theirs is None and (not missing or seq > missing[-1]):
                        return
                    effect: Effect = orjson.loads(row.text)
                    touched: Any = ()
                    for each in await read(self.places.get(seq, 0)):
                        written = orjson.loads(each.text)
                        touched = touched_by(touched, own.apply(written))
                        head = Head(own.seq, each.checksum, each.sim_time, 0.0)
                        for _ in () if self._views is None else self._views.apply(written):
                            pass
                    if seq in lacking:
                        self._decide_again(effect, own, head)
                    if theirs is not None:
                        self._look(seq, theirs, own, touched_by(theirs.apply(effect), touched))
                        theirs = theirs if self.report.differs_after is None else None
                    if seq % _BATCH == 0:
                        await asyncio.sleep(0)

    def _is_replaced(self, row: StoredEffect, own: StoredEffect) -> bool:
        """Return whether a fork's effect came of what is asked for now in place of a parent's effect."""
        drafted = self._drafted(orjson.loads(row.text))
        if drafted is None:
            return False
        try:
            wanted = check_draft(drafted.draft, system=True).body_digest()
            return wanted == effect_body_digest(orjson.loads(own.text), own.text)
        except SimulationError:
            return False

    def _issued_already(self, seq: int, change: str) -> RerunConflictError:
        """Make the error for a change to an effect that an earlier rerun has come to already."""
        was = "was issued" if seq in self.places else "was left out"
        what = f"seq {seq} {was} in {self.report.world_id!r} by an earlier rerun; make another fork to {change} it"
        return RerunConflictError(what, world_id=self.report.world_id, global_seq=seq)

    def _decide_again(self, effect: Effect, own: Fold, head: Head) -> None:
        """Find out why a draft is missing in the fork: it is refused there, or else was left out."""
        self._sealer.live = LiveState(own, 0, lambda _: None)
        drafted = self._drafted(effect)
        found = None if drafted is None else self.judge(drafted, Group(self._world.world_id, head, head))
        if isinstance(found, Refusal):
            self.report.issued += 1
            self.refuse(found)
        elif found is not None and effect["global_seq"] in self._asked.replace:
            raise self._issued_already(effect["global_seq"], "replace")
        else:
            self._left_out[effect["kind"]] += 1

    # -- running on ----------------------------------------------------------------------------------------------

    async def _check(self, start: int) -> None:
        """Check that what is asked for otherwise is still to come, and that the fork has not gone on by itself."""
        report = self.report
        for seq in sorted({*self._asked.skip, *self._asked.replace}):
            why = await self._never_issued(seq)
            if why is not None:
                change = "skipped" if seq in self._asked.skip else "replaced"
                what = f"seq {seq} of {report.parent!r} cannot be {change}: {why}"
                raise RerunConflictError(what, world_id=report.world_id, global_seq=seq)
            if seq in self._asked.skip and seq in self.places:
                raise self._issued_already(seq, "skip")
        came_to = orjson.loads((await self._reader.effect(report.parent, start)).text)["sim_time"]
        if self._world.sim_time > came_to and start < report.until_seq:
            what = (
                f"{report.world_id!r} has gone on by itself to sim_time {self._world.sim_time}, and a rerun would go "
            )
            what += f"on from {came_to}; make another fork"
            raise RerunConflictError(what, world_id=report.world_id)

    async def _never_issued(self, seq: int) -> str | None:
        """Return why this rerun does not issue an effect of the parent; None if it does."""
        first, last = self.report.after_seq + 1, self.report.until_seq
        if last < first:
            return f"nothing is run again, for seq {last} is where the fork begins"
        if not first <= seq <= last:
            return f"what is run again is seq {first} to {last}"
        kind = (await self._reader.effect(self.report.parent, seq)).kind
        fate = fate_of(kind)
        if fate == "again":
            return None
        return f"a rerun never issues a {kind}: " + _NOT_ISSUED[fate]

    async def _take(self, effect: Effect, theirs: Fold, own: Fold, group: Group) -> tuple[Group, bool]:
        """Issue one effect again, and look whether the states are alike after it.

        Returns the group, and whether an agent has decided anew.
        """
        seq, thinking = effect["global_seq"], self._asked.thinking
        turn = Turn(self, effect, group)
        is_recorded, touched = True, ()  # type: bool, Any
        if thinking is not None and seq not in self._asked.skip and seq not in self._asked.replace:
            is_recorded = await thinking.take(effect, turn)
            group = turn.group
        drafted = self._drafted(effect) if is_recorded else None
        if drafted is not None:
            group, touched = self._issue(effect, drafted, group)
        elif not turn.submitted or fate_of(effect["kind"]) != "again":
            self._left_out[effect["kind"]] += 1
        touched = None if turn.submitted else touched
        if thinking is not None:
            thinking.observe(effect, seq, there=True)
        moved = theirs.apply(effect)
        self._look(seq, theirs, own, touched_by(moved, touched))
        if seq % _BATCH == 0:
            await asyncio.sleep(0)
        return group, turn.is_anew

    def _look(self, seq: int, theirs: Fold, own: Fold, touched: Collection[str] | None = None) -> None:
        """Look whether the states have been alike so far, and differ now among what was touched (None: anywhere)."""
        if self.report.differs_after is None:
            for first in state_differences(theirs.state, own.state, self._ignored, touched)[:1]:
                self.report.differs_after, self.report.differs_at = seq, first.path

    def _drafted(self, effect: Effect) -> Again | None:
        seq = effect["global_seq"]
        if seq in self._asked.skip or fate_of(effect["kind"]) != "again":
            return None
        try:
            found = again(effect, self.places, self.report.after_seq, adapted=self._adapted)
        except (KeyError, TypeError, SimulationError):
            return None  # it is none that the service writes
        replaced = self._asked.replace.get(seq)
        if found is None or replaced is None:
            return found
        return Again(seq, {**found.draft, **replaced, "req_id": found.draft["req_id"]}, None)

    def _adapted(self, spec: dict[str, Any]) -> dict[str, Any]:
        """Return an agent's stored policy with the noise of the fork, unless that is the parent's."""
        return spec if self._ancestors is None else with_own_noise(spec, self._ancestors, self._world.world_uuid)

    def _issue(self, effect: Effect, drafted: Again, group: Group) -> tuple[Group, Any]:
        report = self.report
        before = len(group.texts)
        found = self.judge(drafted, group)
        if found is None:
            self._left_out[effect["kind"]] += 1
            return group, ()
        report.issued += 1
        if isinstance(found, Refusal):
            self.refuse(found)
            return group, ()
        group = found
        report.accepted += 1
        if effect["kind"] == INTENT_REJECTED_KIND:
            report.newly_accepted.append(drafted.seq)
        self.places[drafted.seq] = group.after.seq
        self.follow(group, before, drafted.seq)
        is_other = self._asked.playing is not None or drafted.seq in self._asked.replace
        return group, None if is_other or effect["kind"] == INTENT_REJECTED_KIND else ()

    def follow(self, group: Group, before: int, seq: int) -> None:
        """Have states and views follow the texts of a group from ``before`` on, as of the parent's effect at a seq."""
        live = self._sealer.live
        assert live is not None  # noqa: S101 - it is dropped only with a refusal
        live.after(group.before.seq, group.texts)
        for text in group.texts[before:]:
            written: Effect = orjson.loads(text)
            if self._views is not None:
                for _ in self._views.apply(written):
                    pass
            if self._asked.thinking is not None:
                self._asked.thinking.observe(written, seq, there=False)

    def judge(self, drafted: Again, group: Group) -> Group | Refusal | None:
        """Decide about a draft that is to follow a group: return the group with its effect, or why it is refused.

        None: the user's policy leaves it out.
        """
        draft = drafted.draft
        judges: dict[int, Callable[[WorldState], None]] = {}
        if drafted.agent_id is not None:
            agent_id, thinking = drafted.agent_id, self._asked.thinking
            if self._asked.playing is not None and (thinking is None or agent_id not in thinking.agents):
                played = self._play(agent_id, drafted)
                if played is None:
                    return None
                draft = played
            judged = draft
            judges[0] = lambda state: judge_intent_again(
                agent_id, judged, self._sealer.ruleset, state, self._world.world_id
            )
        try:
            return self.sealed(draft, group, judges)
        except SimulationError as error:
            return Refusal(drafted.seq, draft["kind"], draft["source_id"], error.code, error.message)

    def sealed(
        self,
        draft: EffectDraft,
        group: Group,
        judges: Mapping[int, Callable[[WorldState], None]] = MappingProxyType({}),
    ) -> Group:
        """Return a group with the effect of a draft after its others. Raises what refuses it."""
        unit = Unit.of([draft], limit=1, system=True)
        unit.judges = judges
        group, _, refused = self._sealer.seal(group.before, [unit], final=True, onto=group)
        unit.future.cancel()
        if refused:
            raise unit.refusal or InvalidEffectError("it was refused")
        return group

    def refuse(self, refusal: Refusal) -> None:
        """Count a refusal, and name it if there is room."""
        self.report.refused += 1
        if len(self.report.refusals) < _NAMED:
            self.report.refusals.append(refusal)

    def _play(self, agent_id: str, drafted: Again) -> EffectDraft | None:
        """Let the user's policy say what an agent does instead.

        Raises PolicyFailedError with the text of its error: it is told to the user, who gave the policy.
        """
        draft = drafted.draft
        assert self._views is not None  # noqa: S101 - it is there with the policy
        assert self._asked.playing is not None  # noqa: S101
        view = self._views.attach(agent_id)
        try:
            told = self._asked.playing(agent_id, view, {"kind": draft["kind"], "payload": draft["payload"]})
            if told is None:
                return None
            if not isinstance(told, Mapping) or set(told) != {"kind", "payload"}:
                raise TypeError(f"it returned {told!r}, and not {{'kind': …, 'payload': …}} or None")  # noqa: TRY301
        except Exception as error:
            what = f"{type(error).__name__}: {error}" if str(error) else type(error).__name__
            raise PolicyFailedError(agent_id, f"{what}, asked about seq {drafted.seq}") from error
        return {**draft, "kind": told["kind"], "payload": told["payload"]}

    async def _write(self, group: Group) -> Group:
        """Write what has been accepted, and return the next group."""
        if not group.texts:
            return group
        async with self._reader.connection() as connection, transaction(connection):
            written = await write_groups(connection, [group])
        if not written:
            what = f"world {group.world_id!r} was written to meanwhile; run the rerun again, it goes on where it was"
            raise RerunConflictError(what, world_id=group.world_id)
        live = self._sealer.live
        assert live is not None  # noqa: S101
        live.confirm(group.before.seq, group.texts)
        self.report.head_seq = group.after.seq
        self._written(group.world_id, group.after.seq)
        return Group(group.world_id, group.after, group.after)


class Turn:
    """A turn of an agent that thinks, in a rerun: what it submits and tells becomes effects of the fork.

    ``submitted`` counts its drafts, ``group`` has what was accepted. An agent that decides anew sets ``is_anew`` first.
    """

    def __init__(self, rerun: Rerun, effect: Effect, group: Group) -> None:
        self.group = group
        self.submitted = 0
        self.is_anew = False
        self._rerun = rerun
        self._effect = effect
        self._names = 0

    def next_name(self) -> str:
        """Return a new req_id, for a generation and the first draft that it leads to, or for another one."""
        own = self.name_at(self._effect["global_seq"])
        self._names += 1
        return own if self._names == 1 else f"{own}.{self._names}"

    def place(self, seq: int) -> int:
        """Return the fork's seq for one of the parent's, or for the last before it that the fork has."""
        return next((own for of, own in reversed(self._rerun.places.items()) if of <= seq), GENESIS_SEQ)

    def found(self, seq: int) -> int | None:
        """Return the fork's seq for one of the parent's; None if it was refused or left out."""
        return self._rerun.places.get(seq)

    @staticmethod
    def name_at(seq: int) -> str:
        """Return the req_id of what is issued again of the parent's effect at a seq."""
        return f"{RERUN_PREFIX}{seq}"

    def is_told(self, agent_id: str, req_id: str) -> bool:
        """Return whether a generation was told of by an earlier rerun."""
        return (agent_id, req_id) in self._rerun.told_of

    def submit(self, agent_id: str, intent: Mapping[str, Any], context_seq: int, req_id: str) -> int | Refusal:
        """Submit an intent, a ``kind`` and a ``payload``: return its seq in the fork, or why it is refused."""
        rerun, effect = self._rerun, self._effect
        seq, report, before = effect["global_seq"], rerun.report, len(self.group.texts)
        asked = {"agent_id": agent_id, "context_seq": context_seq, "req_id": req_id, "priority": 0}
        self.submitted += 1
        report.issued += 1
        found: Group | Refusal | None
        try:
            draft = intent_draft(check_intent({**intent, **asked, "schema_version": SCHEMA_VERSION}))
        except SimulationError as error:
            found = Refusal(seq, intent["kind"], agent_id, error.code, error.message)
        else:
            draft["source_metadata"][RERUN_OF] = seq
            draft["sim_time"] = effect["sim_time"]
            found = rerun.judge(Again(seq, draft, agent_id), self.group)
        if not isinstance(found, Group):
            assert found is not None  # noqa: S101 - no policy is asked
            rerun.refuse(found)
            return found
        report.accepted += 1
        rerun.places.setdefault(seq, found.after.seq)
        self._take(found, before)
        return found.after.seq

    def tell(self, drafts: Sequence[EffectDraft]) -> None:
        """Write effects that tell of a generation; the report of one that ``is_anew`` says in whose place it is."""
        before, group, seq = len(self.group.texts), self.group, self._effect["global_seq"]
        for draft in drafts:
            is_report = draft["kind"] == GENERATION_REPORTED_KIND
            is_mark = self.is_anew and is_report
            if is_report:
                self._rerun.count_generation(draft["payload"])
            group = self._rerun.sealed({**draft, "source_metadata": {RERUN_OF: seq}} if is_mark else draft, group)
            if is_mark:
                self._rerun.places.setdefault(seq, group.after.seq)
        self._take(group, before)

    def _take(self, group: Group, before: int) -> None:
        self.group = group
        self._rerun.follow(group, before, self._effect["global_seq"])


@asynccontextmanager
async def _reading(
    reader: Reader, world_id: str, after_seq: int
) -> AsyncIterator[Callable[[int], Awaitable[list[StoredEffect]]]]:
    """Return a function that reads on in a log: it returns the next effects up to a seq."""
    rows: deque[StoredEffect] = deque()
    async with aclosing(reader.batches(world_id, after_seq=after_seq)) as batches:

        async def read(until_seq: int) -> list[StoredEffect]:
            found: list[StoredEffect] = []
            while not found or found[-1].global_seq < until_seq:
                if not rows:
                    rows.extend(await anext(batches, []))
                if not rows or rows[0].global_seq > until_seq:
                    break
                found.append(rows.popleft())
            return found

        yield read


def _are_alike(one: StoredEffect, other: StoredEffect) -> bool:
    """Return whether two effects make the same of a state."""
    effects = [orjson.loads(each.text) for each in (one, other)]
    return all(effects[0].get(name) == effects[1].get(name) for name in _FOLDED)


def read_replacement(text: bytes) -> EffectDraft:
    """Return the draft to submit in place of an effect, read from an object with ``kind`` or ``payload`` or both.

    Raises InvalidEffectError.
    """
    try:
        found = json.loads(text)
    except ValueError as error:
        raise InvalidEffectError(f"this is no JSON: {error}") from None
    if not isinstance(found, dict) or not found or not found.keys() <= {"kind", "payload"}:
        raise InvalidEffectError('an object with "kind", "payload" or both is wanted')
    replaced: Any = found
    return replaced  # type: ignore[no-any-return]
