"""Every query of the cookbook gives the right answer, worked out by hand from a few small worlds."""

from __future__ import annotations

import json
import re
from collections import Counter
from collections.abc import Iterator, Mapping
from datetime import UTC, datetime
from statistics import mean
from typing import TYPE_CHECKING, Any, NamedTuple

import pytest
from worldledger_service.database.analytics.asking import ask
from worldledger_service.database.analytics.cookbook import find, queries
from worldledger_service.database.engine import connect_one
from worldledger_service.runtime.moments import seen_at
from worldledger_service.settings import Settings
from worldledger_service.store import Store
from worldledger_social_rl.report import condition

from worldledger.errors import QueryRefusedError, UnknownQueryError
from worldledger.moments import Moment
from worldledger.observability.noise import noise_of

if TYPE_CHECKING:
    from worldledger_service.store.records import WorldRecord

#: On one worker, for which the databases are filled once.
pytestmark = pytest.mark.group("cookbook")

Rows = list[dict[str, Any]]


async def _answer(connection: Any, name: str, **given: Any) -> Rows:
    query = find(name)
    async with ask(connection, query.sql, query.arguments(given), timeout_s=30, cells="json") as answer:
        names = [column.name for column in answer.columns]
        found = [row async for batch in answer.batches() for row in batch]
    return [
        dict(zip(names, (None if cell is None else json.loads(cell) for cell in row), strict=True)) for row in found
    ]


def _table(names: str, *rows: tuple[Any, ...]) -> Rows:
    return [dict(zip(names.split(), row, strict=True)) for row in rows]


#: By query: what is asked, and all of the answer (numbers that are no exact doubles are compared as such).
EXPECTED: dict[str, tuple[Mapping[str, Any], Rows]] = {
    "engagement-by-round": (
        {"experiment": "social"},
        _table(
            "condition round_number runs feedbacks engagement alignment contribution",
            ("a", 1, 1, 2, 0.375, 0.625, 0.5),
            ("a", 2, 1, 2, 0.625, 0.75, 0.5),
            ("b", 1, 1, 1, 1, 1, 0.5),
            ("b", 2, 1, 1, 0.5, 0.75, 0.5),
        ),
    ),
    "change-by-condition": (
        {"experiment": "social"},
        _table(
            "condition runs agents engagement_first engagement_last engagement_rise engagement_rise_sd alignment_rise "
            "alignment_rise_sd",
            ("a", 1, 2, 0.375, 0.625, 0.25, 0.125**0.5, 0.125, 0.28125**0.5),
            ("b", 1, 1, 1, 0.5, -0.5, None, -0.25, None),
        ),
    ),
    "cues-before-rise": (
        {},
        _table(
            "cue adaptation_type times rises share_of_rises mean_rise",
            ("ask", "activate_cue", 1, 1, 1, 0.5),
            ("stop", "activate_cue", 1, 0, 0, -0.25),
        ),
    ),
    "adaptations-by-cue": (
        {"experiment": "social"},
        _table(
            "condition cue adaptation_type times agents intensity first_round last_round",
            ("a", "ask", "activate_cue", 1, 1, 0.5, 1, 1),
            ("b", "ask", "deactivate_cue", 1, 1, None, 1, 1),
            ("b", "stop", "activate_cue", 1, 1, None, 1, 1),
        ),
    ),
    "who-was-heard": (
        {"most": 2},
        _table(
            "world_id agent_id messages direct_references responses synthesis_inclusion references_per_message",
            ("s1", "W+B", 2, 3, 1, 0.25, 1.5),
            ("s1", "W+A", 2, 2, None, 0.5, 1),
        ),
    ),
    "messages-by-round": (
        {"experiment": "social"},
        _table(
            "condition round_number messages internal_messages agents characters_per_message messages_with_a_cue",
            ("a", 1, 2, 1, 3, 8.5, 1),
            ("a", 2, 2, 0, 2, 6.5, 0),
            ("b", 1, 1, 0, 1, 5, 0),
        ),
    ),
    "round-durations": (
        {},
        _table(
            "condition model rounds least_s median_s p90_s most_s",
            ("a", "owner/two", 2, 10, 15, 19, 20),
            ("b", "owner/two", 1, 30, 30, 30, 30),
        ),
    ),
    "win-rate-by-opening": (
        {"experiment": "chess", "plies": 1},
        _table("opening games white_wins draws black_wins", ("f3", 2, 0, 0, 1), ("e4", 1, 0, 1, 0)),
    ),
    "results-by-agent": (
        {"experiment": "chess"},
        _table(
            "agent_id games won drawn lost score moves illegal_attempts timeouts seconds_per_move",
            ("Ann", 3, 1, 1, 1, 0.5, 5, 0, 0, 3.8),
            ("Bob", 3, 1, 1, 1, 0.5, 5, 1, 0, 2.5),
            ("m1", 0, 0, 0, 0, None, 1, 0, 0, None),
            ("m2", 0, 0, 0, 0, None, 1, 1, 0, None),
        ),
    ),
    "head-to-head": (
        {},
        _table(
            "agent_id opponent_id games won drawn lost", ("Ann", "Bob", 3, 1, 1, 1), ("Bob", "Ann", 3, 1, 1, 1)
        ),
    ),
    "how-games-end": (
        {},
        _table(
            "status reason result games plies illegal_attempts",
            ("checkmate", "checkmate", "black_wins", 2, 4, 1),
            ("draw", "agreement", "draw", 1, 2, 0),
        ),
    ),
    "illegal-attempts-by-model": (
        {},
        _table(
            "model agents games moves illegal_attempts percent_illegal",
            ("m2", 1, 1, 1, 1, 50),
            ("Bob", 1, 3, 5, 1, 100 / 6),
            ("Ann", 1, 3, 5, 0, 0),
            ("owner/one", 1, 1, 1, 0, 0),
        ),
    ),
    "thinking-time-percentiles": (
        {"experiment": "chess"},
        _table(
            "agent_id moves mean_s median_s p90_s p99_s most_s",
            ("Ann", 5, 3.8, 3, 7, 8.8, 9),
            ("Bob", 4, 2.5, 2.5, 3.7, 3.97, 4),
        ),
    ),
    "variable-over-turns": (
        {"path": "gold", "experiment": "fair"},
        _table(
            "turn worlds values least mean median most", (0, 1, 3, 7, 69, 100, 100), (1, 1, 3, 7, 197 / 3, 90, 100)
        ),
    ),
    "reasoning-by-model": (
        {},
        _table(
            "model reasonings agents tokens tokens_per_reasoning characters_per_reasoning",
            ("owner/one", 2, 2, 10, 5, 6.5),
        ),
    ),
    "who-influenced-whom": (
        {},
        _table(
            "influencer influenced how times median_lag_s",
            ("ann", "bob", "caused", 2, 4.5),
            ("ann", "bob", "interacted", 2, None),
            ("W+A", "W+B", "answered", 1, 4),
            ("W+B", "W+A", "answered", 1, 3),
        ),
    ),
    "cause-to-effect-lag": (
        {"experiment": "box"},
        _table(
            "cause effect times median_effects_between median_s p90_s most_s",
            ("Interact", "Answered", 2, 1, 4.5, 5.7, 6),
        ),
    ),
    "rejected-intents": (
        {"world": "box"},
        _table(
            "code rule intent_kind times agents worlds for_example",
            ("illegal_effect", "payload", "Custom", 2, 2, 1, "no such thing"),
            ("permission_denied", None, "Custom", 1, 1, 1, "not you"),
        ),
    ),
    "acceptance-by-agent": (
        {"world": "box"},
        _table(
            "agent_id intents accepted rejected share_accepted oldest_context",
            ("ann", 4, 2, 2, 0.5, 1),
            ("bob", 2, 1, 1, 0.5, 4),
        ),
    ),
    "cancelled-generations": (
        {},
        _table(
            "experiment reason times agents median_ms p95_ms",
            ("box", "stale_due_to_effect_N", 2, 1, 20, 29),
            ("talk", "stale_due_to_effect_N", 1, 1, 5, 5),
        ),
    ),
    "interruption-cost": (
        {"world": "talk"},
        _table(
            "world_id global_seq agent_id model outcome interrupted_by_seq interrupted_by interrupted_by_kind "
            "tokens_in tokens_out price currency took_ms",
            ("talk", 2, "ann", "tiny", "interrupted", 3, "bob", "Speak", None, 12, 0.25, "EUR", 400),
            ("talk", 8, "ann", "tiny", "stale", None, None, None, 100, 20, 0.5, "EUR", 800),
        ),
    ),
    "model-latency": (
        {"experiment": "talk"},
        _table(
            "model generations interrupted failed first_token_median_ms first_token_p95_ms took_median_ms tokens_per_s "
            "tokens_in tokens_out price currency uncounted",
            ("tiny", 3, 2, 0, 200, 290, 400, 32.5, 200, 52, 1.25, "EUR", 1),
        ),
    ),
    "effects-by-kind": (
        {"experiment": "fair"},
        _table(
            "kind effects worlds rulesets",
            ("AgentRegistered", 3, 1, "simulation"),
            ("ReasoningRecorded", 2, 1, "simulation"),
            *((kind, 1, 1, "simulation") for kind in (
                "AgentStateChanged", "SimulationStarted", "TurnEnded", "TurnStarted", "WorldCreated"
            )),
        ),
    ),
    "busiest-agents": (
        {"most": 2, "experiment": "social"},
        _table(
            "agent_id worlds effects first_seen_at last_seen_at",
            ("coach", 2, 18, "2023-11-14T22:13:20+00:00", "2023-11-14T22:13:20+00:00"),
            ("W+A", 2, 3, "2023-11-14T22:13:20+00:00", "2023-11-14T22:13:20+00:00"),
        ),
    ),
}  # fmt: skip


async def test_answers(connection: Any, subtests: pytest.Subtests) -> None:
    """The rows, and their order, are what the worlds say."""
    for name, (given, wanted) in EXPECTED.items():
        with subtests.test(name=name):
            found = await _answer(connection, name, **given)
            assert [row.keys() for row in found] == [row.keys() for row in wanted]
            for row, right in zip(found, wanted, strict=True):
                near = {key: pytest.approx(value) if type(value) is float else value for key, value in right.items()}
                assert row == near


#: By query and fork: what of its history is told, the parent's rows up to the fork point and its own.
OF_FORKS: dict[tuple[str, str], Rows] = {
    ("who-influenced-whom", "box-on"): _table(
        "influencer influenced how times median_lag_s",
        ("ann", "bob", "caused", 2, 4.5),
        ("ann", "bob", "interacted", 2, None),
        ("bob", "ann", "caused", 2, 4.5),
        ("bob", "ann", "interacted", 1, None),
    ),
    ("who-influenced-whom", "s1-on"): _table(
        "influencer influenced how times median_lag_s",
        ("W+A", "W+B", "answered", 1, 4),
        ("W+B", "W+A", "answered", 1, 5),
    ),
    ("cause-to-effect-lag", "box-on"): _table(
        "cause effect times median_effects_between median_s p90_s most_s",
        ("Interact", "Answered", 3, 1, 3, 5.4, 6),
        ("Answered", "Nodded", 1, None, 6, 6, 6),
    ),
    ("rejected-intents", "box-on"): _table(
        "code rule intent_kind times agents worlds for_example",
        ("illegal_effect", "payload", "Custom", 2, 2, 1, "no such thing"),
    ),
    ("acceptance-by-agent", "box-on"): _table(
        "agent_id intents accepted rejected share_accepted oldest_context",
        ("ann", 3, 2, 1, 2 / 3, 1),
        ("bob", 3, 2, 1, 2 / 3, 4),
    ),
}


async def test_a_fork_is_asked_for_with_its_past(connection: Any, subtests: pytest.Subtests) -> None:
    """A query of one world tells of a fork what it inherits and its own; by its experiment, too, and by no other."""
    for (name, world), wanted in OF_FORKS.items():
        with subtests.test(name=name, world=world):
            found = await _answer(connection, name, world=world)
            near = [
                {key: pytest.approx(value) if type(value) is float else value for key, value in row.items()}
                for row in wanted
            ]
            assert found == near
            if any(parameter.name == "experiment" for parameter in find(name).parameters):
                experiment = "social" if world == "s1-on" else "box"
                assert await _answer(connection, name, world=world, experiment=experiment) == near
                assert await _answer(connection, name, world=world, experiment="none") == []


async def test_belief_against_truth(connection: Any) -> None:
    """What Bea is shown of Ann differs by the noise of the observation policy itself; inner variables are not shown."""
    rows = {
        (row["level"], row["noise"]): row for row in await _answer(connection, "belief-against-truth", world="fair")
    }
    key = await connection.fetchval("select replace(world_uuid::text, '-', '') from worlds where world_id = 'fair'")
    paths = ["/gold", "/inventory/food", "/inventory/metal", "/location/0", "/location/1"]
    errors = [0.2 * abs(noise_of(key, "Bea", "Ann", path, turn)) for path in paths for turn in (0, 1)]
    blurred = rows["external", 0.2]
    assert (blurred["values"], blurred["visible"]) == (12, 10)
    assert blurred["mean_error"] == pytest.approx(mean(errors))
    assert rows["insider", 0]["mean_error"] == 0
    assert (rows["unaware", 0]["visible"], rows["unaware", 0]["mean_error"]) == (0, None)
    gold = await _answer(connection, "belief-against-truth", world="fair", path="gold", turn=1)
    assert [(row["noise"], row["visible"]) for row in gold if row["noise"]] == [(0.2, 1)]


class Shown(NamedTuple):
    """A number that an agent may have been shown of another, and how far it lay from the truth; None: it was not."""

    level: str
    noise: float
    target: str
    path: str
    error: float | None


async def _shown(store: Store, world: WorldRecord, turn: int) -> Iterator[Shown]:
    """Return what agents saw of others' numbers at the end of a turn of a world's history, by their views."""
    place, seq = await store.states.place_at(world, Moment(unit=("turn", turn)))
    at = await store.states.state_at(place.world_id, seq)
    views = {name: await seen_at(store, at, name, place.head_seq) for name in at.state.metadata["agents"]}

    def each() -> Iterator[Shown]:
        for observer, registered in at.state.metadata["agents"].items():
            config = registered["policy"]["config"]
            for target, entity in at.state.entities.items():
                level, noise = config["targets"].get(target, config["default"])
                seen = dict(_numbers("", views[observer].visible_entities.get(target, {})))
                for path, number in _numbers("", entity):
                    if number and target != observer:
                        error = abs(seen[path] / number - 1) if path in seen else None
                        yield Shown(level, noise, target, path.removeprefix("."), error)

    return each()


def _numbers(path: str, value: Any) -> Iterator[tuple[str, float]]:
    if isinstance(value, dict):
        for key, item in value.items():
            yield from _numbers(f"{path}.{key}", item)
    elif isinstance(value, list):
        for index, item in enumerate(value):
            yield from _numbers(f"{path}[{index}]", item)
    elif type(value) in {int, float}:
        yield path, value


async def test_belief_against_truth_in_forks(connection: Any, answers_url: str) -> None:
    """Of a fork each turn counts with the noise with which it was seen, the parent's or the fork's own.

    The tally are the views of agents. Where the parent changed a variable once more in the turn that was under way at
    the fork point, the fork's value is not told: that of Ann's gold from the second turn on.
    """
    async with Store.open(answers_url, Settings(pool_size=2, snapshot_every=10**6)) as store:
        for name, turns in (("fair", 2), ("fair-on", 4), ("fair-still", 5)):
            world, counts = await store.world(name), Counter[tuple[str, float, bool]]()
            for turn in range(turns):
                shown = [*await _shown(store, world, turn)]
                told = [
                    each
                    for each in shown
                    if (name, each.target, each.path) != ("fair-still", "Ann", "gold") or turn < 2
                ]
                counts.update((each.level, each.noise, each.error is not None) for each in told)
                (food,) = [each.error for each in shown if each.noise and each.path == "inventory.food"]
                rows = await _answer(connection, "belief-against-truth", world=name, path="inventory.food", turn=turn)
                assert [row["mean_error"] for row in rows if row["noise"]] == [pytest.approx(food)]
            wanted = [
                (level, noise, counts[level, noise, False] + counts[level, noise, True], counts[level, noise, True])
                for level, noise in sorted({each[:2] for each in counts})
            ]
            rows = await _answer(connection, "belief-against-truth", world=name)
            assert [(row["level"], row["noise"], row["values"], row["visible"]) for row in rows] == wanted


async def test_activity(connection: Any) -> None:
    """Effects count in the hour in which they were stored, not in the hour that they tell of."""
    rows = await _answer(connection, "activity", experiment="box")
    assert sum(row["effects"] for row in rows) == 12
    assert all(abs(datetime.fromisoformat(row["hour_at"]).timestamp() - datetime.now(UTC).timestamp()) < 86400
               for row in rows)  # fmt: skip
    assert await _answer(connection, "activity", since="2999-01-01") == []


async def test_state_growth(connection: Any) -> None:
    """A world's snapshots are counted, with their sizes; those of forks are not."""
    (row,) = await _answer(connection, "state-growth")
    assert (row["world_id"], row["snapshots"], row["first_seq"], row["last_seq"]) == ("box", 1, 11, 11)
    assert row["first_bytes"] == row["last_bytes"] == row["most_bytes"] > 100


async def test_projections_behind(connection: Any) -> None:
    """Every projection is there, and none is behind."""
    rows = await _answer(connection, "projections-behind")
    assert {"games", "feedback", "turns"} <= {row["projection"] for row in rows}
    assert {(row["effects_behind"], row["behind_s"], row["is_scanning"]) for row in rows} == {(0, None, False)}


def test_every_query_is_tried() -> None:
    """There are at least twenty, and each has a test of what it answers."""
    apart = {"belief-against-truth", "activity", "state-growth", "projections-behind"}
    assert set(queries()) == EXPECTED.keys() | apart
    assert len(queries()) >= 20


async def test_an_experiment_that_is_not_there(connection: Any) -> None:
    """Where nothing is to be found every query is answered all the same, with nothing."""
    for query in queries().values():
        if any(parameter.name == "experiment" for parameter in query.parameters):
            given = {parameter.name: "none" for parameter in query.parameters if parameter.is_required}
            assert await _answer(connection, query.name, experiment="none", **given) == []


async def test_no_number_makes_a_query_fail(extremes_url: str, subtests: pytest.Subtests) -> None:
    """The largest numbers that a payload may have are no error of the query for everybody."""
    opened = await connect_one(extremes_url, role="worldledger_service")
    try:
        for name, query in queries().items():
            given = {"world": "fair" if name == "belief-against-truth" else "box", "path": "debt"}
            asked = {each.name: given[each.name] for each in query.parameters if each.is_required}
            with subtests.test(name=name):
                for row in await _answer(opened, name, **asked):
                    texts = {each for each in row.values() if isinstance(each, str)}
                    assert not {"Infinity", "-Infinity", "NaN"} & texts
    finally:
        await opened.close()


def test_every_query_explains_itself() -> None:
    """Each has a title, says what it tells and what its parameters are; every parameter stands in its SQL."""
    for query in queries().values():
        assert query.title
        assert query.description.endswith(("?", ".")), query.name
        for parameter in query.parameters:
            assert f":{parameter.name}" in query.sql
            assert parameter.description.endswith("."), query.name
            assert parameter.type in {"text", "bigint", "timestamptz", "double precision", "boolean"}


def test_runs_without_a_condition_are_labelled() -> None:
    """Where a row is a condition's, runs that tell none are named as the report names them, not left empty."""
    by_condition = [query.sql for query in queries().values() if "condition" in query.sql]
    assert len(by_condition) == 5
    for sql in by_condition:
        assert re.match(rf"[^;]*coalesce\(\w\.condition, '{condition(None)}'\) as condition", sql)


def test_arguments() -> None:
    """Defaults are filled in; what lacks, and what there is not, is told."""
    opening = find("win-rate-by-opening")
    assert opening.arguments({"plies": 2}) == {"experiment": None, "plies": 2, "least": "1"}
    with pytest.raises(QueryRefusedError, match="has no parameter ply; it has experiment, plies, least"):
        opening.arguments({"ply": 2})
    with pytest.raises(QueryRefusedError, match="needs the parameter world: The world"):
        find("acceptance-by-agent").arguments({})
    with pytest.raises(UnknownQueryError, match="there is no query 'openings'") as caught:
        find("openings")
    assert caught.value.details["known"] == list(queries())


#: What it counts is in no projection; it reads no payload.
READS_ALL = {"activity"}


async def test_no_payload_is_read_that_need_not_be(connection: Any, subtests: pytest.Subtests) -> None:
    """Where an index or a projection serves, no query goes through the whole log."""
    for name, query in queries().items():
        sql = query.sql
        given = {parameter.name: "none" for parameter in query.parameters if parameter.is_required}
        for parameter, value in query.arguments(given).items():
            literal = "null" if value is None else f"'{value}'"
            sql = re.sub(rf"(?<!:):{parameter}\b", literal, sql)
        with subtests.test(name=name):
            async with connection.transaction():
                # A few rows are always read quicker one after the other.
                await connection.execute("set local search_path = analytics; set local enable_seqscan = off")
                plan = "\n".join(line for (line,) in await connection.fetch(f"explain (costs off) {sql}"))
            assert name in READS_ALL or not re.search(r"Seq Scan on effects\b", plan), plan
            assert ("effects_caused_idx" in plan) == (name in {"cause-to-effect-lag", "who-influenced-whom"})
