"""Exports made by hand: a world's effects as texts, put together to a file that holds."""

from __future__ import annotations

import io
from collections.abc import Sequence
from typing import Any, BinaryIO

import orjson
from worldledger_service.store import Store
from worldledger_service.store.transfer import export_world, import_export

from worldledger.chain import Position, link
from worldledger.exports import CheckedExport, Marks, Trailer, check_exports

WORLD_UUID = "0123456789abcdef0123456789abcdef"


def effect(seq: int, world_id: str = "w", **fields: Any) -> dict[str, Any]:
    """Make an effect as it stands in a log."""
    return {
        "uuid": f"{seq:032x}",
        "kind": "Said",
        "payload": {"n": seq},
        "global_seq": seq,
        "sim_time": float(seq),
        "source_id": "a1",
        "schema_version": "1.0.0",
        "world_id": world_id,
        "priority": 0,
        "req_id": None,
        "wall_time": 1000.0 + seq,
        **fields,
    }


def genesis(world_id: str = "w", **payload: Any) -> dict[str, Any]:
    """Make a world's first effect."""
    made = {
        "world_uuid": WORLD_UUID,
        "ruleset": "sandbox",
        "ruleset_version": 1,
        "config": {},
        "experiment": None,
        "canonical_profile": "orjson-sorted/1",
        "time_authority": "client",
    }
    return effect(1, world_id, kind="WorldCreated", source_id="worldledger", payload=made | payload)


def text(value: Any) -> bytes:
    """Write a value in the canonical profile."""
    return orjson.dumps(value, option=orjson.OPT_SORT_KEYS)


def texts(count: int, world_id: str = "w") -> list[bytes]:
    """Make the texts of a whole log."""
    return [text(genesis(world_id)), *(text(effect(seq, world_id)) for seq in range(2, count + 1))]


def export_of(lines: Sequence[bytes], world_id: str = "w") -> bytes:
    """Put effects' texts together to an export, chained and with its trailer, whatever rules they break."""
    marks = Marks()
    checksum = b""
    for line in lines:
        checksum = link(checksum, line)
        marks.add(checksum.hex())
    payload = orjson.loads(lines[0])["payload"]
    trailer = Trailer(
        world_id=world_id,
        world_uuid=str(payload.get("world_uuid")),
        ruleset=str(payload.get("ruleset")),
        count=len(lines),
        head_seq=len(lines),
        head_checksum=checksum.hex(),
        marks=marks.written(),
    )
    return b"".join([line + b"\n" for line in (*lines, trailer.line())])


# -- there and back ------------------------------------------------------------------------------------------


async def exported(store: Store, world_id: str) -> bytes:
    """Export a world into memory."""
    parts: list[bytes] = []
    await export_world(store.reader, await store.world(world_id), parts.append)
    return b"".join(parts)


def checked(stream: BinaryIO, *noted: Position, max_effect_bytes: int = 1024 * 1024) -> CheckedExport:
    """Check a file; return what it says of the world that was exported."""
    return check_exports(stream, name="some.ndjson", noted=noted, max_effect_bytes=max_effect_bytes)[-1]


async def restored(store: Store, data: bytes) -> bool:
    """Check and import a file's bytes."""
    stream = io.BytesIO(data)
    return await import_export(store.reader, stream, checked(stream), name="some.ndjson")
