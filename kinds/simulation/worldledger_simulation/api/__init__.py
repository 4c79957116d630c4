"""Simulations over HTTP: their routes."""

from typing import Final

from starlette.routing import BaseRoute

from worldledger_simulation.api import turns

ROUTES: Final[tuple[BaseRoute, ...]] = (*turns.router.routes,)
