"""Pipelines in the console, from their folders."""

import json
from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.console.visitor import TOKEN, Visitor, settings_for

from ottla import Broker
from ottla.base.command_error import CommandError
from ottla.cli.pipelines.console_pipelines import pipelines_in
from ottla.pipelines import dataflow
from ottla.pipelines.dataflow import Flow, Node
from ottla.pipelines.folder import PipelineFolder, create_folder


@pytest.fixture
def folder(tmp_path: Path, broker: Broker) -> Path:
    """A pipeline that was run: a flow has read 40 records of a topic, and written a table."""
    import pyarrow
    from pyarrow import parquet

    create_folder(str(tmp_path / "my-logs"), "logs", broker.bootstrap_servers)
    create_folder(str(tmp_path / "unused"), "metrics", broker.bootstrap_servers)
    path = tmp_path / "my-logs"
    for name in ("events", "rejected"):
        (path / "tables" / name).mkdir(parents=True)
        parquet.write_table(pyarrow.table({"a": [1, 2, 3]}), path / "tables" / name / "part.parquet")
    checkpoint = path / "storage" / "_checkpoints" / "events" / "0"
    for kind in ("offsets", "commits"):
        (checkpoint / kind).mkdir(parents=True)
    (checkpoint / "commits" / "0").write_text("v1\n{}")
    (checkpoint / "offsets" / "0").write_text("v1\n{}\n" + json.dumps({"logs": {"0": 40}}))
    (path / ".ottla").mkdir(exist_ok=True)
    run = {
        "started_ms": 1_900_000_000_000, "ended_ms": 1_900_000_100_000, "master": "local[2]", "rounds": 7,
        "bootstrap": broker.bootstrap_servers, "client_config": None, "storage": f"file://{path}/storage",
        "tables": f"file://{path}/tables", "state": "failed", "reason": "no\nmemory",
        "flows": {"events": "COMPLETED", "errors": "FAILED"},
    }  # fmt: skip
    PipelineFolder(str(path)).note(run)
    return tmp_path


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
    assert 'aria-label="1 topics, 2 flows, 2 tables"' in page.html
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
