"""Replays of worlds with agents: what each agent saw is worked out anew and compared with the ViewDigests."""

from __future__ import annotations

from collections.abc import Container
from typing import Any

import pytest
from worldledger_sandbox.rules import HANDLERS, RULESET
from worldledger_service.runtime import Orchestrator, OrchestratorConfig
from worldledger_service.settings import Settings
from worldledger_service.store import Store, replaying
from worldledger_service.store.replaying import ReplayVerdict, check_replay

from tests.rules.seeing import registered
from tests.rulesets.sandbox.worlds import Said, effects_of
from worldledger.deltas import merge_last_seen
from worldledger.effects import EffectDraft
from worldledger.folding import Fold
from worldledger.genesis import NewWorld
from worldledger.observation import ObservationPolicy, PolicyConfig, View
from worldledger.policies import policy_from_spec, register_policy
from worldledger.rulesets import Ruleset, load_ruleset
from worldledger.world import WorldState

from .helpers import guards_down

NEAR = PolicyConfig(distance_limit=2.0)
REMEMBERING = PolicyConfig(distance_limit=2.0, remove_operations=False)


def _draft(said: Said, **fields: Any) -> EffectDraft:
    made: Any = {
        "kind": said[0],
        "payload": said[1],
        "source_id": said[2] if len(said) == 3 else "worldledger",
        "schema_version": "1.0.0",
        **fields,
    }
    return made  # type: ignore[no-any-return]


def _move(name: str, x: float) -> Said:
    return ("Move", {"to": [x, 0.0]}, name)


def _said(agent_id: Any, at_seq: Any, digest: Any) -> Said:
    return ("ViewDigest", {"agent_id": agent_id, "at_seq": at_seq, "digest": digest}, "worldledger")


class _Told:
    """Writes down a world's log from seq 2 on (1 is the genesis), and knows what each agent sees, the slow way."""

    def __init__(self, *said: Said) -> None:
        self.drafts: list[EffectDraft] = []
        self._fold = Fold("w", RULESET, seq=1)
        self._views: dict[str, View] = {}
        self._specs: dict[str, Any] = {}
        self._digests: dict[tuple[str, int], str] = {}
        self.happen(*said)

    @property
    def seq(self) -> int:
        return self._fold.seq

    def happen(self, *said: Said) -> None:
        """Let something happen."""
        for one in said:
            (effect,) = effects_of([one], self.seq + 1)
            self._fold.apply(effect)
            self.drafts.append(_draft(one, sim_time=effect["sim_time"]))
            for agent_id, agent in self._fold.state.metadata["agents"].items():
                self._see(agent_id, agent["policy"])

    def _see(self, agent_id: str, spec: Any) -> None:
        policy = policy_from_spec(spec)
        view = policy.filter_world_state(self._fold.state, agent_id)
        if not policy.remove_operations and self._specs.get(agent_id) == spec:
            view = merge_last_seen(self._views[agent_id], view)
        self._views[agent_id], self._specs[agent_id] = view, spec
        self._digests[agent_id, self.seq] = view.context_digest

    def digest(self, agent_id: str, at_seq: int) -> Said:
        """Return the true ViewDigest."""
        return _said(agent_id, at_seq, self._digests[agent_id, at_seq])

    async def replay(self, store: Store, world_id: str, ruleset: Ruleset = RULESET) -> ReplayVerdict:
        """Write the log into the store, and replay it."""
        await store.create_world(NewWorld(world_id=world_id, time_authority="client"))
        await (await store.log(world_id)).append_all(self.drafts, system=True)
        return await check_replay(store.reader, await store.world(world_id), ruleset)


def _met(policy: PolicyConfig = NEAR) -> _Told:
    """Tell of two agents that come near each other and part again; the head is seq 7."""
    told = _Told(_move("ann", 0.0), _move("bob", 9.0), registered("ann", ObservationPolicy(policy)))
    told.happen(_move("bob", 1.0), _move("bob", 1.5), _move("bob", 9.0))
    return told


def _found(verdict: ReplayVerdict) -> tuple[str, int, str]:
    assert verdict.finding is not None, verdict
    return verdict.finding.kind, verdict.finding.global_seq, verdict.finding.what


# -- what holds ------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("policy", [PolicyConfig(), NEAR, REMEMBERING], ids=["all", "near", "remembering"])
async def test_a_replay_proves_every_view(store: Store, world_id: str, policy: PolicyConfig) -> None:
    """Each ViewDigest is worked out anew, whenever it was written, and however often."""
    told = _met(policy)
    told.happen(told.digest("ann", 6), told.digest("ann", 4), told.digest("ann", 4), told.digest("ann", 7))
    told.happen(told.digest("ann", 8))
    verdict = await told.replay(store, world_id)
    assert verdict.agreed, verdict.finding
    assert (verdict.views, verdict.unchecked_views, verdict.agreed_seq) == (5, 0, 0)


async def test_a_view_goes_by_the_policy_of_its_time(store: Store, world_id: str) -> None:
    """An agent that is registered anew sees by its new policy from there on, and remembers nothing from before."""
    told = _Told(_move("ann", 0.0), _move("bob", 1.0), registered("ann", ObservationPolicy()), _move("bob", 9.0))
    for policy in (REMEMBERING, NEAR, REMEMBERING, PolicyConfig(distance_limit=3.0, remove_operations=False)):
        told.happen(_move("bob", 9.0), registered("ann", ObservationPolicy(policy)), _move("bob", 1.0))
        told.happen(_move("bob", 9.0), registered("ann", ObservationPolicy(policy), weight=2), _move("eve", 5.0))
    head = told.seq
    told.happen(*(told.digest("ann", seq) for seq in range(4, head + 1)))
    verdict = await told.replay(store, world_id)
    assert verdict.agreed, verdict.finding
    assert verdict.views == head - 3


@pytest.mark.usefixtures("store")
async def test_what_the_runtime_writes_is_proved(database_url: str, world_id: str) -> None:
    """The ViewDigests that an orchestrator writes beside its agents' intents hold."""
    config = OrchestratorConfig(view_digest_every=3, staleness_threshold=1000)
    settings = Settings(pool_size=3)
    async with Orchestrator.open(database_url, world_id=world_id, config=config, settings=settings) as world:
        for name, policy in (("ann", PolicyConfig()), ("bob", NEAR), ("eve", REMEMBERING)):
            await world.register_agent(name, ObservationPolicy(policy))
        for n in range(30):
            name = ("ann", "bob", "eve")[n % 3]
            await world.submit_intent(
                {
                    "kind": "Move",
                    "payload": {"to": [float(n * n % 5), 0.0]},
                    "agent_id": name,
                    "req_id": f"r{n}",
                    "context_seq": (await world.view(name)).view_seq,
                }
            )
        await world.flush()
    async with Store.open(database_url, settings) as store:
        verdict = await check_replay(store.reader, await store.world(world_id), load_ruleset("sandbox"))
    assert verdict.agreed, verdict.finding
    assert verdict.views > 10


async def test_a_log_without_view_digests_costs_nothing(
    store: Store, world_id: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Where nothing was said of views, none is worked out."""
    monkeypatch.setattr(replaying, "ViewProof", None)
    assert (await _met().replay(store, world_id)).agreed is None


# -- what does not hold ----------------------------------------------------------------------------------------


@pytest.mark.parametrize("policy", [NEAR, REMEMBERING], ids=["near", "remembering"])
async def test_a_forged_view_digest_is_found(store: Store, world_id: str, policy: PolicyConfig) -> None:
    """The first ViewDigest that does not hold is told by agent and seq, though the chain is sound."""
    told = _met(policy)
    told.happen(told.digest("ann", 4), _said("ann", 6, "0" * 64), told.digest("ann", 7), _said("ann", 5, "ab" * 32))
    verdict = await told.replay(store, world_id)
    kind, seq, what = _found(verdict)
    assert (kind, seq, verdict.views, verdict.effects) == ("view_differs", 5, 1, 11)
    assert what.startswith("agent 'ann' was shown another view: the replayed view's digest is ")
    assert what.endswith("recorded is abababababababab… (in seq 11)")


@pytest.mark.parametrize(
    ("said", "seq", "what"),
    [
        (("ViewDigest", {}), 8, "this ViewDigest cannot be read"),
        (_said("ann", "5", "0" * 64), 8, "this ViewDigest cannot be read"),
        (_said("ann", True, "0" * 64), 8, "this ViewDigest cannot be read"),
        (_said("ann", 0, "0" * 64), 8, "this ViewDigest cannot be read"),
        (_said(7, 5, "0" * 64), 8, "this ViewDigest cannot be read"),
        (_said("", 5, "0" * 64), 8, "this ViewDigest cannot be read"),
        (_said("ann", 5, "0" * 63), 8, "this ViewDigest cannot be read"),
        (_said("ann", 5, None), 8, "this ViewDigest cannot be read"),
        (_said("ann", 8, "0" * 64), 8, "what view agent 'ann' had at seq 8, which does not lie before it"),
        (_said("ann", 2**53 - 1, "0" * 64), 8, "which does not lie before it"),
        (_said("ann", 3, "0" * 64), 3, "agent 'ann' had no view, for it was not registered (ViewDigest in seq 8)"),
        (_said("bob", 6, "0" * 64), 6, "agent 'bob' had no view"),
    ],
)
async def test_a_view_digest_that_says_nothing_is_found(
    store: Store, world_id: str, said: Said, seq: int, what: str
) -> None:
    """One that cannot be read, or of a view that there was not, is a finding; what is said after it changes nothing."""
    told = _met()
    told.happen(said, _said("ann", 7, "0" * 64))
    found = _found(await told.replay(store, world_id))
    assert found[:2] == ("view_differs", seq)
    assert what in found[2]


async def test_an_edited_view_digest_is_tampering(database_url: str, store: Store, world_id: str) -> None:
    """What somebody wrote into a ViewDigest is no other view: the chain names the effect, whatever stands there."""
    told = _met()
    told.happen(told.digest("ann", 6), _move("bob", 3.0))
    assert (await told.replay(store, world_id)).agreed
    for pattern, text in (
        ('"digest":"....', '"digest":"0000'),
        ('"at_seq":6', '"at_seq":900'),
        ('"agent_id":"ann"', '"agent_id":["\\\\u0000"]'),
        ('"payload":[{].*?[}]', '"payload":7'),
    ):
        async with guards_down(database_url) as admin:
            await admin.execute(
                "update effects set effect = regexp_replace(effect::text, $2, $3)::json "
                "where world_id = $1 and kind = 'ViewDigest'",
                world_id,
                pattern,
                text,
            )
        verdict = await check_replay(store.reader, await store.world(world_id), RULESET)
        assert _found(verdict)[:2] == ("tampered", 8)
        assert verdict.effects == 7


async def test_a_removed_view_digest_is_tampering(database_url: str, store: Store, world_id: str) -> None:
    """One that is gone leaves a gap."""
    told = _met()
    told.happen(told.digest("ann", 6), told.digest("ann", 5))
    assert (await told.replay(store, world_id)).agreed
    async with guards_down(database_url) as admin:
        await admin.execute("delete from effects where world_id = $1 and global_seq = 8", world_id)
    verdict = await check_replay(store.reader, await store.world(world_id), RULESET)
    assert _found(verdict)[:2] == ("tampered", 8)


# -- whose fault it is -----------------------------------------------------------------------------------------


class _Elsewhere(Ruleset):
    """The sandbox, where everybody moves to another place."""

    name = "sandbox"

    def __init__(self, version: int) -> None:
        self.version = version
        self.handlers = {**HANDLERS, "Move": self._move}

    @staticmethod
    def _move(state: WorldState, effect: Any) -> Any:
        elsewhere: Any = {**effect, "payload": {"to": [7.0, 7.0]}}
        return HANDLERS["Move"](state, elsewhere)


async def _with_state_digest(store: Store, world_id: str, *said: Said) -> None:
    """Write a log with a snapshot, whose digest goes into the log, and one effect after that."""
    told = _met()
    told.happen(*said)
    await told.replay(store, world_id)
    await store.snapshot(world_id)
    await (await store.log(world_id)).append(_draft(_move("bob", 3.0), sim_time=99.0))


@pytest.mark.parametrize(("version", "kind"), [(1, "diverged"), (2, "ruleset_changed")])
async def test_a_state_that_differs_is_told_before_its_views(
    store: Store, world_id: str, version: int, kind: str
) -> None:
    """Where the next StateDigest shows that the state has differed, that is told, and that the view did before."""
    await _with_state_digest(store, world_id, _met().digest("ann", 6))
    verdict = await check_replay(store.reader, await store.world(world_id), _Elsewhere(version))
    found = _found(verdict)
    assert found[:2] == (kind, 8)
    assert found[2].endswith("; a view differs as early as seq 6")
    assert verdict.views == 0


async def test_a_view_that_differs_though_the_state_agrees(store: Store, world_id: str) -> None:
    """Where the next StateDigest agrees it is the view alone, and nothing after it is looked at."""
    await _with_state_digest(store, world_id, _said("ann", 6, "0" * 64), _said("ann", 7, "0" * 64))
    later = {"at_seq": 11, "state_digest": "0" * 64, "ruleset": "sandbox", "ruleset_version": 1}
    event_log = await store.log(world_id)
    await event_log.append_all([_draft(("StateDigest", later), sim_time=99.0)], system=True)
    verdict = await check_replay(store.reader, await store.world(world_id), RULESET)
    assert _found(verdict)[:2] == ("view_differs", 6)
    assert (verdict.digests, verdict.effects) == (1, 12)


async def test_an_unreadable_state_digest_after_a_view_that_differs(store: Store, world_id: str) -> None:
    """It says nothing about the state, so the view that differs before it is told."""
    told = _met()
    told.happen(_said("ann", 6, "0" * 64), ("StateDigest", {}))
    assert _found(await told.replay(store, world_id))[:2] == ("view_differs", 6)


async def test_a_view_under_another_version_of_the_ruleset(store: Store, world_id: str) -> None:
    """Where no StateDigest follows, it is said that the ruleset's version is another."""
    told = _met()
    told.happen(told.digest("ann", 6))
    kind, seq, what = _found(await told.replay(store, world_id, _Elsewhere(2)))
    assert (kind, seq) == ("view_differs", 6)
    assert what.endswith("; the world began under sandbox 1, replayed is 2")


async def test_a_ruleset_that_fails_after_a_view_differs(store: Store, world_id: str) -> None:
    """The view that differs comes first."""

    class Failing(_Elsewhere):
        @staticmethod
        def _move(state: WorldState, effect: Any) -> Any:
            return 1 // (8 - effect["global_seq"])

    told = _met()
    told.happen(_move("bob", 3.0), told.digest("ann", 6))
    assert _found(await told.replay(store, world_id, Failing(1)))[:2] == ("view_differs", 6)


# -- policies that this program has not ------------------------------------------------------------------------


def _stranger(name: str, version: int = 1, **config: Any) -> Said:
    policy = {"name": "elsewhere", "version": version, "config": config}
    return ("AgentRegistered", {"agent_id": name, "policy": policy, "permissions": [], "weight": 1}, "worldledger")


async def test_a_policy_that_is_not_here_is_no_finding(store: Store, world_id: str) -> None:
    """Views by policies that this program has not are counted, with the reason; the others are proved."""
    told = _met()
    at = told.seq + 1
    drafts = [_stranger("bob"), _said("bob", at, "0" * 64), _said("bob", at, "1" * 64), told.digest("ann", 6)]
    told.drafts += map(_draft, drafts)
    verdict = await told.replay(store, world_id)
    assert verdict.agreed, verdict.finding
    assert (verdict.views, verdict.unchecked_views) == (1, 2)
    assert verdict.unchecked_because is not None
    assert verdict.unchecked_because.startswith("there is no observation policy 'elsewhere' version 1 in this process")


@register_policy("test-failing")
class _Failing(ObservationPolicy):
    """Fails at some seqs."""

    fails: Container[int] = ()

    def sees_entity(self, world_state: WorldState, agent_id: str, entity_id: str) -> bool:
        if world_state.metadata["last_effect_seq"] in self.fails:
            raise RuntimeError("no idea")
        return super().sees_entity(world_state, agent_id, entity_id)


@pytest.mark.parametrize(
    ("config", "fails", "unchecked"),
    [
        (NEAR, range(1, 99), 4),
        (NEAR, range(6, 99), 3),
        (NEAR, range(6, 8), 1),
        (REMEMBERING, range(1, 99), 4),
        (REMEMBERING, range(6, 99), 3),
        # What was in sight meanwhile is not known, so nothing is known of it until there is another policy.
        (REMEMBERING, range(6, 8), 3),
        (REMEMBERING, range(3, 5), 4),
    ],
)
async def test_a_policy_that_fails_here_is_no_finding(
    store: Store,
    world_id: str,
    config: PolicyConfig,
    fails: Container[int],
    unchecked: int,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Where a policy raises something its views are not checked; those before, after and beside it are."""
    told = _Told(_move("ann", 0.0), _move("bob", 1.0), registered("ann", _Failing(config)), _move("bob", 1.5))
    told.happen(_move("bob", 9.0), registered("bob", ObservationPolicy(NEAR)), registered("ann", _Failing(config), 2))
    told.happen(_move("bob", 9.5), registered("ann", ObservationPolicy()))
    told.happen(*(told.digest("ann", seq) for seq in (5, 6, 8, 9, 10)), told.digest("bob", 8))
    monkeypatch.setattr(_Failing, "fails", fails)
    verdict = await told.replay(store, world_id)
    assert verdict.agreed, verdict.finding
    assert (verdict.views, verdict.unchecked_views) == (6 - unchecked, unchecked)
    assert verdict.unchecked_because == (
        "the observation policy 'test-failing' version 1 has failed here (RuntimeError: no idea)"
    )
