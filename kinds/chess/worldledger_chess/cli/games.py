"""Games of chess, read from the logs of their worlds."""

from __future__ import annotations

from typing import TYPE_CHECKING, cast

from worldledger_service.cli.stored import read_effect

from worldledger.errors import SimulationError

if TYPE_CHECKING:
    from worldledger_service.store import Store, WorldRecord

    from worldledger.effects import Effect


def require_chess(world: WorldRecord) -> None:
    """Raise SimulationError for a world that is no game of chess."""
    if world.ruleset != "chess":
        raise SimulationError(
            f"world {world.world_id!r} is no game of chess; its ruleset is {world.ruleset}",
            world_id=world.world_id,
            ruleset=world.ruleset,
        )


async def effects_of(store: Store, world: WorldRecord) -> list[Effect]:
    """Return a world's effects up to the head that its record names. Raises TamperedError where they do not verify.

    A game is short, so they are held at once.
    """
    from worldledger.chain import Verifier  # noqa: PLC0415 - slow to load; `--help` needs none of it

    head = world.head.position
    verifier = Verifier(world.world_id)
    effects: list[Effect] = []
    async for batch in store.reader.batches(world.world_id, until_seq=head.global_seq):
        if not verifier.feed(batch):
            break
        effects += [cast("Effect", read_effect(world.world_id, row)) for row in batch]
    verdict = verifier.finish(head)
    if verdict.finding is not None:
        raise verdict.finding.error()
    return effects
