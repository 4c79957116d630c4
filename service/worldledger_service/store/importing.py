"""What the imports of recorded games and of recorded runs share: a recording is a world, there once, whole or not."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Final, TypeVar

from pydantic import ValidationError

from worldledger.errors import (
    InvalidConfigError,
    SchemaVersionError,
    StoreUnavailableError,
    UnknownRulesetError,
    WorldExistsError,
)
from worldledger.genesis import NewWorld

if TYPE_CHECKING:
    from collections.abc import Callable

    from worldledger_service.store.store import Store

T = TypeVar("T")

#: After these no other recording can go in either.
FATAL: Final = (StoreUnavailableError, SchemaVersionError, UnknownRulesetError)


def check_experiment(experiment: str | None) -> None:
    """Raise InvalidConfigError for an experiment that cannot be a label."""
    try:
        NewWorld(world_id="any", experiment=experiment).checked()
    except ValidationError as error:
        what = error.errors(include_url=False)[0]["msg"]
        raise InvalidConfigError(f"the experiment's name: {what}", path="$.experiment") from None


async def require_same(store: Store, world: NewWorld) -> None:
    """Raise WorldExistsError if the world of that name is another one: of another recording, or another experiment."""
    there = await store.world(world.world_id)
    if there.experiment != world.experiment or there.config.get("digest") != world.config["digest"]:
        what = f"its world would be {world.world_id}, and another world has that name"
        raise WorldExistsError(what, world_id=world.world_id)


@contextmanager
def resumable(done: Callable[[], int]) -> Iterator[None]:
    """Have StoreUnavailableError say how much is in by then, and how to go on."""
    try:
        yield
    except StoreUnavailableError as error:
        count = done()
        rest = f"run the same command again for the rest ({count} of this run {'is' if count == 1 else 'are'} in)"
        raise StoreUnavailableError(f"{error.message}; {rest}", **error.details) from error


async def in_thread(items: Iterator[T]) -> AsyncIterator[T]:
    """Return the items of an iterator whose work is done in a thread, so that the loop stays free."""
    while (item := await asyncio.to_thread(next, items, None)) is not None:
        yield item
