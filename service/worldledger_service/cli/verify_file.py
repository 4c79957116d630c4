"""``worldledger verify --file``: an export is checked without any database."""

from __future__ import annotations

from typing import TYPE_CHECKING

import typer

from worldledger.errors import FileRefusedError
from worldledger_service.cli.import_log import check, opened
from worldledger_service.cli.output import json_list, put

if TYPE_CHECKING:
    from worldledger.chain import Position

#: What is not told of a file that does not hold.
_UNKNOWN = dict.fromkeys(("effects", "head_seq", "head_checksum", "verified_through", "position"))


def verify_file(file: str, noted: list[Position], *, max_effect_bytes: int, as_json: bool, quiet: bool) -> None:
    """Verify an export; a refused file is a finding, one that cannot be read or checked is not.

    Raises typer.Exit for the one, FileRefusedError for the other.
    """
    from worldledger.exports import MAX_LINE  # noqa: PLC0415

    limit = max(max_effect_bytes, MAX_LINE)  # how large effects may be is up to whoever wrote them
    try:
        with opened(file) as stream:
            checked = check(stream, file, noted=noted, max_effect_bytes=limit, quiet=quiet or as_json)
    except FileRefusedError as error:
        line = error.details.get("line")
        if line is None:
            raise
        if error.details.get("unchecked"):
            raise FileRefusedError(f"could not check: {error.reason}", file=file, line=line) from None
        if as_json:
            seq = error.details.get("global_seq")
            finding = {"line": line, "global_seq": seq, "what": error.reason}
            world_id = error.details.get("world_id")
            with json_list() as item:
                item({"file": file, "world_id": world_id, "verified": False, **_UNKNOWN, "finding": finding})
        else:
            put(f"{_verdict(error)}: {error.reason}")
        raise typer.Exit(1) from None
    head = checked.trailer.head
    if as_json:
        with json_list() as item:
            item(
                {
                    "file": file,
                    "world_id": checked.world.world_id,
                    "verified": True,
                    "effects": checked.trailer.count,
                    "head_seq": head.global_seq,
                    "head_checksum": head.checksum.hex(),
                    "verified_through": head.global_seq,
                    "position": str(head),
                    "finding": None,
                }
            )
    elif not quiet:
        put(f"verified {file}: {checked.world.world_id} {checked.trailer.count} effects, head {head}")


def _verdict(error: FileRefusedError) -> str:
    place = f"{error.details['file']} at line {error.details['line']}"
    world_id = error.details.get("world_id")
    return f"REFUSED {place}" if world_id is None else f"TAMPERED {place} (world {world_id})"
