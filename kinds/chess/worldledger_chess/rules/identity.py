"""The identity of a game: a digest of its content, and a world's name made from it."""

from __future__ import annotations

import re
from collections.abc import Sequence
from hashlib import sha256
from typing import Final

from worldledger.canonical import canonical_json
from worldledger.names import slug

#: Most characters of each player's name in a world's name.
_NAME_LENGTH: Final = 22
_PROFILE: Final = "worldledger-pgn/1"


def game_digest(tags: Sequence[tuple[str, str]], tokens: Sequence[str]) -> str:
    """Return lower-case hex of SHA-256 over the tags in order and the tokens of the movetext.

    White space is not content: runs of it count as one blank, and around a value it does not count. So neither line
    endings nor encoding nor the width of the lines change the digest, while any other tag, move, comment or sideline
    does.
    """
    pairs = [[name, " ".join(value.split())] for name, value in tags]
    return sha256(canonical_json([_PROFILE, pairs, list(tokens)])).hexdigest()


def world_name(white: str | None, black: str | None, date: str, digest: str) -> str:
    """Return ``white-vs-black-date-digest`` in ``[a-z0-9-]``, at most 72 characters; the digest part has 12 of them.

    Names are cut; a name without any ASCII characters is replaced by the colour; unknown parts of the date are left
    out.
    """
    day = "-".join(part for part in re.findall(r"[0-9?]+", date[:10]) if "?" not in part)
    names = [_name(white) or "white", "vs", _name(black) or "black"]
    return "-".join([*names, *([day] if day else []), digest[:12]])


def _name(player: str | None) -> str:
    return slug((player or "")[:200], _NAME_LENGTH)
