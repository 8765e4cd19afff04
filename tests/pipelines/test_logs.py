"""The logs template: lines of real files, through `ottla ship`, parsed, kept by day, counted and routed."""

import socket
from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from pyarrow import dataset
from tests.pipelines.conftest import Pipeline

# Syslog has no year: it is the last one in which the first of February has been.
NOW = datetime.now(UTC)
YEAR = str(NOW.year if datetime(NOW.year, 2, 1, tzinfo=UTC) <= NOW else NOW.year - 1)
EPOCH = str(int(datetime(int(YEAR), 2, 1, 10, 0, 1, tzinfo=UTC).timestamp()))
ACCESS = """\
10.0.0.1 - - [31/Jan/2000:23:59:58 +0100] "GET /cart?id=1 HTTP/1.1" 200 512 "-" "curl/8.0"
10.0.0.2 - alice [01/Feb/2000:00:00:01 +0000] "POST /pay HTTP/1.1" 502 0 "https://shop/" "Mozilla/5.0 (X11)"
10.0.0.3 - - [01/Feb/2000:00:00:02 +0000] "GET /nothing HTTP/1.0" 404 -
"""
APPLICATION = """\
{"timestamp": "2000-02-01T10:00:00.250Z", "level": "error", "message": "no stock", "service": "shop", "n": 3}
{"ts": 949399201, "severity": "INFO", "msg": "sold"}
2000-02-01 10:00:02,500 WARNING slow answer
2000-02-01T10:00:03Z [ERROR] lost a parcel
{"broken": json
  at com.example.Main(Main.java:5)
"""
SYSLOG = """\
<11>1 2000-02-01T11:00:00.5Z mail postfix 42 - - cannot connect
<30>Feb  1 11:00:01 mail postfix/qmgr[7]: removed
Feb  1 11:00:02 mail sshd[99]: Failed password for root
"""
COLUMNS = ["time", "level", "host", "app", "message", "format", "day"]


def moment(text: str) -> datetime:
    return datetime.fromisoformat(text.replace("2000", YEAR)).replace(tzinfo=UTC)


def archive_rows(pipeline: Pipeline) -> int:
    folder = pipeline.folder / "tables" / "archive"
    return int(dataset.dataset(folder, format="parquet", partitioning="hive").count_rows())


def test_lines_are_parsed_kept_by_day_counted_and_routed(
    pipeline: Pipeline, received: Callable[[str], list[Any]], tmp_path: Path
) -> None:
    logs = tmp_path / "var"
    logs.mkdir()
    for name, text in (("access.log", ACCESS), ("shop.log", APPLICATION), ("syslog", SYSLOG)):
        (logs / name).write_text(text.replace("2000", YEAR).replace("949399201", EPOCH))
    (logs / "junk.log").write_bytes(b"\xff\xfe\x00 junk\n")
    state = str(tmp_path / "ship.json")
    pipeline.done("ship", f"{logs}/*", "--topic", "logs", "--once", "--state", state)
    pipeline.init("logs")
    out, _ = pipeline.run("--once", "--master", "local[2]")
    assert ["errors", "5"] in [line.split()[:2] for line in out.splitlines()]
    lag_sums = {
        name: lag
        for name, lag in pipeline.broker.metrics().items()
        if name.startswith("kafka_consumergroup_lag_sum{") and 'topic="logs"' in name
    }
    assert lag_sums, "to Prometheus the flows of a pipeline are groups like any others"
    assert set(lag_sums.values()) == {0}

    here, day = socket.gethostname(), f"{YEAR}-02-01"
    archive = dataset.dataset(pipeline.folder / "tables" / "archive", format="parquet", partitioning="hive")
    rows = archive.to_table(
        columns=[*COLUMNS, "path", "status", "bytes", "client", "method", "url", "received"]
    )
    found = {(Path(row["path"]).name, row["message"]): row for row in rows.to_pylist()}
    assert len(found) == 13
    parsed = {name: tuple(row[column] for column in COLUMNS[:4] + COLUMNS[5:]) for name, row in found.items()}
    access = {row["url"]: row for row in found.values() if row["format"] == "access"}
    assert {
        url: (row["status"], row["bytes"], row["client"], row["method"]) for url, row in access.items()
    } == {
        "/cart?id=1": (200, 512, "10.0.0.1", "GET"),
        "/pay": (502, 0, "10.0.0.2", "POST"),
        "/nothing": (404, None, "10.0.0.3", "GET"),
    }
    assert {
        url: (row["time"], row["level"], row["host"], row["app"], row["day"]) for url, row in access.items()
    } == {
        "/cart?id=1": (moment("2000-01-31T22:59:58"), "INFO", here, "access", f"{YEAR}-01-31"),
        "/pay": (moment("2000-02-01T00:00:01"), "ERROR", here, "access", day),
        "/nothing": (moment("2000-02-01T00:00:02"), "WARN", here, "access", day),
    }
    assert {name: row for name, row in parsed.items() if row[4] not in ("access", "unknown")} == {
        ("shop.log", "no stock"): (moment("2000-02-01T10:00:00.250"), "ERROR", here, "shop", "json", day),
        ("shop.log", "sold"): (moment("2000-02-01T10:00:01"), "INFO", here, "shop", "json", day),
        ("shop.log", "slow answer"): (
            moment("2000-02-01T10:00:02.500"), "WARN", here, "shop", "application", day,
        ),
        ("shop.log", "lost a parcel"): (
            moment("2000-02-01T10:00:03"), "ERROR", here, "shop", "application", day,
        ),
        ("syslog", "cannot connect"): (
            moment("2000-02-01T11:00:00.500"), "ERROR", "mail", "postfix", "syslog5424", day,
        ),
        ("syslog", "removed"): (
            moment("2000-02-01T11:00:01"), "INFO", "mail", "postfix/qmgr", "syslog", day,
        ),
        ("syslog", "Failed password for root"): (
            moment("2000-02-01T11:00:02"), "ERROR", "mail", "sshd", "syslog", day,
        ),
    }  # fmt: skip
    unknown = {name: row for name, row in found.items() if row["format"] == "unknown"}
    assert {name[0] for name in unknown} == {"shop.log", "junk.log"}
    assert all(row["time"] == row["received"] for row in unknown.values())
    by_day = {path.name for path in (pipeline.folder / "tables" / "archive").glob("day=*")}
    received_days = {f"day={row['received']:%Y-%m-%d}" for row in unknown.values()}
    assert {f"day={YEAR}-01-31", f"day={day}", *received_days} == by_day

    counts = pipeline.table("error_counts", ("hour", "host", "app", "level", "count"))
    assert counts == sorted(
        [
            (moment("2000-02-01T00:00:00"), here, "access", "ERROR", 1),
            (moment("2000-02-01T10:00:00"), here, "shop", "ERROR", 2),
            (moment("2000-02-01T11:00:00"), "mail", "postfix", "ERROR", 1),
            (moment("2000-02-01T11:00:00"), "mail", "sshd", "ERROR", 1),
        ],
        key=repr,
    )
    assert sorted(one["app"] for one in received("logs.errors")) == [
        "access",
        "postfix",
        "shop",
        "shop",
        "sshd",
    ]
    assert len(received("logs.unparsed")) == 3

    _, said = pipeline.run("--once", "--master", "local[2]", "--full-refresh", "--yes")
    assert (
        "a full refresh removes what is in archive (13 rows), error_counts (4 rows), errors (5 rows)" in said
    )
    assert "read again from the beginning: 1 topic logs\n" in said
    assert "gets every record once more: topic logs.errors, logs.unparsed" in said
    assert archive_rows(pipeline) == 13, "the archive is made anew, not twice"
    assert len(pipeline.table("errors", ("app",))) == 5
    assert len(received("logs.errors")) == 10
