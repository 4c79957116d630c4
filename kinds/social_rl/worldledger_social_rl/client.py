"""Rounds of a social-RL run that lives in a service, and the policies of its agents."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final, NamedTuple, Protocol

from worldledger.canonical import gate
from worldledger.client import RemoteWorld
from worldledger.client.transport import moment_params
from worldledger.errors import InvalidEffectError
from worldledger_social_rl.rules.errors import InvalidRunError

_PAGE: Final = 1000


class HasValue(Protocol):
    """The shape of a RoundResult: it returns itself as a JSON object."""

    def to_value(self) -> dict[str, Any]:
        """Return it as a JSON object."""
        ...


class RoundReceipt(NamedTuple):
    """The answer to a posted round: its first and last effect, and how many there are.

    ``checksum`` is the chain's (lower-case hex) at the last; ``replayed`` says that an earlier call wrote them.
    """

    round_number: int
    first_seq: int
    last_seq: int
    checksum: str
    effects: int
    replayed: bool = False


class Run:
    """A social-RL run that lives in a service: ``Run(client)``, or ``Run(client.world("workshop"))``."""

    def __init__(self, world: RemoteWorld) -> None:
        self._world = world

    async def post_round(self, result: HasValue | Mapping[str, Any]) -> RoundReceipt:
        """Append a whole round, once: the same round again returns the first receipt.

        Raises InvalidRunError with every problem, and RemoteError with the code ``round_conflict`` for a round that is
        not the next one, or exists with other content.
        """
        value = dict(result) if isinstance(result, Mapping) else result.to_value()
        try:
            gate(value)  # refuses what JSON would change on the way
        except InvalidEffectError as error:
            raise InvalidRunError([{"path": error.path, "message": error.reason}]) from None
        told = await self._world.call("POST", "rounds", body=value)
        return RoundReceipt(**{name: told[name] for name in RoundReceipt._fields})

    async def rounds(self) -> list[dict[str, Any]]:
        """Return the place of each round in the log, and how much it holds, in the order of the log.

        Raises MomentNotFoundError for a world that is not a social-RL run.
        """
        found: list[dict[str, Any]] = []
        after: int | None = 0
        while after is not None:
            params = {"after_seq": after, "limit": _PAGE}
            page = await self._world.call("GET", "rounds", params=params)
            found += page["rounds"]
            after = page["next_after_seq"]
        return found

    async def round(self, number: int) -> dict[str, Any]:
        """Return a round as far as it has come: its place, and in ``result`` the content of its file.

        `RoundResult.from_value` reads that. Raises MomentNotFoundError for a round that does not exist.
        """
        found: dict[str, Any] = await self._world.call("GET", "rounds", str(number))
        return found

    async def policy(self, *, at_seq: int | None = None, at: str | None = None) -> dict[str, Any]:
        """Return the cues of each agent (``agents``) and the policy of each role (``roles``), at a moment or now.

        ``at`` is a moment as `worldledger.moments` says: ``round:3``. Raises MomentNotFoundError for one that does not
        exist, and for a world that is not a social-RL run, and UnreadableMomentError (a ValueError) for an invalid
        moment.
        """
        params = moment_params(at_seq, at)
        found: dict[str, Any] = await self._world.call("GET", "policy", params=params)
        return found
