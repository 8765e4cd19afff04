"""Where a mistake is, from what Spark says about it: words of Spark 4.3, without Spark."""

from pathlib import Path

import pytest

from ottla.pipelines import mistakes
from ottla.pipelines.mistakes import Mistake, Origin, in_short
from ottla.pipelines.sql_statements import statements

SQL = """\
-- A ; in a comment; and 'one; more'
CREATE MATERIALIZED VIEW first AS SELECT ';' AS `a;b`;

CREATE STREAMING TABLE second USING parquet AS
SELECT idd FROM STREAM first JOIN catalog.db.`third` ON true;
CREATE FLOW fourth AS INSERT INTO second BY NAME SELECT * FROM STREAM(first);
/* nothing; here */
"""
UNRESOLVED = (
    "Failed to resolve flow: 'spark_catalog.default.second'.\n"
    "Error: [UNRESOLVED_COLUMN.WITH_SUGGESTION] A column with name `idd` cannot be resolved. "
    "Did you mean one of the following? [`id`]. SQLSTATE: 42703; line 4 pos 7;\n"
    "'Project ['idd]\n+- LocalRelation"
)


def test_statements_are_found_with_the_line_they_begin_in() -> None:
    read = list(statements(SQL))
    assert [(statement.flow, statement.target, statement.line) for statement in read] == [
        ("first", "first", 1),
        ("second", "second", 2),
        ("fourth", "second", 5),
    ]
    assert [statement.first_line for statement in read] == [2, 4, 6]
    assert [statement.kind for statement in read] == ["MATERIALIZED VIEW", "STREAMING TABLE", "FLOW"]
    assert read[1].reads({"first", "third", "idd"}) == ["first", "third"]
    assert read[2].reads({"first", "second"}) == ["first"]


def test_a_table_without_a_query_has_no_flow() -> None:
    empty, filled = statements("CREATE STREAMING TABLE t; CREATE OR REFRESH STREAMING TABLE u AS SELECT 1")
    assert (empty.has_query, filled.has_query) == (False, True)
    assert filled.flow == "u"


def test_a_flow_that_was_not_resolved_has_the_line_of_the_file_and_a_mark_below() -> None:
    second = list(statements(SQL))[1]
    mistake = mistakes.of_event(UNRESOLVED, {"second": Origin("/p/t/a.sql", 2, second)})
    assert mistake is not None
    assert mistake.lines("/p") == [
        "t/a.sql, line 5, flow second",
        "    SELECT idd FROM STREAM first JOIN catalog.db.`third` ON true",
        "           ^",
        f"  {UNRESOLVED.split('Error: ')[1].split(' SQLSTATE')[0]}",
    ]


def test_a_flow_that_waits_for_another_is_no_mistake_of_its_own() -> None:
    said = "Failed to resolve flow due to upstream failure: 'spark_catalog.default.z'.\nError: Failed to read"
    assert mistakes.of_event(said, {}) is None
    assert mistakes.of_event("Flow spark_catalog.default.z is RUNNING.", {}) is None
    named = mistakes.of_event("Flow spark_catalog.default.by-day has FAILED.\nError: no", {})
    assert named is not None
    assert named.flow == "by-day"


def test_in_python_the_line_is_the_one_with_the_name(tmp_path: Path) -> None:
    file = tmp_path / "flows.py"
    file.write_text(
        "import x\n\n\n@dp.table\ndef second():\n    rows = read('first')\n    return rows.select('idd')\n"
    )
    said = UNRESOLVED.replace(" line 4 pos 7;", "")
    mistake = mistakes.of_event(said, {"second": Origin(str(file), 4)})
    assert mistake is not None
    assert (mistake.line, mistake.code.strip()) == (7, "return rows.select('idd')")
    elsewhere = mistakes.of_event(said.replace("`idd`", "`gone`"), {"second": Origin(str(file), 4)})
    assert elsewhere is not None
    assert elsewhere.line == 4


def test_what_a_worker_raised_has_the_line_of_the_function(tmp_path: Path) -> None:
    file = tmp_path / "flows.py"
    file.write_text("def bad(n):\n    return 1 // 0\n")
    said = (
        "Flow 'spark_catalog.default.x' has FAILED.\nError: [PYTHON_EXCEPTION] An exception was thrown from "
        f'the Python worker: Traceback (most recent call last):\n  File "{file}", line 2, in bad\n'
        "    return 1 // 0\nZeroDivisionError: integer division or modulo by zero\n SQLSTATE: 38000"
    )
    mistake = mistakes.of_event(said, {"x": Origin(str(file), 1)})
    assert mistake == Mistake(
        "ZeroDivisionError: integer division or modulo by zero", str(file), 2, 0, "x", "    return 1 // 0\n"
    )


def test_what_a_worker_raised_is_the_reason_whatever_its_name_and_not_that_there_is_a_stack() -> None:
    said = (
        "[STREAM_FAILED] Query [id = 1] terminated with exception: Failed when Python streaming data source "
        'perform planPartitions: Traceback (most recent call last):\n  File "a.py", line 2, in plan\n'
        "    plan()\nottla.client.errors.Again: no leader\n\nDuring handling of the above exception, another "
        'exception occurred:\n\nTraceback (most recent call last):\n  File "a.py", line 3, in plan\n'
        "    raise\nottla.client.errors.GaveUp: asking 127.0.0.1:9092: no leader\n\tat org.apache.spark.Plan"
    )
    assert in_short(said) == "ottla.client.errors.GaveUp: asking 127.0.0.1:9092: no leader"
    cut_off = said[: said.index("Traceback") + len("Traceback (most recent call last):")]
    assert in_short(cut_off) == said[: said.index(": Traceback")] + ":"


def test_a_failure_at_run_time_in_sql_has_its_line_too() -> None:
    text = "CREATE MATERIALIZED VIEW x AS\nSELECT 1 / (id - id) AS v FROM numbers"
    said = (
        "Flow 'spark_catalog.default.x' has FAILED.\n"
        "Error: [DIVIDE_BY_ZERO] Division by zero. SQLSTATE: 22012\n"
        "== SQL (line 2, position 8) ==\nSELECT 1 / (id - id) AS v FROM numbers\n       ^^^^^^^^^^^^^\n"
    )
    (statement,) = statements(text)
    mistake = mistakes.of_event(said, {"x": Origin("/p/x.sql", 1, statement)})
    assert mistake == Mistake(
        "[DIVIDE_BY_ZERO] Division by zero.", "/p/x.sql", 2, 8, "x", "SELECT 1 / (id - id) AS v FROM numbers"
    )


@pytest.mark.parametrize(
    ("said", "advised"),
    [
        ("[KAFKA_DATA_SOURCE_NOT_ENABLED] Failed to find data source: kafka.", 'format("ottla")'),
        ("OptionError: option kafka.bootstrap.servers must be specified: host:port", "spark.conf.get("),
    ],
)
def test_where_spark_leads_elsewhere_there_is_advice(said: str, advised: str) -> None:
    *_, reason, advice = Mistake(said, "/p/a.py", 1, code="@dp.table").lines("/p")
    assert reason.strip() == said
    assert advised in advice
    assert Mistake("[DIVIDE_BY_ZERO] Division by zero.", "/p/a.py").lines("/p")[-1].endswith("by zero.")


def test_sql_that_cannot_be_parsed_is_found_among_the_statements() -> None:
    text = "CREATE MATERIALIZED VIEW a AS SELECT 1;\n\nCREATE MATERIALIZED VIEW b AS\nSELEC 2;\n"
    said = (
        "\n[PARSE_SYNTAX_ERROR] Syntax error at or near 'SELEC'. SQLSTATE: 42601 (line 4, pos 0)\n\n"
        "== SQL ==\n\n\nCREATE MATERIALIZED VIEW b AS\nSELEC 2\n^^^\n\n"
        "JVM stacktrace:\norg.apache.X\n\tat a.b(C.scala:1)"
    )
    mistake = mistakes.of_sql_file(RuntimeError(said), "/p/a.sql", text)
    assert mistake == Mistake(
        "[PARSE_SYNTAX_ERROR] Syntax error at or near 'SELEC'.", "/p/a.sql", 4, 1, "b", "SELEC 2"
    )


def test_files_are_looked_at_before_spark_is_started(tmp_path: Path) -> None:
    (tmp_path / "a.py").write_text("def x()\n    pass\n")
    (tmp_path / "b.txt").write_text("")
    (tmp_path / "c.sql").write_text("SELEC")
    seen = mistakes.of_files([str(tmp_path / name) for name in ("a.py", "b.txt", "c.sql")])
    assert [mistake.lines(str(tmp_path)) for mistake in seen] == [
        ["a.py, line 1", "    def x()", "           ^", "  SyntaxError: expected ':'"],
        ["b.txt", "  a file of a pipeline is Python (.py) or SQL (.sql)"],
    ]


@pytest.mark.parametrize(("count", "last"), [(5, "  no"), (7, "and 2 more")])
def test_only_so_many_mistakes_are_shown(count: int, last: str) -> None:
    assert mistakes.block([Mistake("no", "a.py", 1)] * count, "").splitlines()[-1] == last
