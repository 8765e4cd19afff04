"""W12E: what exactly once costs Spark. Rows written per second, and the time of a micro-batch from topic to
topic, with `delivery=exactly-once` and without, in turn, in one session on one core, on every broker that has
transactions.

The micro-batch has one new record in each of a few partitions: nearly all of it is overhead.
"""

import itertools
from importlib.metadata import PackageNotFoundError, version

from bench.report import Column, Figures, Outcome, Row, paired_ratio
from bench.servers import Peer, PeerError
from bench.spark_session import SparkSession
from bench.targets import SPARK_EXACTLY_ONCE, Verdict
from bench.w12_spark import BYTES, SETTINGS, create
from bench.workload import Contender, Scale, take_turns, up

COLUMNS = (
    Column("rows_per_s", "k rows/s", 0, 1e-3),
    Column("spark_cpu_s", "Spark CPU-s", 2),
    Column("batch_ms", "batch ms"),
    Column("add_ms", "addBatch ms"),
)
DELIVERIES = ("at-least-once", "exactly-once")
PARTITIONS = 4

_topics = itertools.count()


def _write(session: SparkSession, broker: Peer, delivery: str, rows: int) -> Figures:
    topic = f"delivered-{next(_topics)}"
    broker.create_topic(topic)
    options = {"kafka.bootstrap.servers": broker.bootstrap, "topic": topic, "delivery": delivery}
    try:
        return session.ask(
            {"kind": "write", "format": "ottla", "options": options, "rows": rows, "bytes": BYTES}
        )
    finally:
        broker.delete_topic(topic)


def _micro(session: SparkSession, broker: Peer, delivery: str) -> Figures:
    source, target = f"from-{next(_topics)}", f"to-{next(_topics)}"
    for topic in (source, target):
        create(broker, topic, PARTITIONS)
    server = {"kafka.bootstrap.servers": broker.bootstrap}
    task = {
        "kind": "micro",
        "format": "ottla",
        "options": {**server, "subscribe": source, "startingOffsets": "latest"},
        "sink": {**server, "topic": target, "delivery": delivery},
        "partitions": PARTITIONS,
    }
    try:
        return session.ask(task)
    finally:
        broker.delete_topic(source)
        broker.delete_topic(target)


def _rounds(outcome: Outcome, session: SparkSession, broker: Peer, scale: Scale) -> None:
    rows = scale.bulk_records[BYTES] // 2
    _write(session, broker, DELIVERIES[0], rows)  # warm: what is measured is not a first query
    cases = {
        _case("write", broker): lambda delivery: _write(session, broker, delivery, rows),
        _case("micro-batch", broker): lambda delivery: _micro(session, broker, delivery),
    }
    for case, measure in cases.items():
        contenders = [
            Contender(delivery, lambda measure=measure, delivery=delivery: measure(delivery))  # type: ignore[misc]
            for delivery in DELIVERIES
        ]
        take_turns(case, contenders, outcome, scale.bulk_rounds, scale.say)


def _case(what: str, broker: Peer) -> str:
    return f"{what}, {broker.name}"


def run(brokers: list[Peer], scale: Scale) -> Outcome:
    outcome = Outcome("W12E", f"Spark's sink by delivery, on one core, rows of {BYTES} B", COLUMNS)
    try:
        version("pyspark")
    except PackageNotFoundError:
        outcome.rows.append(Row("write", DELIVERIES[1], {}, "not run: pyspark is not installed"))
        return outcome
    transactional = [peer for peer in brokers if peer.name == "Ottla" or peer.name.startswith("Apache")]
    with up(transactional, outcome, scale) as running:
        for broker in running:
            try:
                with SparkSession(SETTINGS) as session:
                    _rounds(outcome, session, broker, scale)
            except PeerError as error:
                outcome.rows.append(Row(_case("write", broker), DELIVERIES[1], {}, f"failed: {error}"))
    once, twice = (outcome.row("write, Ottla", delivery) for delivery in reversed(DELIVERIES))
    ratio = paired_ratio(once, twice, "rows_per_s") if once and twice else None
    outcome.verdicts = [Verdict(SPARK_EXACTLY_ONCE, ratio)]
    return outcome
