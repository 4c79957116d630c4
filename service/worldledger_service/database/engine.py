"""Connections: whatever user an address names, the work is done under the role that fits it."""

from __future__ import annotations

from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager, suppress
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any, Final

import asyncpg

from worldledger_service.database.failures import FOREIGN, check_port, connecting
from worldledger_service.database.guards import SERVICE_ROLE

if TYPE_CHECKING:
    from asyncpg.pool import PoolConnectionProxy

    Connection = asyncpg.Connection[asyncpg.Record]
    PooledConnection = PoolConnectionProxy[asyncpg.Record]
    Pool = asyncpg.Pool[asyncpg.Record]

#: Seconds to wait for a connection to come up.
CONNECT_TIMEOUT: Final = 10.0

APPLICATION_NAME: Final = "worldledger"

#: How long a session may be silent: idle inside a transaction (ms), and not answering at all (s).
_NOT_FOR_LONG: Final = {
    "idle_in_transaction_session_timeout": "5000",
    "tcp_keepalives_idle": "10",
    "tcp_keepalives_interval": "5",
    "tcp_keepalives_count": "3",
}


#: Settings by which statements mean what they say, and answers are written as they are expected, whatever an address,
#: a database or a role has of its own. By PostgreSQL's default a schema named like the role goes before schema public:
#: what somebody has put there must not stand in for the program's tables.
AS_WRITTEN: Final = {
    "search_path": "public",
    "standard_conforming_strings": "on",
    "quote_all_identifiers": "off",
    "bytea_output": "hex",
    "extra_float_digits": "1",
}


#: Types with lower numbers are PostgreSQL's own, and have the same numbers in every database of every version.
_FIRST_UNFIXED_OID: Final = 10_000
#: What was asked about such types, and the answer.
_KNOWN_TYPES: Final[dict[frozenset[int], Any]] = {}


class _Connection(asyncpg.Connection):
    """A connection that does not ask what another one of this process knows: PostgreSQL's own types, such as bigint[].

    asyncpg asks on each connection that first needs one, which takes the server longer than beginning the session did.
    """

    async def _introspect_types(self, typeoids: Sequence[int], timeout: float | None) -> tuple[Any, Any]:
        asked = frozenset(typeoids)
        if asked in _KNOWN_TYPES:
            return _KNOWN_TYPES[asked], SimpleNamespace(name="no statement was sent")
        types, statement = await super()._introspect_types(typeoids, timeout)  # type: ignore[misc]
        if max(asked) < _FIRST_UNFIXED_OID:
            _KNOWN_TYPES[asked] = types
        return types, statement


class _KeptConnection(_Connection):
    """A connection that a pool takes back as it is: cleaning it would be a round trip for each use."""

    def get_reset_query(self) -> str:
        """Return no statement."""
        return ""


def _settings(role: str | None, application_name: str) -> dict[str, str]:
    # As a startup parameter the role holds for the whole session: the RESET ALL by which a pool cleans a
    # connection leaves it alone, and RESET ROLE comes back to it.
    #
    # A process that falls silent in the middle of a transaction (a lost network, a stopped machine) must not hold the
    # lock of a world's head: after a few seconds the server ends its session.
    #
    # Where there is none, a role that a database or login has among its settings is not meant either.
    return {"application_name": application_name, **AS_WRITTEN, **_NOT_FOR_LONG, "role": role or "none"}


async def connect_pool(
    url: str,
    *,
    role: str = SERVICE_ROLE,
    min_size: int = 1,
    max_size: int = 10,
    command_timeout: float | None = 60.0,
    application_name: str = APPLICATION_NAME,
    cleaned: bool = True,
) -> Pool:
    """Open a pool whose every connection works under ``role``.

    Args:
        url: ``postgresql://…``; its user must be a member of the role (or a superuser).
        role: the role that all statements run as.
        min_size: connections opened now, so that a wrong address fails here (at least 1).
        max_size: connections at most.
        command_timeout: seconds that one statement may take; None for no limit.
        application_name: how the connections show in pg_stat_activity.
        cleaned: whether settings, locks and cursors of a session end when its connection is given back, which takes a
            round trip each time. A transaction that is still open is rolled back in any case.

    Raises:
        StoreUnavailableError: the server cannot be reached or refuses the login, or the user is no member.
        SchemaVersionError: the role does not exist yet: the database was never migrated.
    """
    check_port(url)
    with connecting(url):
        return await asyncpg.create_pool(
            url,
            min_size=max(1, min_size),
            max_size=max(1, min_size, max_size),
            command_timeout=command_timeout,
            timeout=CONNECT_TIMEOUT,
            server_settings=_settings(role, application_name),
            connection_class=_Connection if cleaned else _KeptConnection,
        )


async def connect_one(url: str, *, role: str | None = None, application_name: str = APPLICATION_NAME) -> Connection:
    """Open one connection, under ``role`` or as the user of the address. Raises as ``connect_pool`` does."""
    check_port(url)
    with connecting(url):
        return await asyncpg.connect(
            url,
            timeout=CONNECT_TIMEOUT,
            server_settings=_settings(role, application_name),
            connection_class=_Connection,
        )


@asynccontextmanager
async def transaction(connection: Connection | PooledConnection) -> AsyncIterator[None]:
    """Run a block in a transaction (inside another: a savepoint).

    asyncpg's own block, on a connection that was lost, raises that it cannot roll back; here the error that ended the
    block is what comes out of it.
    """
    block = connection.transaction()
    await block.start()
    try:
        yield
    except BaseException:
        with suppress(*FOREIGN):
            await block.rollback()
        raise
    await block.commit()
