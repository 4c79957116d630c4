"""Leases: which runner writes which build. No clock is shared, and none is trusted to write.

A holder lets the ``beats`` of its lease rise. A contender remembers token and beats as it saw them; when they have
stood still for ``ttl`` seconds of its own monotonic clock it takes the lease by a compare-and-set, and the token
rises. Who writes checks inside the writing transaction that the token is still theirs, so a holder that was only
slow, or stopped, cannot write once it was replaced: that is the fence, and nothing rests on anybody's clock.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING

from worldledger_projections import statements

if TYPE_CHECKING:
    from worldledger_projections.outages import Pool


class Leases:
    """The leases of one runner."""

    def __init__(self, pool: Pool, holder: str, ttl: float, clock: Callable[[], float]) -> None:
        self._pool = pool
        self._holder = holder
        self._ttl = ttl
        self._clock = clock
        #: name -> token
        self.held: dict[str, int] = {}
        #: how many leases somebody else took from this runner
        self.lost = 0
        self._seen: dict[str, tuple[int, int, float]] = {}
        self._looked = -ttl

    async def acquire(self, names: Iterable[str], *, at_once: bool = False) -> list[str]:
        """Try for those that are not held, now and then unless ``at_once``; return those that were had."""
        wanted = [name for name in names if name not in self.held]
        now = self._clock()
        if not wanted or (not at_once and self._seen.keys() >= set(wanted) and now < self._looked + self._ttl / 4):
            return []
        self._looked = now
        rows = await self._pool.fetch(statements.LEASES, wanted)
        if len(rows) < len(wanted):
            await self._pool.execute(statements.NEW_LEASES, wanted)
            rows = await self._pool.fetch(statements.LEASES, wanted)
        free = []
        for name, holder, token, beats in rows:
            before = self._seen.get(name)
            if before is None or before[:2] != (token, beats):
                before = self._seen[name] = (token, beats, now)
            if holder in {None, self._holder} or now - before[2] >= self._ttl:
                free.append((name, token, beats))
        if not free:
            return []
        taken = await self._pool.fetch(statements.ACQUIRE, *zip(*free, strict=True), self._holder)
        self.held.update((row["name"], row["token"]) for row in taken)
        return [row["name"] for row in taken]

    async def seize(self, name: str) -> None:
        """Take a lease from whoever holds it."""
        await self._pool.execute(statements.NEW_LEASES, [name])
        self.held[name] = await self._pool.fetchval(statements.SEIZE, name, self._holder)

    def drop(self, names: Iterable[str]) -> None:
        """Forget leases that turned out to be another's."""
        for name in names:
            if self.held.pop(name, None) is not None:
                self.lost += 1
            self._seen.pop(name, None)

    async def beat(self) -> None:
        """Tell that this runner lives, and find out which leases it no longer holds."""
        held = dict(self.held)
        if not held:
            return
        rows = await self._pool.fetch(statements.BEAT, list(held), list(held.values()))
        kept = {row["name"] for row in rows}
        self.drop(name for name, token in held.items() if name not in kept and self.held.get(name) == token)

    async def release(self, names: Iterable[str]) -> None:
        """Return leases back."""
        tokens = {name: self.held.pop(name) for name in list(names) if name in self.held}
        for name in tokens:
            self._seen.pop(name, None)
        if tokens:
            await self._pool.execute(statements.RELEASE, list(tokens), list(tokens.values()))
