"""A database address as people write it (``postgresql://…``), taken apart without ever showing its password."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Final
from urllib.parse import parse_qs, parse_qsl, quote, unquote, urlencode, urlsplit

#: What an address looks like, for messages.
EXPECTED_FORM = "postgresql://user:password@host:5432/database or postgresql://user@/database?host=/socket/folder"

#: The largest number that a port can have.
MOST_PORT: Final = 65535

_PORT = re.compile(r":([0-9]+)$")
_SCHEMES = frozenset({"postgresql", "postgres"})


@dataclass(frozen=True)
class Address:
    """The parts of an address that may be shown to people; a part that the address leaves open is None."""

    user: str | None = None
    host: str | None = None
    port: int | None = None
    database: str | None = None

    def __str__(self) -> str:
        what = f"database {self.database!r}" if self.database else "the database"
        place = self.host or "the local server"
        if self.port is not None:
            place = f"{place} port {self.port}" if place.startswith("/") else f"{place}:{self.port}"
        return f"{what} at {place}" + (f" as user {self.user!r}" if self.user else "")


def parse_address(url: str) -> Address | None:
    """Take an address apart, or give None where it is none.

    A reserved character that was not percent-encoded in a password shifts the borders of the parts, so
    that a piece of the password would be shown as a port or a host: such an address counts as none.
    """
    try:
        parts = urlsplit(url)
        port = parts.port
    except ValueError:
        return None
    if parts.scheme not in _SCHEMES or "@" in parts.path + parts.query + parts.fragment:
        return None
    query = {name: values[-1] for name, values in parse_qs(parts.query).items()}
    if port is None and query.get("port", "").isdigit():
        port = int(query["port"])
    return Address(
        user=unquote(parts.username) if parts.username else query.get("user"),
        host=unquote(parts.hostname) if parts.hostname else query.get("host"),
        port=port,
        database=unquote(parts.path[1:]) or query.get("dbname") or query.get("database"),
    )


def wrong_port(url: str) -> str | None:
    """Return the first port of an address that is none; None where all may be, or where it is not even an address.

    A connection to it would go to another port, with the number's lower 16 bits.
    """
    try:
        parts = urlsplit(url)
    except ValueError:
        return None
    if parts.scheme not in _SCHEMES or "@" in parts.path + parts.query + parts.fragment:
        return None
    places = parts.netloc.rpartition("@")[2].split(",")
    found = [match[1] for place in places if (match := _PORT.search(place))]
    found += ",".join(parse_qs(parts.query).get("port", [])).split(",")
    return next((port for port in found if port.isdecimal() and not 0 < int(port[:6]) <= MOST_PORT), None)


def split_password(url: str) -> tuple[str, str | None]:
    """Return an address without its password, and the password, so that no list of processes shows it."""
    parts = urlsplit(url)
    query = parse_qsl(parts.query, keep_blank_values=True)
    password = next((value for name, value in query if name == "password"), None)
    login, at, place = parts.netloc.rpartition("@")
    user, colon, quoted = login.partition(":")
    if colon:
        password = unquote(quoted)
    # libpq takes a plus sign for what it is.
    rest = urlencode([pair for pair in query if pair[0] != "password"], safe="/", quote_via=quote)
    return f"{parts.scheme}://{user}{at}{place}{parts.path}{'?' if rest else ''}{rest}", password


def describe(url: str) -> str:
    """Say in words where an address leads, without its password."""
    return str(parse_address(url) or "the given address")
