"""The projections over social-RL runs."""

from typing import Final

from worldledger_projections.base import Projection

from worldledger_social_rl.projections.agents import Feedback, Messages, PolicyAdaptations
from worldledger_social_rl.projections.rounds import Rounds
from worldledger_social_rl.projections.runs import SocialRuns

PROJECTIONS: Final[tuple[Projection, ...]] = (SocialRuns(), Rounds(), Messages(), Feedback(), PolicyAdaptations())
