"""Stored effects, read in order to show them."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from worldledger.chain import StoredEffect


def read_effect(world_id: str, row: StoredEffect) -> dict[str, Any]:
    """Read a stored effect's text. Raises TamperedError where it is no object; what it has in it is not looked at."""
    import orjson  # noqa: PLC0415 - slow to load; `--help` needs none of them

    from worldledger.chain import Finding  # noqa: PLC0415

    effect = orjson.loads(row.text)
    if isinstance(effect, dict):
        return effect
    raise Finding(world_id, row.global_seq, "the stored text is not an effect").error()
