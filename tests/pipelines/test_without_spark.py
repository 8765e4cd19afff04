"""`ottla pipeline` as far as it goes without Spark: templates, what is missing, what the files tell."""

import importlib.util
import json
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from confluent_kafka import Producer
from pyarrow import parquet

from ottla import Broker
from ottla.pipelines import spark_environment
from ottla.pipelines.driver import flow_of
from ottla.pipelines.mistakes import reason_of


@pytest.mark.parametrize("template", ["metrics", "logs", "stream"])
def test_a_template_is_yours_to_change(run: Any, tmp_path: Path, template: str) -> None:
    folder = tmp_path / "mine"
    outcome = run("pipeline", "init", "--template", template, str(folder), "--bootstrap", "broker:1234")
    assert outcome.code == 0, outcome.err
    specification = (folder / "spark-pipeline.yml").read_text()
    assert "name: mine\n" in specification
    assert f"storage: file://{folder}/storage\n" in specification
    assert 'spark.ottla.bootstrap.servers: "broker:1234"' in specification
    properties = (folder / "spark-defaults.conf").read_text()
    assert f"spark.sql.warehouse.dir = file://{folder}/tables\n" in properties
    assert (folder / "README.md").exists()
    for path in folder.rglob("*"):
        if path.is_file():
            assert "{{ " not in path.read_text(), path
        if path.suffix == ".py":
            compile(path.read_text(), str(path), "exec")
    assert {path.suffix for path in (folder / "transformations").iterdir()} == {".py", ".sql"}
    again = run("pipeline", "init", "--template", template, str(folder))
    assert (again.code, again.err) == (2, f"ottla: {folder} is not empty\n")


def test_a_template_that_is_not_there(run: Any, tmp_path: Path) -> None:
    outcome = run("pipeline", "init", "--template", "etl", str(tmp_path / "x"))
    assert (outcome.code, outcome.err) == (
        2, "ottla: --template is one of metrics, logs, stream, not 'etl'\n",
    )  # fmt: skip
    outcome = run("pipeline", "init", str(tmp_path / "x"))
    assert (outcome.code, outcome.err) == (
        2, "ottla: say what to begin with: --template metrics, logs, stream\n",
    )  # fmt: skip
    assert not (tmp_path / "x").exists()


def test_a_folder_without_a_pipeline(run: Any, tmp_path: Path) -> None:
    for command in ("run", "status"):
        outcome = run("pipeline", command, str(tmp_path))
        assert outcome.code == 2
        assert outcome.err.startswith(f"ottla: {tmp_path} has no spark-pipeline.yml; `ottla pipeline init ")


@pytest.fixture
def folder(run: Any, tmp_path: Path) -> Path:
    made = tmp_path / "pipeline"
    assert run("pipeline", "init", "--template", "stream", str(made)).code == 0
    return made


def test_no_java_is_one_sentence(run: Any, folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("JAVA_HOME", raising=False)
    monkeypatch.setenv("PATH", str(folder))
    outcome = run("pipeline", "run", str(folder))
    assert outcome.code == 1
    assert outcome.err == (
        "ottla: a pipeline needs Java 17 or newer, and there is none: install it "
        "(for example `apt install openjdk-17-jre-headless`), or say with JAVA_HOME where it is\n"
    )


@pytest.mark.parametrize(
    ("script", "said"),
    [
        ("echo 'openjdk version \"1.8.0_292\"' >&2", "is Java 8;"),
        ("echo 'openjdk version \"11.0.2\" 2019' >&2", "is Java 11;"),
        ("exit 1", "does not run;"),
    ],
)
def test_a_java_that_will_not_do_is_one_sentence(
    run: Any, folder: Path, monkeypatch: pytest.MonkeyPatch, script: str, said: str
) -> None:
    java = folder / "bin" / "java"
    java.parent.mkdir()
    java.write_text(f"#!/bin/sh\n{script}\n")
    java.chmod(0o755)
    monkeypatch.setenv("JAVA_HOME", str(folder))
    outcome = run("pipeline", "run", str(folder))
    assert outcome.code == 1
    assert outcome.err.startswith(f"ottla: a pipeline needs Java 17 or newer, and {java} {said}")
    assert outcome.err.count("\n") == 1


def test_no_pyspark_is_one_sentence(run: Any, folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    find = importlib.util.find_spec
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: None if name == "pyspark" else find(name))
    outcome = run("pipeline", "run", str(folder))
    assert (outcome.code, outcome.err) == (
        1, "ottla: a pipeline needs PySpark, and pyspark is not installed: pip install 'ottla[spark]'\n",
    )  # fmt: skip


def test_a_local_spark_is_reached_from_this_machine_only(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("SPARK_LOCAL_IP", raising=False)
    assert spark_environment.environment("/home", "local[*]")["SPARK_LOCAL_IP"] == "127.0.0.1"
    assert "SPARK_LOCAL_IP" not in spark_environment.environment("/home", "spark://node1:7077")
    monkeypatch.setenv("SPARK_LOCAL_IP", "192.0.2.1")
    assert spark_environment.environment("/home", "local[2]")["SPARK_LOCAL_IP"] == "192.0.2.1"


@pytest.mark.skipif(spark_environment.missing() is not None, reason="needs Java and PySpark")
def test_no_broker_and_a_specification_that_is_none_are_one_sentence(run: Any, folder: Path) -> None:
    outcome = run("pipeline", "run", str(folder), "--bootstrap", "127.0.0.1:1")
    assert outcome.code == 1
    assert outcome.err.startswith("ottla: no broker answers at 127.0.0.1:1")
    (folder / "spark-pipeline.yml").write_text("name: [")
    outcome = run("pipeline", "run", str(folder))
    assert outcome.code == 1
    assert outcome.err.startswith(
        f"ottla: {folder}/spark-pipeline.yml, line 1, column 8: while parsing a flow"
    )
    assert outcome.err.count("\n") == 1


@pytest.mark.parametrize(
    ("said", "shown"),
    [
        (
            "[LOSS] they are gone\n\tat org.apache.X.y(X.scala:1)\n\tat a.b/T.r(T.java:8)",
            "[LOSS] they are gone",
        ),
        ("it broke at org.apache.spark.X$.y(X.scala:1) at org.apache.Z.<init>(Z.scala:2)", "it broke"),
        ("no broker answers at 127.0.0.1:1 (refused)", "no broker answers at 127.0.0.1:1 (refused)"),
        ("Aborted.\nCaused by: java.io.IOException: disk full\n\tat a.B.c(B.java:1)", "Aborted. (disk full)"),
        ("", "RuntimeError"),
    ],
)
def test_the_reason_of_a_failure_is_one_line_without_a_stack(said: str, shown: str) -> None:
    assert reason_of(RuntimeError(said)) == shown
    if said:
        told = flow_of(f"Flow spark_catalog.default.orders has FAILED.\nError: {said}")
        assert told["message"] == (
            f"Flow spark_catalog.default.orders has FAILED. Error: {shown.removesuffix(' (disk full)')}"
        )


def test_a_flow_may_have_any_name() -> None:
    assert flow_of("Flow spark_catalog.default.orders by-day is RUNNING.")["flow"] == "orders by-day"


def test_status_reads_tables_and_lag_from_the_files(
    run: Any, folder: Path, ottla_broker: Broker, ottla_topic: str
) -> None:
    """As Spark leaves them: a file that no list names is no part of the table."""
    assert "has not been run yet" in run("pipeline", "status", str(folder)).err
    producer = Producer({"bootstrap.servers": ottla_broker.bootstrap_servers})
    for _ in range(7):
        producer.produce(ottla_topic, b"x")
    assert producer.flush(20) == 0
    table = folder / "tables" / "orders"
    (table / "_spark_metadata").mkdir(parents=True)
    for name in ("a", "b", "left-over"):
        parquet.write_table(pa.table({"x": [1, 2]}), table / f"{name}.parquet")
    entries = [json.dumps({"path": f"file://{table}/{name}.parquet", "action": "add"}) for name in "ab"]
    (table / "_spark_metadata" / "0.compact").write_text(f"v1\n{entries[0]}")
    (table / "_spark_metadata" / "1").write_text(f"v1\n{entries[1]}")
    (table / "_spark_metadata" / ".1.crc").write_text("")
    checkpoint = folder / "storage" / "_checkpoints" / "spark_catalog" / "default" / "orders" / "orders" / "0"
    for kind in ("offsets", "commits"):
        (checkpoint / kind).mkdir(parents=True)
    for number, offset in (("0", 2), ("1", 4), ("2", 6)):
        line = json.dumps({ottla_topic: {"0": offset}})
        (checkpoint / "offsets" / number).write_text(
            f'v1\n{{"batchWatermarkMs":0}}\n{line}\n{{"logOffset":1}}'
        )
    for number in ("0", "1"):  # the third batch is not done
        (checkpoint / "commits" / number).write_text("v1\n{}")
    last = {
        "started_ms": 1_700_000_000_000, "ended_ms": 1_700_000_001_000, "master": "local[2]", "rounds": 2,
        "bootstrap": ottla_broker.bootstrap_servers, "storage": f"file://{folder}/storage",
        "tables": f"file://{folder}/tables", "state": "running", "flows": {}, "reason": "",
    }  # fmt: skip
    (folder / ".ottla").mkdir()
    (folder / ".ottla" / "run.json").write_text(json.dumps(last))
    outcome = run("pipeline", "status", str(folder))
    assert outcome.code == 0, outcome.err
    assert "last run: killed, 2 rounds, on local[2], 2023-11-14T22:13:20.000Z" in outcome.out
    rows = [line.split() for line in outcome.out.splitlines()]
    assert ["orders", "4"] in [row[:2] for row in rows]
    assert ["orders", ottla_topic, "4", "7", "3"] in rows
    told = json.loads(run("pipeline", "status", str(folder), "--json").out)
    assert told["sources"] == [{"flow": "orders", "topic": ottla_topic, "position": 4, "end": 7, "lag": 3}]
    away = run("pipeline", "status", str(folder), "--bootstrap", "127.0.0.1:1")
    assert away.code == 0
    assert ["orders", ottla_topic, "4", "-", "-"] in [line.split() for line in away.out.splitlines()]
