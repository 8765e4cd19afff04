"""A program of its own that runs one query, to be killed: `python -m tests.spark.driver SINK CHECKPOINT
GATE OPTIONS`.

SINK is the folder of a table, or SERVER/TOPIC for a topic; then only the rows of partition 1 are held up.
OPTIONS is JSON. Without a kill it ends by itself.
"""

import json
import sys

from tests.spark.harness import Topic, held_up, new_session, read_stream, run, to_table, to_topic


def main() -> None:
    sink, checkpoint, gate, options = sys.argv[1:5]
    spark = new_session("driver", cores=1)
    stream = read_stream(spark, json.loads(options))
    if sink.startswith("/"):
        run(to_table(held_up(stream, gate), sink, checkpoint))
    else:
        run(to_topic(held_up(stream, gate, partition=1), Topic(*sink.split("/")), checkpoint))
    spark.stop()


if __name__ == "__main__":
    main()
