"""The manifest of a lake: its worlds, how far they have come, their files, and reading it."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Final, Literal, TypeVar

from pydantic import BaseModel, ConfigDict, Field

#: The name of the manifest's format, with its version.
FORMAT: Final = "worldledger-lake/1"
NAME: Final = "manifest.json"


class _Model(BaseModel):
    model_config = ConfigDict(extra="forbid")


class Choice(_Model):
    """The content of a lake: the worlds of each of these, later ones included, and whether it has the views."""

    everything: bool = False
    experiments: list[str] = Field(default_factory=list)
    worlds: list[str] = Field(default_factory=list)
    #: None: with the views, unless an earlier choice was without
    views: bool | None = None

    def also(self, other: Choice) -> Choice:
        """Return the choice of the worlds of both; of all worlds, if neither names any."""
        experiments = sorted({*self.experiments, *other.experiments})
        worlds = sorted({*self.worlds, *other.worlds})
        return Choice(
            everything=self.everything or other.everything or not (experiments or worlds),
            experiments=experiments,
            worlds=worlds,
            views=self.views if other.views is None else other.views,
        )

    def includes(self, world_id: str, experiment: str | None) -> bool:
        """Return whether a world is chosen."""
        return self.everything or world_id in self.worlds or experiment in self.experiments


class Part(_Model):
    """A file: its path in the folder, the number of rows, its length."""

    path: str
    rows: int
    bytes: int


_P = TypeVar("_P", bound=Part)


class EffectsPart(Part):
    """A file of effects, from first_seq to last_seq."""

    first_seq: int
    last_seq: int


class LakeWorld(_Model):
    """A world of the lake: its identity, and its last effect in the lake.

    ``checksum`` is that effect's, 64 hex digits: `worldledger verify WORLD --head LAST_SEQ:CHECKSUM` tells whether the
    log still passes there. ``first_seq`` is 1 unless the world was first exported with --since.
    """

    world_uuid: str
    experiment: str | None
    first_seq: int
    last_seq: int
    checksum: str
    parts: list[EffectsPart]


class LakeView(_Model):
    """A view of the lake. Its files are made again whenever ``source``, the digest of their sources, changes."""

    source: str
    parts: list[Part]


class Manifest(_Model):
    """The content of a lake. ``exports`` counts the exports that have changed it.

    ``moves`` is there only while an export moves its files to their places, or if it was killed then: it maps each file
    that is elsewhere to its place.
    """

    format: Literal["worldledger-lake/1"] = FORMAT
    written_at: str
    exports: int = 0
    choice: Choice = Field(default_factory=Choice)
    worlds: dict[str, LakeWorld] = Field(default_factory=dict)
    views: dict[str, LakeView] = Field(default_factory=dict)
    moves: dict[str, str] = Field(default_factory=dict)

    def parts(self) -> Iterator[Part]:
        """Return every file."""
        for world in self.worlds.values():
            yield from world.parts
        for view in self.views.values():
            yield from view.parts

    def moved(self, paths: Mapping[str, str]) -> Manifest:
        """Return it with other paths for the files at these."""

        def there(parts: list[_P]) -> list[_P]:
            return [part.model_copy(update={"path": paths.get(part.path, part.path)}) for part in parts]

        worlds = {name: world.model_copy(update={"parts": there(world.parts)}) for name, world in self.worlds.items()}
        views = {name: view.model_copy(update={"parts": there(view.parts)}) for name, view in self.views.items()}
        return self.model_copy(update={"worlds": worlds, "views": views})

    def document(self) -> bytes:
        """Return it in its written form."""
        return self.model_dump_json(indent=1, exclude=None if self.moves else {"moves"}).encode() + b"\n"
