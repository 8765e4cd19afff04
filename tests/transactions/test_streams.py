"""A Kafka Streams application with exactly_once_v2: killed again and again, its sums are exact."""

import random
import subprocess
from collections import defaultdict
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from bench import apache
from bench.servers import PeerError, clean_environment
from confluent_kafka import Producer
from tests.support.processes import die_with_parent
from tests.support.waiting import wait_for
from tests.transactions import jvm, servers
from tests.transactions.reading import COMMITTED, read
from tests.transactions.servers import Brokers

KEYS = 5
RECORDS = 600
PARTITIONS = 2
PATIENCE_S = 120.0


@pytest.fixture(scope="module")
def application(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Compiled."""
    try:
        apache.fetch_streams()
        return jvm.compile_program("Sums", tmp_path_factory.mktemp("sums"))
    except PeerError as error:
        pytest.skip(f"needs Kafka Streams: {error}")


@contextmanager
def running(classes: Path, bootstrap: str, folder: Path) -> "Iterator[subprocess.Popen[bytes]]":
    settings = {
        "application.id": "sums",
        "bootstrap.servers": bootstrap,
        "processing.guarantee": "exactly_once_v2",
        "state.dir": str(folder / "state"),
        "commit.interval.ms": "50",
        "num.stream.threads": "1",
        "auto.offset.reset": "earliest",
        "session.timeout.ms": "6000",
        "heartbeat.interval.ms": "500",
        "producer.transaction.timeout.ms": "10000",
        "cache.max.bytes.buffering": "0",
        # So that the one who comes back is known, and the group need not wait for the one who died.
        "group.instance.id": "only",
        "replication.factor": "1",
    }
    command = jvm.java(
        classes, "Sums", "numbers", "sums", *(f"{key}={value}" for key, value in settings.items())
    )
    with (folder / "streams.log").open("ab") as log:
        process = subprocess.Popen(
            command, stdout=log, stderr=log, env=clean_environment(), preexec_fn=die_with_parent
        )
    try:
        yield process
    finally:
        process.kill()
        process.wait()


def expected(numbers: list[tuple[str, int]]) -> dict[str, list[str]]:
    """For each key the sums that a reader sees, one for each number."""
    sums: dict[str, int] = defaultdict(int)
    seen: dict[str, list[str]] = defaultdict(list)
    for key, number in numbers:
        sums[key] += number
        seen[key].append(f"{key}={sums[key]}")
    return seen


def send(brokers: Brokers, numbers: list[tuple[str, int]]) -> None:
    producer = Producer({"bootstrap.servers": brokers.bootstrap, "enable.idempotence": True, "log_level": 0})
    for key, number in numbers:
        producer.produce("numbers", str(number), key, partition=int(key[1:]) % PARTITIONS)
    assert producer.flush(30) == 0


def test_the_sums_of_an_application_that_is_killed_are_exact(
    server_jars: None, application: Path, tmp_path: Path
) -> None:
    chance = random.Random(13)
    numbers = [(f"k{chance.randrange(KEYS)}", chance.randrange(1, 100)) for _ in range(RECORDS)]
    with servers.serving() as brokers:
        for topic in ("numbers", "sums"):
            brokers.create_topic(topic, PARTITIONS)
        with running(application, brokers.bootstrap, tmp_path):
            send(brokers, numbers[: RECORDS // 2])
            wait_for(
                lambda: seen(brokers) >= RECORDS // 4,
                PATIENCE_S,
                "some sums, before the application is killed",
            )
        with running(application, brokers.bootstrap, tmp_path):
            send(brokers, numbers[RECORDS // 2 :])
            wait_for(
                lambda: seen(brokers) >= RECORDS * 3 // 4, PATIENCE_S, "more, before the broker is killed"
            )
            brokers.kill(1)
            brokers.start_again(1)
            wait_for(lambda: seen(brokers) >= RECORDS, PATIENCE_S, "the last sum")
        wrong = {key: sums for key, sums in by_key(brokers).items() if sums != expected(numbers)[key]}
        assert wrong == {}, (tmp_path / "streams.log").read_text()[-3000:]


def by_key(brokers: Brokers) -> dict[str, list[str]]:
    """The sums of each key, as written, with the key before each."""
    sums: dict[str, list[str]] = defaultdict(list)
    for values in read(brokers.bootstrap, "sums", COMMITTED, PARTITIONS):
        for value in values:
            sums[value.partition("=")[0]].append(value)
    return sums


def seen(brokers: Brokers) -> int:
    return sum(map(len, by_key(brokers).values()))
