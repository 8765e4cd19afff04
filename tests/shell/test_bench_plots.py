"""Pictures and the page of all figures, drawn from the files that runs leave."""

import json
import re
from datetime import UTC, datetime
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import pytest
from bench.bars import Bar, Panel, draw, shown
from bench.plots import FAMILIES, load, pictures
from bench.report import Column, Outcome, Row, save
from bench.tables import page

BEGAN = datetime(2026, 11, 18, tzinfo=UTC)


def widths(picture: str) -> list[float]:
    """Of the bars, from top to bottom, without the legend's squares."""
    rects = re.findall(r'<rect class="s\d" x="310" y="[\d.]+" width="([\d.]+)"', picture)
    return [float(width) for width in rects]


def drawn(*values: float) -> str:
    panel = Panel(
        "rate", "MB", True, [(f"case {value}", [Bar("A", value, value, value)]) for value in values]
    )
    return draw("a < b", "today", ["A", "B"], [panel])


def test_a_picture_is_well_formed_and_its_bars_are_as_long_as_what_they_stand_for() -> None:
    picture = drawn(10, 5, 20)
    ElementTree.fromstring(picture)
    assert widths(picture) == [
        pytest.approx(240, abs=1),
        pytest.approx(120, abs=1),
        pytest.approx(480, abs=1),
    ]


def test_figures_that_differ_very_much_are_drawn_in_powers_of_ten_and_the_picture_says_so() -> None:
    picture = drawn(1, 10, 100)
    first, second, third = widths(picture)
    assert third - second == pytest.approx(second - first, abs=1)
    assert "ten times" in picture
    assert "ten times" not in drawn(1, 2)


@pytest.mark.parametrize(
    ("value", "words"),
    [(0, "0"), (0.7, "0.7"), (5.4, "5.4"), (8.456, "8.46"), (31, "31"), (37_500, "37,500")],
)
def test_a_figure_has_the_digits_that_count(value: float, words: str) -> None:
    assert shown(value) == words


def test_a_run_is_drawn_from_its_file_and_a_later_file_counts_for_its_workloads(tmp_path: Path) -> None:
    def written(workload: str, rate: float) -> str:
        rounds: tuple[dict[str, Any], ...] = ({"records_per_s": rate / 2}, {"records_per_s": 2 * rate})
        outcome = Outcome(workload, "", (Column("records_per_s", "rec/s"),))
        outcome.rows = [
            Row("100 B, 1 MiB batches", "Ottla", {"records_per_s": rate}, rounds=rounds),
            Row("100 B, 1 MiB batches", "Ottla, replay", {"records_per_s": 77_777e3}),
            Row("100 B, 1 MiB batches", "Apache Kafka 4.3.1", {}, "not run: no java"),
        ]
        return save(str(tmp_path / f"{rate}"), BEGAN, {"cores": 2}, [outcome])

    drawn = pictures(*load([written("W1", 1e6), written("W3", 2e6), written("W1", 3e6)]))
    assert set(drawn) == {"produce"}
    assert "3,000" in drawn["produce"]
    assert "2,000" in drawn["produce"]
    assert "77,777" not in drawn["produce"]
    assert drawn["produce"].count('class="range"') == 2
    assert "2 cores" in drawn["produce"]


def test_a_table_has_every_row_of_a_workload_and_why_one_has_no_figures(tmp_path: Path) -> None:
    outcome = Outcome("W1", "bulk", (Column("rate", "k rec/s", 1, 1e-3), Column("never", "never")))
    outcome.rows = [
        Row("100 B", "Ottla", {"rate": 2_345.0}),
        Row("100 B", "Apache Kafka 4.3.1", {}, "not run: no java"),
    ]
    outcome.notes = ["The machine was alone."]
    written = page(*load([save(str(tmp_path), BEGAN, {"cores": 2}, [outcome])]))
    assert "| cores | 2 |" in written
    assert "| case | peer | k rec/s |" in written  # and no column without a figure
    assert "| 100 B | Ottla | 2.3 |" in written
    assert "| 100 B | Apache Kafka 4.3.1 (1) | - |" in written
    assert "(1) not run: no java" in written
    assert "The machine was alone." in written


def test_a_run_that_goes_on_replaces_its_own_file(tmp_path: Path) -> None:
    paths = {save(str(tmp_path), BEGAN, {}, [Outcome("W1", "", ())] * count) for count in (1, 2)}
    (path,) = paths
    assert len(json.loads(Path(path).read_text())["workloads"]) == 2


def test_every_workload_of_a_family_is_one_of_the_bench() -> None:
    from bench.__main__ import WORKLOADS

    asked = {measure.workload for family in FAMILIES.values() for measure in family.measures}
    assert asked <= set(WORKLOADS)
