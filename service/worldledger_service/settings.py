"""Every setting in one class. It is made once, where a program starts, and handed on; never at import.

Kinds of worlds may have settings of their own, in classes of their own.
"""

from __future__ import annotations

import ipaddress
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

from pydantic import Field, SecretStr, ValidationError, field_validator
from pydantic_settings import BaseSettings, PydanticBaseSettingsSource, SettingsConfigDict

from worldledger.errors import SimulationError

if TYPE_CHECKING:
    from limits import RateLimitItem

MIB = 1024 * 1024
#: Seconds for which those who wait for the database bear that it answers nobody.
DEFAULT_PATIENCE = 2.0
#: Bounds of a rate limit: requests, and seconds.
_MOST_REQUESTS = 1_000_000_000
_LONGEST_WINDOW = 86_400
#: What no number of a setting exceeds: beyond it, it would bound nothing, or the database would not take it.
_MOST = 1_000_000_000
_MOST_BYTES = 2**50

Seconds = Annotated[float, Field(gt=0, le=86_400)]
Amount = Annotated[int, Field(ge=1, le=_MOST)]
Bytes = Annotated[int, Field(ge=1024, le=_MOST_BYTES)]


def default_home() -> Path:
    """Return the folder of the embedded server when nobody names one."""
    return Path("~/.worldledger").expanduser()


def parse_rate_limit(text: str) -> RateLimitItem | None:
    """Read a rate limit such as ``100/minute`` or ``20 per 5 seconds``; ``off`` is None. Raises ValueError."""
    if text.strip().lower() == "off":
        return None
    from limits import parse_many  # noqa: PLC0415 - slow to load, and few programs need it

    try:
        (limit,) = parse_many(text)
    except ValueError:
        raise ValueError(f"{text!r} is no rate: say how many in how long, as 100/minute does, or off") from None
    if not (0 < limit.amount <= _MOST_REQUESTS and limit.get_expiry() <= _LONGEST_WINDOW):
        raise ValueError(f"{text!r}: a rate is from 1 to {_MOST_REQUESTS} requests in at most a day; or off")
    return limit


def refusal(error: ValidationError) -> SimulationError:
    """Return the sentence about the first setting that makes no sense."""
    first = error.errors(include_url=False, include_input=False)[0]
    name = str(first["loc"][0]) if first["loc"] else "?"
    return SimulationError(f"setting {name} (WORLDLEDGER_{name.upper()}): {first['msg']}", setting=name)


class Settings(BaseSettings):
    """Settings of the service and the command line, from ``WORLDLEDGER_…`` variables or arguments."""

    model_config = SettingsConfigDict(env_prefix="WORLDLEDGER_", extra="ignore", frozen=True)

    @classmethod
    def settings_customise_sources(
        cls,
        settings_cls: type[BaseSettings],
        init_settings: PydanticBaseSettingsSource,
        env_settings: PydanticBaseSettingsSource,
        dotenv_settings: PydanticBaseSettingsSource,
        file_secret_settings: PydanticBaseSettingsSource,
    ) -> tuple[PydanticBaseSettingsSource, ...]:
        """Look at arguments and variables alone: to look for each setting in files that there are not takes as long."""
        return init_settings, env_settings

    database_url: SecretStr | None = Field(
        default=None, description="An existing PostgreSQL (15 or newer); without it the embedded server is used."
    )
    home: Path = Field(default_factory=default_home, description="Folder of the embedded server and its data.")
    host: str = Field(default="127.0.0.1", description="Address the HTTP service listens on.")
    allowed_hosts: str | None = Field(
        default=None,
        description="Further names by which the HTTP service may be called, separated by commas; `*` allows any.",
    )
    port: int = Field(default=8000, ge=0, le=65535, description="Port of the HTTP service; 0 takes a free one.")

    rate_limit: str = Field(
        default="100/minute",
        validate_default=False,  # the library that reads rates is slow to load, and this one is right
        description="Requests that one IP address may make, such as `100/minute` or `20 per 5 seconds`; `off` for any "
        "number.",
    )
    rate_limit_blocks: str = Field(
        default="3000/minute",
        validate_default=False,
        description="The same for what a viewer asks for often, which counts apart: frames, density, and pages of "
        "effects.",
    )
    rate_limit_loopback: bool = Field(
        default=False, description="Whether requests from this machine itself (`127.0.0.1`, `::1`) are limited, too."
    )
    forwarded_allow_ips: str = Field(
        default="127.0.0.1,::1",
        description="Proxies that are believed when they say (`X-Forwarded-For`) whose request they hand on: addresses "
        "and networks, separated by commas; `*` believes anybody, nothing at all nobody.",
    )

    max_header_bytes: Bytes = Field(default=64 * 1024, description="Largest header of an HTTP request.")
    header_timeout: Seconds = Field(default=10.0, description="Seconds in which the header of a request has to come.")
    body_timeout: Seconds = Field(
        default=10.0,
        description="Seconds in which 1 KiB of a request's body has to come, or the rest of it.",
    )
    keep_alive: Seconds = Field(default=75.0, description="Seconds that a connection is kept for another request.")
    max_connections_per_address: Amount = Field(
        default=64,
        description="Most connections of one IP address without a complete request; this machine's, those of "
        "`WORLDLEDGER_FORWARDED_ALLOW_IPS` and WebSockets are exempt.",
    )
    max_connections: Amount = Field(
        default=1000, description="Most connections without a complete request in all; WebSockets are exempt."
    )
    max_bodies_bytes: Bytes = Field(
        default=64 * MIB,
        description="Most bytes that the bodies of all requests under way may have together; at least one of "
        "`WORLDLEDGER_MAX_BODY_BYTES` always fits.",
    )

    pool_size: int = Field(
        default=10,
        ge=2,
        le=500,
        description="Most database connections of one process; projections take up to 8 more, Arrow and SQL 4 each.",
    )
    max_effect_bytes: Bytes = Field(default=MIB, description="Largest canonical text of one effect.")
    max_unit: Amount = Field(default=1000, description="Most drafts in one call.")
    max_body_bytes: Bytes = Field(default=32 * MIB, description="Largest HTTP request body.")
    max_body_values: int = Field(
        default=512 * 1024, ge=1024, le=_MOST, description="Most JSON values in an HTTP request body."
    )
    max_waiting: Amount = Field(default=50_000, description="Most effects that may wait for their commit.")
    max_waiting_bytes: Bytes = Field(default=256 * MIB, description="Most payload bytes that may wait.")
    max_group: Amount = Field(default=1000, description="Most effects written by one statement.")
    append_deadline: Seconds = Field(
        default=15.0, description="Seconds an append is retried while the database is away."
    )
    outage_patience: float = Field(
        default=DEFAULT_PATIENCE,
        gt=0,
        le=3600,
        description="Seconds for which callers wait for a database that answers nobody; then they are told to come "
        "again (503), and what they have begun goes on without them.",
    )
    command_timeout: Seconds = Field(default=60.0, description="Seconds one database statement may take.")
    page_limit: Amount = Field(default=1000, description="Most items in one page of an answer.")
    read_batch_bytes: Bytes = Field(default=4 * MIB, description="Stored bytes held by one reader at a time.")
    poll_interval: Seconds = Field(
        default=0.1, description="Seconds between looks at heads that other processes may have moved."
    )
    snapshot_every: int = Field(
        default=1000, ge=2, le=_MOST, description="Effects between two snapshots of a world's state, at least."
    )
    snapshots_kept: int = Field(
        default=2000, ge=10, le=_MOST, description="Most snapshots of one world; older ones are thinned."
    )
    sql_timeout: Seconds = Field(
        default=30.0,
        description="Seconds of the database that one question in SQL over HTTP may take.",
    )
    sql_max_rows: Amount = Field(default=1_000_000, description="Most rows that such a question is answered with.")
    projections: bool = Field(default=True, description="Whether the HTTP service also feeds the projections.")
    own_projections: str = Field(
        default="",
        description="Projections of your own besides those of installed packages, as `module:Class`, separated by "
        "commas.",
    )
    projection_lease_ttl: Seconds = Field(
        default=5.0, description="Seconds without a sign of life after which another runner feeds a projection."
    )
    live_states: Amount = Field(
        default=256, description="Most worlds whose state one process keeps in memory to judge drafts by."
    )
    live_state_bytes: int = Field(
        default=128 * 1024 * 1024,
        ge=1,
        le=_MOST_BYTES,
        description="Most bytes of such states, as text; in memory they take some two to four times as much.",
    )

    @field_validator("rate_limit", "rate_limit_blocks")
    @classmethod
    def _is_a_rate(cls, text: str) -> str:
        parse_rate_limit(text)
        return text

    @field_validator("forwarded_allow_ips")
    @classmethod
    def _are_addresses(cls, text: str) -> str:
        if text.strip() == "*":
            return "*"
        for each in filter(None, map(str.strip, text.split(","))):
            try:
                ipaddress.ip_network(each)
            except ValueError:
                raise ValueError(f"{each!r} is neither an address nor a network such as 10.0.0.0/8") from None
        return text
