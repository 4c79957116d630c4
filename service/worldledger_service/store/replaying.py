"""Replaying a world from its log alone, and proving that it reaches the same states.

Every effect is checked against the chain and folded; at each seq for which the log holds a StateDigest, and at each
snapshot, the state's digest is computed again and compared. So are the views that agents had, wherever the log holds a
ViewDigest.
"""

from __future__ import annotations

import asyncio
import re
from collections.abc import Callable, Mapping, Sequence
from contextlib import aclosing, closing
from dataclasses import dataclass
from tempfile import TemporaryFile
from typing import TYPE_CHECKING, Any, Final, Literal, NamedTuple

import orjson

from worldledger.canonical import canonical_json
from worldledger.chain import StoredEffect, Verifier, told_apart
from worldledger.core_kinds import AGENT_REGISTERED_KIND, VIEW_DIGEST_KIND
from worldledger.drafts import MAX_WORD
from worldledger.errors import FoldError, SimulationError, TamperedError
from worldledger.folding import Fold
from worldledger.observation import ObservationPolicy
from worldledger.policies import policy_from_spec
from worldledger.rulesets import Ruleset
from worldledger.views import Views
from worldledger_service.store import statements
from worldledger_service.store.prefetch import prefetch

if TYPE_CHECKING:
    import asyncpg

    from worldledger_service.store.reader import Reader
    from worldledger_service.store.records import WorldRecord


# -- the ViewDigests of a log, in the order in which a replay needs them ----------------------------------
#
# A ViewDigest is somewhere after the effect that it is about, mostly close after it, but that is not guaranteed. So
# all of them are read before the replay begins. A log may have nearly as many as it has effects; if they are too many
# to keep, the first are kept, and the others are read again when those are used up.


#: ViewDigests that are kept at a time (while they are read, twice as many).
_MOST_KEPT: Final = 30_000
#: Most agents for which the last ViewDigest's seq is kept.
_MOST_AGENTS: Final = 100_000

_DIGEST: Final = re.compile("[0-9a-f]{64}")


class SaidOfView(NamedTuple):
    """The content of the ViewDigest at ``said_at``: after ``at_seq`` the agent's view had this digest.

    They are in order by ``at_seq``. ``problem`` says why one is invalid; it then comes right before its own seq.
    """

    at_seq: int
    said_at: int
    agent_id: str
    digest: str
    problem: str = ""


class ViewDigests:
    """The ViewDigests of one world up to a seq, by ``at_seq``.

    ``due`` has the next ones, the first at the end, so that it can be popped. If it is empty and ``more`` is set,
    `read_on` reads the following ones.
    """

    def __init__(self, reader: Reader, world_id: str, until_seq: int) -> None:
        self.due: list[SaidOfView] = []
        self.more = True
        self._reader = reader
        self._world_id = world_id
        self._until_seq = until_seq
        self._behind: tuple[int, int] = (0, 0)
        #: the greatest distance of a ViewDigest from its effect, in effects; None before all have been read once
        self._lag: int | None = None
        self._last: dict[str, int] | None = {}

    def speak_of(self, agent_id: str, seq: int) -> bool:
        """Return whether any of them may be about this agent's view at this seq or later."""
        return self._last is None or self._last.get(agent_id, 0) >= seq

    async def read_on(self) -> None:
        """Read the next ones. Raises StoreUnavailableError."""
        found: list[SaidOfView] = []
        edge: SaidOfView | None = None  # everything up to here is kept, nothing beyond
        first, lag = self._lag is None, self._lag or 0
        batches = self._reader.batches(
            self._world_id, after_seq=self._behind[0], until_seq=self._until_seq, kind=VIEW_DIGEST_KIND
        )
        async with aclosing(batches):
            async for batch in batches:
                if edge is not None and not first and batch[0].global_seq > edge.at_seq + lag:
                    break
                for row in batch:
                    said = _read_digests(row)
                    if first:
                        lag = max(lag, said.said_at - said.at_seq)
                        self._note(said)
                    if said[:2] > self._behind and (edge is None or said < edge):
                        found.append(said)
                if len(found) > 2 * _MOST_KEPT:
                    found.sort()
                    del found[_MOST_KEPT:]
                    edge = found[-1]
        found.sort(reverse=True)
        self.due = found
        self.more = edge is not None
        self._lag = lag
        if found:
            self._behind = found[0][:2]

    def _note(self, said: SaidOfView) -> None:
        last = self._last
        if last is not None and said.at_seq > last.get(said.agent_id, 0):
            last[said.agent_id] = said.at_seq
            if len(last) > _MOST_AGENTS:  # more than a world has: they are forged
                self._last = None


def _read_digests(row: StoredEffect) -> SaidOfView:
    try:
        payload = orjson.loads(row.text)["payload"]
        at_seq, agent_id, digest = payload["at_seq"], payload["agent_id"], payload["digest"]
    except (ValueError, TypeError, KeyError):
        at_seq = agent_id = digest = None
    seq = row.global_seq
    if not (
        type(at_seq) is int
        and at_seq > 0
        and isinstance(agent_id, str)
        and 0 < len(agent_id) <= MAX_WORD
        and isinstance(digest, str)
        and _DIGEST.fullmatch(digest)
    ):
        return SaidOfView(max(seq - 1, 1), seq, "", "", "this ViewDigest cannot be read")
    if at_seq >= seq:
        what = f"this ViewDigest says what view agent {agent_id!r} had at seq {at_seq}, which does not lie before it"
        return SaidOfView(max(seq - 1, 1), seq, agent_id, "", what)
    return SaidOfView(at_seq, seq, agent_id, digest)


# -- views: what agents saw is computed again during the replay, and compared with the ViewDigests ------------------
#
# If a policy looks at the state alone, an agent is attached for a ViewDigest, and detached soon after. If it remembers
# what has gone out of sight, the view depends on everything that was seen since the registration, so it is kept up to
# date from there.

#: Most effects between two ViewDigests over which views are updated rather than made again.
_STRETCH: Final = 20
#: Policies that are cached.
_POLICIES: Final = 1000


class ViewProof:
    """Moves a fold forward and compares views on the way.

    - ``agreed``: how many ViewDigests were proved
    - ``unchecked``: how many could not be checked because this program does not have the policy, or it fails here;
      ``because``: why, for the first
    - ``differs``: the first that does not hold: the seq and the reason. Then the proof has ended.
    """

    def __init__(self, fold: Fold, said: ViewDigests) -> None:
        self.agreed = 0
        self.unchecked = 0
        self.because: str | None = None
        self.differs: tuple[int, str] | None = None
        self._fold = fold
        self._said = said
        self._views: Views | None = Views(fold)
        #: of the attached agents, those whose views do not depend on earlier ones
        self._guests: set[str] = set()
        #: agents without ViewDigests after the fold's seq
        self._finished: set[str] = set()
        self._policies: dict[bytes, ObservationPolicy | str] = {}

    @property
    def wants_more(self) -> bool:
        """True if ViewDigests have to be read before the fold may go on."""
        return self._views is not None and self._said.more and not self._said.due

    async def read_on(self) -> None:
        """Read the next ViewDigests. Raises StoreUnavailableError."""
        await self._said.read_on()

    def feed(self, rows: Sequence[StoredEffect]) -> int:
        """Fold rows up to the next ViewDigest's seq, at least one; return how many. Raises as `Fold.feed`."""
        views = self._views
        if views is None:
            self._fold.feed(rows)
            return len(rows)
        self._let_go(views)
        due = self._said.due
        if due:
            rows = rows[: due[-1].at_seq - self._fold.seq]
        registration = None
        for place, row in enumerate(rows, 1):
            if row.kind == AGENT_REGISTERED_KIND:
                rows, registration = rows[:place], row
                break
        if views.attached:
            for row in rows:
                views.apply(orjson.loads(row.text), digests=False)  # a digest is computed where it is compared
        else:
            self._fold.feed(rows)
        if registration is not None:
            self._registered(views, orjson.loads(registration.text)["payload"].get("agent_id"))
        return len(rows)

    def compare(self) -> None:
        """Compare the views with all ViewDigests of the fold's seq."""
        views, due, seq = self._views, self._said.due, self._fold.seq
        if views is None:
            return
        while due and due[-1].at_seq == seq and self.differs is None:
            self._judge(views, due.pop())
        if self.differs is not None or not (due or self._said.more):
            self._views = None
            self._policies.clear()

    def _let_go(self, views: Views) -> None:
        """Detach agents that are not needed, now that the fold goes on."""
        for agent_id in self._finished:
            views.detach(agent_id)
        self._finished.clear()
        due = self._said.due
        if self._guests and due and due[-1].at_seq - self._fold.seq > _STRETCH:
            for agent_id in self._guests:
                views.detach(agent_id)
                views.failed.pop(agent_id, None)
            self._guests.clear()

    def _judge(self, views: Views, said: SaidOfView) -> None:
        if said.problem:
            self.differs = (said.said_at, said.problem)
            return
        agent_id = said.agent_id
        known = self._fold.state.metadata["agents"].get(agent_id)
        if known is None:
            what = f"agent {agent_id!r} had no view, for it was not registered (ViewDigest in seq {said.said_at})"
            self.differs = (said.at_seq, what)
            return
        digest, why_not = self._digest(views, agent_id, known["policy"])
        if digest == said.digest:
            self.agreed += 1
        elif digest is None:
            self.unchecked += 1
            self.because = self.because or why_not
        else:
            replayed, recorded = told_apart(digest, said.digest)
            what = (
                f"agent {agent_id!r} was shown another view: the replayed view's digest is {replayed}, recorded is "
                f"{recorded} (in seq {said.said_at})"
            )
            self.differs = (said.at_seq, what)
        if agent_id not in self._guests and not self._said.speak_of(agent_id, said.at_seq + 1):
            self._finished.add(agent_id)

    def _digest(self, views: Views, agent_id: str, spec: Mapping[str, Any]) -> tuple[str | None, str]:
        """Return the digest of an agent's view, or None and the reason why there is none."""
        try:
            return views.view(agent_id).context_digest, ""
        except KeyError:
            pass
        policy = self._policy(spec)
        if isinstance(policy, str):
            return None, policy
        if not policy.remove_operations:
            return None, _why(views.failed.get(agent_id), spec)
        try:
            view = views.attach(agent_id)
        except Exception as error:  # noqa: BLE001 - a third party's policy may raise anything
            return None, _why(error, spec)
        self._guests.add(agent_id)
        return view.context_digest, ""

    def _registered(self, views: Views, agent_id: Any) -> None:
        """Start keeping the view of a newly registered agent, if it depends on what is seen from now on."""
        known = self._fold.state.metadata["agents"].get(agent_id) if isinstance(agent_id, str) else None
        if known is None or not self._said.speak_of(agent_id, self._fold.seq):
            return
        if agent_id in views.failed and agent_id not in self._guests:
            return  # what it would have seen meanwhile is not known
        policy = self._policy(known["policy"])
        if isinstance(policy, str):
            return
        if policy.remove_operations:
            if agent_id in views.attached:
                self._guests.add(agent_id)
            return
        self._guests.discard(agent_id)
        try:
            views.attach(agent_id)
        except Exception as error:  # noqa: BLE001 - a third party's policy may raise anything
            views.failed[agent_id] = error

    def _policy(self, spec: Mapping[str, Any]) -> ObservationPolicy | str:
        """Return a registered policy, or the reason why this program does not have it."""
        key = canonical_json(spec)
        policy = self._policies.get(key)
        if policy is None:
            if len(self._policies) >= _POLICIES:
                self._policies.clear()
            try:
                policy = policy_from_spec(spec, stored=True)
            except SimulationError as error:
                policy = error.message
            self._policies[key] = policy
        return policy


def _why(error: Exception | None, spec: Mapping[str, Any]) -> str:
    if isinstance(error, SimulationError):
        return error.message
    policy = f"observation policy {spec['name']!r} version {spec['version']}"
    return f"the {policy} has failed here" + (f" ({type(error).__name__}: {error})" if error else "")


#: Called with the number of replayed effects, and the total.
Progress = Callable[[int, int], None]

#: The findings of a replay. ``tampered``: the chain does not hold. ``ruleset_changed``: a state differs from the digest
#: that another version of the ruleset wrote, or a digest names a later version than the installed one. ``diverged``: it
#: differs from this version's own. ``snapshot``: a snapshot is damaged (it is a cache; the log is intact). ``failed``:
#: the ruleset could not fold an effect. ``view_differs``: a ViewDigest does not hold, though no state is known to
#: differ.
Kind = Literal["tampered", "ruleset_changed", "diverged", "view_differs", "snapshot", "failed"]


#: The members of a StateDigest's payload, and no others (`worldledger_service.store.snapshotter.digest_draft`).
_DIGEST_FIELDS: Final = frozenset({"at_seq", "state_digest", "ruleset", "ruleset_version"})


class Told(NamedTuple):
    """A recorded digest of the state at a seq; ``said_at`` is the StateDigest's seq, 0 for a snapshot."""

    at_seq: int
    digest: str
    ruleset: str
    version: int
    said_at: int


@dataclass(frozen=True)
class Divergence:
    """The first seq at which a replay differs from the record, and how."""

    kind: Kind
    global_seq: int
    what: str


@dataclass(frozen=True)
class ReplayVerdict:
    """The outcome for one world: how many effects were replayed, and the finding.

    ``digests`` (StateDigests), ``snapshots`` and ``views`` (ViewDigests) are the numbers that agreed; if all are 0 the
    replay had nothing to be compared with. ``agreed_seq`` is the last seq whose state was proved to be the recorded
    one; 0 if none. ``unchecked_views`` are ViewDigests that this program cannot check because it lacks the policy,
    which says nothing about the log; ``unchecked_because`` is the reason for the first.
    """

    world_id: str
    effects: int
    digests: int
    snapshots: int
    agreed_seq: int
    finding: Divergence | None = None
    views: int = 0
    unchecked_views: int = 0
    unchecked_because: str | None = None

    @property
    def agreed(self) -> bool | None:
        """True if everything was as recorded; None if nothing is wrong, but nothing was recorded to compare with."""
        if self.finding is not None:
            return False
        return True if self.agreed_seq or self.views else None


async def check_replay(
    reader: Reader,
    world: WorldRecord,
    ruleset: Ruleset,
    progress: Progress | None = None,
    *,
    beginning: Fold | None = None,
) -> ReplayVerdict:
    """Replay one world from its genesis to the head that its record names. Raises StoreUnavailableError.

    ``beginning`` is the fold before the genesis, which that of a fork needs (`States.beginning`).
    """
    return await _Replay(reader, world, beginning or Fold(world.world_id, ruleset)).run(progress)


class _Replay:
    def __init__(self, reader: Reader, world: WorldRecord, fold: Fold) -> None:
        self._reader = reader
        self._world = world
        self._fold = fold
        self._verifier = Verifier(world.world_id, spill=TemporaryFile)
        self._agreed_seq = 0
        self._digests = 0
        self._snapshots = 0
        #: the finding about states and snapshots; one about the chain takes precedence
        self._found: Divergence | None = None
        self._damaged: Divergence | None = None
        #: None if the log has no ViewDigests
        self._proof: ViewProof | None = None
        #: a view that differs; reported unless the next StateDigest shows that the state has differed since before it
        self._view_found: Divergence | None = None

    async def run(self, progress: Progress | None) -> ReplayVerdict:
        with closing(self._verifier):
            return await self._run(progress)

    async def _run(self, progress: Progress | None) -> ReplayVerdict:
        head = self._world.head.position
        told = await self._told(head.global_seq)
        said = ViewDigests(self._reader, self._world.world_id, head.global_seq)
        await said.read_on()
        if said.due:
            self._proof = ViewProof(self._fold, said)
        rows = self._reader.batches(self._world.world_id, until_seq=head.global_seq)
        async with prefetch(rows) as batches:
            async for batch in batches:
                left = await asyncio.to_thread(self._take, batch, told)
                while left:
                    await said.read_on()
                    left = await asyncio.to_thread(self._fold_on, left, told)
                if self._verifier.finding is not None:
                    break
                if progress is not None:
                    progress(self._verifier.effects, head.global_seq)
        finding = (await asyncio.to_thread(self._verifier.finish, head)).finding
        if finding is not None:
            return self._verdict(Divergence("tampered", finding.global_seq, finding.what))
        self._found = self._found or self._view_found
        if self._found is None and told:
            self._found = _beyond(told[-1], head.global_seq)
        return self._verdict(self._found or self._damaged)

    def _verdict(self, found: Divergence | None) -> ReplayVerdict:
        proof = self._proof
        return ReplayVerdict(
            self._world.world_id,
            self._verifier.effects,
            self._digests,
            self._snapshots,
            self._agreed_seq,
            found,
            *(() if proof is None else (proof.agreed, proof.unchecked, proof.because)),
        )

    async def _told(self, head_seq: int) -> list[Told]:
        """Return all recorded digests of states, the last seq first."""
        world_id = self._world.world_id
        told = [
            _read(row["global_seq"], row["payload"])
            for row in await self._reader.fetch(statements.STATE_DIGESTS, world_id, head_seq)
        ]
        name, version = self._fold.ruleset.name, self._fold.ruleset.version
        for row in await self._reader.fetch(statements.SNAPSHOT_DIGESTS, world_id):
            if row["ruleset_version"] != version:
                continue
            seq, digest = row["global_seq"], row["state_digest"]
            if (why := _unused(row, name)) is not None:
                self._damaged = self._damaged or Divergence("snapshot", seq, f"the snapshot is damaged: {why}")
            elif seq <= head_seq:  # others were taken since
                told.append(Told(seq, digest.hex() * (digest == row["text_digest"]), name, version, 0))
        # For one seq the log's digest comes first: a snapshot is only a cache.
        return sorted(told, key=lambda each: (each.at_seq, each.said_at == 0), reverse=True)

    def _take(self, batch: Sequence[StoredEffect], told: list[Told]) -> Sequence[StoredEffect]:
        """Check and fold a batch; return the rest, to fold once more ViewDigests have been read.

        Once a state differs nothing more is folded; the chain is still checked to its end, because the record is in it.
        """
        holds = self._verifier.feed(batch)
        good = batch if holds else batch[: self._verifier.position.global_seq - (batch[0].global_seq - 1)]
        return self._fold_on(good, told)

    def _fold_on(self, good: Sequence[StoredEffect], told: list[Told]) -> Sequence[StoredEffect]:
        """Fold rows, stopping at every recorded digest of the state or a view; return the rest, as `_take`."""
        proof = self._proof
        try:
            while good and self._found is None:
                if proof is not None:
                    self._compare_views(proof)
                    if proof.wants_more:
                        return good
                if told and told[-1].at_seq <= self._fold.seq:
                    self._found = _beyond(told[-1], self._fold.seq)
                    break
                count = min(len(good), told[-1].at_seq - self._fold.seq) if told else len(good)
                if proof is None:
                    self._fold.feed(good[:count])
                else:
                    count = proof.feed(good[:count])
                good = good[count:]
                self._compare(told)
        except FoldError as error:
            self._found = self._view_found or Divergence("failed", error.details["global_seq"], error.message)
        except TamperedError as error:
            self._found = Divergence("tampered", error.details["global_seq"], error.details["what"])
        return ()

    def _compare_views(self, proof: ViewProof) -> None:
        """Compare views with all ViewDigests of this seq, after the state itself was compared."""
        proof.compare()
        if proof.differs is None or self._view_found is not None:
            return
        seq, what = proof.differs
        ruleset = self._fold.ruleset
        if self._world.ruleset_version != ruleset.version:
            what += (
                f"; the world began under {ruleset.name} {self._world.ruleset_version}, replayed is {ruleset.version}"
            )
        self._view_found = Divergence("view_differs", seq, what)

    def _compare(self, told: list[Told]) -> None:
        """Compare the state with all recorded digests of this seq."""
        seq = self._fold.seq
        if not told or told[-1].at_seq != seq:
            return
        digest = self._fold.state.digest()
        while told and told[-1].at_seq == seq and self._found is None:
            said = told.pop()
            if said.digest == digest:
                self._agreed_seq = seq
                self._digests += bool(said.said_at)
                self._snapshots += not said.said_at
                if said.said_at:  # the state is the recorded one, so only the view differs
                    self._found = self._view_found or self._wrong_ruleset(said)
            elif said.said_at:
                self._found = (self._view_found if not said.digest else None) or self._divergence(said, digest)
            else:
                self._damaged = self._damaged or self._divergence(said, digest)

    def _wrong_ruleset(self, said: Told) -> Divergence | None:
        """Say why a StateDigest with the right state cannot have been written by the ruleset that it names."""
        ruleset = self._fold.ruleset
        if said.ruleset != ruleset.name:
            what = f"this StateDigest is of the ruleset {said.ruleset!r}, the world's is {ruleset.name!r}"
            return Divergence("diverged", said.said_at, what)
        if said.version > ruleset.version:
            what = (
                f"the state agrees, but this StateDigest is by {said.ruleset} {said.version}, which is later than the "
                f"{ruleset.version} that is installed: it was changed, or a later version wrote to this world"
            )
            return Divergence("ruleset_changed", said.said_at, what)
        return None

    def _divergence(self, said: Told, digest: str) -> Divergence:
        ruleset = self._fold.ruleset
        since = f"the last that agreed is seq {self._agreed_seq}" if self._agreed_seq else "none before it was recorded"
        replayed, recorded = told_apart(digest, said.digest)
        differ = f"the replayed state's digest is {replayed}, recorded is {recorded}"
        if not said.digest and said.said_at:
            return Divergence("diverged", said.said_at, "this StateDigest cannot be read")
        if not said.digest:
            return Divergence("snapshot", said.at_seq, "the snapshot is damaged: its state is not what was digested")
        if not said.said_at:
            return Divergence("snapshot", said.at_seq, f"the snapshot is damaged: {differ}")
        where = f"{differ} (in seq {said.said_at}; {since})"
        if self._view_found is not None:
            where += f"; a view differs as early as seq {self._view_found.global_seq}"
        if (said.ruleset, said.version) != (ruleset.name, ruleset.version):
            what = (
                f"the ruleset has changed: recorded under {said.ruleset} {said.version}, replayed under "
                f"{ruleset.name} {ruleset.version}: {where}"
            )
            return Divergence("ruleset_changed", said.at_seq, what)
        return Divergence("diverged", said.at_seq, where)


def _read(seq: int, payload: str | None) -> Told:
    """Read a StateDigest; an unreadable one becomes one that no state has."""
    value = None if payload is None else orjson.loads(payload)
    if not isinstance(value, dict):
        value = {}
    at_seq, version = value.get("at_seq"), value.get("ruleset_version")
    is_plain = value.keys() == _DIGEST_FIELDS
    if not is_plain or type(at_seq) is not int or not 1 <= at_seq < seq or type(version) is not int or version < 0:
        return Told(max(seq - 1, 1), "", str(value.get("ruleset")), 0, seq)
    return Told(at_seq, str(value.get("state_digest")), str(value.get("ruleset")), version, seq)


def _unused(row: asyncpg.Record, ruleset: str) -> str | None:
    """Return why a snapshot is not used, whatever state it holds; None if it is used."""
    if row["chained"] is None:
        return "the log has no effect there"
    if row["checksum"] != row["chained"]:
        return "the log has another checksum there"
    return None if row["ruleset"] == ruleset else f"it is of ruleset {row['ruleset']}, the world of {ruleset}"


def _beyond(said: Told, seq: int) -> Divergence:
    what = f"something was said of the state at seq {said.at_seq}, which does not lie before seq {seq}"
    return Divergence("diverged", said.at_seq, what)
