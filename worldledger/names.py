"""Names: of worlds, made from words of users; of agents, compared after normalisation; of the columns of answers."""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Iterable, Iterator
from hashlib import sha256
from typing import Final
from unicodedata import normalize

from worldledger.errors import InvalidEffectError

#: Longest label of an experiment in a world's name.
_LABEL: Final = 40
_DIGITS: Final = 6


def slug(text: str, most: int | None = None) -> str:
    """Return the part of a text that fits into ``[a-z0-9-]``, at most this many characters; it may be empty."""
    plain = unicodedata.normalize("NFKD", text).encode("ascii", "ignore").decode().lower()
    return re.sub(r"[^a-z0-9]+", "-", plain).strip("-")[:most].rstrip("-")


def experiment_label(experiment: str) -> str:
    """Return the label of an experiment in its worlds' names, in ``[a-z0-9-]``.

    It is the experiment itself if that consists of these characters and is short, else a slug of it with some digits of
    its hash: two experiments never share a label.
    """
    found = slug(experiment)
    if found == experiment and len(found) <= _LABEL:
        return found
    digits = sha256(experiment.encode()).hexdigest()[:_DIGITS]
    return f"{found[: _LABEL - _DIGITS - 1].rstrip('-') or 'experiment'}-{digits}"


def labelled(name: str, experiment: str | None) -> str:
    """Return the name of an imported world, prefixed with its experiment's label if it has one."""
    return name if experiment is None else f"{experiment_label(experiment)}-{name}"


# -- names of agents: the same if they are equal after Unicode normalisation (form NFC, UAX #15) --------------------
#
# "Zoé" can be written with one code point for its last letter or with two, and looks the same. A world has only one of
# two such names; the second is refused on arrival. A log from before this rule that has both is folded as before.


def namesake(agent_id: str, names: Iterable[str]) -> str | None:
    """Return the first of these names that is another spelling of an agent's; None if there is none."""
    wanted = normalize("NFC", agent_id)
    # Most names are ASCII, which is its own normal form.
    for name in names:
        if (name == wanted if name.isascii() else normalize("NFC", name) == wanted) and name != agent_id:
            return name
    return None


def namesakes(names: Iterable[str]) -> Iterator[tuple[str, str]]:
    """Yield each name that is another spelling of an earlier one, with that one."""
    first: dict[str, str] = {}
    for name in names:
        known = first.setdefault(normalize("NFC", name), name)
        if known != name:
            yield name, known


def taken(agent_id: str, other: str) -> str:
    """Say that a name is another spelling of an agent's; both escaped, because they look the same."""
    return f"{agent_id!a} is the agent {other!a} in another Unicode form; both are one name after NFC"


def check_namesake(agent_id: str, names: Iterable[str]) -> None:
    """Raise InvalidEffectError if a new agent's name is another spelling of one of these; ``agent_id`` names it."""
    other = namesake(agent_id, names)
    if other is not None:
        raise InvalidEffectError(taken(agent_id, other), "$.agent_id", agent_id=other)


# -- the names of columns in answers whose rows are objects -----------------------------------------------


def unique_names(names: Iterable[str]) -> list[str]:
    """Return distinct names: a repeated one gets a number, ``n_2``, that no other name has."""
    names = list(names)
    own = set(names)
    found: dict[str, None] = {}
    for each in names:
        name, number = each, 1
        while name in found or (number > 1 and name in own):
            number += 1
            name = f"{each}_{number}"
        found[name] = None
    return list(found)
