"""Pipelines in the console, from their folders."""

from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.console.pipeline_folders import make_pipelines
from tests.console.visitor import TOKEN, Visitor, settings_for

from ottla import Broker
from ottla.base.command_error import CommandError
from ottla.cli.pipelines.console_pipelines import pipelines_in
from ottla.pipelines import dataflow
from ottla.pipelines.dataflow import Flow, Node


@pytest.fixture
def folder(tmp_path: Path, broker: Broker) -> Path:
    return make_pipelines(tmp_path, broker.bootstrap_servers)


@pytest.fixture
def visitor(broker: Broker, folder: Path) -> Iterator[Visitor]:
    with Visitor.of(settings_for(broker, pipelines=pipelines_in([str(folder)]))) as visitor:
        visitor.log_in(TOKEN)
        yield visitor


def test_pipelines_are_listed_with_their_last_run(visitor: Visitor) -> None:
    page = visitor.open("/pipelines")
    assert "my-logs failed 7 2030-03-17 17:48:20 2 2" in page
    assert "unused It has not been run yet." in page


def test_a_pipeline_shows_flows_tables_sources_and_what_it_rejected(visitor: Visitor) -> None:
    page = visitor.open("/pipelines/my-logs")
    assert "no memory" in page
    assert "events logs 40" in page
    assert "rejected 3" in page
    assert "flow errors: failed" in page
    assert 'aria-label="1 topic, 2 flows, 2 tables"' in page.html
    assert "topic logs to flow events flow events to table events" in page
    visitor.open("/pipelines/no-such", status=404)


def test_a_pipeline_that_told_what_flows_where_is_drawn_from_topic_to_topic(
    visitor: Visitor, folder: Path
) -> None:
    path = str(folder / "my-logs" / ".ottla" / "dataflow.json")
    topic, events, errors = Node("topic", "logs"), Node("table", "events"), Node("topic", "logs.errors")
    flows = (Flow("events", (topic,), events), Flow("errors", (events,), errors))
    dataflow.store(path, dataflow.Dataflow((events,), flows), "of these files")
    page = visitor.open("/pipelines/my-logs")
    assert 'aria-label="2 topics, 2 flows, 2 tables"' in page.html
    assert page.html.count('class="edge"') == 4
    assert "topic logs.errors" in page


def test_a_console_without_pipelines_says_how_to_have_them(broker: Broker) -> None:
    with Visitor.of(settings_for(broker)) as visitor:
        visitor.log_in(TOKEN)
        assert "ottla console --pipelines DIR" in visitor.open("/pipelines")
    with pytest.raises(CommandError, match="no such folder"):
        pipelines_in(["/no/such/folder"])
