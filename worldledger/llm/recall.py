"""Answers that stand in a log already: the same prompt to the same model is not asked, and paid, twice."""

from __future__ import annotations

import asyncio
import hashlib
from collections.abc import AsyncGenerator, AsyncIterator, Iterable, Mapping
from typing import TYPE_CHECKING, Any, Final, NamedTuple

import orjson

from worldledger.core_kinds import GENERATION_REPORTED_KIND, GENERATION_STARTED_KIND, GENERATION_TEXT_KIND
from worldledger.llm.model import Chunk, End, Request, Text, ToolCall

if TYPE_CHECKING:
    from worldledger.client.world import RemoteWorld

#: Most effects that are read at once.
_PAGE: Final = 1000
#: The outcomes of answers that were cut off, or never came.
_UNFINISHED: Final = frozenset({"interrupted", "failed", "limited", "lost"})
#: The kinds of effects that tell of generations: that one begins, what came of it, and its texts.
TOLD_BY: Final = (GENERATION_STARTED_KIND, GENERATION_REPORTED_KIND, GENERATION_TEXT_KIND)


class Recollection(NamedTuple):
    """An answer of a log: whose it is, and what it was.

    It is given again within ``took_s`` seconds, and its first word after ``first_s``; with 0, at once.
    """

    world_id: str
    req_id: str
    text: str
    calls: tuple[ToolCall, ...]
    finish: str
    first_s: float = 0.0
    took_s: float = 0.0

    async def stream(self) -> AsyncGenerator[Chunk, None]:
        """Give the answer again, word by word."""
        words = self.text.split(" ")
        pieces: list[Chunk] = [Text(words[0]), *(Text(f" {word}") for word in words[1:]), *self.calls, End(self.finish)]
        pause = self.first_s
        for piece in pieces:
            if pause > 0:
                await asyncio.sleep(pause)
            pause = max(0.0, self.took_s - self.first_s) / (len(pieces) - 1)
            yield piece


class Recall:
    """The whole answers that an agent was given in some worlds, by model, parameters and prompt; the first counts.

    With ``paced`` they are given as fast as they were made then, else at once.
    """

    def __init__(self, *, paced: bool = False) -> None:
        self._paced = paced
        self._found: dict[bytes, Recollection] = {}

    def __len__(self) -> int:
        return len(self._found)

    def find(self, model: str, request: Request) -> Recollection | None:
        """Return the answer to this request to this model, if it is known."""
        prompt = orjson.dumps(request.to_value(), option=orjson.OPT_SORT_KEYS)
        return self._found.get(_key(model, request.parameters, prompt))

    async def read(self, world: RemoteWorld, agent_id: str) -> None:
        """Read an agent's answers in a world's own log. Those whose texts were not kept cannot be recalled."""
        told = [[each async for each in _told(world, agent_id, kind)] for kind in TOLD_BY]
        self.take(world.world_id, *told)

    def take(
        self,
        world_id: str,
        begun: Iterable[Mapping[str, Any]],
        ended: Iterable[Mapping[str, Any]],
        texts: Iterable[Mapping[str, Any]],
    ) -> None:
        """Take an agent's answers from the payloads of a world's own effects of the kinds of `TOLD_BY`, in order."""
        models = {each["req_id"]: each.get("model") for each in begun}
        reports = {each["req_id"]: each for each in ended}
        prompts: dict[str, str] = {}
        for each in texts:
            req_id, text = each["req_id"], each["text"]
            if each["part"] == "prompt":
                prompts[req_id] = text
                continue
            model, report, prompt = models.get(req_id), reports.get(req_id, {}), prompts.pop(req_id, None)
            if model is None or prompt is None or not is_whole(report) or "recalled" in report:
                continue
            calls = tuple(
                ToolCall(call["name"], call["arguments"], index) for index, call in enumerate(each.get("calls", ()))
            )
            found = Recollection(world_id, req_id, text, calls, report.get("finish", "stop"))
            if self._paced:
                took = [report.get(name, 0.0) / 1000.0 for name in ("first_token_ms", "took_ms")]
                found = found._replace(first_s=took[0], took_s=took[1])
            self._found.setdefault(_key(model["name"], model["parameters"], prompt.encode()), found)


def is_whole(report: Mapping[str, Any]) -> bool:
    """Return whether the answer of a generation with this report was neither cut off nor did it never come."""
    return report.get("outcome", "lost") not in _UNFINISHED


def _key(model: str, parameters: Mapping[str, Any], prompt: bytes) -> bytes:
    asked = orjson.dumps([model, dict(parameters)], option=orjson.OPT_SORT_KEYS)
    return hashlib.sha256(hashlib.sha256(asked).digest() + prompt).digest()


async def _told(world: RemoteWorld, agent_id: str, kind: str) -> AsyncIterator[dict[str, Any]]:
    """Return the payloads of an agent's effects of a kind, in order."""
    params: dict[str, Any] = {"kind": kind, "source_id": agent_id, "after_seq": 0, "limit": _PAGE}
    while params["after_seq"] is not None:
        page = await world.call("GET", "effects", params=params)
        for effect in page["effects"]:
            yield effect["payload"]
        params["after_seq"] = page["next_after_seq"]


async def ancestors(world: RemoteWorld) -> list[RemoteWorld]:
    """Return the worlds of which this one is a fork, the nearest first; the whole of their logs may be recalled."""
    found: list[RemoteWorld] = []
    while (fork_of := (await (found[-1] if found else world).call("GET")).get("fork_of")) is not None:
        found.append(world.world(fork_of["world_id"]))
    return found


async def recall_from(worlds: Iterable[RemoteWorld], agent_id: str, *, paced: bool = False) -> Recall:
    """Return what an agent was answered in these worlds; in their order, the first answer to a question counts.

    ``paced``: see `Recall`.
    """
    recall = Recall(paced=paced)
    for world in worlds:
        await recall.read(world, agent_id)
    return recall
