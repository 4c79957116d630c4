"""The projections over social-RL runs."""

from typing import Final

from projections.base import Projection
from projections.social_adaptations import PolicyAdaptations
from projections.social_feedback import Feedback
from projections.social_messages import Messages
from projections.social_rounds import Rounds
from projections.social_runs import SocialRuns

PROJECTIONS: Final[tuple[Projection, ...]] = (SocialRuns(), Rounds(), Messages(), Feedback(), PolicyAdaptations())
