"""Every figure that was measured, as a page: `python -m bench.tables RESULT.json ... [--into FILE]`.

The files are taken together as for pictures (`bench.plots`): later ones replace what earlier ones say of a
workload. The page is written whole, and nobody edits it. Unless it goes elsewhere, the tables of
docs/performance.md and README.md are filled in, too (`bench.highlights`).
"""

import argparse
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from bench import highlights
from bench.bars import shown
from bench.plots import FAMILIES, Workloads, load, panel_of
from bench.report import Column

ROOT = Path(__file__).parents[1]
INTO, PERFORMANCE, README = "docs/figures.md", "docs/performance.md", "README.md"
OPENING = """# Figures: all that a run of the bench measured

Written by `python -m bench.tables docs/performance.json`. What the workloads are, and why the figures are
what they are, is in [performance.md](performance.md). Figures are medians of the rounds. `spread` is how far
the rounds are apart, as a share of that, and a ratio to Apache Kafka is the median of the ratios within each
round. All brokers and clients share the machine's cores.
"""
GLANCE = """`ahead` is how many times better Ottla is than Apache Kafka, whether more is better or less: the
quotient of the medians shown. In the rows of Spark it is `format("ottla")` beside the official connector.
"""


def _machine(facts: Mapping[str, Any]) -> Iterator[str]:
    yield "| | |"
    yield "|---|---|"
    for name, fact in facts.items():
        if fact not in ("", [], None):
            yield f"| {name.replace('_', ' ')} | {fact} |"


def _table(workload: Mapping[str, Any]) -> Iterator[str]:
    columns = [Column(**column) for column in workload["columns"]]
    rows = workload["rows"]
    columns_shown = [
        column for column in columns if any(row["figures"].get(column.key) is not None for row in rows)
    ]
    notes = list(dict.fromkeys(row["note"] for row in rows if row["note"]))
    yield f"| case | peer | {' | '.join(column.head for column in columns_shown)} |"
    yield f"|---|---|{'---:|' * len(columns_shown)}"
    for row in rows:
        mark = f" ({notes.index(row['note']) + 1})" if row["note"] else ""
        cells = " | ".join(column.show(row["figures"].get(column.key)) for column in columns_shown)
        yield f"| {row['case']} | {row['peer']}{mark} | {cells} |"
    for number, note in enumerate(notes, 1):
        yield f"\n({number}) {note}"
    for note in workload["notes"]:
        yield f"\n{note}"


def _glance(workloads: Workloads) -> Iterator[str]:
    """What the pictures show, with how many times better the first peer is than the second."""
    yield "| | case | unit | Ottla | beside it | ahead |"
    yield "|---|---|---|---:|---:|---:|"
    for family in FAMILIES.values():
        for measure in family.measures:
            panel = panel_of(measure, workloads, family.peers)
            for case, bars in panel.cases if panel else ():
                if len(bars) < 2 or not bars[0].value or not bars[1].value:
                    continue
                ours, theirs = bars[0].value, bars[1].value
                ahead = ours / theirs if measure.is_more_better else theirs / ours
                figures = f"{shown(ours)} | {shown(theirs)} | {shown(ahead)} x"
                yield f"| {measure.title} | {case} | {measure.unit} | {figures} |"


def page(workloads: Workloads, facts: Mapping[str, Any]) -> str:
    lines = [OPENING, *_machine(facts), "\n## At a glance\n", GLANCE, *_glance(workloads)]
    for name, workload in workloads.items():
        if "columns" in workload:  # a file of before there were tables has none
            lines += [f"\n## {name}: {workload['title']}\n", *_table(workload)]
    return "\n".join(lines) + "\n"


def pages(workloads: Workloads, facts: Mapping[str, Any], root: Path = ROOT) -> dict[Path, str]:
    """All pages with tables, as they should be."""
    tables = {
        PERFORMANCE: highlights.performance_table(workloads),
        README: highlights.readme_table(workloads),
    }
    return {root / INTO: page(workloads, facts)} | {
        root / name: highlights.filled((root / name).read_text(), table, name)
        for name, table in tables.items()
    }


def write(results: Sequence[str], root: Path = ROOT) -> None:
    for path, text in pages(*load(results), root).items():
        path.write_text(text)
        print(path)


def main() -> None:
    parser = argparse.ArgumentParser("bench.tables", description="All that was measured, as a page.")
    parser.add_argument("results", nargs="+", metavar="RESULT.json")
    parser.add_argument("--into", metavar="FILE", help="the page alone, to there")
    arguments = parser.parse_args()
    if arguments.into:
        Path(arguments.into).write_text(page(*load(arguments.results)))
    else:
        write(arguments.results)


if __name__ == "__main__":
    main()
