"""Finding a key that occurs twice among very many, in little memory: keys of 16 bytes, each with its global_seq.

Keys are only collected at first; those that do not fit into a few MiB go to a file that the caller lends. At the end
they are compared part by part; a part has the keys whose mixed bits begin alike.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from hashlib import sha256
from typing import TYPE_CHECKING, Any, BinaryIO, Final, NamedTuple, Protocol

if TYPE_CHECKING:
    import numpy as np

#: Bytes of a key.
KEY_BYTES: Final = 16
#: Lends an empty file, opened for reading and writing, that is removed when it is closed.
Spill = Callable[[], BinaryIO]

#: A record: the key as two numbers, and the seq.
_WORDS: Final = 3
_RECORD_BYTES: Final = 24
_KEPT_BYTES: Final = 8 * 1024 * 1024
#: Approximate number of keys in one part: they are sorted in memory.
_PART: Final = 2_000_000
#: Records that are read at a time.
_READ: Final = 256 * 1024
#: Most keys that are traced back to their places.
_MOST_TRACED: Final = 100_000
# Odd constants with many bits; keys may be counters, whose bits must be spread before they are divided into parts.
_SPREAD: Final = (0x9E3779B97F4A7C15, 0xC2B2AE3D27D4EB4F)


class Repeat(NamedTuple):
    """Where a key occurs first, and where it occurs again."""

    first_seq: int
    again_seq: int


class Keys(Protocol):
    """Receives keys as they come: `Repeats`, or an object that sends them to another process."""

    def add(self, keys: bytes, seqs: Sequence[int]) -> None:
        """Add keys, 16 bytes each, and the global_seq of each."""

    def first(self) -> Repeat | None:
        """Return the first place at which a key occurs again, if this object looks for it."""

    def close(self) -> None:
        """Return what was lent."""


def key_of(*words: str) -> bytes:
    """Return the key of some words, which must not hold a NUL."""
    return sha256("\0".join(words).encode(errors="surrogatepass")).digest()[:KEY_BYTES]


def uuid_keys(uuids: list[str]) -> bytes:
    """Return the keys of uuids, joined: their 16 bytes each.

    Raises ValueError if one is not 32 hex digits in lower case.
    """
    try:
        digits = "".join(uuids)
        keys = bytes.fromhex(digits)
        if keys.hex() == digits and set(map(len, uuids)) == {2 * KEY_BYTES}:
            return keys
    except (TypeError, ValueError):
        pass
    raise ValueError("a uuid is 32 hex digits, in lower case")


class Repeats:
    """Keys, collected as they come. Without ``spill`` all of them stay in memory, 24 bytes each."""

    def __init__(self, spill: Spill | None = None) -> None:
        self._spill = spill
        self._file: BinaryIO | None = None
        self._kept = bytearray()
        self._count = 0

    def add(self, keys: bytes, seqs: Sequence[int]) -> None:
        """Add keys, 16 bytes each, and the global_seq of each."""
        import numpy as np  # noqa: PLC0415 - slow to load, and few programs verify

        count = len(keys) // KEY_BYTES
        records = np.empty((count, _WORDS), "<u8")
        records[:, :2] = np.frombuffer(keys, "<u8").reshape(-1, 2)
        # From a range numpy would make a list first.
        records[:, 2] = np.arange(seqs.start, seqs.stop) if isinstance(seqs, range) else seqs
        self._kept += records.tobytes()
        self._count += count
        if len(self._kept) >= _KEPT_BYTES and self._spill is not None:
            if self._file is None:
                self._file = self._spill()
            self._file.write(self._kept)
            self._kept.clear()

    def first(self) -> Repeat | None:
        """Return the first place at which a key occurs again; None if there is none."""
        import numpy as np  # noqa: PLC0415

        bits = (self._count // _PART).bit_length()
        twice: list[np.ndarray[Any, Any]] = []
        for part in range(1 << bits):
            mixed = np.sort(np.concatenate([*self._parts(bits, part), np.empty(0, np.uint64)]))
            twice.append(mixed[1:][mixed[1:] == mixed[:-1]])
        traced = np.unique(np.concatenate(twice))[:_MOST_TRACED]
        return self._trace(traced) if len(traced) else None

    def close(self) -> None:
        """Return the file back."""
        if self._file is not None:
            self._file.close()
            self._file = None

    def _parts(self, bits: int, part: int) -> Iterator[np.ndarray[Any, Any]]:
        for records in self._records():
            mixed = _mixed(records)
            yield mixed if not bits else mixed[mixed >> mixed.dtype.type(64 - bits) == part]

    def _trace(self, traced: np.ndarray[Any, Any]) -> Repeat | None:
        """Find the places of keys with these mixed bits; keys whose bits only look alike are skipped."""
        import numpy as np  # noqa: PLC0415

        seen: dict[tuple[int, int], int] = {}
        found: Repeat | None = None
        for records in self._records():
            for low, high, seq in records[np.isin(_mixed(records), traced)].tolist():
                first = seen.setdefault((low, high), seq)
                if first != seq and (found is None or seq < found.again_seq):
                    found = Repeat(first, seq)
        return found

    def _records(self) -> Iterator[np.ndarray[Any, Any]]:
        import numpy as np  # noqa: PLC0415

        if self._file is not None:
            self._file.seek(0)
            while read := self._file.read(_READ * _RECORD_BYTES):
                yield np.frombuffer(read, "<u8").reshape(-1, _WORDS)
        view = memoryview(bytes(self._kept))
        for start in range(0, len(view), _READ * _RECORD_BYTES):
            yield np.frombuffer(view[start : start + _READ * _RECORD_BYTES], "<u8").reshape(-1, _WORDS)


def _mixed(records: np.ndarray[Any, Any]) -> np.ndarray[Any, Any]:
    number = records.dtype.type
    mixed: np.ndarray[Any, Any] = records[:, 0] * number(_SPREAD[0]) + records[:, 1]
    mixed ^= mixed >> number(29)
    mixed *= number(_SPREAD[1])
    return mixed
