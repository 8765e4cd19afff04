"""Where PySpark finds `format("parquet_by")`, the sink of Parquet files in folders by the value of a column.

A source that is registered by a program instead breaks `spark-pipelines`: its accumulators come back in an
answer that the client of Spark Connect does not know (PySpark 4.3).
"""

from ottla.pipelines.archive import ParquetByColumn

DefaultSource = ParquetByColumn
