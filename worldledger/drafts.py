"""Checking drafts: the shape of EffectDraft and the write gate, in one pass.

A checked draft holds its payload as canonical bytes already, so that later changes of the caller's objects cannot
change what is stored.
"""

from __future__ import annotations

import json
import math
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import lru_cache
from hashlib import sha256
from typing import Any, Final, NamedTuple

import orjson
from typing_extensions import Buffer

from worldledger.canonical import MAX_INT, canonical_json, child, gate
from worldledger.effects import SCHEMA_VERSION, SERVICE_SOURCE, is_system_kind
from worldledger.errors import InvalidEffectError, ReservedKindError

#: Longest kind, source_id, schema_version and req_id, in characters.
MAX_WORD: Final = 200
#: Largest magnitude of a priority.
MAX_PRIORITY: Final = 2**31 - 1
#: The member of ``source_metadata`` that has the digest of a request whose payload the ruleset has rewritten.
REQUEST_DIGEST: Final = "request_sha256"
_HEX64: Final = re.compile(r"[0-9a-f]{64}\Z")
#: MAJOR.MINOR.PATCH, optionally with a pre-release and a build (semver.org, version 2.0.0).
SEMANTIC_VERSION: Final = (
    r"(0|[1-9][0-9]*)\.(0|[1-9][0-9]*)\.(0|[1-9][0-9]*)"
    r"(-(0|[1-9][0-9]*|[0-9]*[A-Za-z-][0-9A-Za-z-]*)(\.(0|[1-9][0-9]*|[0-9]*[A-Za-z-][0-9A-Za-z-]*))*)?"
    r"(\+[0-9A-Za-z-]+(\.[0-9A-Za-z-]+)*)?"
)
_SEMANTIC_VERSION: Final = re.compile(SEMANTIC_VERSION)

_KNOWN: Final = frozenset(
    {
        "kind",
        "payload",
        "source_id",
        "schema_version",
        "sim_time",
        "priority",
        "req_id",
        "caused_by",
        "source_metadata",
    }
)


class UnclearRequestError(ValueError):
    """The request of an effect cannot be recovered from its stored text."""


class CheckedDraft(NamedTuple):
    """A draft that passed the gate; ``payload`` and ``source_metadata`` are canonical bytes."""

    kind: str
    payload: bytes
    source_id: str
    schema_version: str
    sim_time: float | None
    priority: int
    req_id: str | None
    caused_by: int | None
    source_metadata: bytes | None

    def body_digest(self) -> bytes:
        """Return the SHA-256 over the members by which two requests are the same, 32 bytes.

        req_id itself and sim_time are left out: the first is the key, the second is compared with the stored effect if
        a draft states it. If the effect is written differently from the request, the digest of the request is kept in
        ``source_metadata``. So the digest follows from the log alone.
        """
        if self.source_metadata is not None and _QUOTED_DIGEST in self.source_metadata:
            said = _said_digest(orjson.loads(self.source_metadata))
            if said is not None:
                return said
        return body_digest(self.kind, self.payload, self.source_id, self.schema_version, self.priority, self.caused_by)

    def defaulted(self, priority: int) -> CheckedDraft:
        """Return the draft, which came without a priority, with its world's default priority.

        The request stays the same: its digest is that of the request as it came, with priority 0, as it was before
        worlds had a default.
        """
        if priority == 0:
            return self
        return self._as_it_came()._replace(priority=priority)

    def rewritten(self, payload: bytes) -> CheckedDraft:
        """Return the draft with another payload (canonical), as the ruleset rewrites it.

        The digest of the original request is kept in ``source_metadata``, so that it follows from the log alone.
        """
        return self._as_it_came()._replace(payload=payload)

    def asked_as(self, asked: CheckedDraft) -> CheckedDraft:
        """Return the draft, made from the request ``asked``, with that request's digest if its own differs."""
        if asked.req_id is None or self.body_digest() == asked.body_digest():
            return self
        return self._saying(asked.body_digest())

    def _as_it_came(self) -> CheckedDraft:
        """Return the draft with its present digest in ``source_metadata``; one without a req_id needs none."""
        if self.req_id is None:
            return self
        return self._saying(self.body_digest())

    def _saying(self, digest: bytes) -> CheckedDraft:
        """Return the draft with this digest of its request in ``source_metadata``."""
        metadata = {} if self.source_metadata is None else orjson.loads(self.source_metadata)
        metadata[REQUEST_DIGEST] = digest.hex()
        return self._replace(source_metadata=canonical_json(metadata))


def body_digest(
    kind: str, payload: Buffer, source_id: str, schema_version: str, priority: int, caused_by: int | None
) -> bytes:
    """Return the digest of a request's body; see `CheckedDraft.body_digest`. ``payload`` is canonical."""
    return sha256(_body_head(kind, source_id, schema_version, priority, caused_by) + payload).digest()


@lru_cache(maxsize=4096)
def _body_head(kind: str, source_id: str, schema_version: str, priority: int, caused_by: int | None) -> bytes:
    """Return what is hashed before a payload: the same few kinds and sources occur again and again."""
    return canonical_json([kind, source_id, schema_version, priority, caused_by])


def effect_body_digest(effect: Mapping[str, Any], text: bytes) -> bytes:
    """Return the digest that the draft of a stored effect had, computed from the stored bytes of its payload.

    Raises UnclearRequestError for a req_id that is not a string, and for a text that is not in the canonical profile.
    """
    if type(effect["req_id"]) is not str:
        raise UnclearRequestError("the req_id is no text")
    return _said_digest(effect.get("source_metadata")) or sha256(_body(text)).digest()


def request_digest(digests: Sequence[bytes]) -> bytes:
    """Return the body digest of a request from the digests of its drafts (of one draft: that digest)."""
    return digests[0] if len(digests) == 1 else sha256(b"".join(digests)).digest()


def _body(text: bytes) -> bytes:
    """Cut what `body_digest` hashes out of a canonical text. Raises UnclearRequestError if it is not canonical.

    Keys are sorted and strings contain no unescaped quotes, so a key can be searched as text. Only if the payload or
    source_metadata has a ``priority`` of its own, the end of the payload is searched value by value.
    """
    try:
        kind = text.index(b',"kind":') + 8
        payload = text.index(b',"payload":', kind) + 11
        priority = text.index(b',"priority":', payload)
        if text.rfind(b',"priority":') != priority:
            priority = _end_of_value(text, payload)
        req_id = text.index(b',"req_id":', priority)
        version = text.index(b',"schema_version":', req_id) + 18
        sim_time = text.index(b',"sim_time":', version)
        source_id = text.index(b',"source_id":', sim_time) + 13
        end = text.index(b',"uuid":', source_id)
        metadata = text.find(b',"source_metadata":', source_id, end)
        caused_by = text[13 : text.index(b",")] if text.startswith(b'{"caused_by":') else b"null"
        return b"[%b,%b,%b,%b,%b]%b" % (
            text[kind : payload - 11],
            text[source_id : end if metadata < 0 else metadata],
            text[version:sim_time],
            text[priority + 12 : req_id],
            caused_by,
            text[payload:priority],
        )
    except (ValueError, RecursionError):
        raise UnclearRequestError("the text is not canonical, so it cannot be told what was asked") from None


def _end_of_value(text: bytes, start: int) -> int:
    rest = text[start:].decode()
    _, length = _DECODER.raw_decode(rest)
    return start + len(rest[:length].encode())


_DECODER: Final = json.JSONDecoder()


def _said_digest(metadata: Any) -> bytes | None:
    """Return the digest of a request that metadata holds, None if they hold none."""
    said = metadata.get(REQUEST_DIGEST) if isinstance(metadata, Mapping) else None
    return bytes.fromhex(said) if isinstance(said, str) and _HEX64.match(said) else None


def check_draft(draft: Any, *, system: bool = False, default_priority: int = 0, recorded: bool = False) -> CheckedDraft:
    """Check one draft's shape and values.

    - ``system`` allows the kinds that only the service writes, and its source_id.
    - ``default_priority`` is that of a draft without one (see `CheckedDraft.defaulted`).
    - ``recorded`` is for imports of recordings: their schema_version may be any word.

    What is a checked draft already comes back as it is. Raises InvalidEffectError (ReservedKindError for what only the
    service writes) with the JSON path of what is wrong.
    """
    if type(draft) is not dict:
        if type(draft) is CheckedDraft:
            return draft
        if not isinstance(draft, Mapping):
            raise InvalidEffectError(f"a draft is an object, not {json_name(draft)}")
    get = draft.get
    kind: Any = get("kind")
    source_id: Any = get("source_id")
    schema_version: Any = get("schema_version")
    try:
        known = (
            kind in _HARMLESS and source_id in _HARMLESS and schema_version in (_HARMLESS if recorded else _VERSIONS)
        )
    except TypeError:  # unhashable: not a string
        known = False
    if not known or not (type(kind) is type(source_id) is type(schema_version) is str):
        for name in ("kind", "source_id", "schema_version"):
            read_word(draft, name)
        if not recorded:
            read_version(draft)
    if not system and is_system_kind(kind):
        raise ReservedKindError(f"{kind} effects are written by the service alone", "$.kind")
    if not system and source_id == SERVICE_SOURCE:
        raise ReservedKindError(f"{SERVICE_SOURCE!r} is the service's own source_id", "$.source_id")
    payload = get("payload")
    if type(payload) is not dict:
        raise InvalidEffectError(missing_or(draft, "payload", "an object"), "$.payload")
    body = gate(payload, path="$.payload", level=2)
    sim_time = get("sim_time")
    if len(draft) == 4 or (len(draft) == 5 and type(sim_time) is float and 0.0 < sim_time < math.inf):
        # The same as CheckedDraft(…) without calling a Python function: a bulk import makes one for every effect.
        found = (kind, body, source_id, schema_version, sim_time, default_priority, None, None, None)
        return _tuple(CheckedDraft, found)
    checked = CheckedDraft(kind, body, source_id, schema_version, *_optional(draft))
    return checked if "priority" in draft else checked.defaulted(default_priority)


_tuple: Final = tuple.__new__
#: Short strings that were found harmless: the same few kinds, sources and versions occur again and again.
_HARMLESS: Final[set[str]] = set()
_MOST_REMEMBERED: Final = 4096
#: Strings that were found to be semantic versions.
_VERSIONS: Final[set[str]] = set()
_QUOTED_DIGEST: Final = f'"{REQUEST_DIGEST}"'.encode()


def _optional(draft: Mapping[str, Any]) -> tuple[float | None, int, str | None, int | None, bytes | None]:
    """Check the fields that a draft need not have."""
    get = draft.get
    sim_time = get("sim_time")
    if sim_time is not None:
        sim_time = check_sim_time(sim_time)
    priority = get("priority", 0)
    if type(priority) is not int or abs(priority) > MAX_PRIORITY:
        raise InvalidEffectError("priority is an integer of 32 bits", "$.priority")
    caused_by = get("caused_by")
    if caused_by is not None and (type(caused_by) is not int or not 1 <= caused_by <= MAX_INT):
        raise InvalidEffectError("caused_by is the global_seq of an earlier effect", "$.caused_by")
    req_id = None if get("req_id") is None else read_word(draft, "req_id")
    metadata = get("source_metadata")
    if metadata is not None and not isinstance(metadata, dict):
        raise InvalidEffectError("source_metadata is an object", "$.source_metadata")
    if metadata and REQUEST_DIGEST in metadata:
        what = f"{REQUEST_DIGEST} is written by the service alone"
        raise InvalidEffectError(what, f"$.source_metadata.{REQUEST_DIGEST}")
    if not _KNOWN.issuperset(draft):
        unknown = next(str(name) for name in draft if name not in _KNOWN)
        what = f"unknown field {unknown!r}; an EffectDraft has {', '.join(sorted(_KNOWN))}"
        raise InvalidEffectError(what, child("$", unknown))
    kept = gate(metadata, path="$.source_metadata", level=2) if metadata else None
    return sim_time, priority, req_id, caused_by, kept


def effect_text(
    draft: CheckedDraft, *, world_id: str, global_seq: int, uuid: str, sim_time: float, wall_time: float
) -> bytes:
    """Write the effect that a draft becomes: its final canonical bytes."""
    effect: dict[str, Any] = {
        "global_seq": global_seq,
        "kind": draft.kind,
        "payload": orjson.Fragment(draft.payload),
        "priority": draft.priority,
        "req_id": draft.req_id,
        "schema_version": draft.schema_version,
        "sim_time": sim_time,
        "source_id": draft.source_id,
        "uuid": uuid,
        "wall_time": wall_time,
        "world_id": world_id,
    }
    if draft.caused_by is not None:
        effect["caused_by"] = draft.caused_by
    if draft.source_metadata is not None:
        effect["source_metadata"] = orjson.Fragment(draft.source_metadata)
    return orjson.dumps(effect, option=orjson.OPT_SORT_KEYS)


def check_req_id(value: Any) -> str:
    """Return an idempotency key if it is valid; raise InvalidEffectError if not."""
    return read_word({"req_id": value}, "req_id")


def read_word(value: Mapping[str, Any], name: str, path: str = "$") -> str:
    """Return a member that is a string of 1 to 200 characters; raise InvalidEffectError if it is not.

    ``path`` is the JSON path of ``value``.
    """
    word = value.get(name)
    if type(word) is not str:
        raise InvalidEffectError(missing_or(value, name, "a string"), f"{path}.{name}")
    if not 0 < len(word) <= MAX_WORD:
        raise InvalidEffectError(f"{name} has 1 to {MAX_WORD} characters, this one {len(word)}", f"{path}.{name}")
    if not word.isascii() or not word.isprintable():
        gate(word, path=f"{path}.{name}")
    elif name != "req_id":  # those never recur
        if len(_HARMLESS) >= _MOST_REMEMBERED:
            _HARMLESS.clear()
        _HARMLESS.add(word)
    return word


def read_version(value: Mapping[str, Any], path: str = "$") -> str:
    """Return the member ``schema_version``, a semantic version (semver.org); raise InvalidEffectError if it is none.

    ``path`` is the JSON path of ``value``.
    """
    word = read_word(value, "schema_version", path)
    if word in _VERSIONS:
        return word
    if not _SEMANTIC_VERSION.fullmatch(word):
        what = f'schema_version is a semantic version (MAJOR.MINOR.PATCH, semver.org) such as "1.0.0", not "{word}"'
        raise InvalidEffectError(what, f"{path}.schema_version")
    if len(_VERSIONS) >= _MOST_REMEMBERED:
        _VERSIONS.clear()
    _VERSIONS.add(word)
    return word


def check_sim_time(value: Any) -> float:
    """Return a time in seconds if a draft may state it; raise InvalidEffectError if not."""
    if type(value) is int and abs(value) <= MAX_INT:
        value = float(value)
    if type(value) is not float or not math.isfinite(value):
        raise InvalidEffectError("sim_time is a finite number of seconds", "$.sim_time")
    if value == 0.0 and math.copysign(1.0, value) < 0:
        raise InvalidEffectError("-0.0 does not survive every JSON reader; send 0.0", "$.sim_time")
    return value


def missing_or(value: Mapping[str, Any], name: str, wanted: str) -> str:
    """Describe a member: that it is missing, or what it is in place of what is expected."""
    if name not in value:
        return f"{name} is missing; it is {wanted}"
    return f"{name} is {wanted}, not {json_name(value[name])}"


def json_name(value: Any) -> str:
    """Return what JSON calls this kind of value."""
    names = {dict: "an object", list: "a list", str: "a string", bool: "a boolean", int: "a number", float: "a number"}
    return "null" if value is None else names.get(type(value), f"a {type(value).__name__}")


# Recorded drafts with a kind, a payload, a source and a time and nothing else are kept in columns. An import makes many
# of them, sends each to another process and writes it once; columns take about two thirds of the time that a
# `CheckedDraft` for each takes.

#: The canonical text of an effect with no ``caused_by``, ``req_id`` and ``source_metadata``: its members stand sorted.
_TEXT: Final = (
    b'{"global_seq":%d,"kind":%b,"payload":%b,"priority":0,"req_id":null,"schema_version":%b,"sim_time":%b,'
    b'"source_id":%b,"uuid":"%b",%b'
)


class PlainDrafts:
    """Checked drafts of one world, in order; ``payloads`` are canonical bytes, ``sim_times`` seconds.

    A draft without a time (None) has that of the effect before it.
    """

    __slots__ = ("kinds", "payloads", "sim_times", "sources")

    def __init__(self) -> None:
        self.kinds: list[str] = []
        self.payloads: list[bytes] = []
        self.sources: list[str] = []
        self.sim_times: list[float | None] = []

    @classmethod
    def of(cls, drafts: Sequence[CheckedDraft]) -> PlainDrafts:
        """Put drafts of SCHEMA_VERSION that are a kind, a payload, a source and perhaps a time into columns."""
        plain = cls()
        if drafts:
            kinds, payloads, sources, _, sim_times, *_ = zip(*drafts, strict=True)
            plain.kinds, plain.payloads, plain.sources = [*kinds], [*payloads], [*sources]
            plain.sim_times = [*sim_times]
        return plain

    def add(self, kind: str, payload: bytes, source_id: str, sim_time: float | None) -> None:
        """Add a draft that is checked already (see `check_draft`)."""
        self.kinds.append(kind)
        self.payloads.append(payload)
        self.sources.append(source_id)
        self.sim_times.append(sim_time)

    def cut(self, count: int) -> tuple[PlainDrafts, PlainDrafts]:
        """Return the first so many drafts, and the others."""
        first, rest = PlainDrafts(), PlainDrafts()
        for name in self.__slots__:
            column = getattr(self, name)
            setattr(first, name, column[:count])
            setattr(rest, name, column[count:])
        return first, rest

    def __len__(self) -> int:
        return len(self.kinds)

    def __iter__(self) -> Iterator[CheckedDraft]:
        for kind, payload, source_id, sim_time in zip(
            self.kinds, self.payloads, self.sources, self.sim_times, strict=True
        ):
            yield CheckedDraft(kind, payload, source_id, SCHEMA_VERSION, sim_time, 0, None, None, None)

    def __getstate__(self) -> tuple[list[str], bytes, list[str], list[float | None]]:
        # Canonical JSON has no line breaks: this sends one object instead of one for each payload.
        return self.kinds, b"\n".join(self.payloads), self.sources, self.sim_times

    def __setstate__(self, state: tuple[list[str], bytes, list[str], list[float | None]]) -> None:
        self.kinds, payloads, self.sources, self.sim_times = state
        self.payloads = payloads.split(b"\n") if self.kinds else []
        if len(self.payloads) != len(self.kinds):
            raise ValueError("a payload was lost")

    def effects(
        self, *, world_id: str, first_seq: int, new_uuid: Callable[[], str], sim_time: float, wall_time: float
    ) -> Iterator[tuple[bytes, str, str, float]]:
        """Write the effects that the drafts become from ``first_seq`` on, after one at ``sim_time``.

        Yields each one's text, as `effect_text` writes it, with its kind, source and time.
        """
        words = {word: orjson.dumps(word) for word in {*self.kinds, *self.sources}}
        version = orjson.dumps(SCHEMA_VERSION)
        end = b'"wall_time":%b,"world_id":%b}' % (orjson.dumps(wall_time), orjson.dumps(world_id))
        columns = zip(self.kinds, self.payloads, self.sources, self.sim_times, strict=True)
        time = orjson.dumps(sim_time)
        for seq, (kind, payload, source_id, stated) in enumerate(columns, first_seq):
            if stated is not None and stated != sim_time:
                sim_time, time = stated, orjson.dumps(stated)
            text = _TEXT % (seq, words[kind], payload, version, time, words[source_id], new_uuid().encode(), end)
            yield text, kind, source_id, sim_time
