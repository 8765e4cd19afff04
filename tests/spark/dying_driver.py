"""A driver of its own that copies a topic and is to be killed: `python -m tests.spark.dying_driver SOURCE
TARGET CHECKPOINT GATE POINT`. SOURCE is JSON, the options of the source, and TARGET is SERVER/TOPIC."""

import json
import sys

from tests.spark.dying import DyingSource, copy
from tests.spark.harness import new_session, read_stream, run


def main() -> None:
    source, target, checkpoint, gate, point = sys.argv[1:6]
    spark = new_session("driver")
    spark.dataSource.register(DyingSource)
    rows = read_stream(spark, json.loads(source))
    run(copy(rows, *target.split("/"), checkpoint, gate=gate, point=point, held="true"))
    spark.stop()


if __name__ == "__main__":
    main()
