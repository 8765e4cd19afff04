"""The options of the source, declared once: names, defaults, checks. docs/spark.md says what each is for.

They are the official connector's, with its rules, and a few of our own (`OURS`). Names are
case-insensitive, as Spark has it. An option that is unknown, malformed or contradicts another is an error
that names it, never a guess.
"""

import difflib
import hashlib
import json
import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import TypeAlias

from ottla.base.offset_times import EARLIEST, LATEST
from ottla.client import TopicPartition
from ottla.client.security.settings import NO_SECURITY, ClientSecurity
from ottla.records.compression import CODEC_NAMES
from ottla.spark import kafka_options
from ottla.spark.errors import OptionError
from ottla.spark.java_regex import translate
from ottla.spark.plan import Split
from ottla.spark.positions import (
    ByOffset,
    ByTime,
    Everywhere,
    Position,
    check_order,
    parse_offsets,
    per_partition,
)

STRATEGIES = ("subscribe", "subscribePattern", "assign")
STREAM_ONLY = ("maxOffsetsPerTrigger", "minOffsetsPerTrigger", "maxTriggerDelay")
BATCH_ONLY = ("endingOffsets", "endingOffsetsByTimestamp", "endingTimestamp")
OURS_READ = ("maxPartitions", "commitOffsets", "pushFilters")
OURS_WRITE = ("timestampColumn", "delivery")
READ = (
    *STRATEGIES,
    *STREAM_ONLY,
    *BATCH_ONLY,
    *OURS_READ,
    kafka_options.CLIENT_CONFIG,
    "startingOffsets",
    "startingOffsetsByTimestamp",
    "startingTimestamp",
    "startingOffsetsByTimestampStrategy",
    "failOnDataLoss",
    "minPartitions",
    "maxRecordsPerPartition",
    "kafkaConsumer.pollTimeoutMs",
    "fetchOffset.numRetries",
    "fetchOffset.retryIntervalMs",
    "partition.metadata.cache.ttl.ms",
    "groupIdPrefix",
    "includeHeaders",
)
WRITE = ("topic", "includeHeaders", *OURS_WRITE, kafka_options.CLIENT_CONFIG)
# What Spark itself hands to a sink along with what was meant for it.
SPARK_WRITE = (
    "checkpointLocation",
    "queryName",
    "asyncProgressTrackingEnabled",
    "asyncProgressTrackingCheckpointIntervalMs",
    "asyncProgressTrackingOverrideSinkSupportCheck",
)

CLIENT_ID = "ottla-spark"
GROUP_PREFIX = "spark-kafka-source"
GROUP_NAME_MAX = 100
POLL_TIMEOUT_MS = 120_000
REACH_MS = 10_000
REACH_MS_SINK = 30_000  # of a stream: its tasks may be new to a cluster that is just being restarted
TRIGGER_DELAY = "15m"
FETCH_BYTES = 8 << 20
BATCH_BYTES = 1_000_000
REQUEST_BYTES = 1 << 20
DELIVERY_TIMEOUT_MS = 120_000
TRANSACTION_TIMEOUT_MS = 900_000  # the most that brokers allow, unless told otherwise
AT_LEAST_ONCE, EXACTLY_ONCE = "at-least-once", "exactly-once"

_UNIT_MS = {
    "us": 0.001,
    "ms": 1,
    "": 1,
    "s": 1000,
    "m": 60_000,
    "min": 60_000,
    "h": 3_600_000,
    "d": 86_400_000,
}


@dataclass(frozen=True)
class Topics:
    names: tuple[str, ...]

    def label(self) -> str:
        return ",".join(self.names)


@dataclass(frozen=True)
class Pattern:
    text: str

    def matches(self, topic: str) -> bool:
        return translate(self.text).fullmatch(topic) is not None

    def label(self) -> str:
        return self.text


@dataclass(frozen=True)
class Assigned:
    topic_partitions: tuple[TopicPartition, ...]

    def label(self) -> str:
        return ",".join(map(str, self.topic_partitions))


Subscription: TypeAlias = Topics | Pattern | Assigned


@dataclass(frozen=True)
class Where:
    """A cluster, as one of its clients sees it. What workers keep clients under."""

    bootstrap: str
    client_id: str = CLIENT_ID
    timeout_s: float = POLL_TIMEOUT_MS / 1000
    security: ClientSecurity = NO_SECURITY
    reach_s: float = REACH_MS / 1000  # how long to wait for a cluster that was never reached


@dataclass(frozen=True)
class ReadOptions:
    where: Where
    subscription: Subscription
    start: Position
    end: Position
    split: Split
    group: str
    fail_on_data_loss: bool = True
    include_headers: bool = False
    read_committed: bool = True
    fetch_bytes: int = FETCH_BYTES
    commit_offsets: bool = True
    push_filters: bool = False
    rows_max: int | None = None
    rows_min: int | None = None
    delay_ms_max: float = 0
    tries: int = 3
    try_again_ms: int = 10
    metadata_ttl_ms: int = -1


@dataclass(frozen=True)
class WriteOptions:
    where: Where
    topic: str | None
    timestamp_column: str | None = None
    codec: str = "none"
    acks: int = -1
    is_idempotent: bool = True
    batch_bytes: int = BATCH_BYTES
    is_exactly_once: bool = False
    transaction_timeout_ms: int = TRANSACTION_TIMEOUT_MS


class _Given:
    """The options as they were given, read one at a time."""

    def __init__(self, options: Mapping[str, str]) -> None:
        self._values = {name.lower(): value for name, value in options.items()}

    def __contains__(self, name: str) -> bool:
        return name.lower() in self._values

    def text(self, name: str) -> str | None:
        value = self._values.get(name.lower())
        return None if value is None else value.strip()

    def boolean(self, name: str, default: bool) -> bool:
        value = self.text(name)
        if value is None:
            return default
        if value.lower() not in {"true", "false"}:
            raise OptionError(f"option {name}: expected true or false, got {value!r}")
        return value.lower() == "true"

    def number(self, name: str, least: int) -> int | None:
        value = self.text(name)
        if value is None:
            return None
        try:
            number = int(value)
        except ValueError:
            raise OptionError(f"option {name}: expected a whole number, got {value!r}") from None
        if number < least:
            raise OptionError(
                f"option {name} must be {'positive' if least == 1 else f'at least {least}'}, got {number}"
            )
        return number


def read_options(options: Mapping[str, str], *, is_stream: bool) -> ReadOptions:
    _check_names(options, READ)
    kafka, security = kafka_options.kafka_options(
        options, kafka_options.READ_HONOURED, kafka_options.READ_REFUSED, kafka_options.READ_IGNORED
    )
    given = _Given(options)
    subscription = _subscription(given)
    start, end = _start(given, is_stream=is_stream), _end(given, is_stream=is_stream)
    check_order(start, end)
    rows_min, rows_max = (given.number(f"{which}OffsetsPerTrigger", 1) for which in ("min", "max"))
    if rows_min is not None and rows_max is not None and rows_min > rows_max:
        raise OptionError(
            f"option minOffsetsPerTrigger ({rows_min}) is higher than maxOffsetsPerTrigger ({rows_max})"
        )
    isolation = kafka.get("isolation.level", "read_committed")
    if isolation not in {"read_uncommitted", "read_committed"}:
        raise OptionError(
            f"option kafka.isolation.level: expected read_uncommitted or read_committed, got {isolation!r}"
        )
    retries = given.number("fetchOffset.numRetries", 0)
    return ReadOptions(
        where=Where(
            kafka["bootstrap.servers"],
            kafka.get("client.id") or CLIENT_ID,
            (given.number("kafkaConsumer.pollTimeoutMs", 1) or POLL_TIMEOUT_MS) / 1000,
            security,
            _kafka_number(kafka, "default.api.timeout.ms", REACH_MS) / 1000,
        ),
        subscription=subscription,
        start=start,
        end=end,
        split=_split(given),
        group=kafka.get("group.id") or _group(given.text("groupIdPrefix") or GROUP_PREFIX, subscription),
        fail_on_data_loss=given.boolean("failOnDataLoss", True),
        include_headers=given.boolean("includeHeaders", False),
        read_committed=isolation == "read_committed",
        fetch_bytes=_kafka_number(kafka, "max.partition.fetch.bytes", FETCH_BYTES),
        commit_offsets=given.boolean("commitOffsets", True),
        push_filters=given.boolean("pushFilters", False),
        rows_max=rows_max,
        rows_min=rows_min,
        delay_ms_max=_duration_ms("maxTriggerDelay", given.text("maxTriggerDelay") or TRIGGER_DELAY),
        tries=3 if retries is None else max(1, retries),
        try_again_ms=given.number("fetchOffset.retryIntervalMs", 0) or 10,
        metadata_ttl_ms=_or(given.number("partition.metadata.cache.ttl.ms", -1), -1),
    )


def write_options(options: Mapping[str, str], *, is_stream: bool = False) -> WriteOptions:
    _check_names(options, WRITE, SPARK_WRITE)
    kafka, security = kafka_options.kafka_options(
        options, kafka_options.WRITE_HONOURED, kafka_options.WRITE_REFUSED, kafka_options.WRITE_IGNORED
    )
    given = _Given(options)
    given.boolean("includeHeaders", False)
    topic = given.text("topic")
    if topic is not None and not topic:
        raise OptionError("option topic is empty")
    codec = kafka.get("compression.type", "none").lower()
    if codec not in CODEC_NAMES:
        raise OptionError(
            f"option kafka.compression.type: expected one of {', '.join(CODEC_NAMES)}, got {codec!r}"
        )
    acks = {"all": -1, "-1": -1, "0": 0, "1": 1}.get(kafka.get("acks", "all").lower())
    if acks is None:
        raise OptionError(f"option kafka.acks: expected all, 1 or 0, got {kafka['acks']!r}")
    asked = kafka.get("enable.idempotence", "").lower()
    if asked not in {"", "true", "false"}:
        raise OptionError(f"option kafka.enable.idempotence: expected true or false, got {asked!r}")
    if asked == "true" and acks != -1:
        raise OptionError(
            f"option kafka.enable.idempotence=true needs kafka.acks=all, and it is {kafka['acks']}"
        )
    is_idempotent = acks == -1 and asked != "false"
    request_bytes = _kafka_number(kafka, "max.request.size", REQUEST_BYTES)
    return WriteOptions(
        where=Where(
            kafka["bootstrap.servers"],
            kafka.get("client.id") or CLIENT_ID,
            _kafka_number(kafka, "delivery.timeout.ms", DELIVERY_TIMEOUT_MS) / 1000,
            security,
            _kafka_number(kafka, "max.block.ms", REACH_MS_SINK if is_stream else REACH_MS) / 1000,
        ),
        topic=topic,
        timestamp_column=given.text("timestampColumn"),
        codec=codec,
        acks=acks,
        is_idempotent=is_idempotent,
        batch_bytes=min(request_bytes, _kafka_number(kafka, "batch.size", BATCH_BYTES)),
        is_exactly_once=_is_exactly_once(given, is_idempotent=is_idempotent),
        transaction_timeout_ms=_kafka_number(kafka, "transaction.timeout.ms", TRANSACTION_TIMEOUT_MS),
    )


def _is_exactly_once(given: _Given, *, is_idempotent: bool) -> bool:
    delivery = (given.text("delivery") or AT_LEAST_ONCE).lower()
    if delivery not in {AT_LEAST_ONCE, EXACTLY_ONCE}:
        raise OptionError(f"option delivery: expected {AT_LEAST_ONCE} or {EXACTLY_ONCE}, got {delivery!r}")
    if delivery == EXACTLY_ONCE and not is_idempotent:
        raise OptionError(
            "option delivery=exactly-once needs kafka.acks=all and kafka.enable.idempotence=true"
        )
    return delivery == EXACTLY_ONCE


def _or(value: int | None, default: int) -> int:
    return default if value is None else value


def _check_names(options: Mapping[str, str], own: tuple[str, ...], others: tuple[str, ...] = ()) -> None:
    names = {name.lower(): name for name in (*own, *others)}
    for name in options:
        if name.lower() in names or name.lower().startswith(kafka_options.PREFIX):
            continue
        near = difflib.get_close_matches(name.lower(), list(names), 1)
        meant = f"; did you mean {names[near[0]]}?" if near else ""
        raise OptionError(f"option {name} is not known{meant}")


def _subscription(given: _Given) -> Subscription:
    chosen = [name for name in STRATEGIES if name in given]
    if len(chosen) != 1:
        which = f"not {' and '.join(chosen)}" if chosen else "and none is"
        raise OptionError(f"exactly one of the options {', '.join(STRATEGIES)} must be specified, {which}")
    (name,) = chosen
    text = given.text(name) or ""
    match name:
        case "subscribe":
            topics = tuple(dict.fromkeys(part.strip() for part in text.split(",") if part.strip()))
            if not topics:
                raise OptionError(f"option subscribe names no topics: {text!r}")
            return Topics(topics)
        case "subscribePattern":
            if not text:
                raise OptionError("option subscribePattern is empty")
            translate(text)
            return Pattern(text)
        case _:
            return Assigned(_assigned(text))


def _assigned(text: str) -> tuple[TopicPartition, ...]:
    wrong = OptionError(f'option assign: expected e.g. {{"topicA":[0,1],"topicB":[0,1]}}, got {text!r}')
    try:
        tree = json.loads(text)
    except json.JSONDecodeError:
        raise wrong from None
    if not isinstance(tree, dict) or not all(isinstance(numbers, list) for numbers in tree.values()):
        raise wrong
    topic_partitions = {
        TopicPartition(topic, number if type(number) is int else -1)
        for topic, numbers in tree.items()
        for number in numbers
    }
    if not topic_partitions or min(topic_partition.partition for topic_partition in topic_partitions) < 0:
        raise wrong
    return tuple(sorted(topic_partitions))


def _start(given: _Given, *, is_stream: bool) -> Position:
    strategy = (given.text("startingOffsetsByTimestampStrategy") or "error").lower()
    if strategy not in {"error", "latest"}:
        raise OptionError(
            f"option startingOffsetsByTimestampStrategy: expected error or latest, got {strategy!r}"
        )
    start = _position(
        given, "starting", or_latest=strategy == "latest", default=LATEST if is_stream else EARLIEST
    )
    if not is_stream:
        _refuse_offset(start, "startingOffsets", LATEST, "latest")
    return start


def _end(given: _Given, *, is_stream: bool) -> Position:
    if is_stream:
        for name in BATCH_ONLY:
            if name in given:
                raise OptionError(f"option {name} is not valid in streaming queries")
    end = _position(given, "ending", or_latest=True, default=LATEST)
    _refuse_offset(end, "endingOffsets", EARLIEST, "earliest")
    return end


def _refuse_offset(position: Position, option: str, refused: int, word: str) -> None:
    if position == Everywhere(refused):
        raise OptionError(f"option {option} can't be {word} for batch queries")
    if isinstance(position, ByOffset):
        for topic_partition, offset in position.offsets:
            if offset == refused:
                raise OptionError(
                    f"option {option} for {topic_partition} can't be {word} ({refused}) for batch queries"
                )


def _position(given: _Given, which: str, *, or_latest: bool, default: int) -> Position:
    everywhere = given.text(f"{which}Timestamp")
    if everywhere is not None:
        if not re.fullmatch(r"\d+", everywhere):
            raise OptionError(
                f"option {which}Timestamp: expected milliseconds, a single number, got {everywhere!r}"
            )
        return ByTime((), int(everywhere), or_latest)
    option = f"{which}OffsetsByTimestamp"
    times = given.text(option)
    if times is not None:
        example = '{"topicA":{"0":1700000000000},"topicB":{"0":1700000000000}}'
        times_by_partition = per_partition(option, times, example)
        if min(times_by_partition.values(), default=0) < 0:
            raise OptionError(f"option {option}: expected milliseconds since 1970, got {times}")
        return ByTime(tuple(times_by_partition.items()), None, or_latest)
    offsets = given.text(f"{which}Offsets")
    return Everywhere(default) if offsets is None else parse_offsets(f"{which}Offsets", offsets)


def _split(given: _Given) -> Split:
    split = Split(
        given.number("minPartitions", 1),
        given.number("maxPartitions", 1),
        given.number("maxRecordsPerPartition", 1),
    )
    if split.partitions_min and split.partitions_max and split.partitions_min > split.partitions_max:
        raise OptionError(
            f"option minPartitions ({split.partitions_min}) is higher than maxPartitions "
            f"({split.partitions_max})"
        )
    return split


def _group(prefix: str, subscription: Subscription) -> str:
    """A name that is the same after every restart, and says what is read."""
    label = re.sub(r"[^a-zA-Z0-9._,-]+", "_", subscription.label())
    if len(label) > GROUP_NAME_MAX or label != subscription.label():
        digest = hashlib.sha256(subscription.label().encode()).hexdigest()[:8]
        label = f"{label[:GROUP_NAME_MAX]}-{digest}"
    return f"{prefix}-{label}"


def _kafka_number(kafka: Mapping[str, str], name: str, default: int) -> int:
    value = kafka.get(name)
    if value is None:
        return default
    if not value.isdecimal() or int(value) == 0:
        raise OptionError(f"option kafka.{name}: expected a positive whole number, got {value!r}")
    return int(value)


def _duration_ms(name: str, text: str) -> float:
    """As Spark writes times: a number and us, ms, s, m, min, h or d; a bare number is ms."""
    match = re.fullmatch(r"(\d+)\s*([a-z]*)", text.lower())
    if match is None or match[2] not in _UNIT_MS:
        raise OptionError(f"option {name}: expected a time such as 500ms, 30s, 15m or 1h, got {text!r}")
    return int(match[1]) * _UNIT_MS[match[2]]
