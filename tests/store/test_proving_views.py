"""The proof of views without a database: any log, and no more of it kept or read than needed."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Callable, Sequence
from random import Random
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from worldledger_sandbox.rules import RULESET
from worldledger_service.store import replaying
from worldledger_service.store.replaying import ViewDigests, ViewProof

from tests.rules.chains import chained
from tests.rules.seeing import OwnDelta, long_story, registered
from tests.rulesets.sandbox.worlds import Said, effects_of
from worldledger.chain import StoredEffect
from worldledger.effects import Effect
from worldledger.folding import Fold
from worldledger.observation import ObservationPolicy, PolicyConfig
from worldledger.policies import policy_from_spec
from worldledger.views import Sighting, Views


class _Rows:
    """The rows of one world, handed out a few at a time."""

    def __init__(self, rows: Sequence[StoredEffect]) -> None:
        self.rows = rows
        self.read = 0

    async def batches(
        self, world_id: str, *, after_seq: int = 0, until_seq: int | None = None, kind: str | None = None
    ) -> AsyncGenerator[list[StoredEffect], None]:
        assert (world_id, kind) == ("w", "ViewDigest")
        rows = [row for row in self.rows if after_seq < row.global_seq and row.kind == kind]
        for start in range(0, len(rows), 3):
            self.read += len(rows[start : start + 3])
            yield rows[start : start + 3]


async def _prove(rows: Sequence[StoredEffect], batch: int, reader: _Rows | None = None) -> ViewProof:
    """Prove the views of a log in batches."""
    fold = Fold("w", RULESET)
    said = ViewDigests(reader or _Rows(rows), "w", len(rows))  # type: ignore[arg-type]
    proof = ViewProof(fold, said)
    for start in range(0, len(rows), batch):
        left = rows[start : start + batch]
        while left:
            proof.compare()
            assert len(said.due) < 30
            if proof.wants_more:
                await proof.read_on()
            else:
                left = left[proof.feed(left) :]
    assert fold.seq == len(rows)
    return proof


def _recorded(story: list[Said], random: Random, lag: int) -> tuple[list[Said], list[int]]:
    """Write ViewDigests into a log as a runtime might that attaches agents at their registration.

    Each comes up to ``lag`` effects later. Gives the log and the places of the ViewDigests in it.
    """
    views = Views(Fold("w", RULESET))
    log: list[Said] = []
    outbox: list[Said] = []
    written: list[int] = []

    def happen(one: Said) -> None:
        log.append(one)
        (effect,) = effects_of([one], len(log))
        found = views.apply(effect)
        if one[0] == "AgentRegistered":
            views.attach(one[1]["agent_id"])
        if one[0] == "ViewDigest":
            written.append(len(log) - 1)
        outbox.extend(
            ("ViewDigest", _payload(each.agent_id, effect["global_seq"], each.delta["context_digest"]), "worldledger")
            for each in found
            if random.random() < 0.3
        )

    for one in story:
        happen(one)
        while len(outbox) > random.randint(0, lag):
            happen(outbox.pop(random.randrange(len(outbox))))
    for one in random.sample(outbox, len(outbox)):
        happen(one)
    return log, written


@settings(deadline=None)
@given(st.randoms(use_true_random=False), st.sampled_from([0, 5, 100]), st.sampled_from([1, 4, 1000]))
async def test_any_log_is_proved_within_bounds(thorough: bool, random: Random, lag: int, batch: int) -> None:
    """Whatever happened and however late it was said, all true ViewDigests agree, few being kept at a time."""
    own: list[Callable[..., Any]] = [OwnDelta]  # its deltas do not lead to what it makes of the state
    story = long_story(random, 60 if thorough else 35)
    for one in long_story(random, 7):  # registrations
        story.insert(random.randrange(7, len(story)), one)
    story = [one for one in story if not _is_of(one, own)]
    log, written = _recorded(story, random, lag)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(replaying, "_MOST_KEPT", random.choice([1, 2, 10]))
        patch.setattr(replaying, "_MOST_AGENTS", random.choice([2, 100]))
        patch.setattr(replaying, "_STRETCH", random.choice([0, 2, 100]))
        patch.setattr(replaying, "_POLICIES", random.choice([1, 100]))
        proof = await _prove(chained(_effects(log)), batch)
        assert (proof.differs, proof.agreed, proof.unchecked) == (None, len(written), 0)
        if not written:
            return
        forged = random.choice(written)
        kind, payload, source = log[forged]  # type: ignore[misc]
        log[forged] = (kind, {**payload, "digest": "f" * 64}, source)
        proof = await _prove(chained(_effects(log)), batch)
        assert proof.differs is not None
        assert proof.differs[0] == payload["at_seq"]
        assert f"agent {payload['agent_id']!r} was shown another view" in proof.differs[1]


def _payload(agent_id: str, at_seq: int, digest: str) -> dict[str, Any]:
    return {"agent_id": agent_id, "at_seq": at_seq, "digest": digest}


def _move(x: float) -> Said:
    return ("Move", {"to": [x, 0.0]}, "ann")


def _effects(log: list[Said]) -> list[dict[str, Any]]:
    return [dict(effect) for effect in effects_of(log)]


def _is_of(one: Said, classes: list[Callable[..., Any]]) -> bool:
    return one[0] == "AgentRegistered" and type(policy_from_spec(one[1]["policy"])) in classes


async def test_view_digests_are_not_read_too_often(monkeypatch: pytest.MonkeyPatch) -> None:
    """Where there are more than are kept, each is read once to begin with and about once more when it is due."""
    monkeypatch.setattr(replaying, "_MOST_KEPT", 10)
    random = Random(1)
    story = [registered("ann", ObservationPolicy()), *(_move(float(n)) for n in range(1000))]
    log, written = _recorded(story, random, 3)
    reader = _Rows(chained(_effects(log)))
    proof = await _prove(reader.rows, 1000, reader)
    assert proof.agreed == len(written) > 200
    assert 2 * len(written) - 30 < reader.read < 4 * len(written)


async def test_views_are_kept_up_no_longer_than_needed(monkeypatch: pytest.MonkeyPatch) -> None:
    """A view that does not depend on what was before is made when it is due; another one is kept until its last one."""
    memory = ObservationPolicy(PolicyConfig(remove_operations=False))
    story = [registered("ann", ObservationPolicy()), registered("bob", memory), registered("eve", memory)]
    views = Views(Fold("w", RULESET))
    digests: list[Said] = []
    for seq, effect in enumerate(effects_of([*story, *(_move(float(n)) for n in range(997))]), 1):
        views.apply(effect)
        if seq == 3:
            views.attach("ann")
            views.attach("bob")
        digests += [
            ("ViewDigest", _payload(name, at, views.view(name).context_digest), "worldledger")
            for name, at in (("bob", 10), ("ann", 100), ("ann", 104), ("ann", 900))
            if at == seq
        ]
    kept: list[int] = []

    class Counted(Views):
        def apply(self, effect: Effect, *, digests: bool = True) -> list[Sighting]:
            kept.append(effect["global_seq"])
            return super().apply(effect, digests=digests)

    monkeypatch.setattr(replaying, "Views", Counted)
    log = [*story, *(_move(float(n)) for n in range(997)), *digests]
    proof = await _prove(chained(_effects(log)), 1000)
    assert (proof.differs, proof.agreed) == (None, 4)
    assert kept == [*range(3, 11), *range(101, 105)]
