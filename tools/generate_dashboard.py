"""Writes ops/grafana/ottla.json, the dashboard, from the table of panels beside it. Run: make reference

A test compares the file with what this would write, and another asks a real Prometheus every query in it.
"""

import json
import tomllib
from pathlib import Path
from typing import Any

FOLDER = Path(__file__).parent.parent / "ops" / "grafana"
SOURCE, TARGET = FOLDER / "panels.toml", FOLDER / "ottla.json"
COLUMNS = 24
WIDTH, HEIGHT = 8, 7
STAT_WIDTH, STAT_HEIGHT = 3, 4
BROKERS = 'job="$job",instance=~"$instance"'


def rows() -> list[dict[str, Any]]:
    with SOURCE.open("rb") as file:
        table: list[dict[str, Any]] = tomllib.load(file)["rows"]
    return table


def dashboard() -> str:
    panels: list[dict[str, Any]] = []
    y = 0
    for row in rows():
        panels.append(
            {"type": "row", "title": row["title"], "gridPos": _grid(0, y, COLUMNS, 1), "panels": []}
        )
        y += 1
        x = height = 0
        for panel in row["panels"]:
            width, height = (STAT_WIDTH, STAT_HEIGHT) if "kind" in panel else (WIDTH, HEIGHT)
            if x + width > COLUMNS:
                x, y = 0, y + height
            panels.append(_panel(panel, _grid(x, y, width, height)))
            x += width
        y += height
    for number, panel in enumerate(panels, 1):
        panel["id"] = number
    return json.dumps(_page(panels), indent=1) + "\n"


def queries() -> list[str]:
    """Every query of the dashboard, with the variables of the page."""
    return [query for row in rows() for panel in row["panels"] for query, _ in panel["queries"]]


def _grid(x: int, y: int, width: int, height: int) -> dict[str, int]:
    return {"x": x, "y": y, "w": width, "h": height}


def _panel(panel: dict[str, Any], grid: dict[str, int]) -> dict[str, Any]:
    steps: list[dict[str, Any]] = [{"color": "green", "value": None}]
    if "red_above" in panel:
        steps.append({"color": "red", "value": panel["red_above"]})
    return {
        "type": panel.get("kind", "timeseries"),
        "title": panel["title"],
        "description": panel.get("what", ""),
        "datasource": {"type": "prometheus", "uid": "${datasource}"},
        "gridPos": grid,
        "fieldConfig": {
            "defaults": {"unit": panel["unit"], "min": 0, "thresholds": {"mode": "absolute", "steps": steps}},
            "overrides": [],
        },
        "targets": [
            {"refId": chr(ord("A") + number), "expr": query.replace("$S", BROKERS), "legendFormat": legend}
            for number, (query, legend) in enumerate(panel["queries"])
        ],
    }


def _page(panels: list[dict[str, Any]]) -> dict[str, Any]:
    return {
        "uid": "ottla",
        "title": "Ottla",
        "tags": ["ottla", "kafka"],
        "schemaVersion": 39,
        "version": 1,
        "refresh": "30s",
        "time": {"from": "now-1h", "to": "now"},
        "timezone": "browser",
        "templating": {
            "list": [
                {"name": "datasource", "type": "datasource", "query": "prometheus", "label": "Prometheus"},
                _variable("job", "label_values(ottla_build_info, job)", several=False),
                _variable("instance", 'label_values(ottla_build_info{job="$job"}, instance)', several=True),
            ]
        },
        "panels": panels,
    }


def _variable(name: str, query: str, *, several: bool) -> dict[str, Any]:
    return {
        "name": name,
        "type": "query",
        "datasource": {"type": "prometheus", "uid": "${datasource}"},
        "query": {"query": query, "refId": name},
        "refresh": 2,
        "includeAll": several,
        "multi": several,
        "current": {"text": "All", "value": "$__all"} if several else {},
    }
