"""Pictures of what was measured: `python -m bench.plots RESULT.json ... [--into docs/images]`.

A run of the bench writes one JSON file. The files named here are taken together, later ones replacing what
earlier ones say of a workload, and each family of workloads becomes one picture; a family of which nothing
was measured has none. `docs/performance.json` holds what docs/performance.md shows.
"""

import argparse
import json
import os
import re
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

from bench.bars import Bar, Panel, draw

INTO = "docs/images"
# What a peer of a row is called, as a pattern, and in the picture. Other peers are not shown.
BROKERS = {r"Ottla(, \d brokers?)?": "Ottla", r"Apache Kafka( [\d.]+)?(, \d brokers?)?": "Apache Kafka"}
TLS = {r"Ottla, TLS": "Ottla", r"Apache Kafka.*, TLS": "Apache Kafka"}
PLAINTEXT = {r"Ottla": "Ottla without TLS", r"Apache Kafka( [\d.]+)?": "Apache Kafka without TLS"}
SOURCES = {r"Ottla source": 'format("ottla")', r"official.*": "official connector"}
Workloads = dict[str, dict[str, Any]]


class Measure(NamedTuple):
    """One figure of a workload, for all cases that have it; or several figures of it, as cases."""

    workload: str
    title: str
    keys: Mapping[str, str]  # key of the figure, and what its cases are called besides
    unit: str
    scale: float = 1.0
    is_more_better: bool = True


class Family(NamedTuple):
    title: str
    measures: Sequence[Measure]
    peers: Mapping[str, str] = BROKERS


def _rate(workload: str, title: str, key: str, unit: str, scale: float = 1.0) -> Measure:
    return Measure(workload, title, {key: ""}, unit, scale)


def _time(workload: str, title: str, keys: Mapping[str, str], unit: str, scale: float = 1.0) -> Measure:
    return Measure(workload, title, keys, unit, scale, is_more_better=False)


FAMILIES = {
    "produce": Family(
        "Bulk produce",
        (
            _rate("W1", "W1: one partition", "records_per_s", "thousand records a second", 1e-3),
            _rate("W1", "W1: the same", "records_per_cpu_s", "million records per broker CPU-second", 1e-6),
            _rate("W1R", "W1R: three replicas", "records_per_s", "thousand records a second", 1e-3),
            _rate("W3", "W3: 1,000 partitions", "records_per_s", "thousand records a second", 1e-3),
        ),
    ),
    "latency": Family(
        "How long a small message takes",
        (
            _time("W2", "W2: one at a time", {"p50_us": "p50"}, "milliseconds", 1e-3),
            _rate("W2", "W2: all producers", "messages_per_s", "messages a second"),
            _time("W4", "W4: at a fixed rate", {"p50_us": "p50", "p99_us": "p99"}, "milliseconds", 1e-3),
        ),
    ),
    "read": Family(
        "Reading what is stored",
        (
            _rate("W5", "W5: catching up", "mb_per_s", "MB a second"),
            _time("W5", "W5: the same", {"cpu_s_per_gb": ""}, "broker CPU-seconds for a GB"),
            _time("W5", "W5: a producer beside it", {"p99_us": "p99"}, "milliseconds", 1e-3),
            _rate("W6", "W6: many readers", "mb_per_s", "MB a second, all of them"),
        ),
    ),
    "many": Family(
        "Many connections, many partitions",
        (
            _time("W7", "W7: an idle connection", {"kb_per_connection": ""}, "kB"),
            _rate("W7", "W7: 100 producers beside them", "messages_per_s", "messages a second"),
            _time(
                "W8",
                "W8: 10,000 partitions",
                {
                    "ready_s": "ready",
                    "stop_s": "stop",
                    "restart_s": "restart",
                    "kill_restart_s": "after kill -9",
                },
                "seconds",
            ),
            _time("W8", "W8: memory", {"kb_per_replica": ""}, "kB for a replica"),
            _time(
                "W8",
                "W8: metadata of all",
                {"metadata_changed_ms": "after a change", "metadata_ms": "again"},
                "milliseconds",
            ),
        ),
    ),
    "recovery": Family(
        "Compaction, start, recovery",
        (
            _rate("W9", "W9: compaction", "mb_per_s", "MB a second"),
            _time("W10", "W10: one broker", {"recovery_s": "recovery"}, "seconds"),
            _time("W10F", "W10F: three brokers", {"still_s": ""}, "seconds without writes"),
            _time("W11", "W11: cold start", {"start_ms": ""}, "milliseconds"),
            _time("W11", "W11: memory at rest", {"rss_mb": ""}, "MB"),
        ),
    ),
    "groups": Family(
        "Groups and transactions",
        (
            _time("WG", "WG: until stable", {"stable_ms": ""}, "milliseconds"),
            _rate("WG", "WG: commits", "commits_per_s", "a second"),
            _rate("WT", "WT: transactions", "commits_per_s", "a second"),
        ),
    ),
    "stalls": Family(
        "What a small producer waits beside something large",
        (
            _time("WL", "WL: 99 of 100", {"p99_us": ""}, "milliseconds", 1e-3),
            _time("WL", "WL: the longest", {"longest_us": ""}, "milliseconds", 1e-3),
        ),
    ),
    "tls": Family(
        "TLS",
        (
            _rate("WS", "WS: in bulk", "mb_per_s", "MB a second"),
            _time("WS", "WS: one at a time", {"p50_us": "p50"}, "microseconds"),
        ),
        TLS | PLAINTEXT,
    ),
    "spark": Family(
        "Spark on one core",
        (
            _rate("W12", "W12: rows", "rows_per_s", "thousand rows a second", 1e-3),
            _time("W12", "W12: micro-batch", {"batch_ms": ""}, "milliseconds"),
        ),
        SOURCES,
    ),
}


def load(paths: Sequence[str]) -> tuple[Workloads, dict[str, Any]]:
    """Workloads by name, and what the last file says of its machine."""
    workloads: Workloads = {}
    machine: dict[str, Any] = {}
    for path in paths:
        with open(path) as file:
            content = json.load(file)
        workloads |= {each["workload"]: each for each in content["workloads"]}
        machine = {"taken_at": content["taken_at"], **content["machine"]}
    return workloads, machine


def _bar(shown: str, row: dict[str, Any], measure: Measure, key: str) -> Bar | None:
    value = row["figures"].get(key)
    if value is None:
        return None
    rounds = [each[key] for each in row.get("rounds", ()) if each.get(key) is not None] or [value]
    low, high = min(rounds), max(rounds)
    return Bar(shown, value * measure.scale, low * measure.scale, high * measure.scale)


def panel_of(measure: Measure, workloads: Workloads, peers: Mapping[str, str]) -> Panel | None:
    """None where nothing of it was measured."""
    rows = workloads.get(measure.workload, {"rows": []})["rows"]
    cases: list[tuple[str, list[Bar]]] = []
    for case in dict.fromkeys(row["case"] for row in rows):
        for key, word in measure.keys.items():
            bars = [
                bar
                for pattern, shown in peers.items()
                for row in rows
                if row["case"] == case
                and re.fullmatch(pattern, row["peer"])
                and (bar := _bar(shown, row, measure, key))
            ]
            if bars:
                cases.append((f"{case}, {word}" if word else case, bars))
    return Panel(measure.title, measure.unit, measure.is_more_better, cases) if cases else None


def note_of(machine: Mapping[str, Any]) -> str:
    parts = [str(machine["taken_at"])[:10]]
    if "cores" in machine:
        parts.append(f"{machine['cores']} cores shared by brokers and clients")
    if "python" in machine:
        parts.append(str(machine["python"]))
    return ", ".join(parts)


def pictures(workloads: Workloads, machine: Mapping[str, Any]) -> dict[str, str]:
    """SVG by the name of the family."""
    drawn = {}
    for name, family in FAMILIES.items():
        panels = [panel_of(measure, workloads, family.peers) for measure in family.measures]
        there = [panel for panel in panels if panel is not None]
        if there:
            drawn[name] = draw(family.title, note_of(machine), list(family.peers.values()), there)
    return drawn


def write(results: Sequence[str], into: str) -> None:
    os.makedirs(into, exist_ok=True)
    for name, picture in pictures(*load(results)).items():
        path = os.path.join(into, f"bench-{name}.svg")
        with open(path, "w") as out:
            out.write(picture)
        print(path)


def main() -> None:
    parser = argparse.ArgumentParser("bench.plots", description="Pictures of what was measured, as SVG.")
    parser.add_argument("results", nargs="+", metavar="RESULT.json")
    parser.add_argument("--into", default=INTO, metavar="DIR")
    arguments = parser.parse_args()
    write(arguments.results, arguments.into)


if __name__ == "__main__":
    main()
