"""The shapes that the routes of social-RL runs refer to in the OpenAPI document."""

from typing import Final

from pydantic import BaseModel

from worldledger_social_rl.api.shapes import Policy, Round, RoundPage, RoundReceipt, RoundResult

SHAPES: Final[tuple[type[BaseModel], ...]] = (Policy, Round, RoundPage, RoundReceipt, RoundResult)
