"""Backoff: the pauses between two tries."""

from __future__ import annotations

from itertools import pairwise

from worldledger.aio import Backoff


def test_each_pause_is_twice_as_long_up_to_the_longest() -> None:
    """The first pause is as given, each one after it twice as long, and none longer than the longest."""
    backoff = Backoff(0.5, 3.0)
    assert [backoff.next() for _ in range(5)] == [0.5, 1.0, 2.0, 3.0, 3.0]
    assert Backoff(5.0, 2.0).next() == 2.0


def test_after_a_reset_it_begins_with_the_first_pause() -> None:
    """Once all was well, the next failure waits for the first pause again."""
    backoff = Backoff(1.0, 60.0)
    backoff.next(), backoff.next()
    backoff.reset()
    assert (backoff.next(), backoff.next()) == (1.0, 2.0)


def test_a_spread_keeps_clients_apart() -> None:
    """With a spread pauses differ by chance, within its factors, and still grow."""
    pauses = {tuple(made.next() for _ in range(3)) for made in (Backoff(1.0, 8.0, spread=(0.5, 1.0)) for _ in range(9))}
    assert len(pauses) > 1
    for each in pauses:
        assert all(0.5 * whole <= pause <= whole for pause, whole in zip(each, (1.0, 2.0, 4.0), strict=True))
        assert all(earlier <= later for earlier, later in pairwise(each))
