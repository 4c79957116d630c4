"""Common to the imports of recorded games and runs: each recording is one world, imported completely or not at all."""

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

#: Errors after which no other recording can be imported either.
FATAL: Final = (StoreUnavailableError, SchemaVersionError, UnknownRulesetError)


def check_experiment(experiment: str | None) -> None:
    """Raise InvalidConfigError for an invalid experiment."""
    try:
        NewWorld(world_id="any", experiment=experiment).checked()
    except ValidationError as error:
        what = error.errors(include_url=False)[0]["msg"]
        raise InvalidConfigError(f"the experiment's name: {what}", path="$.experiment") from None


async def require_same(store: Store, world: NewWorld) -> None:
    """Raise WorldExistsError if the world of that name is of another recording, or another experiment."""
    there = await store.world(world.world_id)
    if there.experiment != world.experiment or there.config.get("digest") != world.config["digest"]:
        what = f"its world would be {world.world_id}, and another world has that name"
        raise WorldExistsError(what, world_id=world.world_id)


@contextmanager
def resumable(done: Callable[[], int]) -> Iterator[None]:
    """Add to a StoreUnavailableError how much is imported by then, and how to continue."""
    try:
        yield
    except StoreUnavailableError as error:
        count = done()
        rest = f"run the same command again for the rest ({count} of this run {'is' if count == 1 else 'are'} in)"
        raise StoreUnavailableError(f"{error.message}; {rest}", **error.details) from error


async def in_thread(items: Iterator[T]) -> AsyncIterator[T]:
    """Yield the items of an iterator that runs in a thread, so that the loop stays free."""
    while (item := await asyncio.to_thread(next, items, None)) is not None:
        yield item
