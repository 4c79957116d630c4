"""asyncio primitives of the orchestrator: cancel tokens, queues of timed delivery, circuit breakers.

They do no I/O and read no clock but the one they are given; time passes in them only as the event loop's timers say.
Like the rest of asyncio they belong to one event loop and are not safe to use from other threads.
"""

from worldledger.aio.breaker import CircuitBreaker
from worldledger.aio.queues import TimedQueue
from worldledger.aio.tokens import CancelToken
from worldledger.errors import QueueClosedError

__all__ = ["CancelToken", "CircuitBreaker", "QueueClosedError", "TimedQueue"]
