"""The alert rules and the dashboard, as a test reads them."""

import re
from pathlib import Path
from typing import Any

import yaml
from tools import generate_dashboard

OPS = Path(__file__).parents[2] / "ops"
ALERTS = OPS / "prometheus" / "alerts.yml"
_DURATION = re.compile(r"\b(\d+)([smh])\b")
_SECONDS = {"s": 1, "m": 60, "h": 3600}


def rules() -> list[dict[str, Any]]:
    return [rule for group in yaml.safe_load(ALERTS.read_text())["groups"] for rule in group["rules"]]


def hurried_rules(factor: int, span_s: int, lasting_s: int) -> str:
    """The same rules for a time that goes so many times as fast; but they look at `span_s` at least, and fire
    after `lasting_s` at the earliest: brokers and Prometheus do not go any faster."""
    groups = yaml.safe_load(ALERTS.read_text())
    for group in groups["groups"]:
        for rule in group["rules"]:
            rule["expr"] = re.sub(r"\[[^]]*\]", lambda span: hurried(span[0], factor, span_s), rule["expr"])
            if "for" in rule:
                rule["for"] = hurried(rule["for"], factor, lasting_s)
    return yaml.safe_dump(groups)


def hurried(text: str, factor: int, least_s: int) -> str:
    return _DURATION.sub(lambda span: f"{max(int(span[1]) * _SECONDS[span[2]] // factor, least_s)}s", text)


def dashboard_queries() -> list[str]:
    """As Grafana sends them, for all brokers."""
    selected = 'job="ottla",instance=~".*"'
    return [
        query.replace("$S", selected).replace("$job", "ottla").replace("$__rate_interval", "15s")
        for query in generate_dashboard.queries()
    ]
