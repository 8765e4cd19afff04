"""How far behind a query is: out of its progress, after every batch, and in its consumer group."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

from tests.spark.harness import Topic, read_stream, run, to_table
from tests.support.waiting import wait_for
from typer.testing import CliRunner

from ottla.cli.app import app
from ottla.client import TopicPartition
from ottla.spark.lag import lag_of, sentence, tell_lag

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


def progress(*sources: dict[str, Any], **more: Any) -> dict[str, Any]:
    rows = [{"numInputRows": 0, "endOffset": None, "latestOffset": None} | source for source in sources]
    return {"id": "1", "name": "copy", "batchId": 3, "durationMs": {}, "sources": rows} | more


def test_lag_is_what_the_log_has_after_the_batch() -> None:
    source = {
        "endOffset": '{"t":{"0":5,"1":7},"#start":{"t":{"0":0}}}',
        "latestOffset": '{"t":{"0":9,"1":7}}',
    }
    assert lag_of(progress(source)) == {TopicPartition("t", 0): 4, TopicPartition("t", 1): 0}


def test_a_partition_that_is_new_or_was_cut_back_is_not_behind() -> None:
    source = {"endOffset": '{"t":{"0":5}}', "latestOffset": '{"t":{"0":3,"1":7}}'}
    assert set(lag_of(progress(source)).values()) == {0}


def test_sources_of_other_kinds_are_passed_over() -> None:
    others = [
        {"endOffset": "12", "latestOffset": "15"},
        {"endOffset": '{"logOffset":3}', "latestOffset": '{"logOffset":4}'},
        {"endOffset": "None", "latestOffset": None},
    ]
    assert lag_of(progress(*others)) == {}


def test_a_batch_is_told_in_a_line() -> None:
    source = {"endOffset": '{"t":{"0":5},"u":{"0":1}}', "latestOffset": '{"t":{"0":1005},"u":{"0":1}}'}
    batch = progress(source | {"numInputRows": 1}, durationMs={"triggerExecution": 812})
    assert sentence(batch) == "copy, batch 3: 1 row in 0.8 s, 1,000 behind (t 1,000)"


def test_every_batch_tells_how_far_behind_it_is_and_so_does_the_group(
    spark: "SparkSession", topic: Callable[..., Topic], tmp_path: Path
) -> None:
    orders = topic()
    orders.produce(range(10))
    told: list[str] = []
    listener = tell_lag(spark, told.append)
    options = orders.options(startingOffsets="earliest", maxOffsetsPerTrigger=4, groupIdPrefix="behind")
    try:
        query = run(to_table(read_stream(spark, options), str(tmp_path / "t"), str(tmp_path / "c")))
        wait_for(lambda: len(told) == 3, what="three batches are told")
    finally:
        spark.streams.removeListener(listener)
    assert [line.partition(" s, ")[2] for line in told] == [
        f"6 behind ({orders} 6)", f"2 behind ({orders} 2)", "0 behind",
    ]  # fmt: skip
    assert query.lastProgress is not None
    assert sum(lag_of(query.lastProgress).values()) == 0
    orders.produce(range(5))
    listed = CliRunner().invoke(app, ["groups", "list", "--json", "--bootstrap", orders.bootstrap])
    (group,) = [row for row in json.loads(listed.stdout) if row["group"] == f"behind-{orders}"]
    assert group["lag"] == 5
