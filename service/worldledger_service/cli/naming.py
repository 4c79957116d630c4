"""Worlds by the names that users type: whole ones or, to read, beginnings; and hints for unknown names."""

from __future__ import annotations

from typing import TYPE_CHECKING

from worldledger.errors import WorldNotFoundError
from worldledger.near import meant

if TYPE_CHECKING:
    from collections.abc import Iterable

    from worldledger_service.store import Store, WorldRecord

#: How many worlds are named if several begin so.
_NAMED = 5
#: How many worlds are suggested if the whole name is needed.
_SUGGESTED = 3


async def find_world(store: Store, name: str) -> WorldRecord:
    """Return the world of a name, or the only one whose name begins so. Raises WorldNotFoundError, InvalidNameError."""
    try:
        return await store.world(name)
    except WorldNotFoundError as error:
        found = await store.worlds_beginning(name, _NAMED + 1)
        if len(found) == 1:
            return await store.world(found[0])
        if found:
            shown = ", ".join([*found[:_NAMED], *(["…"] if len(found) > _NAMED else [])])
            what = f"no world is named {name!r}, and several begin so: {shown}"
            raise WorldNotFoundError(what, world_id=name) from None
        if error.details.get("near"):
            raise
        raise WorldNotFoundError(f"{error.message}; `worldledger worlds` lists all", world_id=name) from None


async def exact_world(store: Store, name: str) -> WorldRecord:
    """Return the world of a whole name, for commands that change something: a typo must not change another world.

    Raises WorldNotFoundError, which suggests names that begin so or are like it, and InvalidNameError.
    """
    try:
        return await store.world(name)
    except WorldNotFoundError as error:
        beginning = meant(await store.worlds_beginning(name, _SUGGESTED))
        if error.details.get("near") and not beginning:
            raise
        hint = beginning or "; `worldledger worlds` lists all"
        raise WorldNotFoundError(f"no world named {name!r}{hint}", world_id=name) from None


async def not_found(store: Store, name: str, *, whole: bool = False) -> str:
    """Return the message that no world has a name (a ``whole`` one), with a hint."""
    try:
        await (exact_world if whole else find_world)(store, name)
    except WorldNotFoundError as error:
        return error.message
    return f"the world {name!r} was only just made"


async def whole_name(store: Store, name: str) -> str:
    """Return the name of the world that `find_world` finds, or raise its errors."""
    return (await find_world(store, name)).world_id


async def whole_names(store: Store, names: Iterable[str]) -> list[str]:
    """Return the names of worlds, each once, for those that were typed; a name that is none stays as it is.

    So does one that has effects but no row in the table of worlds: a verification reports that.
    """
    found: dict[str, None] = {}
    for name in names:
        beginning = await store.worlds_beginning(name, 2)
        is_whole = beginning[:1] == [name] or len(beginning) != 1
        if is_whole or [batch async for batch in store.reader.batches(name, limit=1)]:
            found[name] = None
        else:
            found[beginning[0]] = None
    return [*found]


async def no_effects(store: Store, world: WorldRecord, kind: str | None, source: str | None) -> str:
    """Return the message that a world has no effects of a kind and a source, with similar names."""
    what = [f"of {which} {name!r}" for which, name in (("kind", kind), ("source", source)) if name is not None]
    return f"no effects {' and '.join(what)}{meant(await store.near_effects(world, kind, source))}"


async def no_experiment(store: Store, name: str) -> str:
    """Return the message that there is no experiment of a name, with similar names."""
    guesses = meant(await store.near_experiments(name))
    return f"there are no worlds in the experiment {name!r}{guesses or '; see `worldledger worlds`'}"
