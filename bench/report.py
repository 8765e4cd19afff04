"""Rows, and how they are shown and stored. A row without a figure says why in its note."""

import json
import os
import platform
import statistics
import subprocess
from collections.abc import Iterable
from dataclasses import dataclass, field
from datetime import datetime
from importlib.metadata import PackageNotFoundError, version
from typing import Any

import confluent_kafka
import psutil
from rich.console import Console
from rich.table import Table

from bench import interpreter
from bench.servers import ROOT
from bench.targets import TARGETS, Verdict

Figures = dict[str, float | None]
NOTE_WIDTH_MAX = 16


@dataclass(frozen=True)
class Column:
    key: str
    head: str
    digits: int = 0
    scale: float = 1.0

    def show(self, figure: float | None) -> str:
        return "-" if figure is None else f"{figure * self.scale:,.{self.digits}f}"


@dataclass(frozen=True)
class Row:
    case: str
    peer: str
    figures: Figures
    note: str = ""
    rounds: tuple[Figures, ...] = ()


@dataclass
class Outcome:
    workload: str
    title: str
    columns: tuple[Column, ...]
    rows: list[Row] = field(default_factory=list)
    verdicts: list[Verdict] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)

    def row(self, case: str, peer: str) -> Row | None:
        return next((row for row in self.rows if row.case == case and row.peer.startswith(peer)), None)

    def figure(self, case: str, peer: str, key: str) -> float | None:
        row = self.row(case, peer)
        return row.figures.get(key) if row else None


def medians(rounds: Iterable[Figures]) -> Figures:
    """Per key, the median over the rounds that have it."""
    together: dict[str, list[float]] = {}
    for figures in rounds:
        for key, figure in figures.items():
            together.setdefault(key, [])
            if figure is not None:
                together[key].append(figure)
    return {key: statistics.median(seen) if seen else None for key, seen in together.items()}


def ratio(above: float | None, below: float | None) -> float | None:
    return above / below if above is not None and below else None


def paired_ratio(row: Row, other: Row | None, key: str) -> float | None:
    """Median of the ratios within each round, because a machine is not the same from one to the next."""
    pairs = zip(row.rounds, other.rounds if other else (), strict=False)
    ratios = [each for mine, theirs in pairs if (each := ratio(mine.get(key), theirs.get(key))) is not None]
    return statistics.median(ratios) if ratios else None


def spread(row: Row, key: str) -> float | None:
    """(largest - smallest) / median over the rounds: how far to trust the figure."""
    seen = [each for figures in row.rounds if (each := figures.get(key)) is not None]
    return (max(seen) - min(seen)) / statistics.median(seen) if len(seen) > 1 else None


def with_ratio(outcome: Outcome, key: str) -> None:
    """Add to every row how far to trust a figure, and its ratio to Apache Kafka's in the same case."""
    for at, row in enumerate(outcome.rows):
        figures = {
            **row.figures,
            "spread": spread(row, key),
            "of_apache": paired_ratio(row, outcome.row(row.case, "Apache"), key),
        }
        outcome.rows[at] = Row(row.case, row.peer, figures, row.note, row.rounds)


def show(console: Console, outcome: Outcome) -> None:
    table = Table(title=f"{outcome.workload}  {outcome.title}", title_justify="left")
    table.add_column("case", no_wrap=True)
    table.add_column("peer", no_wrap=True)
    for column in outcome.columns:
        table.add_column(column.head, justify="right")
    reasons = list(dict.fromkeys(row.note for row in outcome.rows if len(row.note) > NOTE_WIDTH_MAX))
    noted = any(row.note for row in outcome.rows)
    if noted:
        table.add_column("note")
    previous = ""
    for row in outcome.rows:
        if previous and row.case != previous:
            table.add_section()
        cells = [column.show(row.figures.get(column.key)) for column in outcome.columns]
        # A long note would squeeze the figures: it stands once below the table, with a number here.
        note = f"see ({reasons.index(row.note) + 1})" if row.note in reasons else row.note
        table.add_row("" if row.case == previous else row.case, row.peer, *cells, *([note] if noted else []))
        previous = row.case
    console.print(table)
    for line in (*(f"({number}) {reason}" for number, reason in enumerate(reasons, 1)), *outcome.notes):
        console.print(f"  {line}", highlight=False, markup=False)


def show_targets(console: Console, verdicts: list[Verdict]) -> None:
    table = Table(title="Targets", title_justify="left")
    for head in ("workload", "what", "target", "Ottla", "", "note"):
        table.add_column(head, justify="right" if head in ("target", "Ottla") else "left")
    styles = {"pass": "green", "FAIL": "bold red", "not measured": "yellow"}
    asked = {verdict.target for verdict in verdicts}
    for verdict in [
        *verdicts,
        *(Verdict(target, None, "not run") for target in TARGETS if target not in asked),
    ]:
        target = verdict.target
        table.add_row(
            target.workload,
            target.what,
            f"{target.sense} {target.limit:g} {target.unit}",
            "-" if verdict.figure is None else f"{verdict.figure:,.2f} {target.unit}",
            f"[{styles[verdict.word]}]{verdict.word}[/]",
            verdict.note,
        )
    console.print(table)


def machine() -> dict[str, Any]:
    """What a reader needs to judge the figures, and nothing that names the machine."""
    model = platform.processor() or platform.machine()
    if os.path.exists("/proc/cpuinfo"):
        with open("/proc/cpuinfo") as lines:
            model = next(
                (line.split(":", 1)[1].strip() for line in lines if line.startswith("model name")), model
            )
    return {
        "cpu": model,
        "cores": os.cpu_count(),
        "memory_gb": round(psutil.virtual_memory().total / 1e9, 1),
        "load_average_at_start": os.getloadavg()[0],
        "kernel": platform.release(),
        "ottla": _commit(),
        **interpreter.facts(),
        "java": _java(),
        "pyspark": _pyspark(),
        "confluent_kafka": confluent_kafka.version(),
        "librdkafka": confluent_kafka.libversion()[0],
    }


def _commit() -> str:
    """The one that is measured; not a checkout, an empty text."""
    commit = _first_line("git", "-C", ROOT, "rev-parse", "--short=8", "HEAD")
    is_changed = commit and _first_line("git", "-C", ROOT, "status", "--porcelain", "--untracked-files=no")
    return f"{commit} and uncommitted changes" if is_changed else commit


def _java() -> str:
    return _first_line("java", "--version")


def _pyspark() -> str:
    try:
        return version("pyspark")
    except PackageNotFoundError:
        return ""


def _first_line(*command: str) -> str:
    try:
        done = subprocess.run(command, capture_output=True, text=True, timeout=30, check=True)
    except (OSError, subprocess.SubprocessError):
        return ""
    return next(iter(done.stdout.splitlines()), "").strip()


def save(folder: str, began: datetime, facts: dict[str, Any], outcomes: list[Outcome]) -> str:
    """One JSON file per run, named after its beginning, which grows with every workload; returns its path."""
    os.makedirs(folder, exist_ok=True)
    content = {
        "taken_at": began.isoformat(timespec="seconds"),
        "machine": facts,
        "workloads": [
            {
                "workload": outcome.workload,
                "title": outcome.title,
                "columns": [vars(column) for column in outcome.columns],
                "rows": [vars(row) for row in outcome.rows],
                "notes": outcome.notes,
            }
            for outcome in outcomes
        ],
        "targets": [
            {
                **vars(verdict.target),
                "figure": verdict.figure,
                "verdict": verdict.word,
                "note": verdict.note,
            }
            for outcome in outcomes
            for verdict in outcome.verdicts
        ],
    }
    path = os.path.join(folder, f"{began:%Y%m%dT%H%M%SZ}.json")
    with open(path, "w") as out:
        json.dump(content, out, indent=2)
        out.write("\n")
    return path
