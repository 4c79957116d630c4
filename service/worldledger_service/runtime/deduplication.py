"""Idempotency, the first stage: a request that was made before, or is being made, is not made again.

This is the memory of one process; that a request is one effect for ever and everywhere is the log's own promise.
"""

from __future__ import annotations

import asyncio
from collections import OrderedDict, deque
from collections.abc import Awaitable, Callable
from typing import Final, Generic, NamedTuple, TypeAlias, TypeVar

from worldledger.errors import RequestConflictError

A = TypeVar("A")

#: Whose request, and its req_id.
RequestKey: TypeAlias = tuple[str, str]
#: What tells two bodies apart.
Digest: TypeAlias = str | bytes


class _Given(NamedTuple, Generic[A]):
    """The outcome of a request for those who joined it."""

    answer: A


class _Flight(Generic[A]):
    """A request that is being made, and the futures of those who wait for its outcome."""

    __slots__ = ("digest", "joined")

    def __init__(self, digest: Digest) -> None:
        self.digest: Final = digest
        #: None as a result: whoever made it has gone away, go on in its place
        self.joined: deque[asyncio.Future[_Given[A] | Exception | None]] = deque()


class Requests(Generic[A]):
    """The requests in flight, and the answers of the last ``limit`` that succeeded.

    ``replay`` makes what is given to those who ask again, or joined, from the answer; by default it is the answer.
    """

    def __init__(self, limit: int, *, replay: Callable[[A], A] = lambda answer: answer) -> None:
        self._limit = limit
        self._replay = replay
        self._flights: dict[RequestKey, _Flight[A]] = {}
        self._answers: OrderedDict[RequestKey, tuple[Digest, A]] = OrderedDict()

    def __len__(self) -> int:
        """Return how many answers are remembered."""
        return len(self._answers)

    @property
    def in_flight(self) -> int:
        """How many different requests are being made."""
        return len(self._flights)

    def making(self, key: RequestKey) -> bool:
        """Tell whether a request is being made."""
        return key in self._flights

    def known(self, key: RequestKey, digest: Digest | None = None) -> A | None:
        """Return the answer of a request that succeeded, or None where it is not remembered.

        Raises RequestConflictError if the request had another digest than the one given.
        """
        found = self._answers.get(key)
        if found is None:
            return None
        known, answer = found
        if digest is not None:
            _must_be_same(key, known, digest, answer)
        self._answers.move_to_end(key)
        return self._replay(answer)

    def remember(self, key: RequestKey, digest: Digest, answer: A) -> None:
        """Remember the answer of a request that succeeded; the least recently asked for is forgotten for it."""
        self._answers[key] = (digest, answer)
        self._answers.move_to_end(key)
        if len(self._answers) > self._limit:
            self._answers.popitem(last=False)

    async def join(self, key: RequestKey, digest: Digest, make: Callable[[], Awaitable[A]]) -> A:
        """Return the answer of this request: the one remembered, that of the same request in flight, or ``make``'s.

        Whoever asks first makes the request, in its own task; those who ask meanwhile get the same outcome, also if it
        is an error. An error is not remembered, so the next one to ask makes the request anew. If the one who makes it
        is cancelled, the next of those who joined makes it instead.

        Raises RequestConflictError if the request was or is being made with another digest.
        """
        known = self.known(key, digest)
        if known is not None:
            return known
        flight = self._flights.get(key)
        if flight is None:
            flight = self._flights[key] = _Flight(digest)
        else:
            _must_be_same(key, flight.digest, digest)
            outcome = await self._outcome(key, flight)
            if isinstance(outcome, Exception):
                raise outcome
            if outcome is not None:
                return self._replay(outcome.answer)
        return await self._make(key, flight, make)

    async def _make(self, key: RequestKey, flight: _Flight[A], make: Callable[[], Awaitable[A]]) -> A:
        try:
            answer = await make()
        except Exception as error:
            self._land(key, flight, error)
            raise
        except BaseException:
            self._hand_over(key, flight)
            raise
        self.remember(key, flight.digest, answer)
        self._land(key, flight, _Given(answer))
        return answer

    async def _outcome(self, key: RequestKey, flight: _Flight[A]) -> _Given[A] | Exception | None:
        future: asyncio.Future[_Given[A] | Exception | None] = asyncio.get_running_loop().create_future()
        flight.joined.append(future)
        try:
            return await future
        except asyncio.CancelledError:
            if future in flight.joined:
                flight.joined.remove(future)
            elif not future.cancelled() and future.result() is None:  # it was to go on, and has gone away itself
                self._hand_over(key, flight)
            raise

    def _land(self, key: RequestKey, flight: _Flight[A], outcome: _Given[A] | Exception) -> None:
        del self._flights[key]
        for future in flight.joined:
            if not future.done():
                future.set_result(outcome)

    def _hand_over(self, key: RequestKey, flight: _Flight[A]) -> None:
        while flight.joined:
            future = flight.joined.popleft()
            if not future.done():
                future.set_result(None)
                return
        del self._flights[key]


def _must_be_same(key: RequestKey, known: Digest, digest: Digest, answer: object = None) -> None:
    if known != digest:
        raise RequestConflictError(
            f"request {key[1]!r} of {key[0]!r} was made before with another body",
            req_id=key[1],
            global_seq=getattr(answer, "global_seq", None),
        )
