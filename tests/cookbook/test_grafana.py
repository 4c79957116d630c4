"""The dashboard for Grafana: every query of it is answered by the schema analytics, as its reader."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import pytest
import yaml
from worldledger_service.database.analytics.asking import ask

pytestmark = pytest.mark.group("cookbook")

GRAFANA = Path(__file__).resolve().parents[2] / "grafana"
DASHBOARD = json.loads((GRAFANA / "dashboards" / "worldledger.json").read_text())
#: As Grafana fills in what a query may hold.
_TIME_FILTER = re.compile(r"\$__timeFilter\((\w+)\)")
_FILLED = r"\1 between '1970-01-01T00:00:00Z' and '2999-01-01T00:00:00Z'"
_ALL = "'box','chess','fair','social'"


def _panels() -> list[dict[str, Any]]:
    return [panel for panel in DASHBOARD["panels"] if panel["type"] != "row"]


async def _answer(connection: Any, sql: str) -> tuple[list[str], list[Any]]:
    filled = _TIME_FILTER.sub(_FILLED, sql).replace("${experiment:sqlstring}", _ALL)
    assert "$" not in filled, filled
    async with ask(connection, filled, timeout_s=30) as answer:
        rows = [row async for batch in answer.batches() for row in batch]
    return [column.name for column in answer.columns], rows


async def test_every_panel_has_something_to_show(connection: Any) -> None:
    """Each query runs as the guest, who sees no more than the reader; what panels go by are columns of the answer."""
    for panel in _panels():
        (target,) = panel["targets"]
        names, rows = await _answer(connection, target["rawSql"])
        assert rows, panel["title"]
        assert len(set(names)) == len(names)
        if target["format"] == "time_series":
            assert names[0] == "time"
        if "xField" in panel["options"]:
            assert names[0] == panel["options"]["xField"]


async def test_the_variable_lists_experiments(connection: Any) -> None:
    """The one choice that a dashboard offers is which experiments it shows."""
    (variable,) = DASHBOARD["templating"]["list"]
    _, rows = await _answer(connection, variable["query"])
    assert [row[0] for row in rows] == ["box", "chess", "fair", "social", "talk"]


def test_panels_do_not_overlap() -> None:
    """Each has its own place and number, and the data source that is provisioned."""
    sources = yaml.safe_load((GRAFANA / "provisioning" / "datasources" / "worldledger.yaml").read_text())
    (source,) = sources["datasources"]
    assert (source["user"], source["uid"]) == ("worldledger_reader", "worldledger")
    taken: set[tuple[int, int]] = set()
    for panel in DASHBOARD["panels"]:
        place = panel["gridPos"]
        cells = {(place["x"] + x, place["y"] + y) for x in range(place["w"]) for y in range(place["h"])}
        assert not cells & taken, panel["title"]
        assert place["x"] + place["w"] <= 24
        taken |= cells
    assert len({panel["id"] for panel in DASHBOARD["panels"]}) == len(DASHBOARD["panels"])
    used = [panel["datasource"] for panel in _panels()] + [panel["targets"][0]["datasource"] for panel in _panels()]
    assert {(each["type"], each["uid"]) for each in used} == {(source["type"], source["uid"])}


def test_the_dashboard_is_found_where_it_is_mounted() -> None:
    """What the provisioning names is where docker-compose.yml puts the folder."""
    providers = yaml.safe_load((GRAFANA / "provisioning" / "dashboards" / "worldledger.yaml").read_text())["providers"]
    compose = yaml.safe_load((GRAFANA.parent / "docker-compose.yml").read_text())
    assert f"./grafana/dashboards:{providers[0]['options']['path']}:ro" in compose["services"]["grafana"]["volumes"]
