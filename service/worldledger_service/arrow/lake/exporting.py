"""An export into a lake: the news in the logs of its worlds, and the views over them."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from contextlib import aclosing
from datetime import UTC, datetime
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from worldledger.aio import until_done
from worldledger.errors import SimulationError, TamperedError, WorldNotFoundError
from worldledger.near import meant, near
from worldledger_service.arrow.choosing import ChosenWorld, WorldSpan, check
from worldledger_service.arrow.connections import Connections, Session, literal
from worldledger_service.arrow.lake.effects import EffectFiles
from worldledger_service.arrow.lake.folder import Choice, LakeFolder, LakeView, LakeWorld, Manifest, Part, opened
from worldledger_service.arrow.lake.views import Sources, ViewOfDatabase, in_parallel, views_of, write_news, write_whole
from worldledger_service.arrow.reading import Effects

if TYPE_CHECKING:
    from worldledger_service.store import Store

#: Called with the number of effects written, and the number to write.
Progress = Callable[[int, int], None]
#: Returns the seq after which an export of a world begins.
Since = Callable[[str], Awaitable[int]]

_WORLDS: Final = """
select w.world_id, replace(w.world_uuid::text, '-', ''), w.experiment, h.head_seq, h.head_checksum
from worlds w left join heads h using (world_id) order by w.world_id
"""
_NOTED: Final = """
select n.world_id, encode(e.checksum, 'hex') from (values {noted}) n (world_id, global_seq)
left join effects e using (world_id, global_seq)
"""
#: Worlds in one statement.
_TOGETHER: Final = 1000


class Summary(NamedTuple):
    """The result of an export: the lake's worlds and effects in all, and the new ones."""

    directory: str
    worlds: int
    effects: int
    bytes: int
    files: int
    new_worlds: int
    new_effects: int
    new_bytes: int
    new_files: int
    views: dict[str, int]

    def document(self) -> dict[str, Any]:
        """Return it as a JSON object; ``views`` are rows by view."""
        return self._asdict()


async def export_lake(
    store: Store,
    connections: Connections,
    place: Path,
    choice: Choice,
    *,
    since: Since | None = None,
    progress: Progress | None = None,
) -> Summary:
    """Bring a lake up to date; ``choice`` is added to what it has been made of before (at first: all worlds, if empty).

    All files appear at the end, the manifest last. Effects that are appended meanwhile are left out; views that do not
    grow effect by effect show one moment at the beginning. ``since`` is called for worlds that are new in the lake.

    Raises WorldNotFoundError or SimulationError for what the choice names and does not exist, TamperedError if a
    world's log is not the one that was exported before, or has a gap, SimulationError if the folder cannot be written
    or is not a lake's.
    """
    now = datetime.now(UTC).isoformat(timespec="seconds")
    with opened(place, now) as folder:
        export = _Export(folder, folder.manifest.choice.also(choice), now)
        await connections.run(export.look, patient=True)
        if since is not None:
            for name in export.coming():
                export.begin(name, await since(name))
        with EffectFiles(folder, export.spans()) as files:
            await _write_effects(Effects(connections), files, export.spans(), progress)
            await connections.run(lambda session: export.grow(session, files), patient=True)
            manifest = export.manifest(files)
        before = folder.manifest
        if manifest is not None:
            folder.publish(manifest)
        return _summary(place, before, folder.manifest, files)


async def _write_effects(
    effects: Effects, files: EffectFiles, spans: Sequence[WorldSpan], progress: Progress | None
) -> None:
    total = sum(span.effects for span in spans)
    async with aclosing(effects.batches(spans)) as batches:
        async for batch in batches:
            await _in_thread(partial(files.write, batch))
            if progress is not None:
                progress(files.rows, total)
    await _in_thread(files.finish)


async def _in_thread(work: Callable[[], None]) -> None:
    """Work in a thread; if cancelled, still wait for its end."""
    task = asyncio.get_running_loop().create_task(asyncio.to_thread(work))
    await until_done([task])
    task.result()


class _Export:
    """One export: what the lake has, what the database has, and what the lake will have."""

    def __init__(self, folder: LakeFolder, choice: Choice, now: str) -> None:
        self._folder = folder
        self._choice = choice
        self._now = now
        self._had = folder.manifest
        #: the lake's future worlds, still without their new files
        self._worlds: dict[str, LakeWorld] = {}
        self._views: dict[str, LakeView] = {}
        self._growing: list[ViewOfDatabase] = []

    # -- in one snapshot of the database -------------------------------------------------------------------

    def look(self, session: Session) -> None:
        """Choose the worlds, check those that the lake has, and write the views that are written as a whole."""
        session.fetch("begin isolation level repeatable read read only")
        there = [ChosenWorld(*row) for row in session.fetch(_WORLDS)]
        self._choose(there)
        self._check(session)
        if self._choice.views is not False:
            with in_parallel(session):
                self._write_whole(session, everything=len(self._worlds) == len(there))
        session.fetch("commit")

    def _write_whole(self, session: Session, *, everything: bool) -> None:
        self._views = dict(self._had.views)
        sources = Sources(session, self._worlds)
        for view in views_of(session):
            source = sources.of(view)
            if view.grows:
                self._growing.append(view)
            elif (had := self._had.views.get(view.name)) is None or had.source != source or not had.parts:
                parts = write_whole(session, self._folder, view, self._worlds, everything=everything)
                self._views[view.name] = LakeView(source=source, parts=parts)

    def _choose(self, there: Sequence[ChosenWorld]) -> None:
        names = {world.world_id for world in there}
        for name in self._choice.worlds:
            if name not in names and name not in self._had.worlds:
                raise WorldNotFoundError(f"there is no world {name!r}{meant(near(name, names))}", world_id=name)
        experiments = {world.experiment for world in there}
        for experiment in self._choice.experiments:
            if experiment not in experiments:
                guesses = near(experiment, filter(None, experiments))
                what = f"there is no world of the experiment {experiment!r}{meant(guesses)}"
                raise SimulationError(what, experiment=experiment)
        has, includes = self._had.worlds, self._choice.includes
        chosen = [world for world in there if world.world_id in has or includes(world.world_id, world.experiment)]
        check(chosen)
        for world in chosen:
            had = has.get(world.world_id)
            self._worlds[world.world_id] = LakeWorld(
                world_uuid=world.world_uuid,
                experiment=world.experiment,
                first_seq=1 if had is None else had.first_seq,
                last_seq=world.head_seq,
                checksum=world.head_checksum.hex(),
                parts=[] if had is None else had.parts,
            )

    def _check(self, session: Session) -> None:
        """Raise TamperedError for the first world whose log does not continue the one in the lake."""
        noted = [*self._had.worlds.items()]
        for begin in range(0, len(noted), _TOGETHER):
            some = noted[begin : begin + _TOGETHER]
            places = ", ".join(f"({literal(name)}, {world.last_seq}::bigint)" for name, world in some)
            found = dict(session.fetch(_NOTED.format(noted=places)))
            for name, had in some:
                world = self._worlds.get(name)
                why = None
                if world is None:
                    why = "is gone"
                elif world.world_uuid != had.world_uuid:
                    why = f"is another one of that name (its uuid is {world.world_uuid}, not {had.world_uuid})"
                elif found[name] != had.checksum:
                    now = "gone" if found[name] is None else f"another one (its checksum is {found[name]})"
                    why = f"has another history: its effect {had.last_seq} is {now}, not {had.checksum}"
                if why is not None:
                    what = f"world {name!r} {why}; it was exported into this lake before. Export into a new folder"
                    raise TamperedError(what, world_id=name, global_seq=had.last_seq, what="history")

    # -- effects -------------------------------------------------------------------------------------------

    def coming(self) -> list[str]:
        """Return the worlds that were not in the lake."""
        return [name for name in self._worlds if name not in self._had.worlds]

    def begin(self, name: str, after_seq: int) -> None:
        """Let a new world's part begin after an effect."""
        world = self._worlds[name]
        self._worlds[name] = world.model_copy(update={"first_seq": min(after_seq, world.last_seq) + 1})

    def spans(self) -> list[WorldSpan]:
        """Return the spans of the new effects."""
        return [
            WorldSpan(name, world.experiment, self._after(name, world), world.last_seq)
            for name, world in self._worlds.items()
        ]

    def _after(self, name: str, world: LakeWorld) -> int:
        had = self._had.worlds.get(name)
        return world.first_seq - 1 if had is None else had.last_seq

    # -- the views that grow -------------------------------------------------------------------------------

    def grow(self, session: Session, files: EffectFiles) -> None:
        """Write the new rows of the growing views, and the whole of those whose definitions have changed."""
        new = [span for span in self.spans() if span.effects]
        old = [
            WorldSpan(name, world.experiment, world.first_seq - 1, world.last_seq)
            for name, world in self._had.worlds.items()
        ]
        with in_parallel(session):
            for view in self._growing:
                self._grow(session, files, view, old, new)

    def _grow(
        self, session: Session, files: EffectFiles, view: ViewOfDatabase, old: list[WorldSpan], new: list[WorldSpan]
    ) -> None:
        spans = [span for span in new if files.has(span.world_id, view.kind)]
        had = self._had.views.get(view.name)
        before = [] if had is None else had.parts
        kept = before if had is not None and had.source == view.definition else []
        if not kept:
            spans = old + spans
        parts: list[Part] = []
        if spans or not kept:
            # A file that only showed the columns while there were no rows is no longer needed.
            ended = [part for part in before if part not in kept or not part.rows]
            # If there is one, the new file takes its place at once.
            path = ended[0].path if len(ended) == 1 else f"{view.name}/part-{self._had.exports + 1}.parquet"
            parts = write_news(session, self._folder, view, spans, path, even_empty=not kept)
            if parts:
                kept = [part for part in kept if part not in ended]
        self._views[view.name] = LakeView(source=view.definition, parts=[*kept, *parts])

    def manifest(self, files: EffectFiles) -> Manifest | None:
        """Return the lake's new manifest; None if nothing has changed."""
        worlds = {
            name: world.model_copy(update={"parts": [*world.parts, *files.parts.get(name, ())]})
            for name, world in self._worlds.items()
        }
        had = self._had
        if (worlds, self._views, self._choice) == (had.worlds, had.views, had.choice):
            return None
        return Manifest(
            written_at=self._now, exports=had.exports + 1, choice=self._choice, worlds=worlds, views=self._views
        )


def _summary(place: Path, before: Manifest, after: Manifest, files: EffectFiles) -> Summary:
    had, have = ({part.path: part for part in manifest.parts()} for manifest in (before, after))
    new = [part for path, part in have.items() if had.get(path) != part]
    return Summary(
        directory=str(place),
        worlds=len(after.worlds),
        effects=sum(part.rows for world in after.worlds.values() for part in world.parts),
        bytes=sum(part.bytes for part in have.values()),
        files=len(have),
        new_worlds=len(after.worlds) - len(before.worlds),
        new_effects=files.rows,
        new_bytes=sum(part.bytes for part in new),
        new_files=len(new),
        views={name: sum(part.rows for part in view.parts) for name, view in after.views.items() if view.parts},
    )
