"""Pipelines with a mistake each, shown to one Spark; a program of its own (see `test_mistakes`).

Its arguments: a folder to work in. For each mistake it prints a line of JSON: its name, and what was found.
"""

import json
import sys
from pathlib import Path
from typing import Any

from ottla.pipelines import driver

NUMBERS = """\
from pyspark import pipelines as dp
from pyspark.sql import SparkSession

spark = SparkSession.active()


@dp.materialized_view
def numbers():
    return spark.range(5)
"""
FLOW = "from pyspark import pipelines as dp\n\n\n@dp.materialized_view\ndef wrong():\n"
BROKEN = {
    "syntax of SQL": (
        "b.sql",
        "CREATE MATERIALIZED VIEW k AS SELECT 1;\n\n-- a;\nCREATE MATERIALIZED VIEW wrong AS\nSELEC 2;\n",
    ),
    "column in SQL": ("b.sql", "\nCREATE MATERIALIZED VIEW wrong AS\nSELECT 1,\n  idd FROM numbers;\n"),
    "table in SQL": ("b.sql", "CREATE MATERIALIZED VIEW wrong AS\nSELECT * FROM numberz;\n"),
    "function in SQL": (
        "b.sql",
        "-- one\nCREATE MATERIALIZED VIEW wrong AS\nSELECT cuont(id) FROM numbers;\n",
    ),
    "exception in Python": ("b.py", f"{FLOW}    count = 1 / 0\n    return spark.range(count)\n"),
    "import in Python": ("b.py", "import os\nimport nosuchmodule\n"),
    "column in Python": (
        "b.py",
        f"{FLOW}    rows = spark.read.table('numbers')\n    return rows.select('idd')\n",
    ),
    "function in Python": ("b.py", f"{FLOW}    return spark.range(3).selectExpr('cuont(id) AS n')\n"),
    "nothing returned": ("b.py", f"{FLOW}    spark.range(3)\n"),
}


class Told(driver.Events):
    """What the driver tells, kept."""

    def __init__(self) -> None:
        self.told: list[dict[str, Any]] = []

    def tell(self, kind: str, **more: Any) -> None:
        self.told.append({"kind": kind, **more})


def main() -> None:
    from pyspark.pipelines.cli import load_pipeline_spec

    from ottla.pipelines.definitions import MistakesError

    home = Path(sys.argv[1])
    specification = home / "spark-pipeline.yml"
    specification.write_text(
        f"name: broken\nstorage: file://{home}/storage\n"
        "libraries: [{glob: {include: transformations/**}}]\n"
    )
    files = home / "transformations"
    files.mkdir()
    (files / "a.py").write_text(NUMBERS)
    spec = load_pipeline_spec(specification)
    none: dict[str, Any] = {"full_refresh": [], "full_refresh_all": False, "refresh": []}
    settings = {"spark.sql.warehouse.dir": f"file://{home}/tables", "spark.ui.enabled": "false"}
    with driver._session("local[1]", settings) as spark:
        for name, (file, text) in BROKEN.items():
            (files / file).write_text(text)
            try:
                driver._round(spark, specification, spec, {}, Told(), none, dry=True)
                seen: list[Any] = []
            except MistakesError as error:
                seen = [mistake.lines(str(home)) for mistake in error.mistakes]
            sys.stdout.write(f"\n::{json.dumps([name, seen])}\n")
            (files / file).unlink()


if __name__ == "__main__":
    main()
