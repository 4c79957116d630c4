"""Fresh uuids for effects."""

from __future__ import annotations

import os

_UUIDS_AT_ONCE = 256
#: The bits that make 16 random bytes a version-4 uuid (RFC 9562): byte 6 begins with the digit 4, byte 8 with bits 10.
_VERSION = bytes(byte & 0x0F | 0x40 for byte in range(256))
_VARIANT = bytes(byte & 0x3F | 0x80 for byte in range(256))


class Uuids:
    """Makes uuid4 hex strings (docs/reference/contracts.md, "Invariants"), many times faster than one by one."""

    def __init__(self) -> None:
        self._stock: list[str] = []
        os.register_at_fork(after_in_child=self._stock.clear)  # a child must not share its parent's stock

    def __call__(self) -> str:
        """Return 32 hex digits that are unique."""
        try:
            return self._stock.pop()
        except IndexError:
            block = bytearray(os.urandom(16 * _UUIDS_AT_ONCE))
            block[6::16] = block[6::16].translate(_VERSION)
            block[8::16] = block[8::16].translate(_VARIANT)
            digits = block.hex()
            self._stock += [digits[at : at + 32] for at in range(0, len(digits), 32)]
            return self._stock.pop()
