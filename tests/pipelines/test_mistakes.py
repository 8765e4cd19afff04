"""Mistakes in the files of a pipeline, on a real Spark: each is told with file, line and reason."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest
from tests.pipelines.conftest import WAIT_S, die_with_parent, quick


@pytest.fixture(scope="module")
def told(spark_is_there: None, tmp_path_factory: pytest.TempPathFactory) -> dict[str, list[list[str]]]:
    """By the name of the mistake, what was found; one Spark for all."""
    home = tmp_path_factory.mktemp("broken")
    path = os.pathsep.join([os.path.dirname(sys.executable), os.environ.get("PATH", "")])
    environment = quick() | {"PATH": path, "PYSPARK_PYTHON": sys.executable}
    done = subprocess.run(
        [sys.executable, str(Path(__file__).with_name("broken_pipelines.py")), str(home)],
        capture_output=True, text=True, timeout=WAIT_S, env=environment, preexec_fn=die_with_parent,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr[-3000:]
    return dict(json.loads(line[2:]) for line in done.stdout.splitlines() if line.startswith("::"))


@pytest.mark.parametrize(
    ("name", "where", "code", "reason"),
    [
        ("syntax of SQL", "b.sql, line 5, flow wrong", "SELEC 2", "[PARSE_SYNTAX_ERROR] "),
        ("column in SQL", "b.sql, line 4, flow wrong", "idd FROM numbers", "[UNRESOLVED_COLUMN."),
        ("table in SQL", "b.sql, line 2, flow wrong", "SELECT * FROM numberz", "[TABLE_OR_VIEW_NOT_FOUND] "),
        (
            "function in SQL",
            "b.sql, line 3, flow wrong",
            "SELECT cuont(id) FROM numbers",
            "[UNRESOLVED_ROUTINE] ",
        ),
        (
            "exception in Python",
            "b.py, line 6, flow wrong",
            "count = 1 / 0",
            "ZeroDivisionError: division by zero",
        ),
        ("import in Python", "b.py, line 2", "import nosuchmodule", "ModuleNotFoundError: No module named"),
        ("column in Python", "b.py, line 7, flow wrong", "return rows.select('idd')", "[UNRESOLVED_COLUMN."),
        (
            "function in Python",
            "b.py, line 6, flow wrong",
            "return spark.range(3).selectExpr('cuont(id) AS n')",
            "[UNRESOLVED_ROUTINE] ",
        ),
        (
            "nothing returned",
            "b.py, line 4, flow wrong",
            "@dp.materialized_view",
            "the function returns NoneType, not a DataFrame",
        ),
    ],
)
def test_a_mistake_is_told_with_its_file_its_line_and_the_reason(
    told: dict[str, list[list[str]]], name: str, where: str, code: str, reason: str
) -> None:
    (lines,) = told[name]
    assert lines[0] == f"transformations/{where}"
    assert lines[1].strip() == code
    assert lines[-1].strip().startswith(reason)
    assert "\tat " not in "".join(lines)
