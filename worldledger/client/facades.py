"""Two ways to live in a `World`, here or in a service: step by step, and by messages."""

from worldledger.client.messaging import MessageFacade
from worldledger.client.stepping import RLFacade, StepCancelledError

__all__ = ["MessageFacade", "RLFacade", "StepCancelledError"]
