"""From a virtual environment that is not activated, Spark finds the source with the line that docs/spark.md
begins with. Sessions of ours need nothing: tests/examples runs them in the same way."""

import re
import sys
from collections.abc import Callable
from pathlib import Path

from tests.spark.harness import Topic
from tests.support.outside import run

DOCUMENT = Path(__file__).parents[2] / "docs" / "spark.md"
PROGRAM = """
from pyspark.sql import SparkSession

spark = SparkSession.builder.master("local[1]").config("spark.ui.enabled", "false").getOrCreate()
count = spark.read.format("ottla").options(**{options}).load().count()
print("rows:", count)
spark.stop()
"""


def test_the_line_that_comes_first_in_the_document_is_all_it_takes(
    topic: Callable[..., Topic], tmp_path: Path
) -> None:
    orders = topic()
    orders.produce(range(7))
    line = re.findall(r"```python\n(.*?)```", DOCUMENT.read_text(), re.DOTALL)[0]
    assert "PYSPARK_PYTHON" in line
    assert "rows: 7" in run([sys.executable, "-c", line + PROGRAM.format(options=orders.options())], tmp_path)
