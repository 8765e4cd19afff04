"""The commands around a pipeline on a real Spark: runs that fail and go on, refreshes, pictures, tests."""

import json
import re
import signal
import threading
from collections.abc import Callable
from pathlib import Path

import pytest
from tests.pipelines.conftest import QUICK, WAIT_S, Pipeline

from ottla.base.command_error import CommandError
from ottla.pipelines.pytest_plugin import RunPipeline

FLOWS = """\
from pyspark import pipelines as dp
from pyspark.sql import SparkSession

spark = SparkSession.active()
CLUSTER = {"kafka.bootstrap.servers": spark.conf.get("spark.ottla.bootstrap.servers")}


def read(flow):
    records = spark.readStream.format("ottla").options(**CLUSTER, groupIdPrefix=f"tiny.{flow}")
    lines = records.option("subscribe", "words").option("startingOffsets", "earliest").load()
    return lines.selectExpr("CAST(value AS STRING) AS word")


@dp.table
def words():
    return read("words").where("word != 'no'")


@dp.table
def rejected():
    return read("rejected").where("word = 'no'")


dp.create_sink("out", "ottla", {**CLUSTER, "topic": "shouted"})


@dp.append_flow(target="out")
def shout():
    return spark.readStream.table("words").selectExpr("upper(word) AS value")
"""
COUNTS = (
    "CREATE MATERIALIZED VIEW counts USING parquet AS SELECT word, count(*) AS n FROM words GROUP BY word;\n"
)
FLOWING = {
    "words": ([["topic", "words"]], ["table", "words"]),
    "rejected": ([["topic", "words"]], ["table", "rejected"]),
    "shout": ([["table", "words"]], ["topic", "shouted"]),
    "counts": ([["table", "words"]], ["table", "counts"]),
}


@pytest.fixture
def tiny(pipeline: Pipeline) -> Pipeline:
    home = pipeline.folder
    (home / "transformations").mkdir(parents=True)
    (home / "transformations" / "flows.py").write_text(FLOWS)
    (home / "transformations" / "counts.sql").write_text(COUNTS)
    specify(home)
    return pipeline


def specify(home: Path, more: str = "") -> None:
    (home / "spark-pipeline.yml").write_text(
        f"name: tiny\nstorage: file://{home}/storage\n"
        "libraries: [{glob: {include: transformations/**}}]\n"
        'configuration:\n  spark.ottla.bootstrap.servers: ""\n  spark.ottla.topics: words shouted\n' + more
    )


def test_a_continuous_run_goes_on_after_a_failure_and_a_refresh_makes_a_table_anew(
    tiny: Pipeline, send: Callable[..., None]
) -> None:
    send("words", "a", "b", "a", "no")
    specify(tiny.folder, "nonsense: 1\n")
    process = tiny.start("--continuous", "--every", "1s", "--master", "local[2]")
    said: list[str] = []
    reading = threading.Thread(target=lambda: said.extend(process.stderr or ()), daemon=True)
    reading.start()
    tiny.wait(lambda: any("again in 5 s" in line for line in said))
    assert any("PIPELINE_SPEC_UNEXPECTED_FIELD" in line and "nonsense" in line for line in said)
    assert "is running already" in tiny.run(code=1)[1]
    specify(tiny.folder)
    tiny.wait(lambda: process.poll() is not None or any(line.startswith("run 1: rows: ") for line in said))
    assert any(re.fullmatch(r"run 1: words, batch 0: 4 rows in [\d.]+ s, 0 behind\n", line) for line in said)
    line = next(line for line in said if line.startswith("run 1: rows: "))
    assert "words 3 (+3)" in line
    assert "rejected: 1 in rejected (+1)" in line
    assert line.endswith("lag: 0\n")
    process.send_signal(signal.SIGTERM)
    assert process.wait(WAIT_S) == 0
    reading.join(WAIT_S)
    out, _ = tiny.done("groups", "list")
    assert {"tiny.words-words", "tiny.rejected-words"} <= set(out.split())

    out, _ = tiny.done("pipeline", "graph", str(tiny.folder), "--json")
    assert {flow["name"]: (flow["reads"], flow["writes"]) for flow in json.loads(out)["flows"]} == FLOWING
    out, errors = tiny.done("pipeline", "graph", str(tiny.folder))
    assert "▶(shouted)" in out
    assert errors == "", "what the run found is drawn, without Spark"
    out, _ = tiny.done("pipeline", "logs", str(tiny.folder))
    assert "Flow spark_catalog.default.words has COMPLETED." in out
    out, _ = tiny.done("pipeline", "logs", str(tiny.folder), "--back", "1")
    assert "PIPELINE_SPEC_UNEXPECTED_FIELD" in out

    refresh = ("--once", "--full-refresh", "words", "--yes", "--master", "local[2]")
    out, errors = tiny.run(*refresh)
    assert "a full refresh removes what is in words (3 rows)" in errors
    assert "run 1: rows: words 3 (+3); " in errors
    assert "flow shout reads words: if it is a stream, it takes its rows for new ones" in errors
    assert tiny.table("words", ("word",)) == [("a",), ("a",), ("b",)]
    assert ["words", "words", "4", "4", "0"] in [line.split() for line in out.splitlines()]
    assert len(received_text(tiny, "shouted")) == 3, "the flow behind it was not run"


def received_text(tiny: Pipeline, topic: str) -> list[str]:
    out, _ = tiny.done("consume", topic)
    return out.splitlines()


def test_a_test_shows_what_is_missing_and_what_nobody_expected(tiny: Pipeline) -> None:
    case = tiny.folder / "tests" / "counting"
    for path, values in (
        ("input/words.jsonl", ["a", {"key": "k", "value": "a"}, "b", "no"]),
        ("expected/tables/counts.jsonl", [{"word": "a", "n": 2}, {"word": "c", "n": 1}]),
        ("expected/tables/rejected.jsonl", [{"word": "no"}]),
        ("expected/topics/shouted.jsonl", ["B", "A", "A"]),
    ):
        (case / path).parent.mkdir(parents=True, exist_ok=True)
        (case / path).write_text("".join(f"{json.dumps(value)}\n" for value in values))
    out, errors = tiny.done("pipeline", "test", str(tiny.folder), *QUICK, code=1)
    assert out.splitlines() == [
        "counting: differs",
        "  table counts",
        '    - {"n": 1, "word": "c"}',
        '    + {"n": 1, "word": "b"}',
    ]
    assert "ottla: 1 test of 1 not as expected: counting" in errors
    assert sorted(path.name for path in tiny.folder.iterdir()) == [
        "spark-pipeline.yml", "tests", "transformations",
    ]  # fmt: skip


def test_the_fixture_tells_of_a_mistake_as_the_command_does(
    tiny: Pipeline, ottla_pipeline: RunPipeline
) -> None:
    (tiny.folder / "transformations" / "flows.py").write_text("def x()\n")
    with pytest.raises(CommandError, match=r"transformations/flows\.py, line 1"):
        ottla_pipeline(str(tiny.folder), {"words": ["a"]})
