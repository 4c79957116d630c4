"""Placing: what an intent was made from, and by which settings it may be stale."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from worldledger.errors import InvalidEffectError, InvalidIntentError
from worldledger.staleness import NOT_GIVEN, Staleness, about_of

if TYPE_CHECKING:
    from worldledger.intents import CheckedIntent
    from worldledger_service.runtime.generations import Generations
    from worldledger_service.runtime.settings_of_staleness import StalenessSettings


class Placed(NamedTuple):
    """An intent with its context, what decides whether that is stale, and the ids that it is about.

    ``refusal``: why it cannot be taken as it is, unless it was accepted before.
    """

    intent: CheckedIntent
    staleness: Staleness
    names: frozenset[str]
    refusal: InvalidIntentError | None


class Placing:
    """Places the intents of one world."""

    def __init__(self, generations: Generations, settings: StalenessSettings) -> None:
        self._generations = generations
        self._settings = settings

    def place(self, intent: CheckedIntent) -> Placed:
        """Place an intent of a registered agent.

        Where it names no context it has that of the generation that it ends, if one is under way; where it has no
        threshold it has that generation's, the agent's or the world's.
        """
        given, by, about = intent.staleness_threshold, "intent", frozenset(intent.about)
        begun = self._generations.begun(intent.agent_id, intent.req_id)
        if begun is not None:
            about |= begun.about
            if intent.context_seq is None:
                intent = intent._replace(context_seq=begun.context_seq)
            if given is NOT_GIVEN and begun.staleness_threshold is not NOT_GIVEN:
                given, by = begun.staleness_threshold, "generation"
        staleness = self._settings.of(intent.agent_id, given, by)
        names = about_of(about, intent.payload) if staleness.interrupt_policy == "only_conflict" else frozenset[str]()
        return Placed(intent, staleness, names, self._refusal(intent, staleness))

    def _refusal(self, intent: CheckedIntent, staleness: Staleness) -> InvalidIntentError | None:
        try:
            self._settings.world.check(intent.staleness_threshold)
        except InvalidEffectError as error:
            return InvalidIntentError(error.reason, error.path)
        if intent.context_seq is not None or staleness.threshold is None:
            return None
        return InvalidIntentError(
            f"context_seq is missing or null, and the {staleness.setting}'s staleness_threshold is "
            f"{staleness.threshold}: name the view_seq of the view that the intent was made from, or have "
            "staleness_threshold be null",
            "$.context_seq",
            **staleness.details(),
        )
