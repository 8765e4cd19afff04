"""What a run keeps and tells, without Spark: logs, counts, pauses, and what a full refresh means."""

import json
import os
import subprocess
import sys
import threading
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pyarrow as pa
import pytest
from pyarrow import parquet
from tests.support.terminals import shown_on_a_terminal

from ottla import Broker
from ottla.base.command_error import CommandError
from ottla.cli.pipelines.run_display import refresh_sentences
from ottla.client.librdkafka import cluster
from ottla.client.properties import ClientProperties
from ottla.pipelines import run_logs, status
from ottla.pipelines.batches import JavaListener, as_event
from ottla.pipelines.dataflow import Dataflow, Flow, Node, check_tables, fingerprint, store
from ottla.pipelines.driver import selection_after
from ottla.pipelines.driver_process import follow
from ottla.pipelines.folder import TOPICS, PipelineFolder, create_folder
from ottla.pipelines.pauses import GrowingPauses
from ottla.pipelines.progress import FAILED, Progress
from ottla.pipelines.report import Reporter
from ottla.pipelines.run import DATAFLOW, PipelineRun, RunOptions, failure, one_line
from ottla.spark.lag import LagListener


@pytest.fixture
def folder(tmp_path: Path) -> PipelineFolder:
    create_folder(str(tmp_path / "shop"), "stream", None)
    (tmp_path / "shop" / ".ottla").mkdir()
    return PipelineFolder(str(tmp_path / "shop"))


def test_a_run_begins_a_new_log_and_only_so_many_are_kept(folder: PipelineFolder) -> None:
    for number in range(run_logs.KEPT + 3):
        log = run_logs.RunLog(folder)
        log.write(b"run %d\n" % number)
        log.close()
    kept = [run_logs.last_lines(path, None) for path in run_logs.paths(folder)]
    assert kept == [[f"run {number}"] for number in range(run_logs.KEPT + 2, 2, -1)]


def test_a_log_that_is_too_long_goes_on_in_a_new_file(folder: PipelineFolder) -> None:
    log = run_logs.RunLog(folder, bytes_max=10)
    for line in (b"12345\n", b"6789\n", b"abc\n", b"a line of more than ten bytes\n"):
        log.write(line)
    log.close()
    assert [run_logs.last_lines(path, None) for path in run_logs.paths(folder)] == [
        ["a line of more than ten bytes"],
        ["6789", "abc"],
        ["12345"],
    ]


def test_logs_shows_the_last_lines_and_the_run_before(run: Any, folder: PipelineFolder) -> None:
    assert "has not been run yet" in run("pipeline", "logs", folder.path).err
    for text in (b"old\n", b"1\n2\n3\n"):
        log = run_logs.RunLog(folder)
        log.write(text)
        log.close()
    assert run("pipeline", "logs", folder.path).out == "1\n2\n3\n"
    assert run("pipeline", "logs", folder.path, "-n", "2").out == "2\n3\n"
    assert run("pipeline", "logs", folder.path, "-n", "0").out == ""
    assert run("pipeline", "logs", folder.path, "--back", "1").out == "old\n"
    assert run("pipeline", "logs", folder.path, "--back", "1", "--follow").code == 2
    refused = run("pipeline", "logs", folder.path, "--back", "2")
    assert (refused.code, refused.err) == (
        1, f"ottla: {folder.path} keeps 2 logs; --back 2 is not among them\n",
    )  # fmt: skip


def test_following_goes_on_in_the_next_file_and_misses_no_line(folder: PipelineFolder) -> None:
    first = run_logs.RunLog(folder)
    first.write(b"a\nb\n")

    def steps() -> Any:
        first.write(b"c\nhalf")
        yield False
        first.write(b" a line\n")
        first.close()
        second = run_logs.RunLog(folder)
        second.write(b"d\n")
        yield False
        second.write(b"e\n")
        second.close()
        yield True

    step = steps()
    assert list(run_logs.followed(folder, 1, lambda: next(step))) == ["b", "c", "half a line", "d", "e"]


def test_following_waits_for_a_first_run(folder: PipelineFolder) -> None:
    def steps() -> Any:
        yield False
        log = run_logs.RunLog(folder)
        log.write(b"a\n")
        log.close()
        yield True

    step = steps()
    assert list(run_logs.followed(folder, None, lambda: next(step))) == ["a"]


def test_pauses_grow_to_a_limit_and_begin_again_after_a_success() -> None:
    pauses = GrowingPauses(5, 60)
    assert [pauses.after_failure() for _ in range(6)] == [5, 10, 20, 40, 60, 60]
    pauses.on_success()
    assert pauses.after_failure() == 5
    pauses.failures = 10**6
    assert pauses.after_failure() == 60


def test_tables_last_without_a_setting_and_a_catalog_that_does_not_is_told(
    folder: PipelineFolder,
) -> None:
    (Path(folder.path) / "spark-defaults.conf").unlink()
    run = PipelineRun(folder, RunOptions(dry=True), print)
    assert run.tables == f"file://{folder.path}/tables"
    told = failure(folder, "[LOCATION_ALREADY_EXISTS] Cannot name the managed table as `t`.", [])
    assert "does spark-defaults.conf name a catalog that lasts" in told


def test_a_topic_that_somebody_else_creates_at_the_same_moment_is_there(
    folder: PipelineFolder, broker: Broker, monkeypatch: pytest.MonkeyPatch
) -> None:
    topics = PipelineFolder(folder.path).read()["configuration"][TOPICS].split()
    names = [word.partition(":")[0] for word in topics]
    broker.create_topic(names[0])
    monkeypatch.setattr(cluster, "metadata", lambda _: SimpleNamespace(topics={}))
    said: list[str] = []
    PipelineRun(folder, RunOptions(where=ClientProperties(broker.bootstrap_servers)), said.append)
    assert said == [f"created topic {name}" for name in names[1:]]


def add(folder: PipelineFolder, table: str, name: str, rows: int) -> None:
    path = Path(folder.path) / "tables" / table
    path.mkdir(parents=True, exist_ok=True)
    parquet.write_table(pa.table({"x": list(range(rows))}), path / f"{name}.parquet")


def test_after_a_run_it_is_said_what_is_new_and_what_was_rejected(folder: PipelineFolder) -> None:
    add(folder, "orders", "a", 1500)
    add(folder, "revenue", "a", 2)
    reporter = Reporter(f"file://{folder.path}/tables", None, ["orders", "orders.unparsed"], None)
    assert reporter.look().sentence() == "no new rows"
    add(folder, "orders", "b", 20)
    add(folder, "rejected", "a", 3)
    report = reporter.look()
    assert report.sentence() == ("rows: orders 1,520 (+20), rejected 3 (+3); rejected: 3 in rejected (+3)")
    assert [(item.kind, item.name, item.records) for item in report.rejected] == [
        ("table", "rejected", 3),
        ("topic", "orders.unparsed", None),  # nobody was asked
    ]
    assert reporter.look().sentence() == "no new rows"
    reporter.forget(["orders"])
    assert reporter.look().sentence() == "rows: orders 1,520 (+1,520)", "they were made anew"
    reporter.forget([])
    assert reporter.look().sentence().endswith("revenue 2 (+2); rejected: 3 in rejected (+3)")


def test_only_the_youngest_checkpoint_of_a_flow_counts(tmp_path: Path) -> None:
    """A full refresh begins a new one, and leaves the others."""
    flow = tmp_path / "_checkpoints" / "spark_catalog" / "default" / "orders" / "orders"
    for number, offset in ((2, 500), (10, 7)):
        for kind, text in (
            ("offsets", f"v1\n{{}}\n{json.dumps({'orders': {'0': offset}})}"),
            ("commits", "v1\n{}"),
        ):
            (flow / str(number) / kind).mkdir(parents=True)
            (flow / str(number) / kind / "0").write_text(text)
    assert [(source.flow, source.position) for source in status.sources(str(tmp_path), None)] == [
        ("orders", 7)
    ]


SHOP = Dataflow(
    (Node("table", "orders"), Node("table", "enriched")),
    (
        Flow("orders", (Node("topic", "orders"),), Node("table", "orders")),
        Flow("enriched", (Node("table", "orders"),), Node("table", "enriched")),
        Flow("send", (Node("table", "enriched"),), Node("topic", "out")),
    ),
)


def test_a_full_refresh_says_what_goes_what_is_read_again_and_what_is_written_twice() -> None:
    made = {"orders": 1200, "enriched": 1}
    assert refresh_sentences(SHOP, made, ()) == [
        "a full refresh removes what is in enriched (1 row), orders (1,200 rows)",
        "read again from the beginning: 1 topic orders",
        "gets every record once more: topic out",
    ]
    assert refresh_sentences(SHOP, made, ("orders",)) == [
        "a full refresh removes what is in orders (1,200 rows)",
        "read again from the beginning: 1 topic orders",
        "flow enriched reads orders: if it is a stream, it takes its rows for new ones",
    ]
    assert refresh_sentences(Dataflow(), {}, ()) == ["nothing has been made yet"]


def test_a_table_that_is_not_there_and_a_sink_cannot_be_refreshed() -> None:
    check_tables(["orders"], ["orders", "enriched"])
    with pytest.raises(
        ValueError, match=r"the pipeline has no table out; it has enriched, orders \(sinks are"
    ):
        check_tables(["orders", "out"], ["orders", "enriched"])


def test_a_name_that_no_table_has_is_told_before_spark_starts(run: Any, folder: PipelineFolder) -> None:
    made = Dataflow((Node("table", "orders"),), ())
    of = fingerprint([folder.specification]) + fingerprint(folder.sources())
    os.makedirs(folder.own(""), exist_ok=True)
    store(folder.own(DATAFLOW), made, of)
    outcome = run("pipeline", "run", folder.path, "--once", "--full-refresh", "odrers")
    assert outcome.code == 2
    assert outcome.err.startswith("ottla: the pipeline has no table odrers; it has orders (")


def test_after_a_full_refresh_the_same_tables_are_run_and_kept() -> None:
    selection = {"full_refresh": ["orders"], "full_refresh_all": False, "refresh": []}
    then = {"full_refresh": [], "full_refresh_all": False, "refresh": ["orders"]}
    assert selection_after(selection) == selection_after(then) == then
    everything = {"full_refresh": [], "full_refresh_all": True, "refresh": []}
    assert selection_after(everything) == {"full_refresh": [], "full_refresh_all": False, "refresh": []}


def test_a_dry_run_needs_no_broker_and_creates_no_topic(folder: PipelineFolder) -> None:
    said: list[str] = []
    nobody = ClientProperties("127.0.0.1:1")
    PipelineRun(folder, RunOptions(dry=True, where=nobody), said.append)
    assert said == []
    with pytest.raises(CommandError, match=r"no broker answers at 127\.0\.0\.1:1"):
        PipelineRun(folder, RunOptions(where=nobody), said.append)


def test_progress_says_which_run_it_is_and_what_is_done() -> None:
    progress = Progress(rounds_before=4, rounds=4)
    assert progress.doing() == "starting Spark"
    assert progress.take({"kind": "session", "version": "4.3.0"}) == "Spark 4.3.0 is up"
    assert progress.doing() == "run 5: reading the pipeline"
    for flow, state in (("a", "RUNNING"), ("b", "COMPLETED"), ("c", "EXCLUDED")):
        progress.take({"kind": "event", "flow": flow, "state": state, "message": ""})
    assert progress.doing() == "run 5: 1 of 2 flows done, running: a"
    batch = {"kind": "batch", "flow": "a", "rows": 1000, "behind": 340, "sentence": "a, batch 12: ..."}
    assert progress.take(batch) == "run 5: a, batch 12: ..."
    assert progress.take(batch | {"behind": 0}) == "run 5: a, batch 12: ..."
    assert progress.doing() == "run 5: 1 of 2 flows done, running: a (2,000 rows, 0 behind)"
    assert progress.take(batch | {"behind": None}) is None, "a flow that reads no topic is behind of nothing"
    assert progress.doing() == "run 5: 1 of 2 flows done, running: a (3,000 rows)"
    told = progress.take({"kind": "completed", "number": 1, "took_s": 1.25})
    assert told == "run 5: 2 flows completed in 1.2 s"
    progress.take({"kind": "waiting", "pause_s": 29.6})
    assert progress.doing() == "waiting for 30 s, then run 6"


def test_a_batch_is_told_with_the_name_of_its_flow_and_its_lag_if_it_reads_a_topic() -> None:
    source = {"numInputRows": 5, "endOffset": '{"t":{"0":5}}', "latestOffset": '{"t":{"0":9}}'}
    batch = {"id": "1", "name": "spark_catalog.default.orders", "batchId": 3, "durationMs": {}}
    assert as_event({**batch, "sources": [source]}) == {
        "flow": "orders",
        "rows": 5,
        "behind": 4,
        "sentence": "orders, batch 3: 5 rows in 0.0 s, 4 behind (t 4)",
    }
    table = {"numInputRows": 5, "endOffset": '{"logOffset":0}', "latestOffset": None}
    assert as_event({**batch, "sources": [table]})["behind"] is None


def test_the_start_of_a_flow_is_not_looked_at_as_pyspark_cannot_read_it() -> None:
    told: list[Any] = []
    unreadable: Any = None
    JavaListener(LagListener(told.append)).onQueryStarted(unreadable)
    assert told == []


class SlowToStop:
    """In the place of a driver: it has something to tell after it was told to stop."""

    def __init__(self) -> None:
        self.is_told = threading.Event()
        self.process = subprocess.Popen([sys.executable, "-c", "pass"])
        self.stop, self.end = self.is_told.set, self.process.wait

    def events(self) -> Any:
        yield {"kind": "session", "version": "4.3.0"}
        assert self.is_told.wait(30)
        yield {"kind": "round"}


def test_on_ctrl_c_it_is_said_at_once_that_spark_is_stopped() -> None:
    shown: list[str] = []
    driver: Any = SlowToStop()
    stopped = threading.Event()
    for event in follow(driver, Progress(), stopped, lambda doing, _: shown.append(doing)):
        if event["kind"] == "session":
            stopped.set()
    assert shown[:2] == ["starting Spark", "run 1: reading the pipeline"]
    assert set(shown[2:]) == {"stopping Spark"}


def test_a_failure_is_a_block_with_file_and_line_or_one_line(folder: PipelineFolder) -> None:
    progress = Progress()
    log = folder.own("driver.log")
    progress.take({"kind": "failed", "reason": "no\n broker"})
    assert progress.state == FAILED
    assert failure(folder, progress.reason, progress.mistakes) == (
        f"the pipeline failed: no broker (more in {log})"
    )
    mistake = {"reason": "[X] no", "file": f"{folder.path}/transformations/a.sql", "line": 3, "column": 2,
               "flow": "a", "code": "abc"}  # fmt: skip
    progress.take({"kind": "failed", "reason": "some flows", "mistakes": [mistake]})
    assert failure(folder, progress.reason, progress.mistakes) == (
        "the pipeline failed\ntransformations/a.sql, line 3, flow a\n    abc\n     ^\n  [X] no\n"
        f"(more in {log})"
    )
    assert (
        one_line(folder, progress.reason, progress.mistakes)
        == "transformations/a.sql, line 3, flow a: [X] no"
    )


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("name: x\nstorage: [\n", "spark-pipeline.yml, line 3, column 1: while parsing a flow node"),
        (
            "name: x\nlibraries: [{glob: {include: lost.sql}}]",
            "spark-pipeline.yml: libraries name lost.sql, and no file is there",
        ),
        ("name: x\nlibraries: [{globb: 1}]", "spark-pipeline.yml: an entry of libraries is not"),
        ("name: x\n", "spark-pipeline.yml names no files of the pipeline"),
    ],
)
def test_a_specification_that_is_wrong_is_told_before_spark_starts(
    run: Any, folder: PipelineFolder, text: str, said: str
) -> None:
    Path(folder.specification).write_text(text)
    outcome = run("pipeline", "graph", folder.path)
    assert outcome.code == 1
    assert said in outcome.err
    assert outcome.err.count("\n") == 1


def test_python_that_is_none_is_told_before_spark_starts(run: Any, folder: PipelineFolder) -> None:
    (Path(folder.path) / "transformations" / "new.py").write_text("def x()\n    pass\n")
    outcome = run("pipeline", "graph", folder.path)
    assert outcome.code == 1
    assert outcome.err == (
        "ottla: the pipeline failed\ntransformations/new.py, line 1\n    def x()\n           ^\n"
        "  SyntaxError: expected ':'\n"
    )


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (("--continuous", "--once"), "--continuous goes on until Ctrl-C: leave out --once and --dry-run"),
        (("--every", "soon"), "--every takes a time with its unit, such as 30s, 15m or 2h, not 'soon'"),
        (("--full-refresh",), "nothing was done: without a terminal to ask at, this takes --yes"),
    ],
)
def test_options_of_run_that_do_not_go_together_are_refused(
    run: Any, folder: PipelineFolder, arguments: tuple[str, ...], said: str
) -> None:
    outcome = run("pipeline", "run", folder.path, *arguments)
    assert outcome.code == 2
    assert outcome.err.splitlines()[-1] == f"ottla: {said}"


SHOWN = """
from ottla.cli.pipelines.run_display import display
with display() as show:
    show("run 1: 0 of 2 flows done", None)
    show("run 1: 1 of 2 flows done, running: b", "Spark is up [now]")
    show("run 1: 2 of 2 flows done", None)
"""


def test_on_a_terminal_one_line_is_rewritten_and_sentences_stay() -> None:
    command = [sys.executable, "-c", SHOWN]
    text = shown_on_a_terminal(command, stream="stderr", columns=100, within_s=60)
    assert "\x1b[2K" in text, "a line was taken back"
    assert "Spark is up [now]\r\n" in text
    assert text.index("0 of 2 flows done") < text.index("Spark is up [now]")


def test_in_a_pipe_there_are_only_sentences() -> None:
    done = subprocess.run([sys.executable, "-c", SHOWN], capture_output=True, text=True, timeout=60)
    assert (done.returncode, done.stderr) == (0, "Spark is up [now]\n")
