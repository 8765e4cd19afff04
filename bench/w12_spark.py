"""W12: Spark. Rows per second and core read and written, and what a micro-batch over 64 partitions costs.

Both sources are asked in turn in one session, which is pinned to one core, on an Ottla broker and on Apache
Kafka, which have the rest of the machine: `format("ottla")` and the official connector serve either. A read
ends in Spark's `noop` sink; a write begins with `range`. The micro-batch is that of a query that has one new
record in each of 64 partitions: nearly all of it is overhead.
"""

import contextlib
import itertools
from importlib.metadata import PackageNotFoundError, version

from bench.report import Column, Figures, Outcome, Row, paired_ratio
from bench.servers import Peer, PeerError
from bench.spark_connector import Connector, fetch
from bench.spark_session import SparkSession
from bench.targets import SPARK_MICRO_BATCH, SPARK_READ, SPARK_READ_RATIO, SPARK_WRITE, Verdict
from bench.workload import Contender, Scale, take_turns, up

COLUMNS = (
    Column("rows_per_s", "k rows/s", 0, 1e-3),
    Column("spark_cpu_s", "Spark CPU-s", 2),
    Column("rows_per_cpu_s", "M rows / CPU-s", 2, 1e-6),
    Column("batch_ms", "batch ms"),
    Column("add_ms", "addBatch ms"),
    Column("offset_ms", "latestOffset ms"),
)
BYTES = 100
READ, WRITE = f"read, {BYTES} B", f"write, {BYTES} B"
PARTITIONS = 64
MICRO = f"micro-batch, {PARTITIONS} partitions"
OURS, THEIRS = "Ottla source", "official"
OTTLA, APACHE = "Ottla", "Apache Kafka"
FORMATS = {OURS: "ottla", THEIRS: "kafka"}
SETTINGS = {
    "spark.driver.memory": "2g",
    "spark.ui.showConsoleProgress": "false",
    "spark.python.unix.domain.socket.enabled": "true",
    "spark.sql.execution.arrow.maxRecordsPerBatch": "65536",
    "spark.log.level": "ERROR",
}

_topics = itertools.count()


def _write(session: SparkSession, broker: Peer, source: str, rows: int) -> Figures:
    topic = f"written-{next(_topics)}"
    broker.create_topic(topic)
    try:
        return session.ask(_task("write", source, broker, rows, topic=topic))
    finally:
        broker.delete_topic(topic)


def _task(kind: str, source: str, broker: Peer, rows: int, **options: str) -> dict[str, object]:
    given = {"kafka.bootstrap.servers": broker.bootstrap, **options}
    return {"kind": kind, "format": FORMATS[source], "options": given, "rows": rows, "bytes": BYTES}


def _micro(session: SparkSession, broker: Peer, source: str) -> Figures:
    """The topic stays: a task of the official connector that is cancelled when the query stops would ask for
    it for a minute more, and keep the only core from the next query."""
    topic = f"quiet-{next(_topics)}"
    create(broker, topic, PARTITIONS)
    task = _task("micro", source, broker, 0, subscribe=topic, startingOffsets="latest")
    return session.ask({**task, "partitions": PARTITIONS})


def create(broker: Peer, topic: str, partitions: int) -> None:
    from confluent_kafka.admin import AdminClient
    from confluent_kafka.cimpl import NewTopic

    admin = AdminClient({"bootstrap.servers": broker.bootstrap, "log_level": 0})
    wanted = NewTopic(topic, num_partitions=partitions, replication_factor=1)
    admin.create_topics([wanted], operation_timeout=10, request_timeout=15)[topic].result(20)


def _connector(outcome: Outcome) -> tuple[dict[str, str], str | None]:
    """Settings of the session, and the official connector's name if there is one."""
    try:
        found: Connector = fetch(version("pyspark"))
    except PeerError as error:
        outcome.rows.append(Row(READ, THEIRS, {}, f"not run: {error}"))
        return SETTINGS, None
    return SETTINGS | found.settings(), f"{THEIRS} {found.version}"


def case_on(case: str, broker: str) -> str:
    return f"{case}, on {broker}"


def _rounds(
    outcome: Outcome, session: SparkSession, broker: Peer, names: dict[str, str], scale: Scale
) -> None:
    on = OTTLA if broker.name == OTTLA else APACHE
    rows = scale.bulk_records[BYTES]
    broker.create_topic("read")
    session.ask(_task("write", OURS, broker, rows, topic="read"))
    options = {"subscribe": "read", "startingOffsets": "earliest"}
    for source in names:  # warm: what is measured is not a first query
        with contextlib.suppress(PeerError):  # a source that cannot says so when it is its turn
            session.ask(_task("read", source, broker, rows, **options))
    cases = {
        READ: lambda source: session.ask(_task("read", source, broker, rows, **options)),
        WRITE: lambda source: _write(session, broker, source, rows // 2),
        MICRO: lambda source: _micro(session, broker, source),
    }
    for case, measure in cases.items():
        contenders = [
            Contender(name, lambda measure=measure, source=source: measure(source))  # type: ignore[misc]
            for source, name in names.items()
        ]
        take_turns(case_on(case, on), contenders, outcome, scale.bulk_rounds, scale.say)


def run(brokers: list[Peer], scale: Scale) -> Outcome:
    outcome = Outcome("W12", f"Spark on one core, {scale.bulk_records[BYTES]:,} rows of {BYTES} B", COLUMNS)
    try:
        version("pyspark")
    except PackageNotFoundError:
        outcome.rows.append(Row(READ, OURS, {}, "not run: pyspark is not installed"))
        return outcome
    settings, official = _connector(outcome)
    names = {OURS: OURS} | ({THEIRS: official} if official else {})
    with up(brokers, outcome, scale) as running:
        try:
            with SparkSession(settings) as session:
                for broker in running:
                    _rounds(outcome, session, broker, names, scale)
        except PeerError as error:
            outcome.rows.append(Row(READ, OURS, {}, f"failed: {error}"))
    ours, theirs = (outcome.row(case_on(READ, OTTLA), name) for name in (OURS, THEIRS))
    outcome.verdicts = [
        Verdict(SPARK_READ, _millions(outcome, READ)),
        Verdict(SPARK_READ_RATIO, paired_ratio(ours, theirs, "rows_per_s") if ours else None),
        Verdict(SPARK_WRITE, _millions(outcome, WRITE)),
        Verdict(SPARK_MICRO_BATCH, outcome.figure(case_on(MICRO, OTTLA), OURS, "batch_ms")),
    ]
    return outcome


def _millions(outcome: Outcome, case: str) -> float | None:
    rate = outcome.figure(case_on(case, OTTLA), OURS, "rows_per_s")
    return None if rate is None else rate / 1e6
