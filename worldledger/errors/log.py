"""The errors of drafts, worlds, recorded files and the database."""

from __future__ import annotations

from typing import Any, ClassVar

from worldledger.errors.base import RecoveryAction, SimulationError

# -- drafts -------------------------------------------------------------------------------------------------


class InvalidEffectError(SimulationError):
    """A draft that the write gate refuses; details: ``path`` (JSON path), ``index`` when it came in a list."""

    code = "invalid_effect"
    recovery = RecoveryAction.MODIFY_INTENT
    #: The name of the refused thing in the message.
    what: ClassVar[str] = "draft"

    def __init__(self, reason: str, path: str = "$", index: int | None = None, **details: Any) -> None:
        where = path if index is None else f"{self.what} {index}, {path}"
        super().__init__(f"{where}: {reason}", path=path, index=index, **details)
        self.reason = reason
        self.path = path
        self.index = index

    def at(self, index: int) -> InvalidEffectError:
        """Return the same refusal, naming the draft's place in its list."""
        rest = {name: value for name, value in self.details.items() if name not in {"path", "index"}}
        return type(self)(self.reason, self.path, index, **rest)


class EffectTooLargeError(InvalidEffectError):
    """An effect whose canonical text is over the size limit (1 MiB unless settings say otherwise)."""

    code = "effect_too_large"


class ReservedKindError(InvalidEffectError):
    """A client posted one of the system kinds, or the service's own source_id, which only the service writes."""

    code = "reserved_kind"


class IllegalEffectError(InvalidEffectError):
    """A draft that the world's ruleset refuses; details: ``rule``, a name that stays the same, ``path``, ``index``."""

    code = "illegal_effect"

    def __init__(
        self, reason: str, path: str = "$.payload", index: int | None = None, *, rule: str, **details: Any
    ) -> None:
        super().__init__(reason, path, index, rule=rule, **details)


class InvalidNameError(SimulationError):
    """A world name outside the allowed set of characters."""

    code = "invalid_name"
    recovery = RecoveryAction.MODIFY_INTENT


class TimeAuthorityError(SimulationError):
    """A draft that sets sim_time in a world where its source may not."""

    code = "time_authority"
    recovery = RecoveryAction.MODIFY_INTENT


class TimeAuthorityHeldError(TimeAuthorityError):
    """Another adapter has the time authority, and is not silent; details: ``time_authority``."""

    code = "time_authority_held"
    recovery = RecoveryAction.RETRY_WITH_DELAY


class AuthoritySilentError(SimulationError):
    """The adapter that has the time authority is silent, so no tick can be waited for.

    Details: ``time_authority``, ``last_tick_seq``, ``reason``. A tick ends it, or another authority.
    """

    code = "authority_silent"
    recovery = RecoveryAction.RETRY_WITH_DELAY


class SimTimeOrderError(SimulationError):
    """A draft whose sim_time is lower than the world's; details: ``expected_min``, ``sim_time``."""

    code = "sim_time_order"
    recovery = RecoveryAction.MODIFY_INTENT


class RequestConflictError(SimulationError):
    """A req_id that was used before, with another body; details: ``req_id``, ``global_seq`` of the first."""

    code = "request_conflict"
    recovery = RecoveryAction.MODIFY_INTENT


# -- worlds and rulesets -----------------------------------------------------------------------------------


class WorldNotFoundError(SimulationError):
    """No world of that name in this database.

    Details: ``near``, similar names among the 200 before and the 200 after it in the order of names.
    """

    code = "world_not_found"


class EffectNotFoundError(SimulationError):
    """The world has no effect with that global_seq; details: ``head_seq``."""

    code = "effect_not_found"


class MomentNotFoundError(SimulationError):
    """The world has no such moment: before its first effect, or beyond its head; details: ``head_seq``."""

    code = "moment_not_found"


class NotComparableError(SimulationError):
    """Worlds that cannot be compared as asked: of different kinds, too few or too many, by a unit that they lack.

    Details: ``path`` of a path that cannot be read, ``by`` of an unknown unit, ``rulesets`` of the worlds.
    """

    code = "not_comparable"
    recovery = RecoveryAction.MODIFY_INTENT


class WorldExistsError(SimulationError):
    """A world of that name is already there."""

    code = "world_exists"


class ParentMissingError(SimulationError):
    """A fork goes on from an effect of its parent that is not in this database; details: ``parent``, ``global_seq``."""

    code = "parent_missing"


class RerunConflictError(SimulationError):
    """Somebody else wrote to a fork while it was run on."""

    code = "rerun_conflict"
    recovery = RecoveryAction.RETRY


class UnknownRulesetError(SimulationError):
    """A world names a ruleset that is not installed; details: ``known``."""

    code = "unknown_ruleset"
    recovery = RecoveryAction.MODIFY_INTENT


class InvalidKindError(SimulationError):
    """An installed kind of worlds cannot be used; the message says why. Details: ``kind``, ``part``."""

    code = "invalid_kind"


class InvalidConfigError(SimulationError):
    """A world's configuration that its ruleset or the write gate refuses; details: ``path``."""

    code = "invalid_config"
    recovery = RecoveryAction.MODIFY_INTENT


# -- recorded files ----------------------------------------------------------------------------------------


class FileRefusedError(SimulationError):
    """A file with invalid contents; details: ``file``, ``line``, ``game``."""

    code = "file_refused"

    def __init__(self, reason: str, *, file: str, line: int | None = None, **details: Any) -> None:
        place = file if line is None else f"{file}:{line}"
        super().__init__(f"{place}: {reason}", file=file, line=line, **details)
        self.reason = reason


class TamperedError(SimulationError):
    """The chain does not hold; details: ``world_id``, ``global_seq``, ``what``."""

    code = "tampered"


class FoldError(SimulationError):
    """A ruleset failed on an effect, so the world has no state from there on; details: ``world_id``, ``global_seq``."""

    code = "fold_failed"


# -- the database ------------------------------------------------------------------------------------------


class StoreUnavailableError(SimulationError):
    """The database cannot be reached, refuses the login, is read-only or has no room.

    After an append the outcome may be unknown (``outcome``); retrying with the same req_id is safe. ``retry_after_s``:
    seconds after which to do so.
    """

    code = "store_unavailable"
    recovery = RecoveryAction.RETRY_WITH_DELAY


class SchemaVersionError(SimulationError):
    """The database's schema is older or newer than this program; the message says what to run."""

    code = "schema_version"


class EmbeddedServerError(SimulationError):
    """The embedded PostgreSQL could not be set up, started or reached; the message says why and what to do."""

    code = "embedded_server"


class OverloadedError(SimulationError):
    """More appends, bodies of requests or connections wait than the configured limit allows."""

    code = "overloaded"
    recovery = RecoveryAction.RETRY_WITH_DELAY


class ExtraMissingError(SimulationError):
    """A package is needed that only an extra installs; details: ``package``, ``extra``."""

    code = "extra_missing"

    @classmethod
    def of(cls, package: str, extra: str) -> ExtraMissingError:
        """Make the error of a package that an extra would install."""
        what = f"{package} is not installed here; it comes with: pip install 'worldledger[{extra}]'"
        return cls(what, package=package, extra=extra)


class RateLimitedError(SimulationError):
    """An address has sent too many requests; details: ``limit``, ``window_s``, ``retry_after_s``.

    At most ``limit`` requests are accepted within ``window_s`` seconds, and the next one after ``retry_after_s``. A
    refused request has no effect.
    """

    code = "rate_limited"
    recovery = RecoveryAction.RETRY_WITH_DELAY


# -- errors of SQL queries: refused ones, and those that take too long ------------------------------------------


class QueryRefusedError(SimulationError):
    """A query that cannot be run; details: ``sqlstate``, ``position``, ``line``, ``column``, ``hint``, ``parameter``.

    ``position`` is the character of the query, from 1 on, at which the error is; ``line`` and ``column`` say the same.
    They are set if the database reports them, and ``parameter`` if the value of a parameter is at fault.
    """

    code: ClassVar[str] = "query_refused"
    recovery = RecoveryAction.MODIFY_INTENT


class QueryTimeoutError(SimulationError):
    """A query that did not end within its time; details: ``timeout_s``."""

    code: ClassVar[str] = "query_timeout"
    recovery = RecoveryAction.MODIFY_INTENT

    def __init__(self, timeout_s: float, message: str = "") -> None:
        what = (
            f"the query was stopped after {timeout_s:g} s: ask for less (one world, one experiment), or allow more time"
        )
        super().__init__(message or what, timeout_s=timeout_s)


class UnknownQueryError(SimulationError):
    """There is no named query of this name; details: ``name``, ``known``."""

    code: ClassVar[str] = "unknown_query"

    def __init__(self, name: str, known: list[str], **details: Any) -> None:
        super().__init__(f"there is no query {name!r}; there are {', '.join(known)}", name=name, known=known, **details)
