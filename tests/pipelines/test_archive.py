"""The sink of Parquet by day, without Spark around it: folders, repeated batches, failed attempts."""

from datetime import date
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from pyarrow import dataset

pytest.importorskip("pyspark")
pytestmark = pytest.mark.filterwarnings("ignore:PySpark does not yet fully support pandas")


def batch(*rows: tuple[int, str | None]) -> pa.RecordBatch:
    days = [None if day is None else date.fromisoformat(day) for _, day in rows]
    return pa.RecordBatch.from_pydict({"n": [n for n, _ in rows], "day": pa.array(days, pa.date32())})


@pytest.fixture
def writer(tmp_path: Path) -> Any:
    from ottla.pipelines.archive import ParquetWriter

    return ParquetWriter(f"file://{tmp_path}/archive", "day")


def rows(tmp_path: Path) -> list[tuple[int, str | None]]:
    found = (
        dataset.dataset(tmp_path / "archive", format="parquet", partitioning="hive").to_table().to_pylist()
    )
    return sorted((row["n"], row["day"]) for row in found)


def test_rows_go_into_the_folder_of_their_day(writer: Any, tmp_path: Path) -> None:
    staged = [
        writer.write(iter([batch((1, "2026-01-01"), (2, "2026-01-02")), batch((3, "2026-01-01"))])),
        writer.write(iter([batch((4, "2026-01-02"))])),
        writer.write(iter([])),
    ]
    assert [path.name for path in (tmp_path / "archive").iterdir()] == ["_staged"]
    writer.commit(staged, 0)
    assert rows(tmp_path) == [(1, "2026-01-01"), (2, "2026-01-02"), (3, "2026-01-01"), (4, "2026-01-02")]
    assert list((tmp_path / "archive" / "_staged").iterdir()) == []


def test_no_day_is_a_folder_too(writer: Any, tmp_path: Path) -> None:
    writer.commit([writer.write(iter([batch((1, None), (2, "2026-01-02"))]))], 0)
    assert rows(tmp_path) == [(1, None), (2, "2026-01-02")]
    assert (tmp_path / "archive" / "day=__HIVE_DEFAULT_PARTITION__").is_dir()


def test_a_batch_that_is_repeated_replaces_itself(writer: Any, tmp_path: Path) -> None:
    writer.commit([writer.write(iter([batch((1, "2026-01-01"))]))], 0)
    for _ in range(2):  # the second time with its rows in other tasks
        first = writer.write(iter([batch((2, "2026-01-01"), (3, "2026-01-02"))]))
        writer.commit([first, writer.write(iter([batch((4, "2026-01-03"))]))], 1)
    writer.commit([writer.write(iter([batch((2, "2026-01-01"), (3, "2026-01-02"), (4, "2026-01-03"))]))], 1)
    assert [n for n, _ in rows(tmp_path)] == [1, 2, 3, 4]


def test_an_attempt_that_failed_leaves_nothing_and_takes_nothing(writer: Any, tmp_path: Path) -> None:
    writer.commit([writer.write(iter([batch((1, "2026-01-01"))]))], 0)
    staged = writer.write(iter([batch((2, "2026-01-01"))]))
    writer.abort([staged, None], 1)
    again = writer.write(iter([batch((2, "2026-01-01"))]))
    writer.commit([again], 1)
    writer.abort([again], 1)  # Spark does so if the commit fails after its work
    assert rows(tmp_path) == [(1, "2026-01-01"), (2, "2026-01-01")]


def test_options_are_checked() -> None:
    from pyspark.sql.types import IntegerType, StructType

    from ottla.pipelines.archive import ParquetByColumn

    schema = StructType().add("n", IntegerType())
    with pytest.raises(ValueError, match="needs the option path"):
        ParquetByColumn({"by": "day"}).streamWriter(schema, False)
    with pytest.raises(ValueError, match="no column 'day'"):
        ParquetByColumn({"by": "day", "path": "file:///x"}).streamWriter(schema, False)
