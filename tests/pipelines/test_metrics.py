"""The metrics template, run again and again: windows, late data, alerts; and how a run ends."""

import os
import signal
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from tests.pipelines.conftest import WAIT_S, Pipeline, processes_of

BEGIN = datetime(2026, 1, 1, tzinfo=UTC)
STALLED = "ottla_stall_seconds_total"
UNDER_REPLICATED = "kafka_server_replicamanager_underreplicatedpartitions"
WINDOW = ("minute", "host", "series", "count", "least", "average", "greatest")


def measured(minute: float, metric: str, value: float, host: str = "a", **labels: str) -> dict[str, Any]:
    moment = BEGIN + timedelta(minutes=minute)
    time_ms = int(moment.timestamp() * 1000)
    return {"time": time_ms, "host": host, "metric": metric, "value": value, "labels": labels}


def from_collectd(minute: float) -> list[dict[str, Any]]:
    """As its plugin write_kafka sends a reading with two values."""
    return [
        {
            "values": [7, 8],
            "dstypes": ["derive", "derive"],
            "dsnames": ["rx", "tx"],
            "time": (BEGIN + timedelta(minutes=minute)).timestamp(),
            "interval": 10.0,
            "host": "c",
            "plugin": "interface",
            "plugin_instance": "eth0",
            "type": "if_octets",
            "type_instance": "",
        }
    ]


def at(minute: int) -> datetime:
    return BEGIN + timedelta(minutes=minute)


def alive(pids: list[int]) -> list[int]:
    found = []
    for pid in pids:
        try:
            with open(f"/proc/{pid}/stat") as file:
                if file.read().rsplit(")", 1)[1].split()[0] not in "ZX":
                    found.append(pid)
        except OSError:
            continue
    return found


def test_windows_close_late_data_is_left_out_and_alerts_go_out(
    pipeline: Pipeline, send: Callable[..., None], received: Callable[[str], list[Any]]
) -> None:
    pipeline.init("metrics")
    send(
        "metrics",
        measured(0.1, "cpu.percent", 95),
        measured(0.9, "cpu.percent", 97),
        measured(0.5, "disk.percent", 40, mount="/"),
        measured(0.5, "disk.percent", 99, mount="/data"),
        measured(0.5, "cpu.percent", 10, host="b"),
        "no JSON",
        {"time": 1, "host": "a"},
        measured(0.1, STALLED, 10, broker="1"),
        measured(0.6, STALLED, 16, broker="1"),
        measured(0.1, STALLED, 10, broker="2"),  # once, so nobody knows how fast it grows
        measured(0.5, UNDER_REPLICATED, 3, broker="1"),
        from_collectd(0.5),
        measured(10, "cpu.percent", 20),  # the watermark is at minute 8 now
    )
    process = pipeline.start("--interval", "0", "--master", "local[2]")
    pipeline.wait_for_rounds(1)
    first = [
        (at(0), "a", "cpu.percent", 2, 95.0, 96.0, 97.0),
        (at(0), "a", "disk.percent{mount=/data}", 1, 99.0, 99.0, 99.0),
        (at(0), "a", "disk.percent{mount=/}", 1, 40.0, 40.0, 40.0),
        (at(0), "b", "cpu.percent", 1, 10.0, 10.0, 10.0),
        (at(0), "a", f"{STALLED}{{broker=1}}", 2, 10.0, 13.0, 16.0),
        (at(0), "a", f"{STALLED}{{broker=2}}", 1, 10.0, 10.0, 10.0),
        (at(0), "a", f"{UNDER_REPLICATED}{{broker=1}}", 1, 3.0, 3.0, 3.0),
        (at(0), "c", "interface.if_octets.rx_total{instance=eth0}", 1, 7.0, 7.0, 7.0),
        (at(0), "c", "interface.if_octets.tx_total{instance=eth0}", 1, 8.0, 8.0, 8.0),
    ]
    assert pipeline.table("by_minute", WINDOW) == sorted(first, key=repr)
    send(
        "metrics",
        measured(0.2, "cpu.percent", 0),  # too late for its window
        measured(9, "cpu.percent", 30),  # late, but not too late
        measured(20, "cpu.percent", 50),
    )
    pipeline.wait_for_rounds(pipeline.rounds() + 2)  # one may have begun before
    running = processes_of(process.pid)
    assert len(running) >= 2  # the driver and Java at least
    process.send_signal(signal.SIGINT)
    _, errors = process.communicate(timeout=WAIT_S)
    assert process.returncode == 0, errors
    assert alive(running) == []
    assert errors.startswith("created topic metrics.by-minute\ncreated topic metrics.alerts\nSpark ")
    later = [
        (at(9), "a", "cpu.percent", 1, 30.0, 30.0, 30.0),
        (at(10), "a", "cpu.percent", 1, 20.0, 20.0, 20.0),
    ]
    assert pipeline.table("by_minute", WINDOW) == sorted(first + later, key=repr)
    growth = dict(pipeline.table("by_minute", ("series", "per_second")))
    assert growth[f"{STALLED}{{broker=1}}"] == pytest.approx(0.2)
    assert growth[f"{STALLED}{{broker=2}}"] is None
    assert growth["cpu.percent"] is None
    assert len(pipeline.table("measurements", ("time",))) == 15  # the late one too
    assert pipeline.table("malformed", ("offset", "raw")) == [(5, "no JSON"), (6, '{"time": 1, "host": "a"}')]
    alerts = [
        (at(0), "a", "cpu.percent", 96.0, 90.0),
        (at(0), "a", "disk.percent{mount=/data}", 99.0, 90.0),
        (at(0), "a", f"{UNDER_REPLICATED}{{broker=1}}", 3.0, 0.0),
        (at(0), "a", f"{STALLED}{{broker=1}}", 13.0, 0.05),
    ]
    assert pipeline.table("alerts", ("minute", "host", "series", "average", "limit")) == alerts
    assert sorted(one["series"] for one in received("metrics.alerts")) == [one[2] for one in alerts]
    windows = [(one["minute"], one["series"], one["count"]) for one in received("metrics.by-minute")]
    assert len(windows) == 11
    assert ("2026-01-01T00:09:00.000Z", "cpu.percent", 1) in windows

    out, _ = pipeline.done("pipeline", "status", str(pipeline.folder))
    assert "last run: stopped" in out
    lines = [line.split() for line in out.splitlines()]
    assert ["by_minute", "11"] in [line[:2] for line in lines]
    assert ["measurements", "metrics", "16", "16", "0"] in lines
    assert not os.path.exists(pipeline.folder / "derby.log")


def test_a_mistake_in_the_pipeline_is_a_block_with_file_and_line_and_code_1(pipeline: Pipeline) -> None:
    pipeline.init("metrics")
    (pipeline.folder / "transformations" / "wrong.sql").write_text(
        "CREATE MATERIALIZED VIEW x AS SELECT nothing"
    )
    _, errors = pipeline.run("--dry-run", "--master", "local[2]", code=1)
    said = errors.splitlines()
    block = said[said.index("ottla: the pipeline failed") + 1 :]
    assert block[0] == "transformations/wrong.sql, line 1, flow x"
    assert block[1:3] == ["    CREATE MATERIALIZED VIEW x AS SELECT nothing", " " * 41 + "^"]
    assert block[3].startswith("  [UNRESOLVED_COLUMN.WITHOUT_SUGGESTION] ")
    assert block[4:] == [f"(more in {pipeline.folder}/.ottla/driver.log)"]
    out, _ = pipeline.done("pipeline", "status", str(pipeline.folder))
    assert "last run: failed" in out
    assert "reason: transformations/wrong.sql, line 1, flow x: [UNRESOLVED_COLUMN" in out


def test_a_command_that_is_killed_takes_its_spark_with_it(pipeline: Pipeline) -> None:
    pipeline.init("metrics")
    process = pipeline.start("--master", "local[2]")
    pipeline.wait(lambda: len(processes_of(process.pid)) >= 2)
    running = processes_of(process.pid)
    assert "is running already" in pipeline.run(code=1)[1]
    process.kill()
    process.wait()
    pipeline.wait(lambda: not alive(running))
    out, _ = pipeline.done("pipeline", "status", str(pipeline.folder))
    assert "last run: killed" in out
