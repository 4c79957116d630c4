"""``worldledger verify``: find whatever in the log was changed."""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import AsyncIterator, Callable
from typing import TYPE_CHECKING, Annotated, Any

import typer

from service.cli.connect import target, with_store
from service.cli.import_log import check, opened
from service.cli.options import DatabaseUrl, Home, Json, Quiet, examples
from service.cli.output import json_list, put, say
from service.cli.progress import Tell, progress_bar
from worldledger.errors import FileRefusedError

if TYPE_CHECKING:
    from service.store import Store
    from worldledger.chain import Position, Verdict

EXAMPLES = examples(
    "worldledger verify --all",
    "worldledger verify my-world --head 120:6f2c…   (as an earlier run printed it)",
    "worldledger verify my-world --from 120:6f2c…   (only what came since)",
    "worldledger verify --file my-world.ndjson",
)

#: Worlds that are verified at the same time: while one is computed, the others' rows are on their way.
_AT_ONCE = 4


def command(
    ctx: typer.Context,
    worlds: Annotated[
        list[str] | None, typer.Argument(metavar="WORLD", help="Worlds' names.", show_default=False)
    ] = None,
    every: Annotated[bool, typer.Option("--all", help="Verify every world of the database.")] = False,
    heads: Annotated[
        list[str] | None,
        typer.Option(
            "--head",
            metavar="SEQ:CHECKSUM",
            help="A head noted earlier, through which the chain must pass; may be given several times.",
            show_default=False,
        ),
    ] = None,
    start: Annotated[
        str | None,
        typer.Option(
            "--from", metavar="SEQ:CHECKSUM", help="A position known to be good: look only at what came since."
        ),
    ] = None,
    file: Annotated[
        str | None,
        typer.Option("--file", metavar="FILE", help="Verify an exported file instead, without any database."),
    ] = None,
    as_json: Json = False,
    quiet: Quiet = False,
    database_url: DatabaseUrl = None,
    home: Home = None,
) -> None:
    """Verify worlds: every link of the chain, every query column, the genesis and the head.

    The exit code is 0 if everything holds, 1 if something was tampered with (world, seq and what differs are
    named), 2 if a check could not be run. Keep what is printed as head elsewhere: given as --head later, it finds
    even a log that was rewritten or cut off as a whole.
    """
    from worldledger.chain import ORIGIN, Position  # noqa: PLC0415

    names = list(dict.fromkeys(worlds or []))
    _check_usage(names, every=every, noted=bool(heads or start), start=start, file=file)
    noted = [Position.parse(head) for head in heads or []]
    trusted = ORIGIN if start is None else Position.parse(start)
    where = target(ctx, database_url, home)
    if file is not None:
        _verify_file(
            file, noted, max_effect_bytes=where.settings.max_effect_bytes, as_json=as_json, quiet=quiet or as_json
        )
        return
    with progress_bar("verifying", quiet=quiet or as_json) as tell:
        run = _Run(names, noted, trusted, tell)
        if as_json:
            with json_list() as item:
                with_store(where, lambda store: run.verify(store, lambda verdict: item(_object(verdict))))
        else:
            with_store(where, lambda store: run.verify(store, lambda verdict: put(_sentence(verdict, trusted))))
    if every and run.count == 0 and not quiet:
        say("there are no worlds to verify")
    if run.code:
        raise typer.Exit(run.code)


def _check_usage(names: list[str], *, every: bool, noted: bool, start: str | None, file: str | None) -> None:
    if sum((bool(names), every, file is not None)) != 1:
        raise typer.BadParameter("name the worlds to verify, or give --all, or --file FILE")
    if noted and (every or len(names) > 1):
        raise typer.BadParameter("--head and --from are about one world: name just that one")
    if start is not None and file is not None:
        raise typer.BadParameter("a file is always verified as a whole: --from is of no use with --file")


class _Run:
    """Verifies worlds, a few at a time, and tells the verdicts in the order of the worlds."""

    def __init__(self, names: list[str], noted: list[Position], start: Position, tell: Tell) -> None:
        self._names = names
        self._noted = noted
        self._start = start
        self._tell = tell
        self._done: dict[str, int] = {}
        self._total = 0
        self.count = 0
        self.code = 0

    async def verify(self, store: Store, put_verdict: Callable[[Verdict], None]) -> None:
        from service.store.verification import every_world  # noqa: PLC0415

        names = self._names or [name async for name in every_world(store.reader)]
        self._total = sum((await store.reader.head_seqs(names)).values()) - self._start.global_seq
        async for verdict in self._verdicts(store, names):
            self.count += 1
            if verdict is None:
                self.code = self.code or 2
            else:
                put_verdict(verdict)
                if not verdict.verified:
                    self.code = 1

    async def _verdicts(self, store: Store, names: list[str]) -> AsyncIterator[Verdict | None]:
        running: deque[asyncio.Task[Verdict | None]] = deque()
        try:
            for name in names:
                running.append(asyncio.create_task(self._verdict(store, name)))
                if len(running) == _AT_ONCE:
                    yield await running.popleft()
            while running:
                yield await running.popleft()
        finally:
            for task in running:
                task.cancel()
            await asyncio.gather(*running, return_exceptions=True)

    async def _verdict(self, store: Store, name: str) -> Verdict | None:
        """Verify one world; None if there is no such world."""
        from service.store.verification import verify_world  # noqa: PLC0415
        from worldledger.errors import InvalidNameError, WorldNotFoundError  # noqa: PLC0415

        try:
            return await verify_world(
                store.reader,
                name,
                start=self._start,
                noted=self._noted,
                progress=lambda done, _: self._advance(name, done),
            )
        except (InvalidNameError, WorldNotFoundError) as error:
            say(error.message)
            return None

    def _advance(self, name: str, done: int) -> None:
        self._done[name] = done
        checked = sum(self._done.values())
        self._tell(checked, self._total, f"{checked} effects")


def _sentence(verdict: Verdict, start: Position) -> str:
    if verdict.finding is not None:
        return f"TAMPERED {verdict.world_id} at seq {verdict.finding.global_seq}: {verdict.finding.what}"
    since = f" since seq {start.global_seq}" if start.global_seq else ""
    return f"verified {verdict.world_id} {verdict.effects} effects{since}, head {verdict.position}"


def _object(verdict: Verdict) -> dict[str, Any]:
    finding = verdict.finding
    return {
        "world_id": verdict.world_id,
        "verified": verdict.verified,
        "effects": verdict.effects,
        "head_seq": verdict.position.global_seq,
        "head_checksum": verdict.position.checksum.hex(),
        "position": str(verdict.position),
        "finding": None if finding is None else {"global_seq": finding.global_seq, "what": finding.what},
    }


# -- files ---------------------------------------------------------------------------------------------------


def _verify_file(file: str, noted: list[Position], *, max_effect_bytes: int, as_json: bool, quiet: bool) -> None:
    """Verify an export; a refused file is a finding, one that cannot be read is not."""
    try:
        with opened(file) as stream:
            checked = check(stream, file, noted=noted, max_effect_bytes=max_effect_bytes, quiet=quiet)
    except FileRefusedError as error:
        line = error.details.get("line")
        if line is None:
            raise
        if as_json:
            seq = error.details.get("global_seq")
            finding = {"line": line, "global_seq": seq, "what": error.reason}
            with json_list() as item:
                item({"file": file, "world_id": error.details.get("world_id"), "verified": False, "finding": finding})
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
                    "position": str(head),
                    "finding": None,
                }
            )
    else:
        put(f"verified {file}: {checked.world.world_id} {checked.trailer.count} effects, head {head}")


def _verdict(error: FileRefusedError) -> str:
    place = f"{error.details['file']} at line {error.details['line']}"
    world_id = error.details.get("world_id")
    return f"REFUSED {place}" if world_id is None else f"TAMPERED {place} (world {world_id})"
