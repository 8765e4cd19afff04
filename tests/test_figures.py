"""Figures and pictures in the docs are those of docs/performance.json, and any run can be published."""

import json
import re
import sys
from pathlib import Path
from typing import Any

import pytest
from bench import highlights, plots, publication, tables, w1_replicas, w10_failover, wc_commands
from bench.__main__ import WORKLOADS
from bench.w12_delivery import DELIVERIES

RESULT = json.loads((tables.ROOT / publication.RESULT).read_text())
LOADED = plots.load([str(tables.ROOT / publication.RESULT)])
THREE = "Ottla, 3 brokers", "Apache Kafka 4.3.1, 3 brokers"


def row(case: str, peer: str, **figures: float) -> dict[str, Any]:
    return {"case": case, "peer": peer, "figures": figures, "note": ""}


def result(workload: str, *rows: dict[str, Any], **more: Any) -> dict[str, Any]:
    made = {"workload": workload, "title": "", "columns": [], "rows": list(rows), "notes": []}
    target = {"workload": workload, "figure": more.pop("figure", 1)}
    return {"taken_at": "2026-11-18", "machine": {}, "workloads": [made], "targets": [target], **more}


def table(*results: dict[str, Any]) -> list[str]:
    made = publication.merged(results)["workloads"]
    shown = highlights.performance_table({workload["workload"]: workload for workload in made})
    return shown.splitlines()[2:]


@pytest.mark.parametrize("page", tables.pages(*LOADED).items(), ids=lambda page: page[0].name)
def test_the_figures_of_a_page_are_those_that_were_measured(page: tuple[Path, str]) -> None:
    path, text = page
    assert path.read_text() == text, "run `make figures`"


def test_the_pictures_in_the_docs_are_those_of_the_figures_and_are_shown() -> None:
    page = (tables.ROOT / tables.PERFORMANCE).read_text()
    drawn = {f"bench-{name}.svg": picture for name, picture in plots.pictures(*LOADED).items()}
    on_disk = {file.name: file.read_text() for file in (tables.ROOT / plots.INTO).glob("bench-*.svg")}
    assert on_disk == drawn, "run `make figures`"
    assert set(re.findall(r"\(images/(bench-\w+\.svg)\)", page)) == set(drawn)


def test_the_result_in_the_docs_is_one_that_was_published() -> None:
    assert publication.merged([RESULT]) == RESULT
    assert publication.PATHS.search(json.dumps(RESULT)) is None


def test_the_readme_has_a_row_for_each_of_its_highlights() -> None:
    rows = highlights.readme_table(LOADED[0]).splitlines()[2:]
    assert [text.split(" | ")[0] for text in rows] == [f"| {shown.label}" for shown in highlights.README]
    assert [text for text in rows if " - " in text] == []


def test_every_workload_has_highlights_and_these_are_of_figures_it_measures() -> None:
    assert {shown.workload for shown in highlights.PERFORMANCE} == set(WORKLOADS)
    for shown in highlights.PERFORMANCE + highlights.README:
        columns = sys.modules[WORKLOADS[shown.workload].__module__].COLUMNS  # type: ignore[attr-defined]
        assert shown.keys <= {column.key for column in columns}, shown.label


def test_every_highlight_has_a_case_in_the_result_of_its_workload() -> None:
    measured = {workload["workload"] for workload in RESULT["workloads"]}
    for shown in highlights.PERFORMANCE:
        lines = list(highlights.lines([shown], LOADED[0]))
        assert bool(lines) == (shown.workload in measured), shown.label


def test_ahead_is_how_many_times_better_ottla_is_whether_more_is_better_or_less() -> None:
    case = w1_replicas.name_of(100, 1 << 20) + ", acks=all"
    replicas = [row(case, peer, records_per_s=rate) for peer, rate in zip(THREE, (3e6, 2e6), strict=True)]
    kills = [
        row(w10_failover.KILL, THREE[0], still_s=19.0, beyond_s=1.0),
        row(w10_failover.KILL, THREE[1], still_s=38.0, beyond_s=20.0),
        row(w10_failover.STOP, THREE[0], still_s=0.2),
    ]
    killed = "no writes after kill -9 a leader (of which beyond the session, at worst)"
    assert table(result("W1R", *replicas), result("W10F", *kills)) == [
        f"| W1R three replicas, {case}, records a second |  | 3,000 k | 2,000 k | 1.5 x |",
        f"| W10F {killed} | 2 s beyond it | 19.00 s (1.00 s) | 38.00 s (20.00 s) | 2 x |",
        "| W10F no writes after a controlled stop |  | 0.20 s | - | - |",
    ]


def test_sinks_and_commands_stand_beside_what_they_are_compared_with() -> None:
    once, twice = reversed(DELIVERIES)
    spark = [
        row("write, Ottla", twice, rows_per_s=1e6),
        row("write, Ottla", once, rows_per_s=9e5),
        row("micro-batch, Ottla", once, batch_ms=400),
        row("micro-batch, Ottla", twice, batch_ms=300),
    ]
    lines = [row(wc_commands.IN, "ottla", seconds=2), row(wc_commands.IN, "kcat", seconds=1)]
    lines.append(row(wc_commands.HELP, "ottla", seconds=0.06))
    sink, stream = "Spark's sink exactly once, write", "from topic to topic exactly once, micro-batch"
    assert table(result("W12E", *spark), result("WC", *lines)) == [
        f"| W12E {sink}, Ottla | 0.9 x | 900 k rows/s | at least once 1,000 k rows/s | 0.9 x |",
        f"| W12E {stream}, Ottla |  | 400 ms | at least once 300 ms | 0.75 x |",
        "| WC `ottla` beside kcat, lines in | 2 x | 2.00 s | kcat 1.00 s | 0.5 x |",
        "| WC `ottla` beside kcat, --help, from a cold shell | 0.3 s | 0.06 s | - | - |",
    ]


def test_workloads_of_ottla_alone_have_a_row_for_each_size() -> None:
    case, cost = "100 B in 16 KiB, 1 replica", 1e-6
    brokers = [row("idle", "Ottla, 1 broker", idle_cpu_percent=0.2, rss_mb=37)]
    brokers += [row(case, "Ottla, 1 broker", cpu_us_per_record=cost, busy_us_per_record=cost, to_first=1)]
    brokers += [
        row(case, "Ottla, 4 brokers", cpu_us_per_record=2 * cost, busy_us_per_record=cost, to_first=1)
    ]
    slopes = [row("1,000 groups", "Ottla", uss_mb=50)]
    slopes += [row("one of groups", "Ottla", uss_kb_each=1.5, idle_us_each=0, start_us_each=30)]
    means = "CPU of all for a record (above idle), against the fewest brokers"
    assert table(result("WN", *slopes), result("WB", *brokers)) == [
        f"| WB {case}, Ottla, 1 broker: {means} |  | 1.000 us (1.000 us), 1.00 x | - |  |",
        f"| WB {case}, Ottla, 4 brokers: {means} |  | 2.000 us (1.000 us), 1.00 x | - |  |",
        "| WB idle, Ottla, 1 broker: CPU and memory of each |  | 0.20 %, 37.0 MB | - |  |",
        "| WN one of groups: memory; idle CPU; CPU of a start |  | 1.50 kB; 0.00 us/s; 30.0 us | - |  |",
    ]


def test_only_what_is_between_the_markers_is_replaced() -> None:
    page = f"before\n{highlights.BEGIN}\nold\n{highlights.END}\nafter\n"
    assert highlights.filled(page, "new", "a.md") == page.replace("old", "\nnew\n")
    with pytest.raises(SystemExit, match=r"a\.md: its table goes between"):
        highlights.filled("without markers", "new", "a.md")


def test_results_are_merged_in_the_order_of_workloads_and_the_last_of_a_workload_counts() -> None:
    names = list(WORKLOADS)
    made = publication.merged([result(name, taken_at=name, figure=1) for name in reversed(names)])
    assert [workload["workload"] for workload in made["workloads"]] == names
    assert made["taken_at"] == names[-1]
    again = publication.merged([made, result("W2", figure=2)])
    assert len(again["workloads"]) == len(names)
    assert [target["figure"] for target in again["targets"] if target["workload"] == "W2"] == [2]


def test_publishing_writes_the_result_without_paths_of_the_machine_and_every_page(tmp_path: Path) -> None:
    (tmp_path / plots.INTO).mkdir(parents=True)
    (tmp_path / plots.INTO / "bench-old.svg").touch()
    for name in (tables.PERFORMANCE, tables.README):
        (tmp_path / name).write_text(f"{highlights.BEGIN}\n{highlights.END}\n")
    start = row("empty folder", "Ottla", start_ms=200, rss_mb=37)
    start["note"] = (
        "in run (/usr/lib/python3.11/asyncio/runners.py:118) < <module> (/tmp/x/.venv/bin/ottla:8)"
    )
    (tmp_path / "run.json").write_text(json.dumps(result("W11", start)))
    publication.publish([str(tmp_path / "run.json")], tmp_path)
    written = json.loads((tmp_path / publication.RESULT).read_text())["workloads"][0]["rows"][0]
    assert written["note"] == "in run (asyncio/runners.py:118) < <module> (ottla:8)"
    assert [file.name for file in (tmp_path / plots.INTO).iterdir()] == ["bench-recovery.svg"]
    assert "| idle memory | 37 MB | - | W11 |" in (tmp_path / tables.README).read_text()
    assert "| W11 idle memory | 60 MB | 37 MB | - | - |" in (tmp_path / tables.PERFORMANCE).read_text()
    assert "## W11" in (tmp_path / tables.INTO).read_text()
