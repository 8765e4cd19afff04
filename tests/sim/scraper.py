"""Somebody reads the metrics of all brokers again and again, as Prometheus does, whatever happens to them and
whatever they ask each other for it. When the faults are over, the lag of every group is what it is.
"""

from tests.sim.invariants import Invariants
from tests.sim.machine import Machine
from tests.sim.process import Process
from tests.sim.world import ViolationError, World
from tests.support.metrics import label_values

from ottla.base.metrics import Sample, metrics_of
from ottla.broker.metrics.groups import UNKNOWN, GroupMetrics
from ottla.broker.metrics.sources import SOURCES, sources_of

PAUSE_MS = (50, 900)
Lags = dict[tuple[str, str, str], int]  # by group, topic and partition


class Scraper:
    def __init__(self, world: World, machines: dict[int, Machine], invariants: Invariants) -> None:
        self.world, self.machines, self.invariants = world, machines, invariants
        self.lags: dict[int, Lags] = {}  # by broker, as they were read last
        self.declared = sorted(metric.name for source in SOURCES for metric in metrics_of(source))
        self.reads = 0

    def start(self) -> None:
        for id in self.machines:
            self._read_later(id)

    def _read_later(self, id: int) -> None:
        self.world.after(self.world.draw(*PAUSE_MS), lambda: self._read(id))

    def _read(self, id: int) -> None:
        self._read_later(id)
        process = self.machines[id].running
        self.lags.pop(id, None)
        if process is not None and process.is_open:
            process.input(lambda: self._take(id, process))

    def _take(self, id: int, process: Process) -> None:
        names, lags = [], Lags()
        for source in sources_of(process.broker):
            for metric, samples in source.read(process.clock_ms()):
                names.append(metric.name)
                taken: list[Sample] = list(samples)
                if len({labels for labels, _ in taken}) < len(taken):
                    raise ViolationError(f"broker {id} has samples of {metric.name} twice: {taken}")
                if metric is GroupMetrics.LAG:
                    lags = {label_values(labels): lag for labels, lag in taken}
        if sorted(names) != self.declared:
            raise ViolationError(f"broker {id} has {sorted(names)}, and not {self.declared}")
        if low := [labels for labels, lag in lags.items() if lag < UNKNOWN]:
            raise ViolationError(f"broker {id} has a lag below {UNKNOWN} for {low}")
        self.lags[id] = lags
        self.reads += 1
        self.world.reached["lags read"] += sum(lag != UNKNOWN for lag in lags.values())

    def unsettled(self) -> str | None:
        """Which lag is not what it is, or who does not say it."""
        expected: Lags = {}
        for machine in self.machines.values():
            if machine.running is not None:
                self._add_lags(machine.running, expected)
        told: Lags = {}
        for id, lags in self.lags.items():
            if both := told.keys() & lags.keys():
                return f"broker {id} is not the only one to tell the lag of {sorted(both)}"
            told |= lags
        wrong = sorted(key for key in expected.keys() | told.keys() if expected.get(key) != told.get(key))
        return (
            f"the lag of {wrong[0]} is told as {told.get(wrong[0])}: {expected.get(wrong[0])}"
            if wrong
            else None
        )

    def _add_lags(self, process: Process, lags: Lags) -> None:
        groups = process.broker.coordinators.groups
        for index, shard in groups.shards():
            for group_id in shard.groups:
                for topic, offsets in groups.committed_offsets(index, group_id):
                    if topic not in self.invariants.topics:
                        continue
                    for partition, offset in offsets.items():
                        end = self.invariants.end(topic, partition)
                        lags[group_id, topic, str(partition)] = max(end - offset, 0)
