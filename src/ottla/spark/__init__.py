"""The PySpark data source: `spark.read.format("ottla")`, and the same for writing and for streams.

    source                     what Spark finds; `pyspark_ottla.DefaultSource` is it
    options · kafka_options    every option, declared once
    java_regex · positions     what `subscribePattern`, `startingOffsets` and their kin mean
    topics · plan · filters    which partitions, in how many tasks, what of them
    reader · stream            reading: batch, and micro-batches
    writer                     writing: what a task does
    decision · batch_commit    writing exactly once: what makes a batch, pure; what the driver does
    session                    a session that finds the source from any virtual environment
    lag                        how far behind a query is, out of its progress
    offsets · errors · schema · clients

It is a drop-in for the official connector: its options, columns, offset JSON and error classes. Rules: it
imports `ottla.client` and `ottla.arrow`, never the broker; a worker makes no Python object per record; what
differs from the official connector is in docs/spark.md. Not obvious: nothing here knows Spark's checkpoint
folder, see docs/design/005-spark-offsets.md.
"""
