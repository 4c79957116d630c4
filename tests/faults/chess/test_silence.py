"""A server that is frozen: whoever plays, begins or looks at games is told soon, and nothing is lost or doubled."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any, Final

import httpx2
import pytest

from tests.faults.freezing import UNTIRING, calling, frozen, refused
from tests.faults.living import serving

pytestmark = pytest.mark.slow

_AGENTS: Final = {"white": {"agent_id": "w"}, "black": {"agent_id": "b"}}
_ILLEGAL: Final = {"player": "white", "move": "e2e5", "req_id": "wrong"}
_LEGAL: Final = {"player": "white", "move": "e2e4", "req_id": "right"}
_KEY: Final = {"Idempotency-Key": "a game"}
_GAME: Final = {**_AGENTS, "seed": 1, "deadline_s": None}
_RESET: Final = {"episode_id": "lesson", "seed": 1, "agent_color": "black"}
_NAME: Final = "/v1/projections/games"

#: What is asked while nothing is answered: method, path, body, headers. ``known`` is in memory, ``unknown`` is not.
_ASKED: Final[list[tuple[str, str, Any, dict[str, str]]]] = [
    ("POST", "/v1/games", _GAME, _KEY),
    ("POST", "/v1/games", _GAME, {}),
    ("GET", "/v1/games", None, {}),
    ("GET", "/v1/games?experiment=x&agent=w&status=draw", None, {}),
    ("GET", "/v1/games/unknown", None, {}),
    ("GET", "/v1/games/known?min_seq=99", None, {}),
    ("GET", "/v1/games/unknown/board.svg", None, {}),
    ("GET", "/v1/games/unknown/moves", None, {}),
    ("GET", "/v1/games/known/moves?min_seq=2", None, {}),
    ("POST", "/v1/games/known/moves", _ILLEGAL, {}),
    ("POST", "/v1/games/known/moves", {"player": "black", "move": "e7e5"}, {}),
    ("POST", "/v1/games/known/moves", {"player": "white", "move": "a3", "ply": 2}, {}),
    ("POST", "/v1/games/moving/moves", _LEGAL, {}),
    ("POST", "/v1/games/leaving/resign", {"player": "white", "req_id": "enough"}, {}),
    ("POST", "/v1/games/unknown/moves", {"player": "white", "move": "e2e4"}, {}),
    ("GET", "/v1/agents", None, {}),
    ("GET", "/v1/agents/w/stats", None, {}),
    ("POST", "/openenv/chess/reset", _RESET, {}),
    ("POST", "/openenv/chess/reset", None, {}),
    ("POST", "/openenv/chess/reset", {"resume": True, "episode_id": "pupil"}, {}),
    ("POST", "/openenv/chess/step", {"episode_id": "pupil", "action": {"move": "e2e5"}, "request_id": "s"}, {}),
    ("POST", "/openenv/chess/step", {"episode_id": "teacher", "action": {"move": "e2e4"}}, {}),
    ("GET", "/openenv/chess/state?episode_id=pupil", None, {}),
    ("GET", "/v1/projections", None, {}),
    ("GET", _NAME, None, {}),
    *((("POST", f"{_NAME}/{order}", None, {})) for order in ("rebuild", "verify", "pause", "resume", "retry")),
    ("DELETE", f"{_NAME}/rebuild", None, {}),
]


async def _ask(http: httpx2.AsyncClient, method: str, path: str, body: Any, headers: dict[str, str]) -> httpx2.Response:
    return await http.request(method, path, json=body, headers=headers)


async def _until(http: httpx2.AsyncClient, path: str, body: Any, headers: dict[str, str], *good: int) -> dict[str, Any]:
    """Ask again as any client does, until it is answered."""
    while True:
        answer = await http.post(path, json=body, headers=headers)
        if answer.status_code in good:
            found: dict[str, Any] = answer.json()
            return found
        refused(answer, "store_unavailable", "circuit_open")
        await asyncio.sleep(0.05)


async def test_every_door_of_games(url: str, home: Path, tmp_path: Path) -> None:
    """Each is answered 503 while the server is frozen; what had begun is there afterwards, once however often sent."""
    async with serving(url, tmp_path, **UNTIRING) as service, calling(service.url) as http:
        for name in ("known", "moving", "leaving"):
            begun = await http.post("/v1/games", json={**_GAME, "game_id": name})
            assert begun.status_code == 201, begun.text
        for name in ("pupil", "teacher"):
            begun = await http.post("/openenv/chess/reset", json={"episode_id": name, "opponent": "self"})
            assert begun.status_code == 200, begun.text
        other = {"world_id": "unknown", "ruleset": "chess", "config": {"live": {**_GAME, "game_id": "unknown"}}}
        assert (await http.post("/v1/worlds", json=other)).status_code == 201
        with frozen(home):
            # Whatever is answered in this block is answered while the server is frozen.
            answers = await asyncio.gather(*(_ask(http, *each) for each in _ASKED))
            for asked, answer in zip(_ASKED, answers, strict=True):
                assert answer.status_code == 503, (asked, answer.text)
                refused(answer, "store_unavailable", "circuit_open")
            asked_again = (
                http.post("/v1/games", json=_GAME, headers=_KEY),
                http.post("/v1/games/known/moves", json=_ILLEGAL),
                http.post("/openenv/chess/reset", json=_RESET),
            )
            for again in await asyncio.gather(*asked_again):
                assert refused(again, "store_unavailable"), "the same is under way"
            assert (await http.get("/v1/games/known")).status_code == 200
        made = await _until(http, "/v1/games", _GAME, _KEY, 200, 201)
        assert (made["plies"], made["live"]["seed"]) == (0, 1)
        told = await _until(http, "/v1/games/known/moves", _ILLEGAL, {}, 200, 201)
        assert (told["accepted"], told["attempts_left"]) == (False, 2)
        told = await _until(http, "/v1/games/moving/moves", {**_ILLEGAL, "move": "e4", "req_id": "right"}, {}, 200, 201)
        assert (told["accepted"], told["ply"]) == (True, 1)
        await _until(http, "/openenv/chess/reset", _RESET, {}, 200, 409)
        resumed = await _until(http, "/openenv/chess/reset", {"episode_id": "lesson", "resume": True}, {}, 200)
        assert resumed["observation"]["metadata"]["turn"] == "black"
