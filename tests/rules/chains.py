"""Chains made with nothing but the documented lines, so that the library is judged from outside."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Sequence
from typing import Any

import orjson

from worldledger.chain import ORIGIN, Position, StoredEffect, Verdict, Verifier
from worldledger.effects import SERVICE_SOURCE, is_system_kind


def canonical_json(obj: dict[str, Any]) -> bytes:
    """Canonical JSON serialization for consistent hashing (docs/reference/effects.md, "Checksum")."""
    return orjson.dumps(obj, option=orjson.OPT_SORT_KEYS)


def chain_checksum(effect: dict[str, Any], prev_checksum: str | None) -> str:
    """Generate hash chain checksum: SHA-256(prev_checksum + canonical_json(effect))."""
    h = hashlib.sha256()
    if prev_checksum:
        h.update(prev_checksum.encode())
    h.update(canonical_json(effect))
    return h.hexdigest()


def make_effect(world_id: str, seq: int, **changed: Any) -> dict[str, Any]:
    """Make one effect of a world, by default of somebody who may write its kind."""
    kind = changed.get("kind", "EntityMoved" if seq > 1 else "WorldCreated")
    return {
        "uuid": f"{seq:032x}",
        "kind": kind,
        "payload": {"x": seq, "ä": [1.5, None, {"b": "€"}]},
        "global_seq": seq,
        "sim_time": seq / 4,
        "source_id": SERVICE_SOURCE if is_system_kind(kind) else f"agent-{seq % 3}",
        "schema_version": "1.0.0",
        "world_id": world_id,
        "priority": 0,
        "req_id": None,
        "wall_time": 1.7e9 + seq,
        **changed,
    }


def stored(effect: dict[str, Any], previous: str | None) -> StoredEffect:
    """Make the row of an effect after the checksum of the one before."""
    checksum = bytes.fromhex(chain_checksum(effect, previous))
    return StoredEffect(
        effect["global_seq"],
        canonical_json(effect),
        checksum,
        effect["kind"],
        effect["source_id"],
        float(effect["sim_time"]),
    )


def chained(effects: Iterable[dict[str, Any]], previous: str | None = None) -> list[StoredEffect]:
    """Make the rows of a chain."""
    rows: list[StoredEffect] = []
    for effect in effects:
        rows.append(stored(effect, rows[-1].checksum.hex() if rows else previous))
    return rows


def honest(count: int, world_id: str = "w") -> list[StoredEffect]:
    """Make an honest world of ``count`` effects."""
    return chained(make_effect(world_id, seq) for seq in range(1, count + 1))


def end(rows: Sequence[StoredEffect]) -> Position:
    """Return the position of the last row."""
    return Position(rows[-1].global_seq, rows[-1].checksum) if rows else ORIGIN


def verdicts(
    rows: Sequence[StoredEffect],
    *,
    world_id: str = "w",
    start: Position = ORIGIN,
    head: Position | None = None,
    noted: Sequence[Position] = (),
) -> Verdict:
    """Verify in batches of every size; they must agree to the letter, and give where the good rows end."""
    found: list[Verdict] = []
    for size in range(1, len(rows) + 2):
        verifier = Verifier(world_id, start=start, heads=noted)
        for at in range(0, len(rows), size):
            if not verifier.feed(rows[at : at + size]):
                break
        found.append(verifier.finish(head))
    assert found.count(found[0]) == len(found), found
    verdict = found[0]
    assert verdict.effects == verdict.position.global_seq - start.global_seq
    return verdict


def recomputed(rows: Sequence[StoredEffect], at: int, **changed: Any) -> list[StoredEffect]:
    """Change the effect at index ``at`` and compute every checksum from there on, as an able forger does."""
    effects = [orjson.loads(row.text) for row in rows[at:]]
    effects[0] |= changed
    return [*rows[:at], *chained(effects, rows[at - 1].checksum.hex() if at else None)]
