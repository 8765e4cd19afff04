"""`ottla metrics`: measurements of this host, of the cluster and of its brokers, as JSON records in a topic.

A record is a measurement: {"time": ms, "host": ..., "metric": ..., "value": ..., "labels": {...}}, keyed by
the host that measures. A metric whose name ends in `_total` is a counter since the start of the host, or of
the broker in its labels; so are `_count` and `_sum` of times. All others are values of the moment. What is
measured of the cluster is what any client can ask for: where topics begin and end, and how far groups lag
behind. What brokers measure of themselves is under the names that they give it (docs/reference/metrics.md).
"""

import json
import os
import socket
import time
from collections.abc import Iterator
from typing import TYPE_CHECKING, Annotated, Any

import typer

from ottla.base.command_error import CommandError
from ottla.base.ids import INTERNAL_TOPICS
from ottla.cli import output
from ottla.cli.interrupts import INTERRUPTED, stopping
from ottla.cli.options import HERE, WhereOption, connects
from ottla.client.admin import groups as descriptions
from ottla.client.admin.broker_metrics import BrokerMetrics, Measurement
from ottla.client.librdkafka import cluster, connections, partition_offsets
from ottla.client.librdkafka.errors import errors_explained, explain
from ottla.client.librdkafka.messages import flushed

if TYPE_CHECKING:
    from confluent_kafka.admin import AdminClient

DELIVERY_S = 30.0
PSEUDO_FILESYSTEMS = {"squashfs", "overlay", "tmpfs", "devtmpfs"}


@connects()
def metrics(
    topic: Annotated[str, typer.Option("--topic", "-t", metavar="TOPIC", help="Where to.")] = "metrics",
    interval: Annotated[
        float, typer.Option("--interval", "-i", metavar="SECONDS", min=0.1, help="How often.")
    ] = 10.0,
    once: Annotated[bool, typer.Option("--once", help="Measure once, and exit.")] = False,
    host: Annotated[
        str | None, typer.Option("--host", metavar="NAME", help="What this host is called. (its name)")
    ] = None,
    url: Annotated[
        list[str] | None,
        typer.Option(
            "--url",
            metavar="URL",
            help="Where a broker serves its metrics; may be repeated. (where the brokers say)",
        ),
    ] = None,
    where: WhereOption = HERE,
) -> None:
    """Measure this host and the cluster, and send the values to a topic, until Ctrl-C.

    Processor, memory, disks and network of the host; records and offsets of every topic; the lag of every
    group; and the metrics of every broker that serves them (ottla start --http), but those of single
    partitions. `ottla pipeline init --template metrics` makes a pipeline of it.

    \b
    Examples:
      ottla metrics --interval 5
      ottla metrics --url http://10.0.0.1:9404 --url http://10.0.0.2:9404
      ottla metrics --topic metrics --once
    """
    client = connections.producer(
        where, {"enable.idempotence": True, "message.timeout.ms": int(DELIVERY_S * 1000)}
    )
    administration, name, sent = connections.admin(where), host or socket.gethostname(), 0
    brokers = BrokerMetrics(administration, url or [], output.say)
    with stopping() as stopped:
        host_measurements = of_host(warm_up_s=0.1 if once else 0.0)
        due_s = time.monotonic()
        while not stopped.is_set():
            measurements = [*next(host_measurements), *of_cluster(administration), *brokers.read()]
            _send(client, topic, name, measurements)
            sent += len(measurements)
            due_s = max(due_s + interval, time.monotonic())
            if once or stopped.wait(due_s - time.monotonic()):
                break
        output.say(f"{output.plural(sent, 'measurement')} to {topic}")
        if once and stopped.is_set():
            raise typer.Exit(INTERRUPTED)


def _send(client: Any, topic: str, host: str, measurements: list[Measurement]) -> None:
    now_ms, problems = time.time_ns() // 1_000_000, []

    def on_delivery(error: Any, _message: Any) -> None:
        if error is not None:
            problems.append(error)

    with errors_explained(f"topic {topic}"):
        for measurement in measurements:
            record = {
                "time": now_ms,
                "host": host,
                "metric": measurement.metric,
                "value": measurement.value,
                "labels": measurement.labels,
            }
            client.produce(
                topic, json.dumps(record), host.encode(), timestamp=now_ms, on_delivery=on_delivery
            )
        left = flushed(client, DELIVERY_S)
    if left or problems:
        why = f": {explain(problems[0])}" if problems else ""
        raise CommandError(f"{left + len(problems)} measurements were not acknowledged{why}")


def of_host(warm_up_s: float) -> Iterator[list[Measurement]]:
    """What psutil knows of this host, each time it is asked; the processor's load since the last time."""
    try:
        import psutil
    except ImportError:
        raise CommandError("measuring a host takes psutil: pip install 'ottla[spark]'") from None
    psutil.cpu_percent()
    time.sleep(warm_up_s)
    while True:
        memory, swap = psutil.virtual_memory(), psutil.swap_memory()
        network = psutil.net_io_counters()
        measurements = [
            Measurement("cpu.percent", psutil.cpu_percent()),
            Measurement("cpu.load1", os.getloadavg()[0]),
            Measurement("memory.percent", memory.percent),
            Measurement("memory.used_bytes", memory.used),
            Measurement("swap.percent", swap.percent),
            *_disks(psutil),
        ]
        if network is not None:
            measurements += [
                Measurement("network.sent_bytes_total", network.bytes_sent),
                Measurement("network.received_bytes_total", network.bytes_recv),
            ]
        yield measurements


def _disks(psutil: Any) -> Iterator[Measurement]:
    mounts = {
        partition.device: partition.mountpoint
        for partition in psutil.disk_partitions()
        if _is_disk(partition)
    } or {"": "/"}
    for mount in mounts.values():
        try:
            used = psutil.disk_usage(mount)
        except OSError:
            continue
        yield Measurement("disk.percent", used.percent, {"mount": mount})
        yield Measurement("disk.free_bytes", used.free, {"mount": mount})
    traffic = psutil.disk_io_counters()
    if traffic is not None:
        yield Measurement("disk.read_bytes_total", traffic.read_bytes)
        yield Measurement("disk.written_bytes_total", traffic.write_bytes)


def _is_disk(mounted: Any) -> bool:
    return mounted.fstype not in PSEUDO_FILESYSTEMS and os.path.isdir(mounted.mountpoint)


def of_cluster(client: "AdminClient") -> list[Measurement]:
    """Brokers, records and ends of topics, lag of groups."""
    metadata = cluster.metadata(client)
    names = sorted(set(metadata.topics) - set(INTERNAL_TOPICS))
    topic_partitions = [(name, number) for name in names for number in metadata.topics[name].partitions]
    starts = partition_offsets.starts(client, topic_partitions)
    ends = partition_offsets.ends(client, topic_partitions)
    measurements = [
        Measurement("cluster.brokers", len(metadata.brokers)),
        Measurement("cluster.topics", len(names)),
    ]
    for name in names:
        own = [
            topic_partition
            for topic_partition in topic_partitions
            if topic_partition[0] == name and topic_partition in ends
        ]
        end = sum(ends[topic_partition] for topic_partition in own)
        measurements.append(Measurement("topic.end_offsets_total", end, {"topic": name}))
        count = end - sum(starts.get(topic_partition, ends[topic_partition]) for topic_partition in own)
        measurements.append(Measurement("topic.records", count, {"topic": name}))
    listed = [group.id for group in descriptions.listed(client, output.say)]
    groups = descriptions.described(client, listed, with_metadata=False)
    return measurements + [
        Measurement("group.lag", group.lag, {"group": group.id}) for group in groups if group.lag is not None
    ]
