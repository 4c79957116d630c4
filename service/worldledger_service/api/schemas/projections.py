"""The shapes of projections, and of what they have made."""

from __future__ import annotations

from datetime import datetime
from typing import Any, Final, Literal

from pydantic import BaseModel, ConfigDict, Field, JsonValue, create_model
from worldledger_projections.base import Projection as Definition

from worldledger_service.api.schemas.base import Shape

# -- how they stand ----------------------------------------------------------------------------------------


class ProjectionBuild(Shape):
    """One table of one version of a projection."""

    build: str
    version: int
    paused: bool = Field(description="Nobody writes it until it is resumed.")
    scanning: bool = Field(description="It has not looked at every world yet.")
    worlds_behind: int = Field(description="In how many worlds it has effects to read.")
    effects_behind: int = Field(description="How many.")
    seconds_behind: float | None = Field(description="Since when the first of them is due; null if nothing is.")
    parked: int = Field(description="How many worlds are set aside, each because of one effect.")
    effects_total: int | None = Field(description="How many effects there were when the build began.")
    effects_done: int = Field(description="How many it has read.")
    started_at: datetime
    finished_at: datetime | None = Field(description="When it went live.")
    check_report: dict[str, JsonValue] | None = Field(description="What the last check against the logs found.")
    held_back: str | None = Field(description="Why a build that has caught up does not take over.")
    held: bool = Field(description="Whether a runner holds its lease.")


class ProjectionJob(Shape):
    """Work of this process that goes on after its request was answered."""

    status: Literal["running", "finished", "failed", "cancelled"]
    started_at: datetime
    effects_done: int
    effects_total: int | None
    error: dict[str, JsonValue] | None = Field(description="`code` and `detail`, where it failed.")


class WorldRebuild(ProjectionJob):
    """The rebuild of one world."""

    world_id: str


class ParkedWorld(Shape):
    """A world that a build has set aside."""

    build: str
    world_id: str
    global_seq: int = Field(description="The effect that could not be digested.")
    kind: str | None
    error: str
    attempts: int
    parked_at: datetime


class ProjectionSummary(Shape):
    """How a projection stands."""

    name: str
    version: int | None = Field(description="This program's version of it; null if it has none of that name.")
    note: str | None = Field(description="What is out of the ordinary, for people.")
    live: ProjectionBuild | None = Field(description="The build that people read.")
    building: ProjectionBuild | None = Field(description="The build that is to take its place.")
    verify: ProjectionJob | None = Field(description="The last check that this process made.")
    rebuild_of_world: WorldRebuild | None = Field(description="The last rebuild of one world by this process.")


class Projection(ProjectionSummary):
    """How a projection stands, with the worlds that it has set aside."""

    parked_worlds: list[ParkedWorld] = Field(description="The first 100.")


class ProjectionList(Shape):
    """All projections, by name."""

    projections: list[ProjectionSummary]


class Released(Shape):
    """How many worlds were released for another attempt."""

    released: int


class ProjectionHealth(Shape):
    """How a projection stands, for `/readyz`. Null where it has no live build."""

    lag: int | None = Field(description="Effects that the live build has still to read.")
    lag_seconds: float | None = Field(description="Since when the first of them is due; null if nothing is.")
    parked: int | None = Field(description="Worlds that are set aside.")
    paused: bool | None
    rebuilding: bool


class Readiness(Shape):
    """That the service is ready to work, and how its projections stand: a lagging one makes it no less ready."""

    status: Literal["ready"]
    projections: dict[str, ProjectionHealth] | None = Field(description="Null where it could not be told in time.")


# -- what they have made -----------------------------------------------------------------------------------

_TYPES: Final[dict[str, Any]] = {
    "bigint": int,
    "boolean": bool,
    "double precision": float,
    "integer": int,
    "json": JsonValue,
    "text": str,
    "timestamptz": datetime,
}


def row_of(name: str, projection: Definition) -> type[BaseModel]:
    """Make the shape of a projection's rows of its columns."""
    fields: dict[str, Any] = {
        column.name: (
            _TYPES[column.type] | None if column.nullable else _TYPES[column.type],
            Field(description=column.comment),
        )
        for column in projection.columns
    }
    made: type[BaseModel] = create_model(
        name, __config__=ConfigDict(extra="forbid"), __doc__=projection.comment, **fields
    )
    return made
