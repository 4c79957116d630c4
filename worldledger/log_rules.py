"""What every log obeys, besides its chain: the shape of an effect, its place in time, and what must be unique.

The one spelling of these rules: `worldledger.chain.Verifier` applies them to rows, `worldledger.exports` to a file.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, Final, TypeAlias

from worldledger.drafts import MAX_PRIORITY, MAX_WORD, effect_body_digest, request_digest
from worldledger.effects import DIGEST_KIND, SERVICE_SOURCE, is_system_kind
from worldledger.genesis import GENESIS_KIND, GENESIS_SEQ, is_uuid
from worldledger.repeats import Keys, Repeats, Spill, key_of, uuid_keys
from worldledger.time_authority import FORK_OF

# -- the requests of a log: which effects were made under which req_id, and what was requested ------------
#
# Source: docs/architecture.md, "How an append works". All of it follows from the effects: those of one request are
# adjacent, with its source_id and its req_id, and the digest of its body is made from the stored bytes. The table
# ``requests`` repeats it, so that a repeated request is found at once.


#: A request as it follows from the log: source_id, req_id, body_sha256, first_seq and last_seq, the columns of the
#: table ``requests``. A plain tuple: there are very many.
LoggedRequest: TypeAlias = tuple[str, str, bytes, int, int]


class Requests:
    """Groups the effects of a log, which are passed in order, into requests."""

    def __init__(self) -> None:
        #: the last request, which may continue; of several effects the digests of all, and none in the request yet
        self._last: LoggedRequest | None = None
        self._digests: list[bytes] = []
        self._ended: list[LoggedRequest] = []

    def take(self, effects: Iterable[LoggedRequest]) -> None:
        """Add the next effects that have a req_id, each as if it were a request of its own."""
        last, digests, ended = self._last, self._digests, self._ended.append
        for effect in effects:
            if last is None:
                last = effect
            elif effect[1] == last[1] and effect[3] == last[4] + 1 and effect[0] == last[0]:
                if not digests:
                    digests.append(last[2])
                digests.append(effect[2])
                last = (last[0], last[1], b"", last[3], effect[4])
            else:
                ended(self._whole(last) if digests else last)
                last = effect
        self._last = last

    def take_one(self, effect: Mapping[str, Any], text: bytes, seq: int) -> None:
        """Add the next effect that has a req_id. Raises UnclearRequestError; see `effect_body_digest`."""
        self.take([(effect["source_id"], effect["req_id"], effect_body_digest(effect, text), seq, seq)])

    def ended(self, *, is_over: bool = False) -> list[LoggedRequest]:
        """Return the requests completed since the last call; the last one may continue unless the log ``is_over``."""
        ended, self._ended = self._ended, []
        if is_over and self._last is not None:
            ended.append(self._whole(self._last))
            self._last = None
        return ended

    def _whole(self, request: LoggedRequest) -> LoggedRequest:
        """Return the last request with its digest."""
        if not self._digests:
            return request
        source_id, req_id, _, first_seq, last_seq = request
        digest = request_digest(self._digests)
        self._digests.clear()
        return source_id, req_id, digest, first_seq, last_seq


#: Called with some requests.
Heard: TypeAlias = Callable[[Sequence[LoggedRequest]], object]

_TEXTS: Final = ("kind", "source_id", "schema_version", "world_id")
#: The fields that every effect has.
REQUIRED: Final = frozenset({*_TEXTS, "uuid", "payload", "global_seq", "sim_time", "priority", "req_id", "wall_time"})
_ALLOWED: Final = REQUIRED | {"caused_by", "source_metadata"}
_PLAIN: Final = frozenset({int, float})
_GATHERED: Final = 1000
UUID_RULE: Final = "not 32 hex digits, in lower case"
#: System kinds that the service writes, or has written, in the name of an agent or an adapter; also the prefix's.
IN_OTHER_NAMES: Final = frozenset({"IntentRejected", "WorldTimeSet"})
PREFIX_IN_OTHER_NAMES: Final = "Generation"


#: How the req_id begins of what a rerun issues again, whoever wrote the parent's effect (`worldledger.rerunning`).
RERUN_PREFIX: Final = "rerun:"


def kind_problem(kind: str, source_id: str, seq: int) -> str | None:
    """Explain why the effect ``seq`` cannot be of this system kind, or from this source; None if it can."""
    if kind == GENESIS_KIND and seq != 1:
        return f"$.kind: {GENESIS_KIND} stands at seq 1 alone"
    if source_id == SERVICE_SOURCE or kind in IN_OTHER_NAMES or kind.startswith(PREFIX_IN_OTHER_NAMES):
        return None
    return f"$.kind: {kind} effects are written by the service alone, not by {source_id!r}"


def own_problem(kind: str, req_id: Any, *, has_begun: bool) -> str | None:
    """Explain why the service cannot have written an effect of this kind, no system kind; None if it can.

    In its own name it writes such effects only at the beginning of a world, or of a fork (`Ruleset.opening`,
    `Ruleset.going_on`, `Ruleset.change`), and where a rerun repeats a parent's beginning. ``has_begun``: an effect of
    another source came before.
    """
    if not has_begun or (type(req_id) is str and req_id.startswith(RERUN_PREFIX)):
        return None
    return f"$.source_id: {SERVICE_SOURCE!r} writes no {kind} after a world's beginning"


def effect_problem(effect: dict[str, Any], seq: int, world_id: str) -> str | None:
    """Explain why a value is not the effect ``seq`` of that world, naming the field; None if it can be."""
    if not (effect.keys() >= REQUIRED and effect.keys() <= _ALLOWED):
        missing = sorted(REQUIRED - effect.keys())
        return f"the field {missing[0]} is missing" if missing else f"unknown field {min(effect.keys() - _ALLOWED)!r}"
    if effect["world_id"] != world_id:
        return f"an effect of another world ({effect['world_id']!r}, not {world_id!r})"
    if effect["global_seq"] != seq or type(effect["global_seq"]) is not int:
        return f"global_seq is {effect['global_seq']!r} where {seq} belongs: lines are missing or out of order"
    for name in _TEXTS:
        if type(effect[name]) is not str or not 0 < len(effect[name]) <= MAX_WORD:
            return f"$.{name}: not a text of 1 to {MAX_WORD} characters"
    if not is_uuid(effect["uuid"]):
        return f"$.uuid: {UUID_RULE}"
    problem = _times_problem(effect)
    if problem is not None:
        return problem
    if type(effect["priority"]) is not int or abs(effect["priority"]) > MAX_PRIORITY:
        return "$.priority: not an integer of 32 bits"
    if type(effect["payload"]) is not dict:
        return "$.payload: not an object"
    req_id = effect["req_id"]
    if req_id is not None and (type(req_id) is not str or not 0 < len(req_id) <= MAX_WORD):
        return f"$.req_id: neither null nor a text of 1 to {MAX_WORD} characters"
    if "source_metadata" in effect and type(effect["source_metadata"]) is not dict:
        return "$.source_metadata: not an object"
    return None


def _times_problem(effect: Mapping[str, Any]) -> str | None:
    if type(effect["sim_time"]) in _PLAIN and type(effect["wall_time"]) in _PLAIN:
        return None
    return "$.sim_time, $.wall_time: not numbers"


def order_problem(
    effect: Mapping[str, Any], seq: int, sim_time: float, wall_time: float, *, has_begun: bool
) -> str | None:
    """Explain why an effect cannot follow at ``seq``, after these times; None if it can.

    ``has_begun``: an effect of another source than the service came before.
    """
    problem = _times_problem(effect)
    if problem is not None:
        return problem
    for field, before in (("sim_time", sim_time), ("wall_time", wall_time)):
        if effect[field] < before:
            return f"$.{field}: {effect[field]} is lower than the {before} before"
    if "caused_by" in effect and (type(effect["caused_by"]) is not int or not 1 <= effect["caused_by"] < seq):
        return "$.caused_by: not the global_seq of an earlier effect"
    kind, source_id = effect["kind"], effect["source_id"]
    if is_system_kind(kind):
        return kind_problem(kind, source_id, seq)
    return own_problem(kind, effect["req_id"], has_begun=has_begun) if source_id == SERVICE_SOURCE else None


#: The place of the digest of the state that a fork begins with.
FORK_DIGEST_SEQ: Final = 2
FORK_DIGEST_RULE: Final = f"the second effect of a fork is the {DIGEST_KIND} of the state at its genesis"


def begins_fork(genesis: Mapping[str, Any]) -> bool:
    """Return whether a log that begins with this effect is that of a fork."""
    payload = genesis.get("payload")
    return isinstance(payload, dict) and payload.get(FORK_OF) is not None


def fork_digest_problem(effect: Mapping[str, Any]) -> str | None:
    """Explain why an effect cannot be the second one of a fork; None if it can."""
    payload = effect.get("payload")
    at_seq = payload.get("at_seq") if isinstance(payload, dict) else None
    if effect["kind"] == DIGEST_KIND and type(at_seq) is int and at_seq == GENESIS_SEQ:
        return None
    return f"$.kind: {FORK_DIGEST_RULE}"


class UsedOnce:
    """What must be unique in a log: each uuid, and each request, whose effects are adjacent.

    ``spill`` is passed to `Repeats`; ``heard`` is called with the requests, in the order of the log. With
    ``hears_repeats`` it is left to ``heard`` to find requests that occur twice.
    ``uuids`` takes the keys of the uuids; by default uuids that occur twice are found here.
    """

    def __init__(
        self,
        spill: Spill | None = None,
        heard: Heard | None = None,
        *,
        hears_repeats: bool = False,
        uuids: Keys | None = None,
    ) -> None:
        self._uuids = Repeats(spill) if uuids is None else uuids
        self._asked = Repeats(spill)
        self._requests = Requests()
        self._heard = heard
        self._hears_repeats = hears_repeats
        self._gathered_uuids: list[str] = []
        self._last_seq = 0

    def take(self, effect: Mapping[str, Any], text: bytes, seq: int) -> None:
        """Add the next effect and its stored text. Raises ValueError if its request cannot be recovered."""
        if effect["req_id"] is not None:
            self._requests.take_one(effect, text, seq)
        self._gathered_uuids.append(effect["uuid"])
        self._last_seq = seq
        if len(self._gathered_uuids) >= _GATHERED:
            self._flush_uuids()

    @property
    def requests(self) -> Requests:
        """The requests; with these and `take_uuids`, many effects are added at once instead of by `take`."""
        return self._requests

    def take_uuids(self, uuids: list[str], last_seq: int) -> None:
        """Add the uuids of the next effects. Raises ValueError if one is not a uuid."""
        if uuids:
            self._uuids.add(uuid_keys(uuids), range(last_seq - len(uuids) + 1, last_seq + 1))
        self._hear(self._requests.ended())

    def finish(self) -> tuple[int, str] | None:
        """Finish the log; return the first seq that repeats something, and what it repeats, or None."""
        self._flush_uuids()
        self._hear(self._requests.ended(is_over=True))
        found = [
            (repeat.again_seq, what.format(repeat.first_seq))
            for repeat, what in (
                (self._uuids.first(), "the uuid is that of seq {}, too"),
                (self._asked.first(), "the req_id was used before, by seq {}, and other effects stand between"),
            )
            if repeat is not None
        ]
        return min(found, default=None)

    def close(self) -> None:
        """Return the files that were lent."""
        self._uuids.close()
        self._asked.close()

    def _hear(self, requests: list[LoggedRequest]) -> None:
        if not requests:
            return
        if not self._hears_repeats:
            keys = b"".join([key_of(source_id, req_id) for source_id, req_id, _, _, _ in requests])
            self._asked.add(keys, [first_seq for _, _, _, first_seq, _ in requests])
        if self._heard is not None:
            self._heard(requests)

    def _flush_uuids(self) -> None:
        self.take_uuids(self._gathered_uuids, self._last_seq)
        self._gathered_uuids.clear()
