"""The projections over social-RL runs."""

from typing import Final

from worldledger_projections.base import Projection

from worldledger_social_rl.projections.adaptations import PolicyAdaptations
from worldledger_social_rl.projections.feedback import Feedback
from worldledger_social_rl.projections.messages import Messages
from worldledger_social_rl.projections.rounds import Rounds
from worldledger_social_rl.projections.runs import SocialRuns

PROJECTIONS: Final[tuple[Projection, ...]] = (SocialRuns(), Rounds(), Messages(), Feedback(), PolicyAdaptations())
