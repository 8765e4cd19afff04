"""A program of its own that runs one query, to be killed: `python -m tests.spark.driver TABLE CHECKPOINT
GATE OPTIONS`.

OPTIONS is JSON. Without a kill it ends by itself.
"""

import json
import sys

from tests.spark.harness import held_up, new_session, read_stream, run, to_table


def main() -> None:
    table, checkpoint, gate, options = sys.argv[1:5]
    spark = new_session("driver", cores=1)
    run(to_table(held_up(read_stream(spark, json.loads(options)), gate), table, checkpoint))
    spark.stop()


if __name__ == "__main__":
    main()
