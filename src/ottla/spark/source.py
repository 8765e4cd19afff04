"""`format("ottla")`: the data source that Spark finds as `pyspark_ottla.DefaultSource`.

Spark calls these methods in short-lived Python processes beside the driver. Options are checked as soon as
it is known what they are for, so that a mistake shows at `load()` or `start()` and not in a task.

Not obvious: the writer is imported late. There is a new process for most calls, and imports are nearly all
that it does.
"""

from pyspark.sql.datasource import (
    DataSource,
    DataSourceReader,
    DataSourceStreamReader,
    DataSourceStreamWriter,
    DataSourceWriter,
)
from pyspark.sql.types import StructType

from ottla.spark.clients import reached
from ottla.spark.errors import OptionError, briefly
from ottla.spark.options import BATCH_ONLY, read_options, write_options
from ottla.spark.reader import BatchReader, FilteringReader
from ottla.spark.schema import check_written, columns_of, read_schema
from ottla.spark.stream import StreamReader


class OttlaSource(DataSource):
    @classmethod
    def name(cls) -> str:
        return "ottla"

    @briefly
    def schema(self) -> StructType:
        """Called by `load()`, which does not say whether it is a stream: what only one of them may have
        passes here."""
        stream = {name: value for name, value in self.options.items() if not _is_one_of(name, BATCH_ONLY)}
        return read_schema(include_headers=read_options(stream, is_stream=True).include_headers)

    @briefly
    def reader(self, schema: StructType) -> DataSourceReader:
        options = read_options(self.options, is_stream=False)
        columns = columns_of(schema, include_headers=options.include_headers)
        return (FilteringReader if options.push_filters else BatchReader)(options, columns)

    @briefly
    def streamReader(self, schema: StructType) -> DataSourceStreamReader:  # noqa: N802  (Spark's name)
        options = read_options(self.options, is_stream=True)
        return StreamReader(options, columns_of(schema, include_headers=options.include_headers))

    @briefly
    def writer(self, schema: StructType, overwrite: bool) -> DataSourceWriter:
        if overwrite:
            raise OptionError("mode overwrite is not supported: a log is only appended to; use mode append")
        options = write_options(self.options)
        check_written(schema, options.topic, options.timestamp_column)
        from ottla.spark.writer import BatchWriter

        reached(options.where)
        return BatchWriter(options)

    @briefly
    def streamWriter(  # noqa: N802  (Spark's name)
        self,
        schema: StructType,
        overwrite: bool,  # noqa: ARG002
    ) -> DataSourceStreamWriter:
        """`overwrite` is the output mode complete, in which every batch has all rows: they are all
        appended."""
        options = write_options(self.options, is_stream=True)
        check_written(schema, options.topic, options.timestamp_column)
        from ottla.spark.writer import StreamWriter

        return StreamWriter(options)


def _is_one_of(name: str, names: tuple[str, ...]) -> bool:
    return name.lower() in {given.lower() for given in names}
