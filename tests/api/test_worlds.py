"""Creating worlds, listing them, looking at one."""

from __future__ import annotations

from typing import Any

import asyncpg
import orjson
import pytest

from worldledger.chain import link
from worldledger.config import MemoryConfig, OrchestratorConfig, read_config

from .helpers import JSON, WorldClient, draft, problem

pytestmark = pytest.mark.asyncio(loop_scope="module")

#: Tests of lists of worlds have a database to themselves.
alone = pytest.mark.asyncio(loop_scope="function")


async def test_a_world_is_created_with_its_genesis(client: WorldClient) -> None:
    """Creating a world answers 201 with the world, where it is, and a head that is its genesis."""
    body = {"world_id": "w-1.a~b_c", "ruleset": "sandbox", "config": {"size": 3}, "experiment": "trial"}
    response = await client.post("/v1/worlds", json=body)
    assert response.status_code == 201
    assert response.headers["location"] == "/v1/worlds/w-1.a~b_c"
    record = response.json()
    assert {name: record[name] for name in body} == body
    assert (record["head_seq"], record["time_authority"]) == (1, "wall")

    found = await client.get(response.headers["location"])
    assert found.json() == record
    genesis = await client.get("/v1/worlds/w-1.a~b_c/effects/1")
    assert genesis.json()["kind"] == "WorldCreated"
    assert genesis.json()["payload"]["config"] == {"size": 3}
    assert link(None, genesis.content).hex() == record["head_checksum"]


async def test_a_name_is_given_once(client: WorldClient, world: str) -> None:
    """A second world of a name is refused and changes nothing of the first."""
    problem(await client.post("/v1/worlds", json={"world_id": world}), 409, "world_exists", world_id=world)
    assert (await client.get(f"/v1/worlds/{world}")).json()["time_authority"] == "client"


_NO_WORLDS: list[tuple[bytes, str, str | None]] = [
    (b"{}", "invalid_config", "$.world_id"),
    (b"[]", "invalid_config", "$"),
    (b"null", "invalid_config", "$"),
    (b'{"world_id":7}', "invalid_config", "$.world_id"),
    (b'{"world_id":"w","bogus":1}', "invalid_config", "$.bogus"),
    (b'{"world_id":"w","experiment":""}', "invalid_config", "$.experiment"),
    (b'{"world_id":"w","config":[]}', "invalid_config", "$.config"),
    (b'{"world_id":"w","config":{"a":{"b":NaN}}}', "invalid_config", "$.config.a.b"),
    (b'{"world_id":"w","config":{"a":{"b":1,"b":2}}}', "invalid_config", "$.config.a"),
    (b'{"world_id":"w","world_id":"v"}', "invalid_config", "$"),
    (b'{"world_id":"w","time_authority":"Wall Clock"}', "invalid_config", "$.time_authority"),
    (b'{"world_id":"w","time_authority":"worldledger"}', "invalid_config", "$.time_authority"),
    (b'{"world_id":"w","parent":{"world_uuid":"x"}}', "invalid_config", "$.parent"),
    (b'{"world_id":"w","checkpoint":[]}', "invalid_config", "$.checkpoint"),
    (b'{"world_id":"w","checkpoint":{"turn":1e400}}', "invalid_config", "$.checkpoint.turn"),
    (b'{"world_id":"w","checkpoint":{"turn":0,"agents":{}}}', "invalid_config", "$.checkpoint"),
    (b'{"world_id":"w"', "invalid_config", "$"),
    (b"", "invalid_config", "$"),
    (b'\xff{"world_id":"w"}', "invalid_config", "$"),
    (b'{"world_id":"w","ruleset":"whist"}', "unknown_ruleset", None),
    (b'{"world_id":"w","ruleset":"\\ud800"}', "unknown_ruleset", None),
    (b'{"world_id":"a b"}', "invalid_name", None),
    (b'{"world_id":""}', "invalid_name", None),
    (b'{"world_id":"\\u0000"}', "invalid_name", None),
    (b'{"world_id":"\\ud800"}', "invalid_name", None),
    (b'{"world_id":"../etc"}', "invalid_name", None),
    (b'{"world_id":"' + b"w" * 201 + b'"}', "invalid_name", None),
]


async def test_a_world_that_cannot_be_is_refused(client: WorldClient, subtests: pytest.Subtests) -> None:
    """What is wrong with a new world is named by its path, and nothing is created."""
    before = (await client.get("/v1/worlds")).json()
    for body, code, path in _NO_WORLDS:
        with subtests.test(body=body[:60]):
            problem(await client.post("/v1/worlds", content=body, headers=JSON), 422, code, path=path)
    assert (await client.get("/v1/worlds")).json() == before


_FIELDS = [
    "checkpoint",
    "config",
    "experiment",
    "fork_of",
    "orchestrator",
    "order",
    "ruleset",
    "snapshot_every",
    "time_authority",
    "world_id",
]


async def test_a_refused_world_is_told_why_in_plain_words(client: WorldClient) -> None:
    """The detail says what a field must be and what it is instead, in the words of JSON."""
    for body, detail in (
        ([], "$: must be an object, not a list"),
        ({}, "$.world_id: is missing"),
        ({"world_id": 7}, "$.world_id: must be a string, not a number"),
        ({"world_id": None}, "$.world_id: must be a string, not null"),
        ({"world_id": "w", "ruleset": True}, "$.ruleset: must be a string, not a boolean"),
        ({"world_id": "w", "config": "big"}, "$.config: must be an object, not a string"),
        ({"world_id": "w", "experiment": {}}, "$.experiment: must be a string, not an object"),
        ({"world_id": "w", "experiment": ""}, "$.experiment: must not be empty"),
        ({"world_id": "w", "experiment": "x" * 201}, "$.experiment: must have at most 200 characters"),
        (
            {"world_id": "w", "parent": None},
            f"$.parent: unknown field; the body has {', '.join(_FIELDS)}",
        ),
    ):
        assert problem(await client.post("/v1/worlds", json=body), 422, "invalid_config")["detail"] == detail


async def test_a_world_may_have_its_own_configuration(client: WorldClient) -> None:
    """What a new world says of how its agents are served stands in its genesis, whole; without it nothing does."""
    wanted = {"max_agents": 7, "debounce_ms": 50, "tokens_per_s": None, "memory": {"max_tokens": 9}}
    own, plain, silent = (f"{client.world}-{n}" for n in range(3))
    for world, value, kept in (
        (own, wanted, OrchestratorConfig(max_agents=7, debounce_ms=50.0, memory=MemoryConfig(max_tokens=9))),
        (plain, {}, OrchestratorConfig()),
    ):
        body = {"world_id": world, "orchestrator": value}
        assert (await client.post("/v1/worlds", json=body)).status_code == 201
        genesis = (await client.get(f"/v1/worlds/{world}/effects/1")).json()
        assert genesis["payload"]["orchestrator"] == kept.model_dump()
        assert read_config(genesis["payload"]["orchestrator"]) == kept
    assert (await client.post("/v1/worlds", json={"world_id": silent, "orchestrator": None})).status_code == 201
    assert "orchestrator" not in (await client.get(f"/v1/worlds/{silent}/effects/1")).json()["payload"]


async def test_a_configuration_out_of_bounds_is_refused(client: WorldClient) -> None:
    """What is wrong with the configuration is named by its path and in plain words, and nothing is created."""
    before = (await client.get("/v1/worlds")).json()
    for value, path, words in (
        ([], "", "must be an object, not a list"),
        ({"memory": 5}, ".memory", "must be an object, not a number"),
        ({"max_agents": 0}, ".max_agents", "must be at least 1"),
        ({"max_agents": 2_000_000}, ".max_agents", "must be at most 1000000"),
        ({"max_agents": 1.5}, ".max_agents", "must be a whole number"),
        ({"max_agents": True}, ".max_agents", "must be a whole number"),
        ({"debounce_ms": "1"}, ".debounce_ms", "must be a number"),
        ({"debounce_ms": -1}, ".debounce_ms", "must be at least 0"),
        ({"deadline_ms": 1e9}, ".deadline_ms", "must be at most 86400000"),
        ({"tokens_per_s": 0}, ".tokens_per_s", "must be more than 0"),
        ({"record_rejections": 1}, ".record_rejections", "must be true or false"),
        (
            {"backpressure_policy": "shed"},
            ".backpressure_policy",
            "must be 'defer', 'shed_oldest' or 'drop_newest'",
        ),
        ({"memory": {"max_tokens": 0}}, ".memory.max_tokens", "must be at least 1"),
    ):
        response = await client.post("/v1/worlds", json={"world_id": "w", "orchestrator": value})
        found = problem(response, 422, "invalid_config", path=f"$.orchestrator{path}")
        assert found["detail"] == f"$.orchestrator{path}: {words}"
    for value, path, fields in (
        ({"colour": 1}, "$.orchestrator.colour", OrchestratorConfig.model_fields),
        ({"memory": {"colour": 1}}, "$.orchestrator.memory.colour", MemoryConfig.model_fields),
    ):
        response = await client.post("/v1/worlds", json={"world_id": "w", "orchestrator": value})
        found = problem(response, 422, "invalid_config", path=path)
        assert found["detail"].endswith(f" has {', '.join(sorted(fields))}")
    for text, path in ((b'{"debounce_ms":-0.0}', ".debounce_ms"), (b'{"debounce_ms":1e400}', ".debounce_ms")):
        body = b'{"world_id":"w","orchestrator":' + text + b"}"
        response = await client.post("/v1/worlds", content=body, headers=JSON)
        problem(response, 422, "invalid_config", path=f"$.orchestrator{path}")
    assert (await client.get("/v1/worlds")).json() == before


async def test_an_unknown_ruleset_names_the_known_ones(client: WorldClient) -> None:
    """A world with a ruleset that is not installed is told which are."""
    found = problem(await client.post("/v1/worlds", json={"world_id": "w", "ruleset": "whist"}), 422, "unknown_ruleset")
    assert {"simulation", "sandbox"} <= set(found["known"])


async def test_a_config_over_the_limit_is_refused(client: WorldClient) -> None:
    """A config too large for the genesis effect is refused."""
    body = {"world_id": "w", "config": {"text": "x" * 2**20}}
    problem(await client.post("/v1/worlds", json=body), 422, "invalid_config", path="$.config")


async def test_a_name_is_not_echoed_without_end(client: WorldClient) -> None:
    """However long the refused name is, the answer is short."""
    response = await client.post("/v1/worlds", json={"world_id": "w" * 1_000_000})
    problem(response, 422, "invalid_name")
    assert len(response.content) < 5000


async def _walk(client: WorldClient, path: str) -> list[list[str]]:
    pages = []
    url: str | None = path
    while url is not None:
        response = await client.get(url)
        assert response.status_code == 200, response.text
        pages.append([world["world_id"] for world in response.json()["worlds"]])
        url = response.links["next"]["url"] if "next" in response.links else None
        assert (url is None) == (response.json()["next_after"] is None)
    return pages


@alone
async def test_worlds_are_listed_page_by_page(client: WorldClient) -> None:
    """Following rel=next gives every world once, by name, and the last page says that it is the last."""
    names = [f"w{number}" for number in range(7)]
    for name in reversed(names):
        body: dict[str, Any] = {"world_id": name, "experiment": "odd & even" if name in {"w1", "w3", "w5"} else None}
        assert (await client.post("/v1/worlds", json=body)).status_code == 201
    assert await _walk(client, "/v1/worlds?limit=3") == [names[:3], names[3:6], names[6:]]
    assert await _walk(client, "/v1/worlds?limit=7") == [names]
    assert await _walk(client, "/v1/worlds?experiment=odd%20%26%20even&limit=2") == [["w1", "w3"], ["w5"]]
    assert await _walk(client, "/v1/worlds?experiment=none") == [[]]
    assert await _walk(client, "/v1/worlds?after=w5") == [["w6"]]
    assert await _walk(client, "/v1/worlds?limit=9007199254740991") == [names]


@alone
async def test_a_page_of_large_worlds_is_cut(client: WorldClient) -> None:
    """A page ends after a few MiB, however many worlds it was asked for, and the walk still gives them all."""
    for number in range(102):
        config = {"text": "x" * 900_000} if number < 6 else {}
        body = {"world_id": f"w{number:03}", "config": config}
        assert (await client.post("/v1/worlds", json=body)).status_code == 201
    pages = await _walk(client, "/v1/worlds?limit=1000")
    assert [len(page) for page in pages] == [100, 2]


async def test_a_bad_listing_is_refused(client: WorldClient, subtests: pytest.Subtests) -> None:
    """A parameter that cannot be is refused by its name."""
    numbers = ["limit=0", "limit=-1", "limit=x", "limit=99999999999999999999"]
    for query in [*numbers, "experiment=", "experiment=%00", "after=%00", f"after={'x' * 201}"]:
        with subtests.test(query=query):
            response = await client.get(f"/v1/worlds?{query}")
            name = query.partition("=")[0]
            problem(response, 422, "invalid_parameter", parameter=name, **{"in": "query"})


async def test_a_world_s_tag_follows_its_head(client: WorldClient, world: str) -> None:
    """The ETag stands for the head: 304 while it is the client's, another one after an append."""
    first = await client.get(f"/v1/worlds/{world}")
    tag = first.headers["etag"]
    assert tag == f'"{world}:1:{first.json()["head_checksum"][:8]}"'
    for asked in (tag, f"W/{tag}", f'"other", {tag}', "*"):
        unchanged = await client.get(f"/v1/worlds/{world}", headers={"If-None-Match": asked})
        assert (unchanged.status_code, unchanged.content, unchanged.headers["etag"]) == (304, b"", tag)
    assert (await client.post(f"/v1/worlds/{world}/effects", json=draft())).status_code == 201
    second = await client.get(f"/v1/worlds/{world}", headers={"If-None-Match": tag})
    assert second.status_code == 200
    assert second.headers["etag"].startswith(f'"{world}:2:')
    assert second.headers["cache-control"] == "no-cache"


_ABOUT_A_WORLD = ["", "/effects", "/effects?format=ndjson", "/effects/1", "/tail", "/verification"]
_ABOUT_A_WORLD += ["/state", "/state?at_seq=1", "/diff?from_seq=1", "/snapshots"]


async def test_an_unknown_world_is_not_found_anywhere(client: WorldClient, subtests: pytest.Subtests) -> None:
    """Every route about a world that is not there says so."""
    for path in _ABOUT_A_WORLD:
        with subtests.test(path=path):
            problem(await client.get(f"/v1/worlds/nowhere{path}"), 404, "world_not_found", world_id="nowhere")


async def test_a_name_that_cannot_be_is_refused_anywhere(client: WorldClient, subtests: pytest.Subtests) -> None:
    """Every route refuses a world name outside the allowed set, however it is encoded."""
    for name in ["a%20b", "%00", "a%00b", "-a", "w" * 201, "%F0%9F%99%82", "%ED%A0%80", "%FF", "..%5C", "w%0A"]:
        for path in _ABOUT_A_WORLD:
            with subtests.test(name=name, path=path):
                problem(await client.get(f"/v1/worlds/{name}{path}"), 422, "invalid_name")


async def test_posting_to_an_unknown_world_is_refused(client: WorldClient) -> None:
    """Appending to a world that is not there, or cannot be, is refused."""
    problem(await client.post("/v1/worlds/nowhere/effects", json=draft()), 404, "world_not_found")
    problem(await client.post("/v1/worlds/a%00b/effects", json=draft()), 422, "invalid_name")


async def test_a_config_comes_back_as_it_was_sent(client: WorldClient) -> None:
    """A config's numbers and characters are neither rounded nor replaced."""
    config = {"big": 2**53 - 1, "small": 5e-324, "whole": 1.0, "text": "é \U0001f642 \\ \n", "none": None}
    created = await client.post("/v1/worlds", json={"world_id": client.world, "config": config})
    assert created.json()["config"] == config
    sort = orjson.OPT_SORT_KEYS
    assert orjson.dumps(created.json()["config"], option=sort) == orjson.dumps(config, option=sort)


@alone
async def test_names_that_may_have_been_meant(client: WorldClient, world: str) -> None:
    """An unknown world is answered with those that are like it; the beginning of a name is none."""
    found = problem(await client.get("/v1/worlds/tovn/state"), 404, "world_not_found", near=[world])
    assert found["detail"] == f"no world named 'tovn'; did you mean {world!r}?"
    problem(await client.get(f"/v1/worlds/{world[:2]}"), 404, "world_not_found")
    assert "near" not in problem(await client.get("/v1/worlds/zzzzzz"), 404, "world_not_found")


@alone
async def test_filters_that_find_nothing_tell_what_may_have_been_meant(client: WorldClient, world: str) -> None:
    """An experiment, kind or source that is not there is answered with those that are like it; others with none."""
    await client.post("/v1/worlds", json={"world_id": "dorf", "experiment": "harvest", "ruleset": "social_rl"})
    effect = {"kind": "OfferMade", "payload": {}, "source_id": "alice", "schema_version": "1.0.0"}
    await client.post(f"/v1/worlds/{world}/effects", json=effect)

    async def near(path: str) -> Any:
        page = await client.get(path)
        assert page.status_code == 200, page.text
        return page.json().get("near")

    effects = f"/v1/worlds/{world}/effects"
    assert await near("/v1/worlds?experiment=harvset") == ["harvest"]
    assert await near(f"{effects}?kind=OfferMake") == ["OfferMade"]
    assert await near(f"{effects}?source_id=alicia&kind=OfferMade") == ["alice"]
    for path in ("/v1/worlds?experiment=harvest", "/v1/worlds?experiment=zzz"):
        assert await near(path) is None
    for query in ("kind=OfferMade", "kind=zzz", "kind=OfferMade&source_id=worldledger", "kind=OfferMake&after_seq=1"):
        assert await near(f"{effects}?{query}") is None


@alone
async def test_a_world_whose_row_cannot_be_read_is_left_out(client: WorldClient, world: str, database_url: str) -> None:
    """The listing has all other worlds and goes on behind the bad one, which is itself answered as tampered with."""
    connection = await asyncpg.connect(database_url)
    await connection.execute("""
        insert into worlds (world_id, world_uuid, ruleset, ruleset_version, config, time_authority)
        select name, gen_random_uuid(), 'sandbox', 1, '[]', 'wall' from unnest('{a,b}'::text[]) name;
        insert into heads (world_id, head_seq, head_checksum, sim_time, wall_time) values ('a', 0, '', 0, 0)
    """)
    await connection.close()
    assert await _walk(client, "/v1/worlds") == [[world]]
    assert await _walk(client, "/v1/worlds?limit=1") == [[world]]
    problem(await client.get("/v1/worlds/a"), 500, "tampered", world_id="a")
