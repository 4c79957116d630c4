"""Digests of views: the log is told what agents were shown, now and then."""

from __future__ import annotations

from collections.abc import Container, Sequence
from hashlib import sha256
from typing import TYPE_CHECKING, Final

from worldledger.core_kinds import VIEW_DIGEST_KIND
from worldledger.effects import SCHEMA_VERSION, SERVICE_SOURCE, EffectDraft, is_system_kind

if TYPE_CHECKING:
    from worldledger.views import Sighting
    from worldledger_service.runtime.attachments import Attachments
    from worldledger_service.runtime.outbox import Outbox

#: Longest req_id of a ViewDigest before the agent's name is digested.
_LONGEST: Final = 150


class Digests:
    """Puts out a ViewDigest for each agent whose view has come past another ``every`` effects; 0: for none.

    Besides, for each agent that observes an effect of a kind that the world's ruleset names in ``digest_after``. The
    service's own effects, these among them, do not bring the next one nearer by more than half.
    """

    def __init__(self, attachments: Attachments, outbox: Outbox, every: int) -> None:
        self._attachments = attachments
        self._outbox = outbox
        self._every = every
        #: how many effects there were that are not the service's own
        self._effects = 0

    def note(self, kind: str, sightings: Sequence[Sighting], digest_after: Container[str]) -> None:
        """Take note of what agents see of an effect of this kind."""
        every = self._every
        if not every:
            return
        if not is_system_kind(kind):
            self._effects += 1
        at_once = kind in digest_after
        for agent_id, delta, _ in sightings:
            attachment = self._attachments.get(agent_id)
            if attachment is None or attachment.provisional:
                continue
            view_seq = delta["view_seq"]
            if not at_once:
                since = self._effects - attachment.effects_digested
                if view_seq // every == attachment.digested // every or since < every // 2:
                    continue
            attachment.digested = view_seq
            attachment.effects_digested = self._effects
            self._outbox.put(digest_draft(agent_id, view_seq, delta["context_digest"]))


def digest_draft(agent_id: str, view_seq: int, digest: str) -> EffectDraft:
    """Return the draft of a ViewDigest: of several processes that show the agent this view, one writes it."""
    named = agent_id if len(agent_id) <= _LONGEST else sha256(agent_id.encode()).hexdigest()
    return {
        "kind": VIEW_DIGEST_KIND,
        "payload": {"agent_id": agent_id, "at_seq": view_seq, "digest": digest},
        "source_id": SERVICE_SOURCE,
        "schema_version": SCHEMA_VERSION,
        "req_id": f"view:{named}:{view_seq}",
    }
