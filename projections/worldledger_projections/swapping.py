"""Letting a finished build take over.

It may only do so when it is as far as the live one in every world, so whoever feeds the live one has to stand still
for that moment. Where that is another runner, its lease is taken from it, and the new build gets what the other wrote
last; then the swap finds them equal. If the swap is held back the other gets its lease again.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from math import inf
from typing import TYPE_CHECKING, Final

import asyncpg
import structlog

from worldledger_projections import statements
from worldledger_projections.builds import Build, Builds, SwapHeldBackError
from worldledger_projections.counters import Counters
from worldledger_projections.folds import Folds
from worldledger_projections.leases import Leases
from worldledger_projections.lock_holders import holders_of

if TYPE_CHECKING:
    from worldledger_projections.outages import Pool

#: Seconds until a swap that was held back is tried again; it doubles each time, up to the second number.
_PAUSES: Final = (0.2, 10.0)
#: Seconds for which a live build may have to do without its runner for the sake of a swap.
_LONGEST_SEIZURE: Final = 5.0

log = structlog.get_logger("worldledger.projections")


class Swapping:
    """The swaps that one runner attempts."""

    def __init__(
        self, pool: Pool, builds: Builds, leases: Leases, counters: Counters, clock: Callable[[], float]
    ) -> None:
        self._pool = pool
        self._builds = builds
        self._leases = leases
        self._counters = counters
        self._clock = clock
        self._waiting: dict[str, tuple[float, float]] = {}
        #: builds of which it was told that they wait for a lock
        self._told: set[str] = set()
        #: projections whose builds may take over though worlds are parked in them
        self.accept_parked: set[str] = set()
        #: leases of live builds that were taken from another runner for the sake of a swap, and when
        self.seized: dict[str, float] = {}
        #: why a swap is held back until somebody does something, by build
        self.held_back: dict[str, str] = {}

    async def attempt(self, new: Build, builds: Sequence[Build], folds: Folds) -> bool:
        """Attempt the swap of a build that has caught up; return whether another round is to be done at once."""
        until, _ = self._waiting.get(new.name, (-inf, 0.0))
        if self._clock() < until:
            return False
        live = next((b for b in builds if b.projection == new.projection and b.status == "live"), None)
        if (
            live is not None
            and live.lease not in self._leases.held
            and (
                new.projection in self.accept_parked
                or not await self._pool.fetchval(statements.PARKED_ONLY_HERE, new.name, live.name)
            )
        ):
            await self._leases.seize(live.lease)
            folds.forget(live.name)
            self.seized[live.lease] = self._clock()
            return True
        try:
            await self._builds.swap(
                new, self._leases.held.get(new.lease, -1), accept_parked=new.projection in self.accept_parked
            )
        except SwapHeldBackError as why:
            await self._hold_back(new, live, str(why), lasting=why.lasting)
            return False
        except asyncpg.LockNotAvailableError as error:
            held = f"a lock on its views is not to be had, {holders_of(error) or 'for others come and go'}"
            if new.name in self._waiting and new.name not in self._told:
                self._told.add(new.name)
                log.warning("a finished build waits for a lock", build=new.name, why=held)
            await self._hold_back(new, live, held)
            return False
        except (asyncpg.DependentObjectsStillExistError, asyncpg.WrongObjectTypeError) as error:
            await self._hold_back(new, live, f"{error} ({error.detail or error.hint})", lasting=True)
            return False
        self._counters.swaps += 1
        self._forget(new.name)
        return True

    def keep(self, builds: Sequence[Build], held: Sequence[Build]) -> None:
        """Let go of what was for the sake of builds that this runner no longer fills, or that cannot keep up."""
        filling = {build.projection for build in held if build.status == "building"}
        for_them = {build.lease for build in builds if build.status == "live" and build.projection in filling}
        since = self._clock() - _LONGEST_SEIZURE
        self.seized = {lease: when for lease, when in self.seized.items() if lease in for_them and when > since}
        for build in self._waiting.keys() - {build.name for build in held}:
            self._forget(build)

    async def _hold_back(self, new: Build, live: Build | None, why: str, *, lasting: bool = False) -> None:
        if lasting and self.held_back.get(new.name) != why:
            log.warning("a finished build cannot take over yet", build=new.name, why=why)
        if lasting:
            self.held_back[new.name] = why
        first, longest = _PAUSES
        _, pause = self._waiting.get(new.name, (0.0, first / 2))
        pause = min(pause * 2, longest)
        self._waiting[new.name] = self._clock() + pause, pause
        if live is not None and live.lease in self.seized:
            del self.seized[live.lease]
            await self._leases.release([live.lease])

    def _forget(self, build: str) -> None:
        self._waiting.pop(build, None)
        self._told.discard(build)
        self.held_back.pop(build, None)
