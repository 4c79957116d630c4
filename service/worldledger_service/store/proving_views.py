"""Proving views: while a world is replayed, what its agents saw is worked out anew and compared with its ViewDigests.

Where a policy looks at the state alone, an agent is attached when something was said of its view, and let go soon
after. Where it remembers what has gone out of sight, the view depends on all that was seen since the registration,
so it is kept up from there.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, Final

import orjson

from worldledger.canonical import canonical_json
from worldledger.core_kinds import AGENT_REGISTERED_KIND
from worldledger.errors import SimulationError
from worldledger.observation import ObservationPolicy
from worldledger.policies import policy_from_spec
from worldledger.views import Views

if TYPE_CHECKING:
    from worldledger.chain import StoredEffect
    from worldledger.folding import Fold
    from worldledger_service.store.view_digests import SaidOfView, ViewDigests

#: Effects over which views are kept up rather than made anew, where the next one is due by then.
_STRETCH: Final = 20
#: Policies that are kept.
_POLICIES: Final = 1000


class ViewProof:
    """Takes a fold forward and compares views on the way.

    - ``agreed``: how many ViewDigests were proved
    - ``unchecked``: how many could not be checked because this program has not the policy, or it fails here;
      ``because``: why, of the first
    - ``differs``: the first that does not hold: the seq and what is the matter. Then the proof has ended.
    """

    def __init__(self, fold: Fold, said: ViewDigests) -> None:
        self.agreed = 0
        self.unchecked = 0
        self.because: str | None = None
        self.differs: tuple[int, str] | None = None
        self._fold = fold
        self._said = said
        self._views: Views | None = Views(fold)
        #: of the attached agents, whose views do not depend on what they were before
        self._guests: set[str] = set()
        #: agents of whom nothing more is said behind the fold's seq
        self._finished: set[str] = set()
        self._policies: dict[bytes, ObservationPolicy | str] = {}

    @property
    def wants_more(self) -> bool:
        """Whether ViewDigests have to be read before the fold may go on."""
        return self._views is not None and self._said.more and not self._said.due

    async def read_on(self) -> None:
        """Read the ViewDigests that come next. Raises StoreUnavailableError."""
        await self._said.read_on()

    def feed(self, rows: Sequence[StoredEffect]) -> int:
        """Fold rows up to where something was said of a view, at least one; return how many. Raises as `Fold.feed`."""
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
                views.apply(orjson.loads(row.text), digests=False)  # one is worked out where it is compared
        else:
            self._fold.feed(rows)
        if registration is not None:
            self._registered(views, orjson.loads(registration.text)["payload"].get("agent_id"))
        return len(rows)

    def compare(self) -> None:
        """Compare the views with all that was said of them at the fold's seq."""
        views, due, seq = self._views, self._said.due, self._fold.seq
        if views is None:
            return
        while due and due[-1].at_seq == seq and self.differs is None:
            self._judge(views, due.pop())
        if self.differs is not None or not (due or self._said.more):
            self._views = None
            self._policies.clear()

    def _let_go(self, views: Views) -> None:
        """Detach whoever is not needed, now that the fold goes on."""
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
            what = (
                f"agent {agent_id!r} was shown another view: the replayed view's digest is {digest[:16]}…, recorded is "
                f"{said.digest[:16]}… (in seq {said.said_at})"
            )
            self.differs = (said.at_seq, what)
        if agent_id not in self._guests and not self._said.speak_of(agent_id, said.at_seq + 1):
            self._finished.add(agent_id)

    def _digest(self, views: Views, agent_id: str, spec: Mapping[str, Any]) -> tuple[str | None, str]:
        """Return the digest of an agent's view, or None and why there is none."""
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
        except Exception as error:  # noqa: BLE001 - a policy of somebody's own may raise anything
            return None, _why(error, spec)
        self._guests.add(agent_id)
        return view.context_digest, ""

    def _registered(self, views: Views, agent_id: Any) -> None:
        """Begin to keep the view of an agent that was just registered, if it depends on what is seen from now on."""
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
        except Exception as error:  # noqa: BLE001 - a policy of somebody's own may raise anything
            views.failed[agent_id] = error

    def _policy(self, spec: Mapping[str, Any]) -> ObservationPolicy | str:
        """Return a registered policy, or why this program has none such."""
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
