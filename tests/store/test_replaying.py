"""Replays: every state digest and snapshot computed anew, and what is told apart."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import orjson
import pytest
from worldledger_service.store import Store
from worldledger_service.store.replaying import check_replay

from tests.rules.chains import stored
from worldledger.errors import TamperedError
from worldledger.rulesets import Ruleset, load_ruleset
from worldledger.world import WorldState

from .helpers import guards_down
from .states import moved, world_of_moves

if TYPE_CHECKING:
    from .helpers import Connection


async def test_a_replay_proves_every_digest(store: Store, world_id: str) -> None:
    """Each digest in the log and each snapshot is computed anew and agrees."""
    await world_of_moves(store, world_id, 90, every=25)
    await store.snapshot(world_id)
    verdict = await check_replay(store.reader, await store.world(world_id), load_ruleset("sandbox"))
    assert verdict.agreed, verdict.finding
    assert (verdict.effects, verdict.digests, verdict.snapshots, verdict.agreed_seq) == (92, 1, 4, 91)


class _Shifted(Ruleset):
    """The sandbox's movements, folded otherwise."""

    name = "sandbox"

    def __init__(self, version: int) -> None:
        self.version = version
        self.handlers = {"Move": self._move}

    @staticmethod
    def _move(state: WorldState, effect: Any) -> tuple[str, ...]:
        state.metadata["shifted"] = effect["payload"]["to"]
        return ()


@pytest.mark.parametrize(("version", "kind"), [(1, "diverged"), (2, "ruleset_changed")])
async def test_a_ruleset_that_gives_other_states_is_reported(
    store: Store, world_id: str, version: int, kind: str
) -> None:
    """A change of the rules that alters old states is caught at the first digest, and told from a plain divergence."""
    await world_of_moves(store, world_id, 40)
    await store.snapshot(world_id)
    await (await store.log(world_id)).append(moved(1))
    await store.snapshot(world_id)
    verdict = await check_replay(store.reader, await store.world(world_id), _Shifted(version))
    assert verdict.finding is not None
    assert (verdict.finding.kind, verdict.finding.global_seq, verdict.agreed_seq) == (kind, 41, 0)
    assert ("the ruleset has changed: recorded under sandbox 1" in verdict.finding.what) == (version == 2)


async def test_a_replay_names_the_first_tampered_effect(database_url: str, store: Store, world_id: str) -> None:
    """An effect that was changed is named, not the digest after it."""
    await world_of_moves(store, world_id, 40)
    await store.snapshot(world_id)
    async with guards_down(database_url) as admin:
        await admin.execute(
            "update effects set effect = replace(effect::text, '0.5', '0.7')::json "
            "where world_id = $1 and global_seq = 17",
            world_id,
        )
    verdict = await check_replay(store.reader, await store.world(world_id), load_ruleset("sandbox"))
    assert verdict.finding is not None
    assert (verdict.finding.kind, verdict.finding.global_seq) == ("tampered", 17)


async def test_a_replay_finds_an_edited_snapshot(store: Store, admin: Connection, world_id: str) -> None:
    """A snapshot with another digest is found by replaying, even where the log has none for that seq."""
    await world_of_moves(store, world_id, 60, every=20)
    await store.states.state_at(world_id, 61)
    await admin.execute(
        "update snapshots set state_digest = sha256('x') where world_id = $1 and global_seq = 40", world_id
    )
    verdict = await check_replay(store.reader, await store.world(world_id), load_ruleset("sandbox"))
    assert verdict.finding is not None
    assert (verdict.finding.kind, verdict.finding.global_seq, verdict.agreed_seq) == ("snapshot", 40, 60)


@pytest.mark.parametrize("payload", ["null", "[]", "7", '"x"', "{}", '{"at_seq": 900, "ruleset_version": 1}'])
async def test_a_digest_that_says_nothing_is_found(
    database_url: str, store: Store, world_id: str, payload: str
) -> None:
    """Whatever somebody wrote in place of a digest: the replay names a seq and does not fail."""
    await world_of_moves(store, world_id, 40)
    await store.snapshot(world_id)
    async with guards_down(database_url) as admin:
        await admin.execute(
            "update effects set effect = (jsonb_set(effect::jsonb, '{payload}', $2::jsonb))::json "
            "where world_id = $1 and kind = 'StateDigest'",
            world_id,
            payload,
        )
    verdict = await check_replay(store.reader, await store.world(world_id), load_ruleset("sandbox"))
    assert verdict.finding is not None
    assert verdict.finding.global_seq in {41, 42}


@pytest.mark.parametrize(
    ("change", "kind", "what"),
    [
        ({"ruleset": "chess"}, "diverged", "of the ruleset 'chess', the world's is 'sandbox'"),
        ({"ruleset_version": 99}, "ruleset_changed", "by sandbox 99, which is later than the 1"),
        ({"ruleset_version": -1}, "diverged", "cannot be read"),
        ({"more": 1}, "diverged", "cannot be read"),
    ],
)
async def test_a_digest_with_other_fields_than_were_written_is_found(
    database_url: str, store: Store, world_id: str, change: dict[str, Any], kind: str, what: str
) -> None:
    """Where a StateDigest was changed and the chain made again, a digest that still agrees does not hide it."""
    await world_of_moves(store, world_id, 40)
    await store.snapshot(world_id)
    rows = [row async for batch in store.reader.batches(world_id) for row in batch]
    forged = orjson.loads(rows[-1].text)
    assert forged["kind"] == "StateDigest"
    forged["payload"] |= change
    last = stored(forged, rows[-2].checksum.hex())
    async with guards_down(database_url) as admin:
        await admin.execute(
            "update effects set effect = $3::text::json, checksum = $4 where world_id = $1 and global_seq = $2",
            *(world_id, last.global_seq, last.text.decode(), last.checksum),
        )
        await admin.execute("update heads set head_checksum = $2 where world_id = $1", world_id, last.checksum)
    verdict = await check_replay(store.reader, await store.world(world_id), load_ruleset("sandbox"))
    assert verdict.finding is not None
    assert (verdict.finding.kind, verdict.finding.global_seq) == (kind, 42)
    assert what in verdict.finding.what


# -- what else a replay tells apart ----------------------------------------------------------------------------


async def _edit(url: str, statement: str, world_id: str) -> None:
    async with guards_down(url) as admin:
        await admin.execute(statement, world_id)


async def test_an_edited_digest_is_tampering(database_url: str, store: Store, world_id: str) -> None:
    """What somebody wrote into a StateDigest is no divergence of the state: the chain names the effect."""
    await world_of_moves(store, world_id, 40)
    await store.snapshot(world_id)
    statement = """
        update effects set effect = regexp_replace(effect::text, '"state_digest":"....', '"state_digest":"0000')::json
        where world_id = $1 and kind = 'StateDigest'
    """
    await _edit(database_url, statement, world_id)
    verdict = await check_replay(store.reader, await store.world(world_id), load_ruleset("sandbox"))
    assert verdict.finding is not None
    assert (verdict.finding.kind, verdict.finding.global_seq) == ("tampered", 42)


async def test_a_damaged_snapshot_hides_no_tampering(
    database_url: str, store: Store, admin: Connection, world_id: str
) -> None:
    """A cache that is damaged is told only where nothing is the matter with the log."""
    await world_of_moves(store, world_id, 60, every=20)
    await store.states.state_at(world_id, 61)
    await admin.execute("update snapshots set state_digest = sha256('x') where world_id = $1", world_id)
    await _edit(
        database_url,
        "update effects set effect = replace(effect::text, '0.5', '0.7')::json where world_id = $1 and global_seq = 55",
        world_id,
    )
    verdict = await check_replay(store.reader, await store.world(world_id), load_ruleset("sandbox"))
    assert verdict.finding is not None
    assert (verdict.finding.kind, verdict.finding.global_seq) == ("tampered", 55)


async def test_a_replay_finds_a_snapshot_whose_text_was_edited(store: Store, admin: Connection, world_id: str) -> None:
    """A snapshot's state that is not the one that was digested is found, though nobody has read it."""
    await world_of_moves(store, world_id, 60, every=20)
    await store.states.state_at(world_id, 61)
    await admin.execute(
        "update snapshots set state = replace(state::text, '0.5', '0.7')::json where world_id = $1 and global_seq = 40",
        world_id,
    )
    verdict = await check_replay(store.reader, await store.world(world_id), load_ruleset("sandbox"))
    assert verdict.finding is not None
    assert (verdict.finding.kind, verdict.finding.global_seq) == ("snapshot", 40)
    assert (verdict.snapshots, verdict.agreed_seq) == (2, 60)


async def test_a_changed_effect_makes_no_state(database_url: str, store: Store, world_id: str) -> None:
    """Folding checks the chain of what it reads: a changed effect is named, and no state is made of it."""
    await world_of_moves(store, world_id, 60, every=20)
    await store.states.state_at(world_id, 61)
    await _edit(
        database_url,
        "update effects set effect = replace(effect::text, '0.5', '0.7')::json where world_id = $1 and global_seq = 47",
        world_id,
    )
    with pytest.raises(TamperedError, match="seq 47: checksum differs"):
        await store.states.state_at(world_id, 50)
    assert (await store.states.state_at(world_id, 46)).global_seq == 46
