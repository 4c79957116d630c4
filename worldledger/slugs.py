"""Names made of words that people chose: worlds are called so that they can be typed, and found among others."""

from __future__ import annotations

import re
import unicodedata
from hashlib import sha256
from typing import Final

#: Longest label of an experiment in a world's name.
_LABEL: Final = 40
_DIGITS: Final = 6


def slug(text: str, most: int | None = None) -> str:
    """Return what of a text can be written in ``[a-z0-9-]``, at most so many characters; of some it is nothing."""
    plain = unicodedata.normalize("NFKD", text).encode("ascii", "ignore").decode().lower()
    return re.sub(r"[^a-z0-9]+", "-", plain).strip("-")[:most].rstrip("-")


def experiment_label(experiment: str) -> str:
    """Return what stands for an experiment in its worlds' names, in ``[a-z0-9-]``.

    It is the experiment itself where that consists of these characters and is short, else a slug of it with some
    digits of its hash: two experiments never share a label.
    """
    found = slug(experiment)
    if found == experiment and len(found) <= _LABEL:
        return found
    digits = sha256(experiment.encode()).hexdigest()[:_DIGITS]
    return f"{found[: _LABEL - _DIGITS - 1].rstrip('-') or 'experiment'}-{digits}"


def labelled(name: str, experiment: str | None) -> str:
    """Return the name of an imported world, after its experiment's label where it has one."""
    return name if experiment is None else f"{experiment_label(experiment)}-{name}"
