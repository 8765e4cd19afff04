"""The figures that docs/performance.md and README.md show, as data.

A highlight names cells, and in them figures: `{p50_us:2k}` is that figure with two digits, divided by 1,000.
It makes a row for each case of its workload that fits, in the order of the result; a case that was not
measured has none. The tables are put between two markers of a page, and the rest of the page is left alone.
"""

import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, NamedTuple

from bench.bars import shown
from bench.plots import BROKERS, SOURCES, TLS, Workloads
from bench.report import Column

BEGIN, END = "<!-- figures: begin -->", "<!-- figures: end -->"
KAFKA = "Kafka's"
SCALES = {"": 1.0, "k": 1e-3, "M": 1e-6, "u": 1e6}
FIGURE = re.compile(r"\{(\w+):(\d)([kMu]?)\}")


class Highlight(NamedTuple):
    workload: str
    label: str  # {case} and {peer} are those of the row
    ours: str
    cases: str = ".*"  # a pattern
    more: str = ""  # the figure that says how far Ottla is ahead, where more of it is better
    less: str = ""  # the same, where less is better
    by: str = ""  # what that figure is called, where a cell has several
    target: str = ""
    theirs: str = ""  # as ours, unless given
    peers: Sequence[str] = tuple(BROKERS)  # patterns: ours, and who is beside it

    @property
    def keys(self) -> set[str]:
        return {match[1] for match in FIGURE.finditer(self.ours + self.theirs)} | {self.more, self.less} - {
            ""
        }


H = Highlight
ALONE, DELIVERIES, COMMANDS = (r"Ottla.*", ""), ("exactly-once", "at-least-once"), ("ottla", "kcat")
BULK = "100 B, 1 MiB batches"
ROWS, LATE = "{rows_per_s:0k} k rows/s", "{batch_ms:0} ms"

PERFORMANCE = (
    H("W1", "records per broker CPU-second, {case}", "{records_per_cpu_s:1M} M", BULK,
      more="records_per_cpu_s", target="2.5 M"),
    H("W1", "records a second, {case}", "{records_per_s:0k} k", more="records_per_s"),
    H("W1R", "three replicas, {case}, records a second", "{records_per_s:0k} k", more="records_per_s"),
    H("W2", "messages a second (p50), {case}", "{messages_per_s:0} ({p50_us:0} us)",
      r"\w+, \d+ producers?", more="messages_per_s", target=KAFKA),
    H("W2", "the same with an fsync for each, librdkafka, 64 producers", "{messages_per_s:0}",
      "librdkafka, 64 producers, fsync", more="messages_per_s"),
    H("W3", "{case}, records a second", "{records_per_s:1k} k", more="records_per_s", target=KAFKA),
    H("W4", "end to end, {case}: p50, p99, p99.9, ms", "{p50_us:2k}, {p99_us:2k}, {p999_us:2k}",
      less="p99_us", by="p99", target=KAFKA),
    H("W5", "catching up, {case}, MB/s (p99 of a producer beside it, ms)", "{mb_per_s:0} ({p99_us:2k})",
      more="mb_per_s", target=KAFKA),
    H("W6", "{case}, MB/s", "{mb_per_s:0}", more="mb_per_s", target=KAFKA),
    H("W7", "100 producers beside {case} connections, messages a second", "{messages_per_s:0}",
      "10,000 idle", more="messages_per_s", target=KAFKA),
    H("W8", "10,000 partitions, {case}: ready, stop, restart, after kill -9, s",
      "{ready_s:1}, {stop_s:1}, {restart_s:1}, {kill_restart_s:1}", less="restart_s", by="restart"),
    H("W8", "{case}: longest wait of another client, ms; kB a replica; metadata of all, changed / again, ms",
      "{stall_ms:0}; {kb_per_replica:1}; {metadata_changed_ms:1} / {metadata_ms:2}"),
    H("W9", "compaction, MB/s", "{mb_per_s:0}", more="mb_per_s", target=KAFKA),
    H("W9", "p99 of a producer beside it, against before", "{p99_ratio:2} x", target="2 x"),
    H("W10", "kill -9 with {case}", "{recovery_s:1} s ({ratio:2} x)", less="recovery_s",
      target="2 x the limit formula", theirs="{recovery_s:1} s"),
    H("W10F", "no writes after {case} (of which beyond the session, at worst)",
      "{still_s:2} s ({beyond_s:2} s)", "kill.*", less="still_s", target="2 s beyond it"),
    H("W10F", "no writes after a {case}", "{still_s:2} s", "controlled stop", less="still_s"),
    H("W11", "cold start to the first acknowledged record", "{start_ms:0} ms", less="start_ms",
      target="300 ms"),
    H("W11", "idle memory", "{rss_mb:0} MB", less="rss_mb", target="60 MB"),
    *(H("W12", "Spark, {case}", cell, f"{word}.*", more, less, "", target, f"official connector {cell}",
        tuple(SOURCES))
      for word, cell, more, less, target in (
          ("read", ROWS, "rows_per_s", "", "1 M"),
          ("write", ROWS, "rows_per_s", "", "0.5 M"),
          ("micro-batch", LATE, "", "batch_ms", "300 ms"),
      )),
    H("W12E", "Spark's sink exactly once, {case}", ROWS, "write.*", more="rows_per_s", target="0.9 x",
      theirs=f"at least once {ROWS}", peers=DELIVERIES),
    H("W12E", "from topic to topic exactly once, {case}", LATE, "micro-batch.*", less="batch_ms",
      theirs=f"at least once {LATE}", peers=DELIVERIES),
    H("WB", "{case}, {peer}: CPU of all for a record (above idle), against the fewest brokers",
      "{cpu_us_per_record:3u} us ({busy_us_per_record:3u} us), {to_first:2} x", r"100 B.*", peers=ALONE),
    H("WB", "{case}, {peer}: CPU and memory of each", "{idle_cpu_percent:2} %, {rss_mb:1} MB", "idle",
      peers=ALONE),
    H("WC", "`ottla` beside kcat, {case}", "{seconds:2} s", "lines.*", less="seconds", target="2 x",
      theirs="kcat {seconds:2} s", peers=COMMANDS),
    H("WC", "`ottla` beside kcat, {case}, from a cold shell", "{seconds:2} s", "(?!lines).*", less="seconds",
      target="0.3 s", theirs="kcat {seconds:2} s", peers=COMMANDS),
    H("WG", "memory of {case}", "{rss_mb:1} MB", r".* groups.*", less="rss_mb"),
    H("WG", "{case}: until stable", "{stable_ms:0} ms", r".* members.*", less="stable_ms"),
    H("WG", "{case}, a second", "{commits_per_s:0}", "commits.*", more="commits_per_s", target=KAFKA),
    H("WL", "{case}: p99 (longest) of a small producer beside it, ms", "{p99_us:2k} ({longest_us:0k})",
      less="p99_us", by="p99"),
    H("WN", "{case}: memory; idle CPU; CPU of a start",
      "{uss_kb_each:2} kB; {idle_us_each:2} us/s; {start_us_each:1} us", "one of .*", peers=ALONE),
    H("WS", "{case} over TLS (against plaintext)", "{mb_per_s:0} MB/s ({of_plaintext:2} x)", "bulk.*",
      more="mb_per_s", target=KAFKA, peers=tuple(TLS)),
    H("WS", "{case} over TLS, p50 (rate against plaintext)", "{p50_us:0} us ({of_plaintext:2} x)", "single.*",
      less="p50_us", target=KAFKA, peers=tuple(TLS)),
    H("WT", "transactions of {case}, a second (p99, ms)", "{commits_per_s:0} ({p99_us:1k})",
      more="commits_per_s", target=KAFKA),
)  # fmt: skip

README = (
    H("W11", "cold start to the first acknowledged record", "{start_ms:0} ms", theirs="{start_ms:1k} s"),
    H("W11", "idle memory", "{rss_mb:0} MB"),
    H("W1", "records of 100 B taken in per second, one producer, 1 MiB batches", "{records_per_s:1M} M",
      BULK),
    H("W4", "from producer to consumer at 1,000 records a second, p50 / p99", "{p50_us:2k} / {p99_us:1k} ms",
      "1,000 records a second"),
    H("W5", "catching up on 10 GB that are not in memory", "{mb_per_s:0} MB/s", "cold"),
    H("W8", "10,000 partitions: ready again after a restart", "{restart_s:1} s", "1 broker"),
    H("W10", "recovery of 10 GB that was never synced, after kill -9", "{recovery_s:1} s"),
    H("W12", "rows of 100 B that Spark reads per second on one core", "{rows_per_s:2M} M",
      "read, 100 B, on Ottla", theirs="{rows_per_s:2M} M, official connector", peers=tuple(SOURCES)),
)  # fmt: skip


def _cell(pattern: str, figures: Mapping[str, float | None]) -> str:
    if all(figures.get(match[1]) is None for match in FIGURE.finditer(pattern)):
        return "-"
    return FIGURE.sub(
        lambda match: Column(match[1], "", int(match[2]), SCALES[match[3]]).show(figures.get(match[1])),
        pattern,
    )


def _ahead(highlight: Highlight, ours: Mapping[str, float | None], theirs: Mapping[str, float | None]) -> str:
    key = highlight.more or highlight.less
    if not key:
        return ""
    mine, other = ours.get(key), theirs.get(key)
    if not mine or not other:
        return "-"
    name = f" ({highlight.by})" if highlight.by else ""
    return f"{shown(mine / other if highlight.more else other / mine)} x{name}"


class Line(NamedTuple):
    highlight: Highlight
    label: str
    ours: str
    theirs: str
    ahead: str


def lines(highlights: Sequence[Highlight], workloads: Workloads) -> Iterator[Line]:
    for highlight in highlights:
        rows: list[dict[str, Any]] = workloads.get(highlight.workload, {"rows": []})["rows"]
        mine, other = highlight.peers
        for row in rows:
            if not (re.fullmatch(highlight.cases, row["case"]) and re.fullmatch(mine, row["peer"])):
                continue
            beside = (
                peer["figures"]
                for peer in rows
                if peer["case"] == row["case"] and re.fullmatch(other, peer["peer"])
            )
            ours, theirs = row["figures"], next(beside, {})
            yield Line(
                highlight,
                highlight.label.format(case=row["case"], peer=row["peer"]),
                _cell(highlight.ours, ours),
                _cell(highlight.theirs or highlight.ours, theirs),
                _ahead(highlight, ours, theirs),
            )


def performance_table(workloads: Workloads) -> str:
    head = "| workload | target | Ottla | Apache Kafka | ahead |\n|---|---|---|---|---|"
    rows = (
        f"| {line.highlight.workload} {line.label} | {line.highlight.target} | {line.ours} | {line.theirs}"
        f" | {line.ahead} |"
        for line in lines(PERFORMANCE, workloads)
    )
    return "\n".join((head, *rows))


def readme_table(workloads: Workloads) -> str:
    head = "| | Ottla | Apache Kafka | workload |\n|---|---|---|---|"
    rows = (
        f"| {line.label} | {line.ours} | {line.theirs} | {line.highlight.workload} |"
        for line in lines(README, workloads)
    )
    return "\n".join((head, *rows))


def filled(page: str, table: str, name: str) -> str:
    """The page with that table between its markers."""
    before, begin, rest = page.partition(BEGIN)
    _, end, after = rest.partition(END)
    if not begin or not end:
        raise SystemExit(f"{name}: its table goes between {BEGIN} and {END}, and one of these is missing")
    return f"{before}{BEGIN}\n\n{table}\n\n{END}{after}"
