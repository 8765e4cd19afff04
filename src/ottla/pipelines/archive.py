"""A sink of Parquet files in folders by the value of a column: `day=2030-01-31/`. Exactly once.

Declarative pipelines of Spark 4 accept `partition_cols` for a streaming table of files and write it flat, so
an archive that is asked by day needs a sink of its own. It is `format("parquet_by")`;
its options are `path` (any address that Arrow knows) and `by`.

Tasks stage their files; the commit of a batch first removes what an earlier attempt at the same batch may
have left, then gives the files their names. A batch that is repeated after a crash therefore replaces itself.

PySpark loads this for any query with a Python source, so what only writing needs is imported there.
"""

import posixpath
import uuid
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any
from urllib.parse import quote

import pyarrow as pa
import pyarrow.compute as pc
from pyspark import TaskContext
from pyspark.sql.datasource import DataSource, DataSourceStreamArrowWriter, WriterCommitMessage
from pyspark.sql.types import StructType

STAGED = "_staged"
NULL = "__HIVE_DEFAULT_PARTITION__"
QUERY = "sql.streaming.queryId"


@dataclass(frozen=True)
class Staged(WriterCommitMessage):
    """Files of one task, each with the folder it belongs into."""

    query: str
    files: tuple[tuple[str, str], ...]


class ParquetByColumn(DataSource):
    @classmethod
    def name(cls) -> str:
        return "parquet_by"

    def streamWriter(self, schema: StructType, overwrite: bool) -> "ParquetWriter":  # noqa: ARG002, N802
        missing = [name for name in ("path", "by") if not self.options.get(name)]
        if missing:
            raise ValueError(f"parquet_by needs the option {missing[0]}")
        if self.options["by"] not in schema.names:
            raise ValueError(f"parquet_by: there is no column {self.options['by']!r}")
        return ParquetWriter(self.options["path"], self.options["by"])


class ParquetWriter(DataSourceStreamArrowWriter):
    def __init__(self, path: str, by: str) -> None:
        self.path, self.by = path, by

    def _place(self) -> tuple[Any, str]:
        from pyarrow import fs

        files, root = fs.FileSystem.from_uri(self.path)
        return files, root

    def write(self, iterator: Iterator[pa.RecordBatch]) -> WriterCommitMessage:
        """In a worker: one file for each value of the column, under a name that nobody reads."""
        from pyarrow import parquet

        files, root = self._place()
        task = TaskContext.get()
        query = (task.getLocalProperty(QUERY) if task else None) or "query"
        staged = posixpath.join(root, STAGED)
        writers: dict[str, Any] = {}
        names: dict[str, str] = {}
        try:
            for batch in iterator:
                for folder, rows in split(batch, self.by):
                    if folder not in writers:
                        files.create_dir(staged, recursive=True)
                        names[folder] = posixpath.join(staged, f"{uuid.uuid4().hex}.parquet")
                        writers[folder] = parquet.ParquetWriter(names[folder], rows.schema, filesystem=files)
                    writers[folder].write_batch(rows)
        finally:
            for writer in writers.values():
                writer.close()
        return Staged(query, tuple((path, folder) for folder, path in names.items()))

    def commit(self, messages: list[Any], batchId: int) -> None:  # noqa: N803  # PySpark's name
        from pyarrow import fs

        files, root = self._place()
        staged = [task for task in messages if task is not None]
        if not any(task.files for task in staged):
            return
        prefix = f"part-{next(task.query for task in staged if task.files)}-{batchId:010d}-"
        earlier = fs.FileSelector(root, recursive=True, allow_not_found=True)
        for entry in files.get_file_info(earlier):
            if entry.type == fs.FileType.File and entry.base_name.startswith(prefix):
                files.delete_file(entry.path)
        number = 0
        for task in staged:
            for path, folder in task.files:
                files.create_dir(posixpath.join(root, folder), recursive=True)
                files.move(path, posixpath.join(root, folder, f"{prefix}{number:05d}.parquet"))
                number += 1

    def abort(self, messages: list[Any], batchId: int) -> None:  # noqa: ARG002, N803  # PySpark's name
        """Staged files of a failed attempt. What a commit has moved already is not touched."""
        from pyarrow import fs

        files, _ = self._place()
        for task in messages:
            for path, _folder in task.files if task is not None else ():
                if files.get_file_info(path).type == fs.FileType.File:
                    files.delete_file(path)


def remove_files(address: str) -> None:
    """All that the sink has written there: its flow begins anew."""
    from pyarrow import fs

    files, root = fs.FileSystem.from_uri(address)
    if files.get_file_info(root).type == fs.FileType.Directory:
        files.delete_dir_contents(root)


def split(batch: pa.RecordBatch, by: str) -> Iterator[tuple[str, pa.RecordBatch]]:
    """The rows of each value of the column, without the column, and the name of their folder."""
    values = batch.column(by)
    rest = batch.drop_columns([by])
    for value in pc.unique(values):
        is_own = pc.is_null(values) if not value.is_valid else pc.fill_null(pc.equal(values, value), False)
        text = NULL if not value.is_valid else quote(str(value.as_py()), safe=" -_.,@")
        yield f"{by}={text}", rest.filter(is_own)
