"""What all shapes are made of, and those of no single room."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import BaseModel, ConfigDict, Field

from worldledger.canonical import MAX_INT
from worldledger.drafts import MAX_WORD, SEMANTIC_VERSION
from worldledger.errors import RecoveryAction

HEX64 = r"^[0-9a-f]{64}$"
HEX32 = r"^[0-9a-f]{32}$"

Word = Annotated[str, Field(min_length=1, max_length=MAX_WORD, pattern=r"^[^\x00]*$")]
SemanticVersion = Annotated[
    str,
    Field(
        pattern=f"^{SEMANTIC_VERSION}$",
        max_length=MAX_WORD,
        description="Semantic version (semver.org) of the payload's shape, such as 1.0.0.",
    ),
]
WorldName = Annotated[str, Field(pattern=r"^[A-Za-z0-9][A-Za-z0-9._~-]{0,199}$", max_length=200)]
GlobalSeq = Annotated[int, Field(ge=1, le=MAX_INT)]

#: A member of pages that have a filter.
Near = Annotated[
    list[str] | None,
    Field(
        description="Where the filter finds nothing at all: what may have been meant. Left out where that is nothing."
    ),
]

#: For examples.
CHECKSUM = "6f2c0f0e5b1de0b1a7b0f0e0d9c8b7a6958473625140302f1e0d0c0b0a090807"


class Shape(BaseModel):
    """Base of the documented shapes."""

    model_config = ConfigDict(extra="forbid")


class Health(Shape):
    """That the process lives."""

    status: Literal["alive"]


class PublishedSchema(Shape):
    """A JSON Schema that is served."""

    name: str
    title: str
    id: str = Field(description="Its `$id`.")
    path: str = Field(description="Where it is.")


class SchemaList(Shape):
    """The JSON Schemas of what people write as files, by name."""

    schemas: list[PublishedSchema]


class FoundProblem(Shape):
    """One of several things that are wrong."""

    path: str = Field(description="Where, as people write it: `agents[Trader_1].inventory.food`.")
    message: str


class Problem(BaseModel):
    """Problem details (RFC 9457), with the facts of the error beside them."""

    model_config = ConfigDict(
        extra="allow",
        json_schema_extra={
            "examples": [
                {
                    "type": "urn:worldledger:problem:invalid_effect",
                    "title": "The effect is refused",
                    "status": 422,
                    "detail": "draft 3, $.payload.price: not a finite number",
                    "code": "invalid_effect",
                    "recovery": "modify_intent",
                    "instance": "/v1/worlds/market-town/effects",
                    "path": "$.payload.price",
                    "index": 3,
                }
            ]
        },
    )

    type: str = Field(description="`urn:worldledger:problem:` and the code.")
    title: str
    status: int
    detail: str = Field(description="What is wrong with this request, for people.")
    code: str = Field(description="A stable name, for programs.")
    recovery: RecoveryAction = Field(description="What the caller can do.")
    instance: str
    path: str | None = Field(default=None, description="JSON path of the offending value.")
    index: int | None = Field(default=None, description="Place of the offending draft in its list.")
    problems: list[FoundProblem] | None = Field(
        default=None, description="Everything that is wrong below `path`, where several things may be: the first 100."
    )
    problems_found: int | None = Field(default=None, description="How many there are, where it is more than that.")
