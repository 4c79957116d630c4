"""What a report says is what plain SQL says, and what it does not say it names."""

from __future__ import annotations

import asyncio
import hashlib
from collections.abc import Callable

import asyncpg
import pytest
from worldledger_chess import report as chess
from worldledger_service.report import experiment
from worldledger_service.report.blocks import Report
from worldledger_service.report.snapshot import snapshot
from worldledger_simulation import report as simulation

from tests.report.conftest import ODD
from tests.report.helpers import numbers, page_of, read, rows
from worldledger.errors import SchemaVersionError, SimulationError

pytestmark = pytest.mark.group("report")


@pytest.fixture(scope="module")
def examples(ledger: str) -> Report:
    """Make the report of the example data."""
    return read(ledger, "examples")


def test_sections_are_what_the_experiment_has(ledger: str) -> None:
    """Runs, games and simulations have a section where there are any; worlds and effects always have one."""
    names = ("examples", "social", "games", "market")
    assert {name: [section.id for section in read(ledger, name).sections] for name in names} == {
        "examples": ["chess", "social", "worlds", "effects"],
        "social": ["social", "worlds", "effects"],
        "games": ["chess", "worlds", "effects"],
        "market": ["simulation", "worlds", "effects"],
    }
    empty = read(ledger, "empty")
    assert [section.id for section in empty.sections] == ["worlds", "effects"]
    assert numbers(empty)["kinds"] == [{"kind": "WorldCreated", "effects": 1, "share": 1.0, "worlds": 1}]
    assert empty.behind == []


def test_the_log(ledger: str, examples: Report) -> None:
    """Worlds, effects by kind, and the digest of all heads are those of the log."""
    heads = rows(
        ledger,
        "select world_id, head_seq, encode(head_checksum, 'hex') from heads join worlds using (world_id) "
        "where experiment = 'examples' order by world_id",
    )
    text = "".join(f"{world} {seq} {checksum}\n" for world, seq, checksum in heads)
    assert examples.facts["heads_sha256"] == hashlib.sha256(text.encode()).hexdigest()
    assert (examples.facts["worlds"], examples.facts["effects"]) == (len(heads), sum(head[1] for head in heads))
    kinds = rows(
        ledger,
        "select kind, count(*), count(distinct world_id) from effects join worlds using (world_id) "
        "where experiment = 'examples' group by kind",
    )
    said = {(row["kind"], row["effects"], row["worlds"]) for row in numbers(examples)["kinds"]}
    assert said == set(kinds)
    assert {(row["world_id"], row["head_seq"], row["head_checksum"]) for row in numbers(examples)["heads"]} == set(
        heads
    )


def test_feedback_by_round_and_condition(ledger: str, examples: Report) -> None:
    """Means are over the runs' means, with the standard deviation between runs; the page shows two digits."""
    measures = (
        ("engagement", "engagement", "Engagement"),
        ("alignment", "theoretical_alignment", "Theoretical alignment"),
        ("contribution", "contribution_value", "Contribution"),
    )
    page = page_of(examples)
    for name, field, title in measures:
        wanted = rows(
            ledger,
            f"""
            select condition, round_number, count(*), avg(mean), stddev_samp(mean)
            from (select s.condition, f.round_number, avg(f.{field}) as mean
                  from projections.feedback f join projections.social_runs s using (world_id)
                  join worlds w using (world_id) where w.experiment = 'examples'
                  group by s.condition, f.world_id, f.round_number) m
            group by 1, 2 order by 1, 2
            """,
        )
        found = [tuple(row.values()) for row in numbers(examples)[f"{name}_by_round"]]
        assert [row[:3] for row in found] == [row[:3] for row in wanted]
        assert [row[3:] for row in found] == [pytest.approx(row[3:], abs=1e-12) for row in wanted]
        assert [row[3] for row in page.table(title)] == [f"{row[3]:.2f}" for row in wanted]


def test_cues(ledger: str, examples: Report) -> None:
    """Before and after a cue is the agent's last feedback before it and the next one, worked out row by row."""
    given = rows(
        ledger,
        "select f.world_id, f.agent_id, f.global_seq, f.theoretical_alignment from projections.feedback f "
        "join worlds using (world_id) where experiment = 'examples' order by f.global_seq",
    )
    cues = rows(
        ledger,
        "select a.cue, a.world_id, a.agent_id, a.global_seq from projections.policy_adaptations a "
        "join worlds using (world_id) where experiment = 'examples' and adaptation_type = 'activate_cue'",
    )
    pairs: dict[str, list[tuple[float, float]]] = {}
    for cue, world, agent, seq in cues:
        before = [row[3] for row in given if row[:2] == (world, agent) and row[2] < seq]
        after = [row[3] for row in given if row[:2] == (world, agent) and row[2] > seq]
        if before and after:
            pairs.setdefault(cue, []).append((before[-1], after[0]))
    found = {row["cue"]: row for row in numbers(examples)["alignment_by_cue"]}
    none = found.pop("(no cue activated)")
    assert {cue: row["pairs"] for cue, row in found.items()} == {cue: len(of_cue) for cue, of_cue in pairs.items()}
    for cue, of_cue in pairs.items():
        assert found[cue]["before"] == pytest.approx(sum(pair[0] for pair in of_cue) / len(of_cue))
        assert found[cue]["after"] == pytest.approx(sum(pair[1] for pair in of_cue) / len(of_cue))
        assert found[cue]["risen"] == sum(pair[1] > pair[0] for pair in of_cue) / len(of_cue)
    spans = sum(len(agents) - 1 for agents in _by_agent(given).values())
    assert none["pairs"] == spans - len({(cue[1:3], _next(given, cue)) for cue in cues if _next(given, cue)})


def _by_agent(given: list[tuple[object, ...]]) -> dict[object, list[object]]:
    found: dict[object, list[object]] = {}
    for row in given:
        found.setdefault(row[:2], []).append(row[2])
    return found


def _next(given: list[tuple[object, ...]], cue: tuple[object, ...]) -> object:
    return next((row[2] for row in given if row[:2] == cue[1:3] and int(str(row[2])) > int(str(cue[3]))), None)


def test_games(ledger: str, examples: Report) -> None:
    """Results, illegal attempts, lengths, openings and thinking times are those of the games and moves."""
    found = numbers(examples)
    players = rows(
        ledger,
        """
        select p, count(*) filter (where result is not null),
               count(*) filter (where result = case when p = white then 'white_wins' else 'black_wins' end),
               count(*) filter (where result = 'draw')
        from projections.games, unnest(array[white, black]) p where experiment = 'examples' group by p
        """,
    )
    assert {(row["agent_id"], row["games"], row["won"], row["drawn"]) for row in found["players"]} == set(players)
    illegal = "select sum(illegal_moves_attempted)::bigint from projections.games where experiment = 'examples'"
    assert [(sum(row["illegal"] for row in found["illegal_attempts"]),)] == rows(ledger, illegal)
    over = "select plies from projections.games where experiment = 'examples' and result is not null"
    plies = [row[0] for row in rows(ledger, over)]
    for row in found["game_lengths"]:
        assert row["games"] == sum(row["from"] <= count < row["below"] for count in plies)
    assert sum(row["games"] for row in found["game_lengths"]) == len(plies)
    assert sum(row["games"] for row in found["endings"]) == len(found["games"]) == 11
    openings = sum(row["games"] for row in found["openings"])
    assert 0 < openings < len(plies)  # some of them begin elsewhere
    times = rows(
        ledger,
        "select agent_id, count(*), percentile_disc(0.5) within group (order by thinking_time) "
        "from projections.moves join worlds using (world_id) "
        "where experiment = 'examples' and thinking_time is not null group by 1",
    )
    assert {(row["agent_id"], row["moves"], row["p50"]) for row in found["thinking_time"]} == set(times)


def test_variables_of_simulations(ledger: str) -> None:
    """A global variable has a line for each of a few worlds, and of many worlds the mean and the range."""
    few = numbers(read(ledger, "market"))
    assert [tuple(row.values()) for row in few["global_price"]] == [
        (world, turn, value) for world in ("one", "two") for turn, value in enumerate((2.5, 1.5, 3.0, 4.5))
    ]
    many = numbers(read(ledger, "many"))
    assert [tuple(row.values()) for row in many["global_price"]] == [
        (turn, 7, value, value, value) for turn, value in enumerate((2.5, 1.5, 3.0, 4.5))
    ]


def test_what_is_not_told_is_null(ledger: str) -> None:
    """One run has no spread and is no zero; tokens that nobody counted are none; numbers at their limits do no harm."""
    odd = numbers(read(ledger, ODD))
    spreads = {(row["condition"], row["round_number"]): row["spread"] for row in odd["engagement_by_round"]}
    assert spreads["_b$b$", 1] is None
    assert spreads[ODD, 1] == pytest.approx(1e150)
    market = numbers(read(ledger, "market"))["reasoning"]
    assert [tuple(row.values()) for row in market] == [("m", 4, 1, 36), (None, 2, 1, None)]


def test_every_condition_is_drawn(ledger: str) -> None:
    """Conditions that are more than one plot has lines for have several; 1 and true are two."""
    told = numbers(read(ledger, "conditions"))
    first, second = (told[f"engagement_by_round_{part}"] for part in (1, 2))
    assert [row["condition"] for row in (*first, *second)] == ["0", "1", "2", "3", "4", "5", "true"]
    assert (len(first), len(second)) == (6, 1)


def test_what_is_not_listed_is_told(ledger: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """A list that is cut short says how many more there are, and gives the query for all of them."""
    monkeypatch.setattr(chess, "_GAMES", 2)
    monkeypatch.setattr(simulation, "_WORLDS", 1)
    report = read(ledger, "examples")
    (games,) = (table for table in report.document()["sections"][0]["tables"] if table["id"] == "games")
    assert (len(games["rows"]), games["more_rows"]) == (2, 9)
    assert len(rows(ledger, games["sql"], "examples")) == 11
    assert f"… and 9 more rows: <code>{games['sql']}</code>" in page_of(report).text
    (turns,) = (one for one in read(ledger, "market").sections[0].document()["tables"] if one["id"] == "turns")
    assert turns["more_rows"] == 1


def test_every_query_that_is_given_can_be_run(ledger: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """The SQL beside a cut list runs as it stands."""
    for module in (chess, simulation):
        for name in ("_GAMES", "_PLAYERS", "_DRAWN", "_WORLDS", "_VARIABLES", "_ROWS"):
            monkeypatch.setattr(module, name, 1, raising=False)
    found = [
        block["sql"]
        for name in ("examples", "market")
        for section in read(ledger, name).document()["sections"]
        for block in (*section["tables"], *section["figures"])
        if block["sql"]
    ]
    assert len(found) > 4
    for query in found:
        rows(ledger, query, "examples")


def test_one_moment(database_url: str) -> None:
    """What is committed while a report is made is not in it: it reads one snapshot, and cannot write."""
    count = "select count(*) from analytics.worlds"
    add = (
        "insert into public.worlds (world_id, world_uuid, ruleset, ruleset_version, config, time_authority) "
        "values ('later', gen_random_uuid(), 'sandbox', 1, '{}', 'wall')"
    )

    async def look() -> None:
        admin = await asyncpg.connect(database_url)
        async with snapshot(database_url, ["games", "worlds"]) as (opened, there):
            assert there == {"worlds"}
            assert await opened.value(count) == 0
            await admin.execute(add)
            assert await opened.value(count) == 0
            assert await admin.fetchval(count) == 1
            with pytest.raises(asyncpg.PostgresError, match=r"read-only|permission denied"):
                await opened.value(add)
        await admin.close()

    asyncio.run(look())


def test_names_that_are_none(ledger: str) -> None:
    """An experiment that is not there is refused; those spelt alike are named."""
    with pytest.raises(SimulationError, match="no experiment 'Exampels'; did you mean 'examples'"):
        read(ledger, "Exampels")
    with pytest.raises(SimulationError, match="no experiment 'zzzz'; see `worldledger worlds`"):
        read(ledger, "zzzz")
    for name in ("a\x00b", "\udcff"):
        with pytest.raises(SimulationError, match="there is no experiment"):
            read(ledger, name)


def test_a_database_without_worlds_or_tables(make_database: Callable[..., str]) -> None:
    """It is said what to do."""
    with pytest.raises(SimulationError, match="there are no experiments"):
        read(make_database(), "a")
    with pytest.raises(SchemaVersionError, match="worldledger db upgrade"):
        read(make_database(migrated=False), "a")


def test_questions_are_counted(ledger: str) -> None:
    """Who shows progress is told of each question, and about as many come as are expected."""
    asked: list[int] = []
    asyncio.run(experiment.make_report(ledger, ODD, asked=asked.append))
    assert asked == [*range(1, len(asked) + 1)]
    assert len(asked) <= experiment.QUESTIONS
