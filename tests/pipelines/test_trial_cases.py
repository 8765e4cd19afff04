"""Cases of `ottla pipeline test` as files, without Spark."""

import json
from datetime import UTC, date, datetime
from decimal import Decimal
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from pyarrow import parquet

from ottla import Broker
from ottla.base.command_error import CommandError
from ottla.pipelines.dataflow import Dataflow
from ottla.pipelines.trial import Outcome, _send, as_json, rows
from ottla.pipelines.trial_cases import cases, differences


def lines(path: Path, *values: Any) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text("".join(f"{json.dumps(value)}\n" for value in values))


def outcome(tables: dict[str, list[Any]], topics: dict[str, list[Any]] | None = None) -> Outcome:
    return Outcome(tables, topics or {}, Dataflow())


def test_a_folder_without_tests_says_how_to_make_one(tmp_path: Path) -> None:
    with pytest.raises(CommandError, match="make tests/NAME/input/TOPIC"):
        cases(str(tmp_path), [])
    lines(tmp_path / "tests" / "late" / "input" / "orders.jsonl", {"a": 1})
    with pytest.raises(CommandError, match=r"there is no test early in .*; there is late"):
        cases(str(tmp_path), ["early"])


def test_only_columns_that_are_expected_are_compared_and_order_does_not_matter(tmp_path: Path) -> None:
    lines(tmp_path / "tests" / "late" / "input" / "orders.jsonl", {"a": 1}, "text")
    (case,) = cases(str(tmp_path), [])
    assert case.records() == {"orders": [{"a": 1}, "text"]}
    with pytest.raises(CommandError, match="test late expects nothing"):
        differences(case, outcome({}))
    lines(tmp_path / "tests" / "late" / "expected" / "tables" / "orders.jsonl", {"a": 1}, {"a": 2}, {"a": 2})
    came = [{"a": 2, "at": "now"}, {"a": 1, "at": "then"}, {"a": 2, "at": "x"}]
    assert differences(case, outcome({"orders": came})) == []
    (difference,) = differences(case, outcome({"orders": [*came[:2], {"a": 3}]}))
    assert difference == ("table", "orders", ['{"a": 2}'], ['{"a": 3}'])
    (gone,) = differences(case, outcome({}))
    assert len(gone.missing) == 3


def test_an_update_keeps_the_columns_that_a_file_has(tmp_path: Path) -> None:
    lines(tmp_path / "tests" / "late" / "input" / "orders.jsonl", {"a": 1})
    expected = tmp_path / "tests" / "late" / "expected"
    lines(expected / "tables" / "orders.jsonl", {"a": 7})
    (case,) = cases(str(tmp_path), [])
    came = outcome({"orders": [{"a": 1, "at": "now"}], "new": [{"b": 2}], "none": []}, {"out": ["x"]})
    assert len(case.write(came)) == 4
    assert (expected / "tables" / "orders.jsonl").read_text() == '{"a": 1}\n'
    assert (expected / "tables" / "new.jsonl").read_text() == '{"b": 2}\n'
    assert (expected / "tables" / "none.jsonl").read_text() == ""
    assert (expected / "topics" / "out.jsonl").read_text() == '"x"\n'
    assert differences(case, came) == []
    assert [difference.name for difference in differences(case, outcome({}, {"out": ["x", "y"]}))] == [
        "new",
        "orders",
        "out",
    ]


def test_a_line_that_is_no_json_is_named(tmp_path: Path) -> None:
    path = tmp_path / "tests" / "late" / "input" / "orders.jsonl"
    lines(path, 1)
    path.write_text('{"a": 1}\n\n{"a"\n')
    with pytest.raises(CommandError, match=r"orders\.jsonl, line 3, is not JSON"):
        cases(str(tmp_path), [])[0].records()


@pytest.mark.parametrize(
    "record",
    [{"value": "b", "partition": 7}, {"value": "b", "timestamp": "noon"}, {"value": "b", "headers": "h"}],
)
def test_a_record_that_cannot_be_sent_is_named(ottla_broker: Broker, record: dict[str, Any]) -> None:
    with pytest.raises(CommandError, match="record 2 for topic orders-in cannot be sent: "):
        _send(ottla_broker.bootstrap_servers, "orders-in", ["a", record])


def test_rows_are_as_json_has_them_and_folders_are_columns(tmp_path: Path) -> None:
    (tmp_path / "day=2026-01-31").mkdir()
    moment = datetime(2026, 1, 31, 12, tzinfo=UTC)
    table = pa.table({"at": [moment, moment], "amount": [Decimal("2.50"), Decimal("1.50")]})
    parquet.write_table(table, tmp_path / "day=2026-01-31" / "a.parquet")
    assert rows(str(tmp_path)) == [
        {"at": "2026-01-31T12:00:00Z", "amount": "1.50", "day": "2026-01-31"},
        {"at": "2026-01-31T12:00:00Z", "amount": "2.50", "day": "2026-01-31"},
    ]
    assert as_json({"d": date(2026, 1, 2), 1: [b"x", b"\xff"]}) == {"d": "2026-01-02", "1": ["x", "/w=="]}
