"""`make soak`: a cluster of three brokers and a broker alone, an hour of mixed load (`tests.soak.traffic`).

The hour goes through 24 cycles of retention, whatever its length (`MINUTES=3` for a short one). Rolling
restarts come in its first part, so that the last life of every broker is a long one. Every process is sampled
all the time; in the end each figure has a slope with its error and a word: flat, GROWS, or too short to
tell.

Exit status: 0 if all is flat and every acknowledged record is accounted for; 1 if something grows or is
wrong; 2 if nothing is wrong and the run was too short to tell.
"""

import argparse
import contextlib
import json
import math
import shutil
import sys
import tempfile
import time
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

from tests.cluster.real import RealBroker, RealCluster, restart_rolling
from tests.soak.samples import Sampler, Series
from tests.soak.slopes import Slope, Verdict, slope_of
from tests.soak.traffic import PATIENT_S, Traffic
from tests.support.ports import free_ports
from tests.support.processes import running
from tests.support.waiting import wait_for

CYCLES = 24
AROUND = 3  # cycles more than are counted: until retention begins, and where a restart holds it up
RESTARTS_AT = (3, 6, 9)  # cycles
# What an hour may add and still be called flat. Memory is what one hour can tell from the swing of the heap.
LIMITS_PER_HOUR = {"memory_mb": 4.0, "descriptors": 4.0, "threads": 1.0, "children": 1.0}
# A broker's workers are pools of threads (4 for syncs, 4 for reads, one each for jobs, keys and the keeper,
# and the keeper's own), which fill when all of a pool are busy for the first time, be that after an hour. So
# many threads are no growth, however late they come; beyond that the slope counts.
POOLED_THREADS = 16
KEEPER = "ZooKeeper"  # a JVM, whose heap grows up to -Xmx: its memory is shown and not judged
ALONE, CLUSTER = "alone", "cluster"


@dataclass(frozen=True)
class Plan:
    seconds: float
    rate: float = 100.0
    cycles: int = CYCLES
    restarts_at: tuple[int, ...] = RESTARTS_AT
    with_cluster: bool = True

    @property
    def cycle_s(self) -> float:
        return self.seconds / (self.cycles + AROUND)

    def settings(self, replicas: int) -> dict[str, str]:
        part_ms = str(max(int(self.cycle_s * 1000 / 8), 200))
        return {
            "log.retention.check.interval.ms": part_ms,
            "log.cleaner.backoff.ms": part_ms,
            "log.segment.delete.delay.ms": "1000",
            "producer.id.expiration.ms": str(int(2 * self.cycle_s * 1000)),
            "producer.id.expiration.check.interval.ms": part_ms,
            "offsets.topic.num.partitions": "4",
            "offsets.topic.segment.bytes": str(1 << 20),
            "offsets.topic.replication.factor": str(replicas),
            "transaction.state.log.num.partitions": "4",
            "transaction.state.log.segment.bytes": str(1 << 20),
            "transaction.state.log.replication.factor": str(replicas),
            "transaction.state.log.min.isr": str(max(replicas - 1, 1)),
            "min.insync.replicas": str(max(replicas - 1, 1)),
            "default.replication.factor": str(replicas),
            "group.initial.rebalance.delay.ms": "0",
            # Leaders go home while a life is still warming up: later it would look like growth.
            "leader.imbalance.check.interval.seconds": "5",
        }


@dataclass(frozen=True)
class Finding:
    process: str
    measure: str
    slope: Slope
    verdict: Verdict


@dataclass
class Report:
    plan: Plan
    wrong: list[str]
    findings: list[Finding]
    traffics: list[Traffic]
    series: Series

    @property
    def status(self) -> int:
        verdicts = {finding.verdict for finding in self.findings}
        if self.wrong or Verdict.GROWS in verdicts:
            return 1
        return 2 if Verdict.UNCLEAR in verdicts or not verdicts else 0


class _Servers:
    """The brokers of a run, and who they are."""

    def __init__(self, folder: Path, plan: Plan) -> None:
        self.alone = RealBroker(1, free_ports(1)[0], folder / ALONE, "", plan.settings(1))
        self.cluster = RealCluster(folder, settings=plan.settings(3)) if plan.with_cluster else None

    def start(self) -> None:
        self.alone.start()
        if self.cluster:
            self.cluster.start()

    def stop(self) -> None:
        self.alone.kill()
        if self.cluster:
            self.cluster.stop()

    def restart(self) -> None:
        self.alone.stop()
        self.alone.start(PATIENT_S)
        if self.cluster:
            restart_rolling(self.cluster, within_s=PATIENT_S)

    def pids(self) -> Mapping[str, int]:
        """Of those that run."""
        brokers = {ALONE: self.alone}
        if self.cluster:
            brokers |= {f"broker {number}": broker for number, broker in self.cluster.brokers.items()}
        found = {name: broker.process.pid for name, broker in brokers.items() if broker.is_running}
        keepers = self.cluster.zookeeper.pids if self.cluster else {}
        return found | {f"{KEEPER} {number}": pid for number, pid in keepers.items()}

    @contextlib.contextmanager
    def explained(self) -> Iterator[None]:
        """What the brokers said, where a run ends before its time."""
        try:
            yield
        except BaseException:
            for broker in (self.alone, *(self.cluster.brokers.values() if self.cluster else ())):
                print(f"--- {broker.folder.name}, running: {broker.is_running}\n{broker.log[-3000:]}")
            raise


def judge(series: Series, cycle_s: float) -> list[Finding]:
    findings = []
    for (process, measure), samples in sorted(series.items(), key=lambda item: item[0]):
        if process.startswith(KEEPER) and measure == "memory_mb":
            continue
        slope = slope_of(samples, cycle_s)
        verdict = slope.verdict(LIMITS_PER_HOUR[measure])
        most = max(sample.figure for sample in samples)
        if measure == "threads" and math.isfinite(slope.error) and most <= POOLED_THREADS:
            verdict = Verdict.FLAT
        findings.append(Finding(process, measure, slope, verdict))
    return findings


def soak(plan: Plan, folder: Path) -> Report:
    servers = _Servers(folder, plan)
    with running(servers), servers.explained():
        targets = [Traffic(ALONE, servers.alone.address, 1, plan.rate, plan.cycle_s)]
        if servers.cluster:
            targets.append(Traffic(CLUSTER, servers.cluster.bootstrap, 3, plan.rate, plan.cycle_s))
        with contextlib.ExitStack() as stack:
            sampler = stack.enter_context(Sampler(servers.pids, max(0.2, plan.cycle_s / 40)))
            for traffic in targets:
                stack.enter_context(traffic)
            began = time.monotonic()
            for cycle in plan.restarts_at:
                time.sleep(max(0.0, began + cycle * plan.cycle_s - time.monotonic()))
                print(f"{time.monotonic() - began:6.0f} s: rolling restart", flush=True)
                servers.restart()
            time.sleep(max(0.0, began + plan.seconds - time.monotonic()))
            with contextlib.suppress(AssertionError):  # a slow machine needs longer
                wait_for(lambda: all(each.cycles >= plan.cycles for each in targets), PATIENT_S)
        wrong = [line for traffic in targets for line in traffic.finish()]
        wrong += [
            f"{traffic.name}: {traffic.cycles} of {plan.cycles} cycles of retention were seen"
            for traffic in targets
            if traffic.cycles < plan.cycles
        ]
    return Report(plan, wrong, judge(sampler.series, plan.cycle_s), targets, sampler.series)


def show(report: Report) -> None:
    print(f"{'process':14}{'measure':14}{'mean':>10}{'per hour':>12}{'error':>10}{'limit':>8}{'points':>8}")
    for finding in report.findings:
        slope, limit = finding.slope, LIMITS_PER_HOUR[finding.measure]
        print(
            f"{finding.process:14}{finding.measure:14}{slope.mean:10.1f}{slope.per_hour:+12.2f}"
            f"{slope.error:10.2f}{limit:8.1f}{slope.points:8}  {finding.verdict}"
        )
    for traffic in report.traffics:
        ledger = traffic.ledger
        print(
            f"{traffic.name}: {ledger.acknowledged} records acknowledged, {ledger.read} read "
            f"(and {ledger.repeated} again), {ledger.expired} deleted unread when their time was over; "
            f"{traffic.cycles} cycles of retention; "
            f"{traffic.visits} visits, {traffic.failed_visits} cut short by restarts"
        )
    for line in report.wrong[:20]:
        print(f"WRONG: {line}")
    words = {0: "flat, and every acknowledged record is accounted for", 1: "NOT well", 2: "too short to tell"}
    print(f"{report.plan.seconds / 60:.1f} minutes: {words[report.status]}")


def save(report: Report, path: Path) -> None:
    content = {
        "seconds": report.plan.seconds,
        "cycle_s": report.plan.cycle_s,
        "wrong": report.wrong,
        "findings": [
            {
                "process": each.process,
                "measure": each.measure,
                **each.slope._asdict(),
                "verdict": each.verdict,
            }
            for each in report.findings
        ],
        "samples": {f"{process}/{measure}": samples for (process, measure), samples in report.series.items()},
    }
    path.write_text(json.dumps(content) + "\n")


def main() -> int:
    parser = argparse.ArgumentParser("tests.soak.run", description=__doc__)
    parser.add_argument("--minutes", type=float, default=60.0)
    parser.add_argument("--rate", type=float, default=100.0, help="records a second, of each kind and target")
    parser.add_argument("--alone", action="store_true", help="one broker, no cluster")
    parser.add_argument("--json", type=Path, metavar="FILE", help="keep all samples there")
    arguments = parser.parse_args()
    folder = Path(tempfile.mkdtemp(prefix="ottla-soak-"))
    try:
        report = soak(Plan(60 * arguments.minutes, arguments.rate, with_cluster=not arguments.alone), folder)
    finally:
        shutil.rmtree(folder, ignore_errors=True)
    show(report)
    if arguments.json:
        save(report, arguments.json)
    return report.status


if __name__ == "__main__":
    sys.exit(main())
