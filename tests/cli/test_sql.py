"""`sql`: questions, how their answers are written, and what is said where one cannot be answered."""

from __future__ import annotations

import csv
import io
import json
import signal
import sys
from pathlib import Path
from urllib.parse import urlsplit, urlunsplit
from uuid import uuid4

import pyarrow.parquet as pq
import pytest
from worldledger_service.database.analytics.cookbook import queries

from .conftest import Cli
from .helpers import UP_TO_DATE, Result, Running, append, call, fed_worlds, seed, sql, untouched


def small(url: str) -> None:
    """Have a world of four effects."""
    seed(url, "w", 3)


def _refused(result: Result) -> str:
    assert (result.code, result.out) == (2, "")
    assert all(line.startswith("worldledger: ") for line in result.err.splitlines())
    return result.err


@pytest.mark.filled(by=small, read=True)
def test_a_table(on: Cli) -> None:
    """Columns are aligned, numbers to the right; what is long is cut, null is empty, nothing steers the terminal."""
    result = on("sql", "select kind, count(*) as effects, null as nothing from effects group by kind order by 2, 1")
    assert (result.code, result.err) == (0, "")
    assert result.out.splitlines() == [
        "     kind     | effects | nothing",
        "--------------+---------+---------",
        " Said         |       1 |",
        " WorldCreated |       1 |",
        " Moved        |       2 |",
    ]
    lines = on("sql", "select repeat('x', 100) as a, E'\\x1b[31m' as b").out.splitlines()
    assert lines[2] == f" {'x' * 79}… | \\x1b[31m"
    assert on("sql", "select 1 as a where false") == (0, " a\n---\n", "worldledger: there are no rows\n")


@pytest.mark.filled(by=untouched, read=True)
def test_doubles_in_a_table(on: Cli) -> None:
    """Six digits behind the point are shown, fewer where they say all; a tiny one, and other formats, keep theirs."""
    query = "select x from unnest(array[1 / 3::float8, 0.5, 2, 1e-7 / 3, -1e300, 'NaN', 123456.7999999]) as x"
    shown = [line.strip() for line in on("sql", query).out.splitlines()[2:]]
    assert shown == ["0.333333", "0.5", "2", "3.3333333333333334e-08", "-1e+300", "NaN", "123456.8"]
    assert on("sql", "select 1 / 3::float8 as x, 1 / 3::numeric as y", "--format", "csv").out == (
        "x,y\n0.3333333333333333,0.33333333333333333333\n"
    )


@pytest.mark.filled(by=untouched, read=True)
def test_a_table_is_cut(on: Cli) -> None:
    """A table ends after a thousand rows, or as many as were asked for, and says so; a file has all."""
    query = "select generate_series(1, 1001) as n"
    result = on("sql", query)
    assert len(result.out.splitlines()) == 1002
    assert "these are the first 1,000: --limit N for more" in result.err
    assert len(on("sql", query, "--limit", "2").out.splitlines()) == 4
    assert on("sql", query, "--format", "csv").out.splitlines() == ["n", *map(str, range(1, 1002))]
    cut = on("sql", query, "--format", "csv", "--limit", "1")
    assert (cut.out, "there are more rows" in cut.err) == ("n\n1\n", True)


@pytest.mark.filled(by=untouched, read=True)
def test_csv_and_json(on: Cli) -> None:
    """CSV has PostgreSQL's texts, JSON its own types; a name that comes twice has a number behind it in JSON."""
    query = "select 1 as a, 'x, \"y\"\nz ä' as a, null as b, true as c, '{\"k\": 1.0}'::json as d, 'NaN'::float8 as e"
    rows = list(csv.reader(io.StringIO(on("sql", query, "--format", "csv").out)))
    assert rows == [["a", "a", "b", "c", "d", "e"], ["1", 'x, "y"\nz ä', "", "true", '{"k": 1.0}', "NaN"]]
    (row,) = json.loads(on("sql", query, "--format", "json").out)
    assert row == {"a": 1, "a_2": 'x, "y"\nz ä', "b": None, "c": True, "d": {"k": 1.0}, "e": "NaN"}
    assert on("sql", "select 1 as a where false", "--format", "json").out == "[]\n"
    assert on("sql", "select 1 as a where false", "--format", "csv").out == "a\n"


@pytest.mark.filled(by=untouched, read=True)
def test_csv_is_no_program(on: Cli) -> None:
    """A text that a spreadsheet would take for a formula is kept from it, unless asked for; numbers stay numbers."""
    query = """select * from (values
        ('=1+1', -1, -0.5::float8, '-1 day'::interval, '"'), ('+1', 1, 1, '1 day', '@x'), ('-x', 0, 0, '0', 'a=b'),
        (chr(9) || '=1', null, null, null, null), (' =1', 1, 1, '0', chr(65309) || '1'),
        (chr(160) || '@x', 1, 1, '0', chr(65291) || chr(65293)), (chr(10) || '=1', 1, 1, '0', ' a=b')
        ) as v ("=a", n, x, i, t)"""
    assert on("sql", query, "--format", "csv").out.splitlines() == [
        "'=a,n,x,i,t",
        '\'=1+1,-1,-0.5,P-1D,""""',
        "'+1,1,1,P1D,'@x",
        "'-x,0,0,PT0S,a=b",
        "'\t=1,,,,",
        "' =1,1,1,PT0S,'\uff1d1",
        "'\xa0@x,1,1,PT0S,'\uff0b\uff0d",
        "\"'",
        '=1",1,1,PT0S, a=b',
    ]
    assert on("sql", query, "--format", "csv", "--no-escape").out.splitlines()[:2] == [
        "=a,n,x,i,t",
        '=1+1,-1,-0.5,P-1D,""""',
    ]


@pytest.mark.filled(by=untouched, read=True)
def test_csv_tells_nothing_from_null(on: Cli) -> None:
    """As COPY does: null is nothing, a text of nothing stands in quotes; so does whatever has a meaning in CSV."""
    query = "select * from (values (null, ''), ('', null), ('\\.', 'a\"b'), (e'a\rb', ' ')) as v (a, b)"
    assert on("sql", query, "--format", "csv").out == 'a,b\n,""\n"",\n"\\.","a""b"\n"a\rb", \n'
    assert on("sql", "select * from (values (null), ('')) as v (a)", "--format", "csv").out == 'a\n\n""\n'


@pytest.mark.filled(by=small, read=True)
def test_files(on: Cli, tmp_path: Path) -> None:
    """A file's name says its format; it appears whole, or not at all, and in place of another only if forced."""
    query = "select global_seq, kind, recorded_at, payload from effects order by 1"
    for name in ("a.csv", "a.json", "a.parquet"):
        (tmp_path / name).write_text("old")
        assert "--force replaces it" in _refused(on("sql", query, "-o", str(tmp_path / name)))
        assert on("sql", query, "-o", str(tmp_path / name), "--force") == (0, "", "")
    assert (tmp_path / "a.csv").read_text().startswith("global_seq,kind,")
    assert len(json.loads((tmp_path / "a.json").read_text())) == 4
    table = pq.read_table(tmp_path / "a.parquet")
    assert [str(kind) for kind in table.schema.types] == ["int64", "string", "timestamp[us, tz=UTC]", "string"]
    assert table["global_seq"].to_pylist() == [1, 2, 3, 4]
    assert table["recorded_at"][0].as_py().tzinfo is not None
    for name in ("b.csv", "b.parquet"):
        failing = "select 1 / (3 - g) from generate_series(1, 3) g"
        assert "division by zero" in _refused(on("sql", failing, "-o", str(tmp_path / name)))
    assert sorted(path.name for path in tmp_path.iterdir()) == ["a.csv", "a.json", "a.parquet"]
    assert on("sql", "select 1 as n where false", "-o", str(tmp_path / "none.parquet")).code == 0
    assert pq.read_table(tmp_path / "none.parquet").num_rows == 0
    assert "there are table, csv, json, parquet" in _refused(on("sql", "select 1", "--format", "xml"))


@pytest.mark.filled(by=untouched, read=True)
def test_the_views_are_listed(on: Cli) -> None:
    """`--tables` lists the views with what they have, and with a name its columns."""
    rows = [line.split("|") for line in on("sql", "--tables").out.splitlines()]
    assert [cell.strip() for cell in rows[0]] == ["view", "what it has"]
    listed = {row[0].strip(): row[1].strip() for row in rows[2:] if len(row) == 2}
    assert listed["effects"]
    assert all(listed.values())
    columns = [
        json.loads(line.rstrip(","))
        for line in on("sql", "--tables", "effects", "--format", "json").out.split("\n")
        if "{" in line
    ]
    assert {"global_seq": "bigint"}.items() <= {column["column"]: column["type"] for column in columns}.items()
    assert all(column["what it is"] for column in columns)
    assert _refused(on("sql", "--tables", "effect")).startswith(
        "worldledger: there is no view 'effect'; did you mean 'effects'"
    )
    assert "`worldledger sql --tables` has all" in _refused(on("sql", "--tables", "zzz"))


@pytest.mark.filled(by=untouched, read=True)
def test_parquet_has_types(on: Cli, tmp_path: Path) -> None:
    """Types that Arrow has are Arrow's; moments that Python does not know are kept, infinite ones are null."""
    query = """
        select 1::smallint as a, 1.5::numeric as b, date '2026-01-02' as c, '-infinity'::timestamptz as d,
               timestamptz '20000-01-01Z' as e, array[1, null] as f, array['x'] as g, interval '1 day' as h,
               'x'::bytea as i
    """
    assert on("sql", query, "-o", str(tmp_path / "a.parquet")).code == 0
    table = pq.read_table(tmp_path / "a.parquet")
    assert [str(field.type) for field in table.schema] == [
        *("int16", "double", "date32[day]", "timestamp[us, tz=UTC]", "timestamp[us, tz=UTC]"),
        *("list<element: int32>", "list<element: string>", "string", "binary"),
    ]
    assert [table[name][0].as_py() for name in "abdfghi"] == [1, 1.5, None, [1, None], ["x"], "P1D", b"x"]
    assert table["e"].cast("int64")[0].as_py() == 568_971_820_800_000_000
    assert "cast it to text" in _refused(on("sql", "select array[array[1]]", "-o", str(tmp_path / "b.parquet")))


@pytest.mark.filled(by=untouched, read=True)
def test_any_number_of_rows_is_streamed(database_url: str) -> None:
    """Rows are there while the query goes on, and whoever has seen enough ends it."""
    query = "select g, pg_sleep(case when g > 5000 then 600 else 0 end)::text from generate_series(1, 5001) g"
    with Running("sql", query, "--format", "csv", "--database-url", database_url) as running:
        assert [running.line() for _ in range(3)] == ["g,pg_sleep", '1,""', '2,""']
        assert running.end(signal.SIGINT).code == 130


@pytest.mark.filled(by=small, read=True)
def test_parameters(on: Cli) -> None:
    """They are named in the query and given one by one."""
    query = "select global_seq from effects where world_id = :world and global_seq > :after order by 1 limit 1"
    result = on("sql", query, "--param", "world=w", "--param", "after=2", "--format", "csv")
    assert result.out == "global_seq\n3\n"
    said = _refused(on("sql", query, "--param", "world=w", "--param", "after=two"))
    assert "the parameter after: invalid input syntax for type bigint" in said
    assert "has no parameter :x" in _refused(on("sql", query, "--param", "x=1"))
    assert "--param NAME=VALUE" in _refused(on("sql", query))
    assert "a parameter is NAME=VALUE" in _refused(on("sql", query, "--param", "world"))


@pytest.mark.filled(by=untouched, read=True)
def test_a_query_from_stdin(database_url: str) -> None:
    """A dash is a query that is piped in."""
    result = call("sql", "-", "--format", "csv", "--database-url", database_url, stdin=b"select 1 as n -- one\n;\n")
    assert result == (0, "n\n1\n", "")


def test_what_goes_wrong_is_shown(on: Cli) -> None:
    """The line, a caret under the place, and what helps."""
    assert on("sql", "select *\n\tfrom effects where knd = 'x'").err == (
        'worldledger: column "knd" does not exist\n'
        "worldledger:    from effects where knd = 'x'\n"
        "worldledger:                       ^\n"
        'worldledger: Perhaps you meant to reference the column "effects.kind".\n'
    )
    said = _refused(on("sql", f"select {'1 + ' * 100}, from effects"))
    place = said.splitlines()[2].index("^")
    assert said.splitlines()[1][place : place + 4] == ", fr"
    assert "ask analytics.effects instead" in _refused(on("sql", "select * from public.effects"))
    for query in ("drop view effects", "begin", "vacuum"):
        assert "only questions can be asked" in _refused(on("sql", query))
    assert _refused(on("sql", "delete from effects")) == "worldledger: a query may read, and changes nothing\n"
    assert "a query may read, and changes nothing" in _refused(on("sql", "with x as (delete from worlds returning 1) "
                                                                         "select * from x"))  # fmt: skip
    said = _refused(on("sql", "select pg_sleep(100)::text", "--timeout", "0.1"))
    assert "stopped after 0.1 s" in said
    assert "--timeout 0.4" in said
    assert "what is the question?" in _refused(on("sql"))


@pytest.mark.filled(by=fed_worlds, read=True)
def test_the_cookbook(on: Cli, monkeypatch: pytest.MonkeyPatch) -> None:
    """A name is a query of the cookbook; --list names all of them, or shows one, on a terminal broken between words."""
    rows = on("sql", "--list").out.splitlines()
    assert [row.split()[0] for row in rows[1:]] == list(queries())
    shown = on("sql", "--list", "win-rate-by-opening").out
    assert "  --param plies=… (bigint, default 4): By how many first moves" in shown
    assert "from games g" in shown
    monkeypatch.setattr("worldledger_service.cli.output.screen_width", lambda: 60)
    told, _, sql = on("sql", "--list", "win-rate-by-opening").out.partition("\n\n")
    assert max(map(len, told.splitlines())) <= 60
    assert shown.endswith(sql)
    monkeypatch.undo()
    listed = json.loads(on("sql", "--list", "--format", "json").out)
    assert listed[0].keys() == {"name", "title", "description", "parameters", "sql"}
    result = on("sql", "win-rate-by-opening", "--param", "plies=2", "--format", "csv")
    assert result.out == "opening,games,white_wins,draws,black_wins\nf3 e5,1,0,0,1\n"
    meant = "there is no query 'who-was-herd'; did you mean 'who-was-heard' or"
    assert meant in _refused(on("sql", "who-was-herd"))
    assert meant in _refused(on("sql", "--list", "who-was-herd"))
    assert _refused(on("sql", "zz")) == "worldledger: there is no query 'zz': `worldledger sql --list` has all\n"
    assert "has no parameter x; it has experiment, plies, least" in _refused(
        on("sql", "win-rate-by-opening", "--param", "x=1")
    )
    assert "needs the parameter path: The variable's place" in _refused(on("sql", "variable-over-turns"))


def test_projections_that_are_behind(on: Cli, database_url: str) -> None:
    """One that no runner has made, or that does not hold all of the log, is told on stderr with what to run."""
    seed(database_url, "w", 3)
    said = _refused(on("sql", "select count(*) from entities"))
    assert "analytics.entities is there once somebody feeds the projections: run `worldledger project`" in said
    assert on("project", "--once")[:2] == (0, UP_TO_DATE)
    assert on("sql", "select count(*) from entities e -- games").err == ""
    append(database_url, "w", 2)
    result = on("sql", "select count(*) as entities from entities, games where 'moves' <> ''")
    assert result.code == 0
    assert result.err == (
        "worldledger: the projection entities is 2 effects behind in 1 world: run `worldledger project --once`, "
        "or wait for the service\n"
    )
    assert on("sql", "select count(*) from entities", "--quiet").err == ""
    assert on("projections", "pause", "entities").code == 0
    assert on("sql", "select count(*) from entities").err == (
        "worldledger: the projection entities is 2 effects behind in 1 world (paused): "
        "run `worldledger projections resume entities`\n"
    )


def test_whoever_is_only_a_reader_may_ask(cli: Cli, database_url: str) -> None:
    """A user who may become the reader asks, one who may only be the service does, too, and others are told."""
    user = f"wl_ana_{uuid4().hex[:12]}"
    parts = urlsplit(database_url)
    url = urlunsplit(parts._replace(netloc=f"{user}:pw@{parts.netloc.rpartition('@')[2]}"))
    sql(database_url, f"create role {user} login password 'pw'")
    try:
        ask = ("sql", "select current_user::text as who", "--format", "csv", "--database-url", url)
        said = _refused(cli(*ask))
        assert "GRANT" in said
        for role in ("service", "reader"):
            sql(database_url, f"grant worldledger_{role} to {user}")
            assert cli(*ask) == (0, "who\nworldledger_guest\n", "")
            sql(database_url, f"revoke worldledger_{role} from {user}")
    finally:
        sql(database_url, f"drop role {user}")


def test_a_database_without_tables(cli: Cli, empty_database_url: str) -> None:
    """What to run is said."""
    assert "worldledger db upgrade" in _refused(cli("sql", "select 1", "--database-url", empty_database_url))


@pytest.mark.filled(by=untouched, read=True)
def test_parquet_is_nothing_for_a_terminal(on: Cli, monkeypatch: pytest.MonkeyPatch) -> None:
    """Where nobody named a file, and somebody looks, nothing is asked."""
    monkeypatch.setattr(sys.stdout, "isatty", lambda: True)
    assert "nothing for a terminal" in on("sql", "select 1", "--format", "parquet").err
