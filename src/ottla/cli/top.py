"""`ottla top`: a cluster at work on one screen: throughput, brokers, groups that lag, busy partitions."""

from collections.abc import Iterator
from typing import Annotated, Any

import typer

from ottla.base.ids import TopicPartition
from ottla.cli import output
from ottla.cli.options import HERE, Json, WhereOption, connects
from ottla.cli.watch import EVERY_S, watched
from ottla.client.admin.requests import connected
from ottla.client.cluster import Cluster
from ottla.client.errors import ClientError
from ottla.client.groups import committed
from ottla.client.librdkafka.errors import REQUEST_S
from ottla.client.retry import Deadline
from ottla.client.snapshots import Snapshot, group_names, snapshot

ROWS = 8
GROUPS_MAX = 200  # asked about in a round: each costs a request


@connects()
def top(
    every: Annotated[
        float, typer.Option("--every", metavar="SECONDS", min=0.2, help="How often to look.")
    ] = EVERY_S,
    json: Json = False,
    where: WhereOption = HERE,
) -> None:
    """Show a cluster at work: throughput, brokers, lag of groups and busy partitions, until Ctrl-C.

    It asks what every Kafka cluster answers, so it works with any. Rates are there from the second look on.

    \b
    Examples:
      ottla top
      ottla top --every 1 --json | jq '.groups[] | select(.lag > 1000)'
    """
    with connected(where) as cluster:
        view = View(cluster)

        def show() -> None:
            view.look()
            if json:
                print(output.json_text(view.data()))
            else:
                view.draw()

        watched(show, every)


class View:
    """The last look at a cluster, and the one before it."""

    def __init__(self, cluster: Cluster) -> None:
        self._cluster = cluster
        self._before: Snapshot | None = None
        self._now: Snapshot | None = None
        self._lags: dict[str, int] = {}
        self._lags_before: dict[str, int] = {}

    def look(self) -> None:
        deadline = Deadline(REQUEST_S)
        self._before, self._now = self._now, snapshot(self._cluster, deadline)
        self._lags_before, self._lags = self._lags, dict(self._lag_of_groups(self._now, deadline))

    def _lag_of_groups(self, now: Snapshot, deadline: Deadline) -> Iterator[tuple[str, int]]:
        for name in group_names(self._cluster, deadline)[:GROUPS_MAX]:
            try:
                offsets = committed(self._cluster, name, deadline)
            except ClientError:  # nobody may ask about it, or its coordinator is away
                continue
            lags = [
                max(0, now.ends[partition] - entry.offset)
                for partition, entry in offsets.items()
                if partition in now.ends
            ]
            if lags:
                yield name, sum(lags)

    def data(self) -> dict[str, Any]:
        now, before = self._now, self._before
        assert now is not None, "somebody has looked"
        every = [partition for topic in now.topics for partition in now.partitions(topic)]
        led: dict[int, int] = dict.fromkeys(now.brokers, 0)
        replicas: dict[int, int] = dict.fromkeys(now.brokers, 0)
        under = offline = 0
        for partitions in now.topics.values():
            for partition in partitions:
                offline += partition.leader_id not in now.brokers
                under += len(partition.isr_nodes) < len(partition.replica_nodes)
                if partition.leader_id in led:
                    led[partition.leader_id] += 1
                for node in partition.replica_nodes:
                    if node in replicas:
                        replicas[node] += 1
        return {
            "records_per_second": _rounded(now.rate(before, every)),
            "bytes": sum(now.sizes.values()) if now.sizes else None,
            "topics": len(now.topics),
            "partitions": len(every),
            "under_replicated": under,
            "offline": offline,
            "brokers": [
                {
                    "id": node,
                    "address": str(address),
                    "is_controller": node == now.controller,
                    "leads": led[node],
                    "replicas": replicas[node],
                    "records_per_second": _rounded(self._rate_of(node)),
                }
                for node, address in sorted(now.brokers.items())
            ],
            "groups": [
                {"name": name, "lag": lag, "lag_per_second": _rounded(self._trend(name))}
                for name, lag in sorted(self._lags.items(), key=lambda row: -row[1])
            ],
            "busy_partitions": [
                {
                    "topic": partition.topic,
                    "partition": partition.partition,
                    "records_per_second": _rounded(rate),
                }
                for partition, rate in self._busy(every)
            ],
        }

    def draw(self) -> None:
        data = self.data()
        rate = data["records_per_second"]
        flow = "-" if rate is None else f"{rate:,.0f}"
        print(
            f"{flow} records/s   {data['topics']} topics, {data['partitions']} partitions, "
            f"{output.size_text(data['bytes'])}   under-replicated {data['under_replicated']}, "
            f"offline {data['offline']}"
        )
        brokers = [
            (
                row["id"],
                row["address"],
                row["is_controller"],
                row["leads"],
                row["replicas"],
                row["records_per_second"],
            )
            for row in data["brokers"]
        ]
        output.show_table(("broker", "address", "controller", "leads", "replicas", "records/s"), brokers)
        groups = [(row["name"], row["lag"], row["lag_per_second"]) for row in data["groups"][:ROWS]]
        if groups:
            output.show_table(("group", "lag", "lag/s"), groups)
        busy = [tuple(row.values()) for row in data["busy_partitions"]]
        if busy:
            output.show_table(("topic", "partition", "records/s"), busy)

    def _rate_of(self, node: int) -> float | None:
        assert self._now is not None
        led = [
            TopicPartition(topic, partition.partition_index)
            for topic, partitions in self._now.topics.items()
            for partition in partitions
            if partition.leader_id == node
        ]
        return self._now.rate(self._before, led)

    def _trend(self, group: str) -> float | None:
        if self._now is None or self._before is None or group not in self._lags_before:
            return None
        return (self._lags[group] - self._lags_before[group]) / (self._now.taken_s - self._before.taken_s)

    def _busy(self, partitions: list[TopicPartition]) -> list[tuple[TopicPartition, float]]:
        assert self._now is not None
        rates = [(partition, self._now.rate(self._before, [partition]) or 0.0) for partition in partitions]
        return sorted((row for row in rates if row[1]), key=lambda row: -row[1])[:ROWS]


def _rounded(rate: float | None) -> float | None:
    return None if rate is None else round(rate, 1)
