"""The examples run as they stand, from a virtual environment that is not activated, each with its own broker.

One process runs all of them: each asks for a Spark session of its own, and only the first waits for Java.
"""

import sys
from pathlib import Path

import pytest
from tests.support.outside import run

from ottla import Broker
from ottla.pipelines import spark_environment

FOLDER = Path(__file__).parents[2] / "examples"
SCRIPTS = sorted(FOLDER.glob("*.py"))
SAID = {
    "logs": ["logs, batch 0: 5 rows in", "{'ERROR': 2"],
    "metrics": ["alerts, batch 0: 240 rows in", "12:05:00.000Z  bob  cpu.busy was 95% busy"],
    "streams": ["enrich, batch 0: 3 rows in", ": 1 row in", "order 2: Milena, Vienna"],
    "tests": ["all receipts are there, none of them twice"],
}
PROGRAM = """
import runpy, sys
for path in sys.argv[1:]:
    print("== " + path, flush=True)
    runpy.run_path(path, run_name="__main__")
"""
# Most of a short run is Java compiling itself, and Spark's code for a handful of rows.
QUICK = {
    "JDK_JAVA_OPTIONS": "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC",
    "PYSPARK_SUBMIT_ARGS": "--conf spark.sql.codegen.wholeStage=false "
    "--conf spark.sql.codegen.factoryMode=NO_CODEGEN pyspark-shell",
}


def runs(paths: list[Path], folder: Path, **environment: str) -> dict[str, str]:
    """What each of them has written."""
    said = run([sys.executable, "-c", PROGRAM, *map(str, paths)], folder, QUICK | environment)
    parts = said.split("== ")[1:]
    return {Path(part.split("\n", 1)[0]).stem: part for part in parts}


@pytest.mark.timeout(600)
@pytest.mark.skipif(spark_environment.missing() is not None, reason="needs Java and PySpark")
def test_every_example_runs_and_shows_what_it_is_about(tmp_path: Path) -> None:
    assert {script.stem for script in SCRIPTS} == SAID.keys()
    said = runs(SCRIPTS, tmp_path)
    for name, texts in SAID.items():
        for text in texts:
            assert text in said[name], f"{name}:\n{said[name]}"


def test_an_example_takes_a_cluster_that_is_there(tmp_path: Path) -> None:
    with Broker() as broker:
        runs([FOLDER / "tests.py"], tmp_path, OTTLA_BOOTSTRAP=broker.bootstrap_servers)
        metrics = broker.metrics()
    topics = [name for name in metrics if "messagesin_total" in name and 'topic="receipts-' in name]
    assert len(topics) == 2, "one for each test"


@pytest.mark.parametrize("script", SCRIPTS, ids=lambda script: script.stem)
def test_every_example_is_cells_that_say_what_they_do(script: Path) -> None:
    text = script.read_text()
    cells = text.split("\n# %% ")
    assert len(cells) > 4
    assert f"python examples/{script.name}" in cells[0]
    assert script.name in (FOLDER / "README.md").read_text()
    assert "examples/README.md" in (FOLDER.parent / "README.md").read_text()
