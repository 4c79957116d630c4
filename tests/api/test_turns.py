"""Turns of simulations over HTTP: where they stand in the log, and what was true at their end."""

from __future__ import annotations

from typing import Any

import httpx2
import pytest
import pytest_asyncio
from worldledger_simulation import api as turns_shapes

from tests.markets import ENDED, FIRST, HEAD, SECOND, TURNS, change, effect, market

from .helpers import draft, problem

TURN = "/v1/worlds/market/turns/"


async def play(client: httpx2.AsyncClient, world_id: str) -> None:
    """Have a simulation in its second turn."""
    body = {"world_id": world_id, "ruleset": "simulation", "config": market()}
    response = await client.post("/v1/worlds", json=body)
    assert response.status_code == 201, response.text
    response = await client.post(f"/v1/worlds/{world_id}/effects", json=TURNS)
    assert response.status_code == 201, response.text
    assert response.json()["receipts"][-1]["global_seq"] == HEAD


@pytest.fixture(scope="module")
def client(shared_client: httpx2.AsyncClient) -> httpx2.AsyncClient:
    """Talk to the application that these tests share."""
    return shared_client


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def played(client: httpx2.AsyncClient) -> None:
    """Have the simulation ``market``, which these tests read and leave as it is."""
    await play(client, "market")


pytestmark = [pytest.mark.usefixtures("played"), pytest.mark.asyncio(loop_scope="module")]


async def test_an_ended_turn(client: httpx2.AsyncClient) -> None:
    """A turn has its place in the log, who acted and who was paused, and every value as it was at its end."""
    found = await client.get(f"{TURN}1")
    assert (found.status_code, found.headers["cache-control"]) == (200, "no-cache")
    turns_shapes.Turn.model_validate_json(found.content)
    turn = found.json()
    first, last = [(await client.get(f"/v1/worlds/market/effects/{seq}")) for seq in (FIRST, ENDED)]
    assert {name: turn[name] for name in list(turn)[:13]} == {
        "world_id": "market",
        "turn": 1,
        "status": "ended",
        "first_seq": FIRST,
        "ended_seq": ENDED,
        "last_seq": ENDED,
        "checksum": last.headers["worldledger-checksum"],
        "first_sim_time": first.json()["sim_time"],
        "first_wall_time": first.json()["wall_time"],
        "last_sim_time": last.json()["sim_time"],
        "last_wall_time": last.json()["wall_time"],
        "acted": {"Ann": 2, "Bea": 1},
        "paused": ["Cid"],
    }
    assert list(turn["agents"]) == ["Ann", "Bea", "Cid"]
    assert turn["agents"]["Ann"] == {
        "name": "Ann",
        "gold": 90,
        "mood": "calm",
        "inventory": {"food": 10.5, "metal": 5.0},
        "history": ["bought food"],
        "location": [10.0, 20.0],
        "plan": None,
        "stats": {"health": 100.0},
    }
    assert (turn["agents"]["Bea"]["gold"], turn["agents"]["Bea"]["mood"]) == (7, "angry")
    assert turn["global_state"] == {"price": 3.5, "season": None}


async def test_the_open_turn(client: httpx2.AsyncClient) -> None:
    """The open turn has what is true now, and no end yet."""
    turn = (await client.get(f"{TURN}2")).json()
    assert (turn["status"], turn["first_seq"], turn["ended_seq"], turn["last_seq"]) == ("open", SECOND, None, HEAD)
    assert (turn["acted"], turn["agents"]["Bea"]["gold"]) == ({"Bea": 1}, 8)
    await play(client, "ending")
    await client.post("/v1/worlds/ending/effects", json=[effect("TurnEnded"), draft()])
    turn = (await client.get("/v1/worlds/ending/turns/2")).json()
    assert (turn["status"], turn["ended_seq"], turn["last_seq"]) == ("ended", HEAD + 1, HEAD + 2)


async def test_the_beginning(client: httpx2.AsyncClient) -> None:
    """Turn 0 is what the simulation began with: an ended one, with the registrations of the agents in it."""
    turn = (await client.get(f"{TURN}0")).json()
    assert (turn["status"], turn["first_seq"], turn["ended_seq"], turn["last_seq"]) == ("ended", 2, None, FIRST - 1)
    assert (turn["acted"], turn["paused"], turn["agents"]["Ann"]["gold"]) == ({}, [], 100)


_NO_TURNS = [
    ("3", 404, "moment_not_found"),
    ("9007199254740991", 404, "moment_not_found"),
    ("9007199254740992", 422, "invalid_parameter"),
    ("-1", 422, "invalid_parameter"),
    ("1.0", 422, "invalid_parameter"),
    ("last", 422, "invalid_parameter"),
]


async def test_turns_that_there_are_not(client: httpx2.AsyncClient, subtests: pytest.Subtests) -> None:
    """A turn that was not started yet, and what is no number of a turn, are refused."""
    for turn, status, code in _NO_TURNS:
        with subtests.test(turn=turn):
            problem(await client.get(TURN + turn), status, code)
            if status == 404:
                found = problem(await client.get(TURN + turn), 404, code, turn=int(turn), head_seq=HEAD)
                assert found["detail"] == f"world 'market' has no turn {turn}; its last is 2"
            problem(await client.get("/v1/worlds/market/state", params={"at_turn": turn}), status, code)
            problem(await client.get("/v1/worlds/market/agents/Ann/view", params={"turn": turn}), status, code)


async def test_other_worlds_have_no_turns(client: httpx2.AsyncClient) -> None:
    """A world of another ruleset has no turn, also where its log has effects that are called so."""
    await client.post("/v1/worlds", json={"world_id": "town"})
    await client.post("/v1/worlds/town/effects", json=effect("TurnStarted", turn=1))
    for headers in ({}, {"If-None-Match": "*"}):
        found = await client.get("/v1/worlds/town/turns/1", headers=headers)
        assert "worlds of sandbox have no turns" in problem(found, 404, "moment_not_found", world_id="town")["detail"]
    problem(await client.get("/v1/worlds/nowhere/turns/1"), 404, "world_not_found")


async def test_a_turn_that_is_known(client: httpx2.AsyncClient) -> None:
    """Whoever has a turn gets a 304 for it: of an ended one for good, of the open one until something happens."""
    await play(client, "known")
    path = "/v1/worlds/known/turns/"
    tags = {turn: (await client.get(f"{path}{turn}")).headers["etag"] for turn in (1, 2)}
    assert tags[1].startswith(f'"known:{ENDED}:')
    for turn, tag in tags.items():
        response = await client.get(f"{path}{turn}", headers={"If-None-Match": tag})
        assert (response.status_code, response.content, response.headers["etag"]) == (304, b"", tag)
    await client.post("/v1/worlds/known/effects", json=change("Bea", "/gold", 9))
    again = [await client.get(f"{path}{turn}", headers={"If-None-Match": tag}) for turn, tag in tags.items()]
    assert [response.status_code for response in again] == [304, 200]
    assert again[1].json()["agents"]["Bea"]["gold"] == 9


async def test_the_state_at_a_turn(client: httpx2.AsyncClient) -> None:
    """The state at a turn is the one after its last effect; it is one moment among the others."""
    found = (await client.get("/v1/worlds/market/state?at_turn=1")).json()
    assert found == (await client.get(f"/v1/worlds/market/state?at_seq={ENDED}")).json()
    assert found["state"]["metadata"]["turn"] == 1
    for other in ("at_seq=3", "at_sim_time=1", "at_wall_time=2026-01-31T12:00:00Z"):
        response = await client.get(f"/v1/worlds/market/state?{other}&at_turn=1")
        problem(response, 422, "invalid_parameter", parameter="at_turn")


async def test_the_view_at_a_turn(client: httpx2.AsyncClient) -> None:
    """The view at a turn is the one that the agent had at its end: blurred by that turn's noise, and no other's."""
    path = "/v1/worlds/market/agents/Bea/view"
    found = (await client.get(path, params={"turn": 1})).json()
    assert found == (await client.get(path, params={"at_seq": ENDED})).json()
    assert sorted(found["visible_entities"]) == ["Ann", "Bea", "global"]
    assert "plan" not in found["visible_entities"]["Ann"]
    now = (await client.get(path)).json()
    blurred = [view["visible_entities"]["Ann"]["inventory"]["food"] for view in (found, now)]
    assert len({*blurred, 10.5}) == 3
    problem(await client.get(path, params={"turn": 1, "at_seq": 3}), 422, "invalid_parameter", parameter="turn")
    problem(await client.get("/v1/worlds/market/agents/Dan/view?turn=1"), 404, "unknown_agent")


async def test_a_moment_in_one_spelling(client: httpx2.AsyncClient) -> None:
    """States, differences and views take a moment as `at` (`from`, `to`), spelt as the commands spell it."""

    async def found(path: str, **params: str | int) -> Any:
        response = await client.get(f"/v1/worlds/market/{path}", params=params)
        assert response.status_code == 200, response.text
        return response.json()

    view = "agents/Bea/view"
    first = await found("effects/1")
    for moment, old in {
        "turn:1": {"at_seq": ENDED},
        f"seq:{ENDED}": {"at_seq": ENDED},
        str(ENDED): {"at_turn": 1},
        "head": {},
        "sim:1e9": {},
        "9999-12-31T23:59:59Z": {},
    }.items():
        assert await found("state", at=moment) == await found("state", **old)
    for moment, seq in {"turn:1": ENDED, f"seq:{ENDED}": ENDED, "sim:1e9": HEAD}.items():
        assert await found(view, at=moment) == await found(view, at_seq=seq)
    assert await found(view, at="head") == await found(view)
    assert (await found("state", at="step:0"))["global_seq"] == first["global_seq"]
    assert await found("diff", **{"from": "turn:0", "to": "turn:1"}) == await found(
        "diff", from_seq=FIRST - 1, to_seq=ENDED
    )
    refused: list[tuple[str, dict[str, str | int], str]] = [
        ("state", {"at": "trun"}, "at"),
        ("state", {"at": ""}, "at"),
        ("state", {"at": "2026-01-31T12:00:00+02:00".replace("+", " ")}, "at"),
        ("state", {"at": "1", "at_turn": 1}, "at_turn"),
        (view, {"at": "1", "at_seq": 1}, "at_seq"),
        ("diff", {}, "from"),
        ("diff", {"from": "1", "from_seq": 1}, "from_seq"),
        ("diff", {"from": "x"}, "from"),
    ]
    for path, params, named in refused:
        response = await client.get(f"/v1/worlds/market/{path}", params=params)
        problem(response, 422, "invalid_parameter", parameter=named)
    response = await client.get("/v1/worlds/market/state", params={"at": "round:1"})
    assert "has no round 1" in problem(response, 404, "moment_not_found")["detail"]
