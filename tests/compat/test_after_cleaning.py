"""Apache Kafka's dump tool over segments that Ottla has compacted."""

from pathlib import Path

import pytest
from confluent_kafka import Producer
from tests.compat.apache import Dumped, dump
from tests.compat.traffic import CODECS, FLUSH_S, QUIET, TIME_MS
from tests.kafka_clients.harness import BrokerProcess, wait_for

from ottla.cli.storage.read_only_files import ReadOnlyFiles
from ottla.log.checkpoint_format import CLEANER_OFFSETS, read_offsets
from ottla.log.verify.directory import verify
from ottla.log.verify.findings import Severity, Work

COUNT = 1200
KEYS = 25
CLEAN_S = 100.0
TOPICS = {f"compacted-{codec}": codec for codec in CODECS}


def value_of(number: int) -> str | None:
    """Some are tombstones, which stay for a day."""
    return None if number % 10 == 7 else f"v{number}"


@pytest.fixture(scope="module")
def cleaned(kafka_jars: str, tmp_path_factory: pytest.TempPathFactory) -> "Cleaned":
    """Left by a broker that has compacted more than half of every topic."""
    settings = {"log.cleaner.backoff.ms": "100", "log.cleaner.min.cleanable.ratio": "0.01"}
    broker = BrokerProcess(tmp_path_factory.mktemp("cleaned"), settings)
    config = {"cleanup.policy": "compact", "segment.bytes": "5000", "index.interval.bytes": "500"}
    broker.start()
    try:
        for topic, codec in TOPICS.items():
            broker.create_topic(topic, 1, config)
            produce(broker.bootstrap, topic, codec)
        wait_for(lambda: min(progress(broker.data).values()) > COUNT // 2 + KEYS, CLEAN_S, "compaction")
        assert broker.stop() == 0
        assert broker.bugs() == []
    finally:
        broker.kill()
    return Cleaned(broker.data)


class Cleaned(dict[str, int]):
    """Up to where each topic in a data directory was cleaned."""

    def __init__(self, data: Path) -> None:
        super().__init__(progress(data))
        self.data = data


def produce(bootstrap: str, topic: str, codec: str) -> None:
    producer = Producer(
        {
            "bootstrap.servers": bootstrap,
            "compression.type": codec,
            "enable.idempotence": True,
            "batch.num.messages": 10,
            "linger.ms": 20,
            **QUIET,
        }
    )
    for number in range(COUNT):
        producer.produce(topic, value_of(number), f"k{number % KEYS}", 0, timestamp=TIME_MS + number)
    assert producer.flush(FLUSH_S) == 0


def progress(data: Path) -> dict[str, int]:
    offsets = read_offsets(ReadOnlyFiles(), str(data / CLEANER_OFFSETS))
    return dict.fromkeys(TOPICS, 0) | {id.topic: offset for id, offset in offsets.items()}


@pytest.fixture(scope="module")
def dumped(cleaned: Cleaned) -> dict[str, list[Dumped]]:
    files = [path for topic in TOPICS for path in sorted((cleaned.data / f"{topic}-0").glob("*.log"))]
    found: dict[str, list[Dumped]] = {topic: [] for topic in TOPICS}
    for one in dump(files, "--deep-iteration", "--print-data-log"):
        found[Path(one.path).parent.name.removesuffix("-0")].append(one)
    return found


@pytest.mark.parametrize("topic", TOPICS)
def test_every_batch_is_valid_after_cleaning(dumped: dict[str, list[Dumped]], topic: str) -> None:
    batches = [batch for one in dumped[topic] for batch in one.batches]
    assert {batch["isvalid"] for batch in batches} == {"true"}
    assert sum(int(batch["count"]) for batch in batches) < COUNT // 2
    offsets = [(int(batch["baseOffset"]), int(batch["lastOffset"])) for batch in batches]
    assert offsets == sorted(offsets)
    assert int(batches[-1]["lastOffset"]) == COUNT - 1


@pytest.mark.parametrize("topic", TOPICS)
def test_the_latest_value_of_every_key_is_left_with_its_offset_and_time(
    dumped: dict[str, list[Dumped]], cleaned: Cleaned, topic: str
) -> None:
    upper = cleaned[topic]
    kept = [n for n in range(COUNT) if n >= upper or n + KEYS >= upper]
    records = [record for one in dumped[topic] for record in one.records]
    assert [record.offset for record in records] == kept
    assert [(record.timestamp, record.key, record.payload) for record in records] == [
        (TIME_MS + n, f"k{n % KEYS}", value_of(n)) for n in kept
    ]


def test_indexes_and_snapshots_are_sound_after_cleaning(cleaned: Cleaned) -> None:
    found_files = (path for topic in TOPICS for path in sorted((cleaned.data / f"{topic}-0").glob("*index")))
    files = [path for path in found_files if path.stat().st_size]
    assert len(files) > 2 * len(TOPICS)
    checked = list(dump(files, "--index-sanity-check"))
    assert [one.lines for one in checked] == [[f"{path} passed sanity check."] for path in files]
    assert not any("ismatch" in line for one in dump(files) for line in one.lines)
    found = list(verify(Work(files=ReadOnlyFiles()), [str(cleaned.data)]))
    assert [one for one in found if one.severity is not Severity.NOTE] == []
    assert sum("offsets are missing" in one.problem for one in found) == len(TOPICS)
