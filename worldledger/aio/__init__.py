"""asyncio primitives: cancel tokens, timed queues, breakers, backoff, single flights, tasks that end together.

They do no I/O and read only the clock that they are given; time passes by the timers of the event loop. Like the rest
of asyncio they belong to one event loop and are not safe to use from other threads.
"""

from worldledger.aio.breaker import CircuitBreaker
from worldledger.aio.flights import SingleFlight, join
from worldledger.aio.queues import TimedQueue
from worldledger.aio.tasks import all_of, first_of, running
from worldledger.aio.tokens import CancelToken
from worldledger.backoff import Backoff
from worldledger.errors import QueueClosedError

__all__ = [
    "Backoff",
    "CancelToken",
    "CircuitBreaker",
    "QueueClosedError",
    "SingleFlight",
    "TimedQueue",
    "all_of",
    "first_of",
    "join",
    "running",
]
