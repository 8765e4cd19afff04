"""One look at a cluster: offsets, sizes, groups, configs, and what brokers measure of themselves.

Each part is asked for by itself. What a user may not see, or a broker does not answer, leaves its part empty
and a sentence in `gaps`; the rest is there all the same.
"""

import time
from collections import defaultdict
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from ottla.base.command_error import CommandError
from ottla.client.admin import groups as descriptions
from ottla.client.admin.broker_metrics import BrokerMetrics
from ottla.client.admin.groups import Group, Listed
from ottla.client.admin.requests import Cluster
from ottla.client.librdkafka.partition_offsets import Partition
from ottla.console.cluster import settings
from ottla.console.cluster.log_dirs import LogDirectory, log_directories, topic_sizes
from ottla.console.cluster.offsets import starts_and_ends
from ottla.console.cluster.snapshot import Snapshot

if TYPE_CHECKING:
    from confluent_kafka.admin import AdminClient

GROUPS_MAX = 300  # of which the lag is measured
CONFIGS_S = 60.0  # configs change rarely, and are what costs brokers most
TOPIC_KEYS = ("cleanup.policy", "retention.ms", "retention.bytes", "min.insync.replicas")
TRAFFIC = "kafka_server_brokertopicmetrics_"
BYTES_IN, BYTES_OUT = f"{TRAFFIC}bytesin_total", f"{TRAFFIC}bytesout_total"


@dataclass
class Measurement:
    """`metrics` are by broker, and then by name; `traffic` by topic: bytes in and out since the start."""

    time_s: float
    took_s: float = 0.0
    starts: dict[Partition, int] = field(default_factory=dict)
    ends: dict[Partition, int] = field(default_factory=dict)
    directories: list[LogDirectory] = field(default_factory=list)
    silent: dict[int, str] = field(default_factory=dict)
    listed: list[Listed] = field(default_factory=list)
    groups: dict[str, Group] = field(default_factory=dict)
    configs: dict[str, dict[str, str]] = field(default_factory=dict)
    metrics: dict[int, dict[str, float]] = field(default_factory=dict)
    traffic: dict[str, tuple[float, float]] = field(default_factory=dict)
    rates: dict[str, float | None] = field(default_factory=dict)
    gaps: dict[str, str] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self.sizes: dict[str, int] = {}

    def records(self, topic: str, partition: int) -> int | None:
        start, end = self.starts.get((topic, partition)), self.ends.get((topic, partition))
        return None if start is None or end is None else end - start


class Measuring:
    """Looks again and again; remembers what says the same thing each time."""

    def __init__(self, client: Callable[[], "AdminClient"], cluster: Cluster) -> None:
        self._client = client
        self._cluster = cluster
        self._metrics: BrokerMetrics | None = None
        self._metrics_problem = ""
        self._configs: dict[str, dict[str, str]] = {}
        self._configs_until_s = 0.0

    def forget(self) -> None:
        """Something was changed: the next measurement asks for everything."""
        self._configs_until_s = 0.0

    def measure(self, snapshot: Snapshot) -> Measurement:
        began_s = time.monotonic()
        measured = Measurement(time.time())
        missing: list[str] = []
        client = self._client()
        measured.starts, measured.ends, silent = starts_and_ends(self._cluster, snapshot.topics.values())
        measured.gaps |= {"offsets": next(iter(silent.values()))} if silent else {}
        with self._part(measured, "log directories"):
            measured.directories, measured.silent = log_directories(self._cluster, snapshot.brokers)
            measured.sizes = topic_sizes(measured.directories)
        with self._part(measured, "groups"):
            measured.listed = descriptions.listed(client, missing.append)
            measured.groups = self._groups(measured)
        measured.gaps |= {"groups": missing[0]} if missing else {}
        with self._part(measured, "configs"):
            measured.configs = self._topic_configs(snapshot)
        with self._part(measured, "metrics"):
            self._read_metrics(client, measured)
        measured.took_s = time.monotonic() - began_s
        return measured

    def _topic_configs(self, snapshot: Snapshot) -> dict[str, dict[str, str]]:
        """Those of new topics, and from time to time of all."""
        names = [name for name, topic in snapshot.topics.items() if not topic.is_internal]
        now_s = time.monotonic()
        if now_s >= self._configs_until_s:
            self._configs, self._configs_until_s = {}, now_s + CONFIGS_S
        unknown = [name for name in names if name not in self._configs]
        self._configs |= settings.of_topics(self._cluster, unknown, TOPIC_KEYS)
        return {name: self._configs[name] for name in names if name in self._configs}

    @contextmanager
    def _part(self, measured: Measurement, name: str) -> Iterator[None]:
        try:
            yield
        except CommandError as error:
            measured.gaps[name] = str(error)

    def _groups(self, measured: Measurement) -> dict[str, Group]:
        names = [group.id for group in measured.listed][:GROUPS_MAX]
        try:
            return {group.id: group for group in descriptions.described(self._client(), names)}
        except CommandError as error:  # of one of them: a user may see some groups, and not others
            measured.gaps["groups"] = str(error)
        groups: dict[str, Group] = {}
        for name in names:
            with self._part(measured, "groups"):
                groups |= {group.id: group for group in descriptions.described(self._client(), [name])}
        return groups

    def _read_metrics(self, client: "AdminClient", measured: Measurement) -> None:
        if self._metrics is None:
            self._metrics = BrokerMetrics(client, [], self._note)
        traffic: dict[str, list[float]] = defaultdict(lambda: [0.0, 0.0])
        for metric, value, labels in self._metrics.read():
            broker = labels.get("broker", "")
            others = labels.keys() - {"broker"}
            if broker.isdigit() and others <= {"listener"}:
                own = measured.metrics.setdefault(int(broker), {})
                own[metric] = own.get(metric, 0.0) + value
            if others == {"topic"} and metric in (BYTES_IN, BYTES_OUT):
                traffic[labels["topic"]][metric == BYTES_OUT] += value
        measured.traffic = {topic: (came, went) for topic, (came, went) in traffic.items()}
        if self._metrics_problem and not measured.metrics:
            measured.gaps["metrics"] = self._metrics_problem

    def _note(self, sentence: str) -> None:
        self._metrics_problem = sentence
