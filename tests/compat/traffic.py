"""Records that have everything a record can have, and what a client sees of a topic."""

from collections.abc import Callable
from typing import Any, NamedTuple

from confluent_kafka import OFFSET_BEGINNING, Consumer, KafkaError, KafkaException, Producer, TopicPartition
from tests.kafka_clients.harness import wait_for

CODECS = ("none", "gzip", "snappy", "lz4", "zstd")
QUIET = {"log_level": 0}
FLUSH_S = 30.0
READ_S = 30.0
TIME_MS = 1_700_000_000_000


class Sent(NamedTuple):
    """A record, as given to a producer and as read by a consumer."""

    timestamp: int
    key: bytes | None
    value: bytes | None
    headers: list[tuple[str, bytes | None]]


class Seen(NamedTuple):
    offset: int
    sent: Sent


def record(number: int, value_bytes: int = 40) -> Sent:
    """Printable, so that a dump shows it; keys, values and headers that are missing, empty or repeated."""
    key = None if number % 7 == 3 else f"k{number}".encode()
    filler = bytes(97 + (number * number + at * at * 7 + at // 3) % 26 for at in range(value_bytes))
    value = None if key is not None and number % 11 == 5 else b"v%d-%b" % (number, filler)
    headers: list[tuple[str, bytes | None]] = [("n", str(number).encode())]
    if number % 5 == 0:
        headers += [("empty", b""), ("null", None), ("n", b"again")]
    if number % 13 == 0:
        headers = []
    return Sent(TIME_MS + number * 10 - number % 3 * 15, key, value, headers)


def send(bootstrap: str, topic: str, numbers: range, *, value_bytes: int = 40, **settings: Any) -> list[Sent]:
    """Produce in batches of at most 20, idempotently unless told otherwise; all of it is acknowledged."""
    own = {name.replace("_", "."): value for name, value in settings.items()}
    producer = Producer(
        {
            "bootstrap.servers": bootstrap,
            "enable.idempotence": True,
            "linger.ms": 20,
            "batch.num.messages": 20,
            **QUIET,
            **own,
        }
    )
    problems = []
    sent = [record(number, value_bytes) for number in numbers]
    for timestamp, key, value, headers in sent:
        producer.produce(
            topic,
            value,
            key,
            0,
            timestamp=timestamp,
            headers=headers,
            on_delivery=lambda error, _: problems.append(error) if error else None,
        )
    assert producer.flush(FLUSH_S) == 0
    assert problems == []
    return sent


def read(bootstrap: str, topic: str, **settings: Any) -> list[Seen]:
    """All records of the topic's partition 0, also aborted ones, with checksums checked."""
    consumer = Consumer(
        {
            "bootstrap.servers": bootstrap,
            "group.id": "reader",
            "enable.partition.eof": True,
            "enable.auto.commit": False,
            "check.crcs": True,
            "isolation.level": "read_uncommitted",
            "fetch.wait.max.ms": 10,
            **QUIET,
            **{name.replace("_", "."): value for name, value in settings.items()},
        }
    )
    consumer.list_topics(topic, timeout=READ_S)  # librdkafka waits for half a second where it knows no leader
    consumer.assign([TopicPartition(topic, 0, OFFSET_BEGINNING)])
    seen: list[Seen] = []
    try:
        while True:
            message = consumer.poll(READ_S)
            assert message is not None, f"{topic}: nothing came after {len(seen)} records"
            error = message.error()
            if error is not None:
                assert error.code() == KafkaError._PARTITION_EOF, error
                return seen
            sent = Sent(message.timestamp()[1], message.key(), message.value(), message.headers() or [])
            seen.append(Seen(message.offset(), sent))
    finally:
        consumer.close()


def send_transactions(bootstrap: str, topic: str, transactional_id: str) -> None:
    """One that is committed, one that is aborted, one that is committed."""
    producer = Producer({"bootstrap.servers": bootstrap, "transactional.id": transactional_id, **QUIET})
    producer.init_transactions(FLUSH_S)
    for number, end in enumerate((producer.commit_transaction, producer.abort_transaction) * 2):
        producer.begin_transaction()
        for each in range(5):
            producer.produce(topic, f"{end.__name__}-{number}-{each}", partition=0)
        producer.flush(FLUSH_S)
        end(FLUSH_S)
        if number == 2:
            break


def send_interleaved(bootstrap: str, topic: str) -> list[Producer]:
    """One that is aborted after several segments of others, which are committed or aborted; and one that
    stays open, with a plain record behind it. The producers: gone, they could end nothing any more."""

    def transactional(name: str) -> Producer:
        settings = {"transactional.id": f"{topic}-{name}", "transaction.timeout.ms": 600_000, "linger.ms": 0}
        producer = Producer({"bootstrap.servers": bootstrap, **settings, **QUIET})
        producer.init_transactions(FLUSH_S)
        return producer

    def write(producer: Producer, value: str, count: int, value_bytes: int = 10) -> None:
        for number in range(count):
            producer.produce(topic, f"{value}-{number}-".ljust(value_bytes, "x"), partition=0)
        producer.flush(FLUSH_S)

    long, short, hanging = map(transactional, ("long", "short", "open"))
    long.begin_transaction()
    write(long, "long", 5)
    for number, end in enumerate((short.commit_transaction, short.abort_transaction) * 3):
        short.begin_transaction()
        write(short, f"{end.__name__}-{number}", 60, 10_000)
        end(FLUSH_S)
    write(long, "long", 5)
    long.abort_transaction(FLUSH_S)
    short.begin_transaction()
    write(short, "last", 3)
    short.commit_transaction(FLUSH_S)
    hanging.begin_transaction()
    write(hanging, "open", 5)
    write(Producer({"bootstrap.servers": bootstrap, **QUIET}), "behind", 3)
    return [long, short, hanging]


def join_and_commit(bootstrap: str, group: str, protocol: str, topic: str, offset: int) -> None:
    """Be a member of a group for as long as it takes to commit an offset."""
    settings = {"group.id": group, "group.protocol": protocol, "enable.auto.commit": False}
    consumer = Consumer({"bootstrap.servers": bootstrap, **QUIET, **settings})
    try:
        consumer.subscribe([topic])
        wait_for(lambda: consumer.poll(0.1) is not None or consumer.assignment(), READ_S, f"{group} to join")
        place = [TopicPartition(topic, 0, offset, "place")]
        wait_for(_tried(lambda: consumer.commit(offsets=place, asynchronous=False)), READ_S, "a commit")
    finally:
        consumer.close()


def committed(bootstrap: str, group: str, topic: str) -> int:
    consumer = Consumer({"bootstrap.servers": bootstrap, "group.id": group, **QUIET})
    try:
        found = wait_for(
            _tried(lambda: consumer.committed([TopicPartition(topic, 0)], timeout=5)), READ_S, "its offsets"
        )
        offset: int = found[0].offset
        return offset
    finally:
        consumer.close()


def _tried(act: Callable[[], Any]) -> Callable[[], Any]:
    """A broker that has just started may not be the coordinator of a group yet."""

    def attempt() -> Any:
        try:
            return act()
        except KafkaException:
            return None

    return attempt
