"""A pipeline on small data: a broker in this process, a copy of the folder, one run, and what came of it.

Nothing of the pipeline itself is touched: the copy has storage, tables and a catalog of its own, and is gone
afterwards, like the broker.
"""

import base64
import json
import os
import shutil
import tempfile
import threading
from collections.abc import Callable, Mapping, Sequence
from datetime import UTC, date, datetime
from decimal import Decimal
from typing import Any, NamedTuple

from ottla.base.command_error import USAGE, CommandError
from ottla.client.librdkafka import connections
from ottla.client.librdkafka.errors import explain
from ottla.client.properties import ClientProperties
from ottla.pipelines import client_file, dataflow, status
from ottla.pipelines.dataflow import TOPIC, Dataflow
from ottla.pipelines.demo import QUICK
from ottla.pipelines.driver_process import Show
from ottla.pipelines.folder import OWN, WAREHOUSE, PipelineFolder
from ottla.pipelines.progress import STOPPED
from ottla.pipelines.run import DATAFLOW, PipelineRun, RunOptions

BEGIN_MS = int(datetime(2026, 1, 1, tzinfo=UTC).timestamp() * 1000)
WAIT_S = 30.0
RECORD = {"key", "value", "headers", "timestamp", "partition"}
# Left behind by runs, or about them.
NOT_COPIED = (OWN, "storage", "tables", "catalog", "tests", "metastore_db", "__pycache__", ".git")
SETTINGS = {
    **QUICK,
    "spark.sql.catalogImplementation": "in-memory",
    "spark.sql.pipelines.maxFlowRetryAttempts": "0",  # a failure is an answer here
    "spark.sql.codegen.wholeStage": "false",
    "spark.sql.codegen.factoryMode": "NO_CODEGEN",
    client_file.CONFIG: "",
}

Row = dict[str, Any]


class Outcome(NamedTuple):
    """Rows of tables in order, and values of the topics that the pipeline writes, both as JSON has them."""

    tables: dict[str, list[Row]]
    topics: dict[str, list[Any]]
    dataflow: Dataflow


def run_on(
    folder: str,
    records: Mapping[str, Sequence[Any]],
    settings: Mapping[str, str] | None = None,
    show: Show = lambda _doing, _sentence: None,
    stopped: threading.Event | None = None,
) -> Outcome | None:
    """Run the pipeline in a folder once on these records, by topic. None if it was stopped."""
    from ottla.testing.embedded import Broker

    original = PipelineFolder(folder)
    # The records may be old: they are not to be deleted for that.
    with (
        tempfile.TemporaryDirectory(prefix="ottla-trial-") as home,
        Broker({"log.retention.ms": -1}) as broker,
    ):
        copy = _copy(original, os.path.join(home, original.name))
        options = RunOptions(
            once=True,
            master="local[2]",
            settings={**SETTINGS, WAREHOUSE: f"file://{copy.path}/tables", **(settings or {})},
            where=ClientProperties(broker.bootstrap_servers),
        )
        run = PipelineRun(copy, options, lambda _sentence: None)
        for topic, values in records.items():
            _send(broker.bootstrap_servers, topic, values)
        progress = run.supervise(stopped or threading.Event(), show)
        if progress.state == STOPPED:
            return None
        flowing = dataflow.stored(copy.own(DATAFLOW)) or Dataflow()
        names = [table.name for table in status.tables(f"file://{copy.path}/tables")]
        written = sorted({flow.writes.name for flow in flowing.flows if flow.writes.kind == TOPIC})
        return Outcome(
            {name: rows(os.path.join(copy.path, "tables", name)) for name in names},
            {topic: _received(broker.bootstrap_servers, topic) for topic in written},
            flowing,
        )


def _copy(original: PipelineFolder, target: str) -> PipelineFolder:
    """With storage of its own. The specification is written anew: it may name storage anywhere."""
    import yaml  # type: ignore[import-untyped]

    original.sources()
    try:
        shutil.copytree(original.path, target, ignore=shutil.ignore_patterns(*NOT_COPIED))
        declared = {**original.read(), "storage": f"file://{target}/storage"}
        with open(
            os.path.join(target, os.path.basename(original.specification)), "w", encoding="utf-8"
        ) as file:
            yaml.safe_dump(declared, file)
    except (OSError, shutil.Error) as error:
        raise CommandError(f"cannot copy {original.path}: {error}") from None
    return PipelineFolder(target)


def _send(bootstrap: str, topic: str, values: Sequence[Any]) -> None:
    """A record is a JSON object with `value` and nothing that a record has not; anything else is a value."""
    client = connections.producer(bootstrap, {"enable.idempotence": True, "linger.ms": 5})
    refused: dict[int, str] = {}
    for number, given in enumerate(values):
        is_record = isinstance(given, Mapping) and "value" in given and given.keys() <= RECORD
        record = given if is_record else {"value": given}

        def delivered(error: Any, _message: Any, number: int = number) -> None:
            if error is not None:
                refused[number] = explain(error)

        try:
            headers = [(name, _content(value)) for name, value in (record.get("headers") or {}).items()]
            client.produce(
                topic,
                _content(record["value"]),
                _content(record.get("key")),
                partition=record.get("partition", 0),
                timestamp=record.get("timestamp", BEGIN_MS + number),
                headers=headers,
                on_delivery=delivered,
            )
        except (TypeError, ValueError, AttributeError) as error:  # what is in the record is of another type
            refused[number] = str(error)
    if client.flush(WAIT_S):
        raise CommandError(f"the records for topic {topic} were not acknowledged")
    if refused:
        number, reason = min(refused.items())
        raise CommandError(f"record {number + 1} for topic {topic} cannot be sent: {reason}", USAGE)


def _content(value: Any) -> str | bytes | None:
    return value if value is None or isinstance(value, str | bytes) else json.dumps(value)


def _received(bootstrap: str, topic: str) -> list[Any]:
    """All values of a topic that were committed, JSON where it is JSON, by partition."""
    from confluent_kafka import KafkaError, TopicPartition

    own = {"enable.partition.eof": True, "enable.auto.commit": False, "isolation.level": "read_committed"}
    client = connections.consumer(bootstrap, {}, own)
    values: list[Any] = []
    try:
        partitions = sorted(client.list_topics(topic, WAIT_S).topics[topic].partitions)
        for number in partitions:
            client.assign([TopicPartition(topic, number, 0)])
            while True:
                message = client.poll(WAIT_S)
                if message is None:
                    raise CommandError(f"topic {topic} did not answer within {WAIT_S:.0f} s")
                if (error := message.error()) is not None:
                    if error.code() == KafkaError._PARTITION_EOF:
                        break
                    raise CommandError(f"topic {topic}: {error}")
                values.append(_value(message.value()))
    finally:
        client.close()
    return values


def _value(content: bytes | None) -> Any:
    if content is None:
        return None
    try:
        return json.loads(content)
    except ValueError:
        return as_json(content)


def rows(table: str) -> list[Row]:
    """Of a table in a folder, in an order that is the same every time. What the names of its folders say
    (`day=2026-01-31`) is a column like any other."""
    from pyarrow import dataset

    files = status.files(table)
    if not files:
        return []
    content = dataset.dataset(files, format="parquet", partitioning="hive", partition_base_dir=table)
    made = [{name: as_json(value) for name, value in row.items()} for row in content.to_table().to_pylist()]
    return in_order(made)


def in_order(values: Sequence[Any]) -> list[Any]:
    return sorted(values, key=lambda value: json.dumps(value, sort_keys=True))


def as_json(value: Any) -> Any:
    """As a row stands in a file of JSON Lines."""
    convert = next((convert for kind, convert in CONVERSIONS if isinstance(value, kind)), None)
    return value if convert is None else convert(value)


def _moment(value: datetime) -> str:
    at = value if value.tzinfo is None else value.astimezone(UTC)
    return at.isoformat().replace("+00:00", "Z")


def _text(value: bytes) -> str:
    try:
        return value.decode()
    except UnicodeDecodeError:
        return base64.b64encode(value).decode()


def _entries(value: dict[Any, Any]) -> dict[str, Any]:
    return {str(as_json(name)): as_json(part) for name, part in value.items()}


CONVERSIONS: tuple[tuple[type | tuple[type, ...], Callable[[Any], Any]], ...] = (
    (datetime, _moment),
    (date, lambda value: value.isoformat()),
    (Decimal, str),
    (bytes, _text),
    (dict, _entries),
    ((list, tuple), lambda value: [as_json(part) for part in value]),
)
