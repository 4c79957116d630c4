"""Drafts that have a kind, a payload, a source and a time, and nothing else: those of recordings, in columns.

There are many of them, and each is made, sent to another process and written once. As columns that takes about two
thirds of what it takes with a `CheckedDraft` for each.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Final

import orjson

from worldledger.drafts import CheckedDraft
from worldledger.effects import SCHEMA_VERSION

#: The canonical text of an effect with no ``caused_by``, ``req_id`` and ``source_metadata``: its members stand sorted.
_TEXT: Final = (
    b'{"global_seq":%d,"kind":%b,"payload":%b,"priority":0,"req_id":null,"schema_version":%b,"sim_time":%b,'
    b'"source_id":%b,"uuid":"%b",%b'
)


class PlainDrafts:
    """Checked drafts of one world, in order; ``payloads`` are canonical bytes, ``sim_times`` seconds."""

    __slots__ = ("kinds", "payloads", "sim_times", "sources")

    def __init__(self) -> None:
        self.kinds: list[str] = []
        self.payloads: list[bytes] = []
        self.sources: list[str] = []
        self.sim_times: list[float] = []

    def add(self, kind: str, payload: bytes, source_id: str, sim_time: float) -> None:
        """Add a draft that is checked already (`worldledger.drafts.check_draft` says what that is)."""
        self.kinds.append(kind)
        self.payloads.append(payload)
        self.sources.append(source_id)
        self.sim_times.append(sim_time)

    def __len__(self) -> int:
        return len(self.kinds)

    def __iter__(self) -> Iterator[CheckedDraft]:
        for kind, payload, source_id, sim_time in zip(
            self.kinds, self.payloads, self.sources, self.sim_times, strict=True
        ):
            yield CheckedDraft(kind, payload, source_id, SCHEMA_VERSION, sim_time, 0, None, None, None)

    def __getstate__(self) -> tuple[list[str], bytes, list[str], list[float]]:
        # Canonical JSON has no line break: one object to send, instead of one for each payload.
        return self.kinds, b"\n".join(self.payloads), self.sources, self.sim_times

    def __setstate__(self, state: tuple[list[str], bytes, list[str], list[float]]) -> None:
        self.kinds, payloads, self.sources, self.sim_times = state
        self.payloads = payloads.split(b"\n") if self.kinds else []
        if len(self.payloads) != len(self.kinds):
            raise ValueError("a payload was lost")

    def texts(self, *, world_id: str, first_seq: int, new_uuid: Callable[[], str], wall_time: float) -> Iterator[bytes]:
        """Write the effects that the drafts become from ``first_seq`` on, as `worldledger.drafts.effect_text` does."""
        words = {word: orjson.dumps(word) for word in {*self.kinds, *self.sources}}
        version = orjson.dumps(SCHEMA_VERSION)
        end = b'"wall_time":%b,"world_id":%b}' % (orjson.dumps(wall_time), orjson.dumps(world_id))
        columns = zip(self.kinds, self.payloads, self.sources, self.sim_times, strict=True)
        for seq, (kind, payload, source_id, sim_time) in enumerate(columns, first_seq):
            time, uuid = orjson.dumps(sim_time), new_uuid().encode()
            yield _TEXT % (seq, words[kind], payload, version, time, words[source_id], uuid, end)
