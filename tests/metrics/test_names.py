"""The dashboard and the alert rules speak of metrics and labels that there are."""

import re

from tests.metrics.rules import rules
from tools import generate_dashboard

from ottla.base.metrics import Kind
from ottla.shell.metrics.sources import all_metrics

ADDED = {"job", "instance", "le"}  # by Prometheus, and to histograms
OF_PROMETHEUS = {"up"}
SUFFIXES = ("_bucket", "_sum", "_count")


def queries() -> list[str]:
    return [rule["expr"] for rule in rules()] + generate_dashboard.queries()


def labels_by_name() -> dict[str, set[str]]:
    """Every series that brokers show, with its labels."""
    by_name = {name: set[str]() for name in OF_PROMETHEUS}
    for metric in all_metrics():
        suffixes = SUFFIXES if metric.kind is Kind.HISTOGRAM else ("",)
        by_name |= {metric.name + suffix: set(metric.labels) for suffix in suffixes}
    return by_name


def test_every_metric_that_is_asked_for_exists() -> None:
    asked = {
        name
        for query in queries()
        for name in re.findall(r"\b(?:kafka|ottla|process|python)_\w+|\bup\b", query)
    }
    assert len(asked) > 40
    assert asked - labels_by_name().keys() == set()


def test_every_label_that_is_asked_for_belongs_to_a_metric_of_its_query() -> None:
    by_name = labels_by_name()
    for query in queries():
        of_query = [by_name[name] for name in re.findall(r"\w+", query) if name in by_name]
        assert of_query, query
        grouped = [label for labels in re.findall(r"\bby \(([^)]*)\)", query) for label in labels.split(",")]
        selected = re.findall(r"[{,](\w+)!?=~?\"", query.replace("$S", ""))
        for label in (text.strip() for text in (*grouped, *selected)):
            assert label in ADDED or any(label in labels for labels in of_query), (label, query)


def test_the_dashboard_on_disk_is_the_one_that_its_table_makes() -> None:
    assert generate_dashboard.TARGET.read_text() == generate_dashboard.dashboard(), "run `make reference`"
