"""Verification in SQL (``sql/verification.sql``): what anyone at a psql prompt checks the log with.

``select * from verification`` gives one row for each world, ``select * from effect_verification where world_id = …
and problem is not null`` every effect that does not hold, and ``request_verification`` every request. What they find
and what they cannot is in docs/reference/verification.md; the pure library says the same of exported bytes.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

from worldledger.canonical import canonical_json
from worldledger.effects import DIGEST_KIND, RESERVED_NAMES, RESERVED_PREFIXES, SERVICE_SOURCE
from worldledger.genesis import ENVELOPE, GENESIS_KIND, OPTIONAL, REQUIRED, ROUNDINGS
from worldledger.log_rules import IN_OTHER_NAMES, PREFIX_IN_OTHER_NAMES, RERUN_PREFIX
from worldledger_service.database import guards

#: What the view does not see, for its comments.
NOT_SEEN: Final = (
    "Not looked at, for it would cost more than all the rest: that no uuid stands twice, which JSON type the values of "
    "other fields than uuid, sim_time, wall_time and caused_by have, and that texts are canonical. "
    "`worldledger verify` sees the first, `verify --full` all."
)


def _names(names: Iterable[str]) -> str:
    return ", ".join(f"'{name}'" for name in sorted(names))


#: Whether a kind is one that the service alone may write.
_OF_SERVICE: Final = " or ".join(
    [
        *(f"starts_with(kind, '{prefix}')" for prefix in RESERVED_PREFIXES if prefix != PREFIX_IN_OTHER_NAMES),
        f"kind in ({_names(RESERVED_NAMES)})",
    ]
)
#: The fields of a genesis' payload as rows: name, whether each genesis has it, the JSON types of its values.
_GENESIS_FIELDS: Final = ", ".join(
    f"('{name}', {str(fields is REQUIRED).lower()}, array[{', '.join(map(repr, types))}])"
    for fields in (REQUIRED, OPTIONAL)
    for name, types in fields.items()
)
#: Whether the effect of a genesis has something else in one of its other fields.
_NOT_AS_WRITTEN: Final = " or ".join(
    f"genesis ->> '{name}' is not null"
    if value is None
    else f"(genesis -> '{name}')::text is distinct from '{canonical_json(value).decode()}'"
    for name, value in ENVELOPE.items()
)


def statements() -> list[str]:
    """Return the statements that make them, say what they are, and let the roles use them."""
    return guards.statements(
        "verification",
        genesis_kind=GENESIS_KIND,
        genesis_fields=_GENESIS_FIELDS,
        not_as_written=_NOT_AS_WRITTEN,
        envelope=", ".join(ENVELOPE),
        digest_kind=DIGEST_KIND,
        service_source=SERVICE_SOURCE,
        of_service=_OF_SERVICE,
        in_other_names=_names(IN_OTHER_NAMES),
        prefix_in_other_names=PREFIX_IN_OTHER_NAMES,
        rerun_prefix=RERUN_PREFIX,
        roundings=str(ROUNDINGS),
        not_seen=NOT_SEEN,
    )
