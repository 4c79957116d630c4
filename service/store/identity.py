"""Fresh uuids for effects."""

from __future__ import annotations

import os

_AT_ONCE = 256


class Uuids:
    """Makes uuid4 hex strings (seeds/simulation_core.md, invariant 6), several times faster than one by one.

    They are version 4 of RFC 9562 with 120 random bits: the two free bits of the variant digit stay fixed.
    """

    def __init__(self) -> None:
        self._stock: list[str] = []
        os.register_at_fork(after_in_child=self._stock.clear)  # a child must not share its parent's stock

    def __call__(self) -> str:
        """Give 32 hex digits that nobody has had before."""
        try:
            return self._stock.pop()
        except IndexError:
            digits = os.urandom(16 * _AT_ONCE).hex()
            self._stock += [
                f"{digits[at : at + 12]}4{digits[at + 13 : at + 16]}a{digits[at + 17 : at + 32]}"
                for at in range(0, len(digits), 32)
            ]
            return self._stock.pop()
