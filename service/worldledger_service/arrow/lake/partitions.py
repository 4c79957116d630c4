"""How the folders of partitions are named: so that readers read the names back, and file systems take them."""

from __future__ import annotations

from hashlib import sha256
from typing import Final
from unicodedata import is_normalized
from urllib.parse import quote

#: How Hive names the partition of rows that have no value.
NO_VALUE: Final = "__HIVE_DEFAULT_PARTITION__"
#: What stands for itself beside letters and digits. Readers, their globs, shells or Windows take the rest for theirs.
_PLAIN: Final = " !$&()+,-.;@_~"
#: Most bytes of a name, for nearly all file systems.
LONGEST: Final = 255
#: Begins the digest in a name that is cut. A ``~`` of a value is never escaped, so this is in no other name.
_CUT: Final = "%7E"
_DIGITS: Final = 32


def partition(name: str, value: str | None, longest: int = LONGEST) -> str:
    """Return the folder of a partition: ``experiment=50%25 of it``.

    DuckDB takes ``null``, in any case, and Hive's name for no value to be no value, unless a character is escaped.
    polars and pyarrow take the latter so also then.

    A name that is still too long is cut and made unique by a digest; that is read as ``beginning~digest``.
    """
    if value is None:
        return f"{name}={NO_VALUE}"
    pieces = _escaped(value)
    if value == NO_VALUE or value.lower() == "null":
        pieces[0] = f"%{ord(value[0]):02X}"
    if _size(whole := f"{name}={''.join(pieces)}") <= longest:
        return whole
    digest = _CUT + sha256(value.encode()).hexdigest()[:_DIGITS]
    room = longest - _size(f"{name}={digest}")
    kept = ""
    for piece in pieces:
        if _size(kept) + _size(piece) > room:
            break
        kept += piece
    return f"{name}={kept}{digest}"


def _escaped(value: str) -> list[str]:
    """Return each character as it stands in a path.

    Letters of all scripts stand for themselves, unless a file system may take them for others that look the same.
    """
    is_normal = is_normalized("NFC", value)
    pieces = [
        char if char in _PLAIN or (_is_plain(char) and (is_normal or char.isascii())) else _hex(char) for char in value
    ]
    for end in {0, len(value) - 1} if value else ():
        if value[end] in " .":
            pieces[end] = _hex(value[end])
    return pieces


def _is_plain(char: str) -> bool:
    return char.isalnum() if char.isascii() else char.isprintable()


def _hex(char: str) -> str:
    """Escape a character, also one that has no need of it."""
    return quote(char, safe="") if char not in ".~" else f"%{ord(char):02X}"


def _size(text: str) -> int:
    return len(text.encode())
