"""The store's results: worlds, heads and receipts."""

from __future__ import annotations

import math
from datetime import datetime
from typing import Any, Final, NamedTuple

import asyncpg
import orjson
from pydantic import BaseModel, ConfigDict, PrivateAttr

from worldledger.canonical import MAX_INT, gate
from worldledger.chain import Finding, Position, told_apart
from worldledger.errors import InvalidEffectError, InvalidNameError, WorldNotFoundError
from worldledger.genesis import GENESIS_SEQ, check_world_name
from worldledger_service.store.statements import containing

#: What to do about a NULL where the schema has none.
MEND_NULL: Final = "give it its value, then `worldledger db upgrade` forbids NULL again"
#: What is wrong with a world that has more than one row, which the schema's keys forbid.
SEVERAL_ROWS: Final = "the table worlds or heads has several rows of this world"
#: What is wrong with a world that has no head.
NO_HEAD: Final = "the row of this world is missing from the table heads"
#: Bytes of a checksum: it is a SHA-256 digest.
_CHECKSUM_BYTES: Final = 32
#: Columns of worlds that the schema never has NULL, and that are read as they are.
_NEVER_NULL: Final = ("world_id", "world_uuid", "ruleset", "ruleset_version", "config", "time_authority")


class Head(NamedTuple):
    """The end of a world's log. The checksum is 32 bytes, or empty before the first effect."""

    seq: int
    checksum: bytes
    sim_time: float
    wall_time: float

    @classmethod
    def of(cls, world_id: str, row: asyncpg.Record | None) -> Head:
        """Make the head from a row of `statements.HEAD`.

        Raises WorldNotFoundError if there is none, and TamperedError for a head that no log has, or not this one.
        """
        if row is None:
            raise WorldNotFoundError(f"no world named {world_id!r}", world_id=world_id)
        *columns, last = row
        if (problem := head_problem(world_id, *columns)) is not None:
            raise problem.error()
        head = cls(*columns)
        if last not in {None, head.checksum}:
            ours, theirs = told_apart(head.checksum.hex(), last.hex())
            what = f"the head's head_checksum is {ours}, and that of the effect at its head_seq is {theirs}; "
            what += f"nothing can be written behind it; run `worldledger verify {world_id}`"
            raise Finding(world_id, head.seq, what).error()
        return head

    @property
    def position(self) -> Position:
        """The head as a position in the chain."""
        return Position(self.seq, self.checksum)


class Receipt(NamedTuple):
    """The facts about one accepted effect, after it is durable.

    ``checksum`` is lower-case hex; ``replayed`` says that an earlier request with the same req_id made it.
    """

    global_seq: int
    uuid: str
    checksum: str
    replayed: bool = False


class WorldFilter(NamedTuple):
    """Which worlds are looked for; None: any.

    ``text`` is part of the name or the experiment, A-Z without regard to case. ``live`` worlds are those whose last
    effect came at ``live_since`` (epoch seconds) or later.
    """

    text: str | None = None
    ruleset: str | None = None
    experiment: str | None = None
    live: bool | None = None
    live_since: float = 0.0

    def arguments(self) -> tuple[Any, ...]:
        """Return the parameters of a statement."""
        pattern = None if self.text is None else containing(self.text)
        return pattern, self.ruleset, self.experiment, self.live_since, self.live


class WorldRecord(BaseModel):
    """A world as listings show it; the head is the one at the moment of the query."""

    model_config = ConfigDict(frozen=True)

    world_id: str
    world_uuid: str
    ruleset: str
    ruleset_version: int
    config: dict[str, Any]
    experiment: str | None
    time_authority: str
    created_at: datetime
    head_seq: int
    head_checksum: str
    sim_time: float
    wall_time: float
    #: the config's text as it is stored
    _config_text: str = PrivateAttr(default="")

    @classmethod
    def of(cls, row: asyncpg.Record) -> WorldRecord | Finding:
        """Make the record from a row of `statements.WORLD_COLUMNS`; return a finding if the row is invalid.

        The database accepts names and configs that no world can have, and one bad row must not hide the others.
        """
        for name in _NEVER_NULL:
            if row[name] is None:
                return _unreadable(row, f"its {name} is NULL; {MEND_NULL}")
        try:
            check_world_name(row["world_id"])
            config = orjson.loads(row["config"])
            gate(config, path="$.config", level=3)
        except InvalidNameError:
            return _unreadable(row, "its name is none that a world can have")
        except InvalidEffectError as error:
            return _unreadable(row, f"{error.path}: {error.reason}")
        except ValueError as error:
            return _unreadable(row, f"$.config: {error}")
        if type(config) is not dict:
            return _unreadable(row, "$.config: not an object")
        if row["created_at"] is None:
            return _unreadable(row, "its created_at is NULL, or outside of the years 1 to 9999")
        head = [row[name] for name in ("head_seq", "head_checksum", "sim_time", "wall_time")]
        if (problem := head_problem(row["world_id"], *head)) is not None:
            return problem
        record = cls(
            world_id=row["world_id"],
            world_uuid=row["world_uuid"].hex,
            ruleset=row["ruleset"],
            ruleset_version=row["ruleset_version"],
            config=config,
            experiment=row["experiment"],
            time_authority=row["time_authority"],
            created_at=row["created_at"],
            head_seq=row["head_seq"],
            head_checksum=row["head_checksum"].hex(),
            sim_time=row["sim_time"],
            wall_time=row["wall_time"],
        )
        record._config_text = row["config"]
        return record

    @property
    def head(self) -> Head:
        """The head of the log at the moment of the query."""
        return Head(self.head_seq, bytes.fromhex(self.head_checksum), self.sim_time, self.wall_time)

    def genesis_columns(self) -> dict[str, Any]:
        """Return the columns that `genesis_problem` compares with the genesis."""
        columns = self.model_dump(include={"world_uuid", "ruleset", "ruleset_version", "experiment", "time_authority"})
        return {**columns, "config": self._config_text}


def head_problem(world_id: str, seq: Any, checksum: Any, sim_time: Any = 0.0, wall_time: Any = 0.0) -> Finding | None:
    """Return what is wrong with the columns of heads if no log can have such a head, or if there is no row at all."""
    if seq is None and checksum is None:
        return Finding(world_id, 1, NO_HEAD)
    columns = (("head_seq", seq), ("head_checksum", checksum), ("sim_time", sim_time), ("wall_time", wall_time))
    if lost := [name for name, value in columns if value is None]:
        # A NULL there is what the schema allows, and no program writes.
        mend = "give it that of the last effect" if lost[0] == "head_checksum" else MEND_NULL
        what = f"{lost[0]} is NULL in this world's row of the table heads; {mend}"
        return Finding(world_id, max(seq or 1, 1), what)
    if not GENESIS_SEQ <= seq <= MAX_INT:
        return Finding(world_id, 1, f"the head's head_seq is {seq}")
    if len(checksum) != _CHECKSUM_BYTES:
        what = f"the head's head_checksum has {len(checksum)} bytes, a checksum has {_CHECKSUM_BYTES}"
        return Finding(world_id, seq, what)
    for name, time in columns[2:]:
        if not math.isfinite(time):
            return Finding(world_id, seq, f"the head's {name} is {time!r}")
    return None


def _unreadable(row: asyncpg.Record, why: str) -> Finding:
    return Finding(row["world_id"] or "", 1, f"the row of this world in the table worlds cannot be read: {why}")


def genesis_payload(world_id: str, text: str) -> dict[str, Any]:
    """Return the payload of a stored genesis. Raises TamperedError if it cannot be read."""
    try:
        payload = orjson.loads(text)["payload"]
        if isinstance(payload, dict):
            return payload
        what = "$.payload: not an object"
    except (ValueError, TypeError, KeyError) as error:
        what = f"the stored text is not an effect ({type(error).__name__}: {error})"
    raise Finding(world_id, GENESIS_SEQ, what).error()
