"""A kind of worlds by a third party: its wheel, installed beside Worldledger, through its whole life.

The package is `auction`. It is installed into an environment of its own, which borrows the packages of this one and the
checkout. Nothing is downloaded.
"""

from __future__ import annotations

import asyncio
import json
import shutil
import subprocess
import sys
import sysconfig
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Final

import asyncpg
import httpx2
import pytest

from tests import warm
from tests.cli.helpers import Result
from tests.conftest import Servers
from tests.shipping.examples import Runner, Terminal, examples
from tests.shipping.project import ROOT, environment, pyproject, run, serving
from tests.waiting import block_until

pytestmark = [pytest.mark.slow, pytest.mark.group("auction")]

SOURCE: Final = Path(__file__).with_name("auction")
_NAME: Final = "worldledger-auction"
#: What the versions of the package differ in from its source: file, text, other text.
_TITLE: Final = ('lot["title"] or "untitled"', 'lot["title"].capitalize()')
_VERSIONS: Final[dict[str, list[tuple[str, str]]]] = {
    "1.0.0": [_TITLE],  # cannot digest a lot without a title
    "1.0.1": [],
    "2.0.0": [("    version = 1\n", "    version = 2\n"), ('"untitled"', "f\"lot {lot['lot']}\"")],
}
#: The second version of its views, which comes with version 2.0.0: one more column.
_VIEWS_2: Final = """
create or replace view bid_placed as
select
    e.world_id,
    w.experiment,
    e.global_seq,
    e.source_id as bidder,
    analytics.json_bigint(e.effect #> '{payload,lot}') as lot,
    analytics.json_bigint(e.effect #> '{payload,amount}') as amount,
    e.sim_time as sim_time_s
from public.effects e
left join public.worlds w on w.world_id = e.world_id
where e.kind = 'BidPlaced';
"""
#: Kind, source, sim_time and payload.
_Effect = tuple[str, str, int, dict[str, Any]]
SPRING: Final[list[_Effect]] = [
    ("LotOpened", "ann", 0, {"lot": 1, "title": "A lamp", "reserve": 10}),
    ("BidPlaced", "bob", 5, {"lot": 1, "amount": 12}),
    ("BidPlaced", "cat", 9, {"lot": 1, "amount": 15}),
    ("LotClosed", "ann", 20, {"lot": 1}),
    ("LotOpened", "dan", 30, {"lot": 2, "title": "A chair", "reserve": 40}),
]
AUTUMN: Final[list[_Effect]] = [
    ("LotOpened", "eve", 0, {"lot": 1, "reserve": 0}),
    ("BidPlaced", "cat", 5, {"lot": 1, "amount": 7}),
    ("LotClosed", "eve", 9, {"lot": 1}),
]


class Installation:
    """An environment with Worldledger, in which the package can be installed; and a database."""

    def __init__(self, folder: Path, database_url: str) -> None:
        self.folder = folder
        self.url = database_url
        self._installed: str | None = None
        subprocess.run([sys.executable, "-m", "venv", "--without-pip", str(folder / "env")], check=True)
        self._python = str(folder / "env" / "bin" / "python")
        packages = pyproject()["tool"]["hatch"]["build"]["dev-mode-dirs"]
        borrowed = [*(str(ROOT / each) for each in packages), *map(sysconfig.get_path, ("purelib", "platlib"))]
        (site,) = (folder / "env" / "lib").glob("python*/site-packages")
        (site / "borrowed.pth").write_text("\n".join(borrowed))
        self._env = environment(WORLDLEDGER_DATABASE_URL=database_url, COLUMNS="160", HOME=str(folder), TERM="dumb")
        self._env.pop("PYTHONPATH", None)
        self._program = folder / "env" / "bin" / "worldledger"
        self._program.write_text(f"#!{self._python}\nfrom worldledger_service.cli.entry import main\nmain()\n")
        programs = folder / "programs"
        programs.mkdir()
        self.terminal = Terminal(folder, self._env, programs, program=self._program, interpreter=self._python)

    def has(self, version: str | None, *others: str) -> None:
        """Have this version of the package installed, or one of the others that is; None: no version."""
        if self._installed in {version, *others}:
            return
        pip = [sys.executable, "-m", "pip", "--python", self._python, "--disable-pip-version-check", "--quiet"]
        if version is None:
            run([*pip, "uninstall", "--yes", _NAME], cwd=self.folder, env=self._env)
        else:
            alone = ["--no-deps", "--no-index", "--no-build-isolation", "--no-compile"]
            run([*pip, "install", *alone, str(self._wheel(version))], cwd=self.folder, env=self._env)
        self._installed = version

    def _wheel(self, version: str) -> Path:
        """Build the wheel of a version from the source."""
        source = self.folder / version
        shutil.copytree(SOURCE, source)
        file = source / "src" / "worldledger_auction" / "projections.py"
        for before, after in _VERSIONS[version]:
            text = file.read_text()
            assert before in text
            file.write_text(text.replace(before, after, 1))
        if version == "2.0.0":
            (file.parent / "analytics" / "0002_times.sql").write_text(_VIEWS_2)
        about = source / "pyproject.toml"
        about.write_text(about.read_text().replace('version = "1.0.0"', f'version = "{version}"'))
        run([sys.executable, "-m", "hatchling", "build", "-t", "wheel"], cwd=source, env=self._env)
        (wheel,) = (source / "dist").glob("*.whl")
        return wheel

    def call(self, *commands: str) -> list[Result]:
        """Run commands of the program; return how each ended."""
        how: dict[str, Any] = {"program": self._program, "python": self._python, "cwd": self.folder}
        ends = [warm.run(command.split(), self._env, **how) for command in commands]
        return [Result(end.returncode, end.stdout, end.stderr) for end in ends]

    @contextmanager
    def serving(self, *, feeding: bool) -> Iterator[httpx2.Client]:
        """Serve, feeding the projections or not, and lend a client."""
        how: dict[str, Any] = {"program": self._program, "python": self._python, "feeding": feeding}
        with (
            serving(self.folder, self._env, **how) as address,
            httpx2.Client(base_url=f"http://{address}/v1") as client,
        ):
            yield client

    def rows(self, query: str) -> list[tuple[Any, ...]]:
        """Return the rows of a query."""

        async def ask() -> list[tuple[Any, ...]]:
            connection = await asyncpg.connect(self.url)
            try:
                return [tuple(row) for row in await connection.fetch(query)]
            finally:
                await connection.close()

        return asyncio.run(ask())

    def record(self, name: str, effects: list[_Effect]) -> None:
        """Write a file for the importer."""
        names = ("kind", "source_id", "sim_time", "payload")
        lines = [json.dumps(dict(zip(names, effect, strict=True))) for effect in effects]
        (self.folder / name).write_text("".join(f"{line}\n" for line in lines))


@pytest.fixture(scope="module")
def place(servers: Servers, server_kind: str, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Installation]:
    """Return an environment and a database without the kind."""
    database_url = servers.create(server_kind, servers.template(server_kind))
    try:
        made = Installation(tmp_path_factory.mktemp("auctions"), database_url)
        made.record("spring.jsonl", SPRING)
        made.record("autumn.jsonl", AUTUMN)
        yield made
    finally:
        servers.drop(server_kind, database_url)


@pytest.mark.thorough  # as test_engine_poison has it
def test_an_effect_that_poisons_its_projection(place: Installation) -> None:
    """The world is parked for that projection alone, and goes on once a mended version is installed and retried."""
    place.has("1.0.0")
    *imported, fed, status = place.call(
        "import auction spring.jsonl --experiment prices",
        "import auction autumn.jsonl --experiment prices",
        "project --once",
        "projections status auction_lots",
    )
    made = ["imported prices-spring, 5 effects\n", "imported prices-autumn, 3 effects\n"]
    assert [end.out for end in imported] == made
    assert fed.code == 1
    assert "world prices-autumn is parked at seq 2 (LotOpened)" in status.out
    lots = "select world_id, lot, title from analytics.auction_lots order by 1, 2"
    sold = [("prices-spring", 1, "A lamp"), ("prices-spring", 2, "A chair")]
    assert place.rows(lots) == sold
    bids = "select bidder, amount from analytics.auction_bids where world_id = 'prices-autumn'"
    assert place.rows(bids) == [("cat", 7)]

    place.has("1.0.1")
    ends = place.call("projections retry auction_lots", "project --once", "projections verify auction_lots")
    assert [end.code for end in ends] == [0, 0, 0]
    assert place.rows(lots) == [("prices-autumn", 1, "untitled"), *sold]


def test_its_commands(place: Installation) -> None:
    """Its importer, its command, its unit of moments, its tables, its view and its part of a report are there."""
    place.has("1.0.1")
    place.record("winter.jsonl", [*SPRING[:1], ("BidPlaced", "", 5, {"lot": 1, "amount": 12})])
    before, *ends = place.call(
        "kind list",
        "db upgrade",
        "import auction spring.jsonl --experiment prices",
        "import auction spring.jsonl --experiment prices",
        "import auction autumn.jsonl --experiment prices",
        "import auction winter.jsonl",
        "auction show prices-spring",
        "state prices-spring --at lot:1 --json",
        "project --once",
        "projections verify auction_lots auction_bids",
        "projections rebuild auction_lots",
        "db check",
        "report prices --json -o report.html",
        "sql top-buyers --param least=20 --format csv",
        "world create square",
        "auction show square",
    )
    (listed,) = [line.split() for line in before.out.splitlines() if line.startswith("auction ")]
    assert " ".join(listed[4:9]) == "none (db upgrade makes version"
    upgraded, *ends = ends
    assert upgraded.code == 0
    twice, refused, shown, state = ends[1], ends[3], ends[4], ends[5]
    assert twice.out == "already there: prices-spring, 5 effects\n"
    assert (refused.code, "winter.jsonl:2: $.source_id" in refused.err) == (2, True)
    assert shown.out == "1. A lamp: sold, 2 bids, 15 by cat\n2. A chair: open, 0 bids\n"
    entities = json.loads(state.out)["state"]["entities"]
    assert (list(entities), entities["lot-1"]["status"]) == (["lot-1"], "sold")
    assert [end.code for end in (*ends[6:9], ends[10])] == [0] * 4, ends
    assert not _about_views(ends[9])
    bought = place.rows("select bidder, lots, worlds, spent from analytics.auction_buyers")
    assert bought == [("cat", 2, 2, 22)]
    bids = "select bidder, amount from analytics.bid_placed where world_id = 'prices-spring' order by global_seq"
    assert place.rows(bids) == [("bob", 12), ("cat", 15)]
    report = json.loads(ends[10].out)
    assert ends[11].out.splitlines() == ["bidder,lots,worlds,spent", "cat,2,2,22"]
    (section,) = [section for section in report["sections"] if section["id"] == "auction"]
    assert [row["title"] for row in section["tables"][0]["rows"]] == ["A lamp", "untitled", "A chair"]
    assert ends[-1].err == "worldledger: world 'square' is no auction; its ruleset is sandbox\n"


def _about_views(check: Result) -> list[str]:
    """Return what `db check` found of views and kinds; its other findings are those of the cloned database."""
    return [line for line in check.out.splitlines() if "view " in line or line.startswith("kind ")]


def _buyers(client: httpx2.Client) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = client.get("/auction-buyers").json()["buyers"]
    return found


def test_it_is_served(place: Installation) -> None:
    """Its worlds are judged by its rules; its route, its error and its shape are those of the service."""
    place.has("1.0.1")

    def post(client: httpx2.Client, source: str, kind: str, **payload: object) -> Any:
        draft = {"kind": kind, "payload": payload, "source_id": source, "schema_version": "1.0.0"}
        answer = client.post("/worlds/live/effects", json=draft).json()
        return answer.get("rule", answer.get("global_seq"))

    with place.serving(feeding=True) as client:
        assert client.post("/worlds", json={"world_id": "live", "ruleset": "auction"}).status_code == 201
        assert client.post("/worlds", json={"world_id": "yard"}).status_code == 201
        assert post(client, "ann", "LotOpened", lot=1, title="A bell", reserve=10) == 2
        assert post(client, "bob", "BidPlaced", lot=1, amount=9) == "bid_too_low"
        assert post(client, "bob", "BidPlaced", lot=1, amount=10) == 3
        assert post(client, "cat", "BidPlaced", lot=1, amount=10) == "bid_too_low"
        assert post(client, "ann", "LotClosed", lot=1) == 4
        assert post(client, "cat", "BidPlaced", lot=1, amount=20) == "lot_not_open"
        auction = client.get("/auctions/live").json()
        assert (auction["global_seq"], [lot["price"] for lot in auction["lots"]]) == (4, [10])
        problem = client.get("/auctions/yard")
        assert (problem.status_code, problem.json()["code"]) == (404, "no_auction")
        bought = {"bidder": "bob", "lots": 1, "worlds": 1, "spent": 10}
        block_until(lambda: bought in _buyers(client), "the projections have read the sale")
        world = client.get("/worlds/live", params={"outcome": True}).json()
        assert world["outcome"] == "1 of 1 lots sold"
        at = client.get("/worlds/live/state", params={"at": "lot:1"}).json()
        assert at["state"]["entities"]["lot-1"]["bidder"] == "bob"
        document = client.get(str(client.base_url).removesuffix("/v1/") + "/openapi.json").json()
        assert "/v1/auctions/{world}" in document["paths"]
        assert "lots" in document["components"]["schemas"]["Auction"]["properties"]
        assert "auctions" in [tag["name"] for tag in document["tags"]]
        assert client.get("/projections/auction_lots").json()["version"] == 1


def test_the_page_about_it(place: Installation) -> None:
    """What docs/how-to-kinds.md shows of the package stands in it, and its examples work where it is installed."""
    place.has("1.0.1")
    place.call("db upgrade")
    for name in ("src", "pyproject.toml"):
        (place.folder / name).symlink_to(SOURCE / name)
    with place.serving(feeding=False) as client:
        runner = Runner(place.terminal, place.url, f"127.0.0.1:{client.base_url.port}")
        for example in examples(ROOT / "docs" / "how-to-kinds.md"):
            runner.run(example)


@pytest.mark.thorough  # as test_engine_swaps and test_kind_analytics have it
def test_it_is_upgraded(place: Installation) -> None:
    """A version whose projection makes other rows builds them beside the old ones and swaps them in; so with views."""
    place.has("1.0.1")
    place.call("db upgrade", "import auction autumn.jsonl --experiment upgrades", "project --once")
    title = "select title from analytics.auction_lots where world_id = 'upgrades-autumn'"
    assert place.rows(title) == [("untitled",)]
    place.has("2.0.0")
    assert place.rows(title) == [("untitled",)]
    ends = place.call("project --once", "projections verify auction_lots", "db check", "db upgrade", "db check")
    assert [end.code for end in ends[:2]] == [0, 0], ends
    has = "the database has version 1 of its views, its package brings version 2"
    assert _about_views(ends[2]) == [f"kind auction: {has}: run `worldledger db upgrade`"]
    assert (ends[3].code, _about_views(ends[4])) == (0, [])
    times = "select sim_time_s from analytics.bid_placed where world_id = 'upgrades-autumn'"
    assert place.rows(times) == [(5.0,)]
    assert place.rows(title) == [("lot 1",)]
    assert place.rows("select to_regclass('projections.auction_lots_1')") == [(None,)]


@pytest.mark.thorough  # each part: tests/schema/test_kind_analytics.py, test_rulesets.py
def test_it_is_uninstalled(place: Installation) -> None:
    """Its worlds are listed, read, verified and exported; states and appends are refused, and the kind is named."""
    place.has("1.0.1", "2.0.0")
    place.call("db upgrade", "import auction spring.jsonl --experiment left", "project --once")
    place.has(None)
    *done, state, unknown = place.call(
        "worlds --experiment left",
        "verify left-spring",
        "log left-spring",
        "export left-spring -o spring.ndjson",
        "verify --file spring.ndjson",
        "project --once",
        "kind list --json",
        "state left-spring",
        "auction show left-spring",
    )
    assert [end.code for end in done] == [0] * 7, done
    (kind,) = [each for each in json.loads(done[6].out) if each["kind"] == "auction"]
    assert (kind["package"], kind["parts"], kind["worlds"] > 0) == (None, [], True)
    assert (kind["views"]["state"], kind["views"]["installed"]) == ("left", None)
    assert "left-spring  auction" in done[0].out
    sentence = "the ruleset 'auction' is not installed here: install the package of this kind of worlds"
    assert (state.code, sentence in state.err) == (2, True)
    assert unknown.code == 2
    assert place.rows("select count(*) from analytics.auction_lots where experiment = 'left'") == [(2,)]
    with place.serving(feeding=False) as client:
        assert client.get("/worlds/left-spring").json()["head_seq"] == 6
        assert len(client.get("/worlds/left-spring/effects").json()["effects"]) == 6
        assert client.get("/auctions/left-spring").status_code == 404
        draft = {"kind": "LotClosed", "payload": {"lot": 2}, "source_id": "dan", "schema_version": "1.0.0"}
        for answer in (client.get("/worlds/left-spring/state"), client.post("/worlds/left-spring/effects", json=draft)):
            problem = answer.json()
            assert (answer.status_code, problem["code"]) == (422, "unknown_ruleset")
            assert problem["detail"].startswith(sentence)
    *dropped, check = place.call(
        "db check",
        "kind drop auction",
        "projections drop auction_lots",
        "projections drop auction_bids",
        "db check",
    )
    assert [end.code for end in dropped[1:]] == [0, 0, 0], dropped
    told = [line for line in dropped[0].out.splitlines() if line.startswith("kind ")]
    assert [line.endswith("install it, or `worldledger kind drop auction`") for line in told] == [True]
    assert dropped[1].out.startswith(
        "dropped the views of auction: bid_placed\nworlds of this kind that are left, with"
    )
    assert "left-spring" in dropped[1].out
    assert not _about_views(check)
    assert place.rows("select to_regclass('analytics.bid_placed')") == [(None,)]
