"""`ottla demo`: the whole in a minute or two. A broker, producers and consumers, and a pipeline on Spark.

Without Java or PySpark the pipeline is left out, and one line says what is missing.
"""

import os
import statistics
import tempfile
import time
from typing import TYPE_CHECKING, Annotated, Any

import typer

from ottla.base.command_error import CommandError
from ottla.cli import output
from ottla.cli.pipelines.run_display import run_in
from ottla.client.librdkafka import connections
from ottla.client.librdkafka.errors import errors_explained, explain
from ottla.client.properties import ClientProperties
from ottla.pipelines import spark_environment
from ottla.pipelines.demo import CUSTOMERS, PER_SECOND, QUICK, open_shops, rows, send_customers
from ottla.pipelines.folder import PipelineFolder, create_folder
from ottla.pipelines.run import RunOptions

if TYPE_CHECKING:
    from ottla.shell.embedded import EmbeddedBroker

TOPIC = "letters"
PARTITIONS = 3
WAIT_S = 15.0
SINGLE = 200
Headers = list[tuple[str, str | bytes | None]]
SESSIONS_SHOWN = 5
SENDERS = ("Ottla", "Franz", "Milena", "Max", "Felice")


def demo(
    records: Annotated[
        int, typer.Option("--records", "-n", metavar="N", min=1, help="How many to send.")
    ] = 100_000,
    spark: Annotated[
        bool, typer.Option("--spark/--no-spark", help="Show a pipeline on Spark too. (if it is there)")
    ] = True,
) -> None:
    """Show the whole: a broker in this process, produce, consume, a pipeline and its tables.

    Takes a free port and a temporary folder, and leaves nothing behind. Without Spark it takes seconds.
    """
    from ottla.shell.embedded import EmbeddedBroker

    began = time.perf_counter()
    with EmbeddedBroker() as broker:
        _step(f"a broker listens on {broker.bootstrap_servers}, its data is in {broker.data}", began)
        with errors_explained("the demo failed"):
            _create(broker)
            _produce(broker, records)
            _produce_singly(broker)
            _consume(broker, records + SINGLE)
        if spark and (problem := spark_environment.missing()) is not None:
            print(f"no pipeline is shown: {problem}")
        elif spark:
            _run_pipeline(broker.bootstrap_servers)
        began = time.perf_counter()
    _step("the broker stopped cleanly and its data is gone", began)


def _create(broker: "EmbeddedBroker") -> None:
    from confluent_kafka.admin import NewTopic  # type: ignore[attr-defined]

    began = time.perf_counter()
    client = connections.admin(broker.bootstrap_servers)
    client.create_topics([NewTopic(TOPIC, PARTITIONS, 1)])[TOPIC].result(WAIT_S)
    _step(f"topic {TOPIC!r} has {PARTITIONS} partitions", began)


def _produce(broker: "EmbeddedBroker", count: int) -> None:
    client = connections.producer(broker.bootstrap_servers, {"linger.ms": 5, "enable.idempotence": True})
    problems: list[Any] = []

    def on_delivery(error: Any, _message: Any) -> None:
        if error is not None:
            problems.append(error)

    began = time.perf_counter()
    for number in range(count):
        sender = SENDERS[number % len(SENDERS)]
        headers: Headers = [("demo", b"yes"), ("number", b"%d" % number)]
        while True:
            try:
                client.produce(
                    TOPIC, f"letter {number} from {sender}", sender, headers=headers, on_delivery=on_delivery
                )
                break
            except BufferError:
                client.poll(0.1)
        client.poll(0)
    left = client.flush(WAIT_S)
    if left or problems:
        raise CommandError(f"{left + len(problems)} records were not acknowledged: {problems[:1]}")
    _step(f"{count:,} records with keys and headers were acknowledged", began, count)


def _produce_singly(broker: "EmbeddedBroker") -> None:
    """One record at a time, each acknowledged before the next."""
    client = connections.producer(broker.bootstrap_servers, {"linger.ms": 0, "acks": "all"})
    taken_ms = []
    for number in range(SINGLE):
        sent = time.perf_counter()
        client.produce(TOPIC, f"postcard {number}", b"postcards", headers=[("demo", b"yes")])
        if client.flush(WAIT_S):
            raise CommandError("a record was not acknowledged")
        taken_ms.append((time.perf_counter() - sent) * 1000)
    quick, slow = statistics.median(taken_ms), statistics.quantiles(taken_ms, n=100)[98]
    print(
        f"  {SINGLE} records one by one: half acknowledged within {quick:.2f} ms, 99 % within {slow:.2f} ms"
    )


def _consume(broker: "EmbeddedBroker", expected: int) -> None:
    from confluent_kafka import OFFSET_BEGINNING, TopicPartition

    client = connections.consumer(broker.bootstrap_servers, {}, {"enable.partition.eof": False})
    seen, last = 0, None
    order: dict[int, int] = {}
    try:
        client.assign([TopicPartition(TOPIC, number, OFFSET_BEGINNING) for number in range(PARTITIONS)])
        began = time.perf_counter()
        while seen < expected and time.perf_counter() - began < WAIT_S:
            for message in client.consume(min(10_000, expected - seen), 0.2):
                if message.error() is not None:
                    raise CommandError(f"a record could not be read: {explain(message.error())}")
                partition, offset = message.partition() or 0, message.offset() or 0
                if offset != order.get(partition, 0):
                    raise CommandError(
                        f"partition {partition}: offset {offset} came where {order.get(partition, 0)} belongs"
                    )
                order[partition] = offset + 1
                seen, last = seen + 1, message
    finally:
        client.close()
    if last is None or seen < expected:
        raise CommandError(f"{seen} of {expected} records came back within {WAIT_S:.0f} s")
    _step(f"{seen:,} records came back, every partition in order", began, seen)
    key, value = (last.key() or b"").decode(), (last.value() or b"").decode()
    print(f"  the last: partition {last.partition()}, offset {last.offset()}, key {key!r}, value {value!r}")


# -- the pipeline --------------------


def _run_pipeline(bootstrap: str) -> None:
    """Make a pipeline out of a template, run it while orders come, and show its tables."""
    with tempfile.TemporaryDirectory(prefix="ottla-demo-") as home:
        folder = os.path.join(home, "shop")
        create_folder(folder, "stream", bootstrap)
        send_customers(bootstrap)
        with open_shops(bootstrap) as shops:
            print(f"{len(shops)} shops send {len(shops) * PER_SECOND} orders a second", flush=True)
            began = time.perf_counter()
            run_in(
                PipelineFolder(folder),
                RunOptions(once=True, settings=QUICK, where=ClientProperties(bootstrap)),
            )
            sent = sum(shop.sent for shop in shops)
            took_s = time.perf_counter() - began
            print(f"{took_s:7.1f} s   a pipeline read them from the topic; {sent:,} records are there by now")
        _show_tables(folder)


def _show_tables(folder: str) -> None:
    revenue = sorted(rows(folder, "revenue"), key=lambda row: -row["amount"])
    output.show_table(
        ("country", "orders", "amount"),
        [(row["country"], row["orders"], float(row["amount"])) for row in revenue],
        "revenue, each order once, joined to its customer",
    )
    names = {key: name for key, (name, _, _) in CUSTOMERS.items()}
    sessions = sorted(rows(folder, "sessions"), key=lambda row: -row["orders"])
    output.show_table(
        ("customer", "begin", "end", "orders", "amount"),
        [
            (
                names.get(row["customer_id"], "-"),
                f"{row['begin']:%H:%M}",
                f"{row['end']:%H:%M}",
                row["orders"],
                float(row["amount"]),
            )
            for row in sessions[:SESSIONS_SHOWN]
        ],
        f"the longest of {len(sessions)} sessions",
    )
    rejected = rows(folder, "rejected")
    print(f"set aside: {output.plural(len(rejected), 'record')} that are no orders", flush=True)


def _step(what: str, began: float, count: int = 0) -> None:
    took_s = time.perf_counter() - began
    rate = f", {count / took_s:,.0f} a second" if count and took_s > 0 else ""
    print(f"{took_s * 1000:7.0f} ms  {what}{rate}", flush=True)
