"""Ottla over data directories that Apache Kafka wrote, after a clean shutdown and after kill -9."""

import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.compat import traffic
from tests.compat.apache import complaints, dump
from tests.compat.conftest import ADOPTED, CLASSIC, MODERN, TRANSACTIONS, Written
from tests.compat.ottla import NODE_ID, over_copy
from tests.compat.traffic import CODECS
from tests.kafka_clients.harness import BrokerProcess

from ottla.cli.storage.read_only_files import ReadOnlyFiles
from ottla.log.verify.directory import verify
from ottla.log.verify.findings import Finding, Severity, Work

KRAFT = "__cluster_metadata-0"


def findings(data: Path) -> list[Finding]:
    return [
        one for one in verify(Work(files=ReadOnlyFiles()), [str(data)]) if one.severity is not Severity.NOTE
    ]


@pytest.fixture(scope="module", params=["clean", "killed"])
def written(request: pytest.FixtureRequest, by_kafka: tuple[Written, Written]) -> Written:
    return by_kafka[("clean", "killed").index(request.param)]


@pytest.fixture(scope="module")
def opened(written: Written, tmp_path_factory: pytest.TempPathFactory) -> Iterator[BrokerProcess]:
    """An Ottla broker with the same id over a copy of the directory."""
    with over_copy(written.data, tmp_path_factory.mktemp("opened")) as broker:
        yield broker


def test_verify_finds_nothing_wrong_with_what_kafka_wrote(written: Written) -> None:
    assert findings(written.data) == []


@pytest.mark.parametrize("topic", [*CODECS, TRANSACTIONS, ADOPTED])
def test_every_record_is_served_as_kafka_served_it(
    opened: BrokerProcess, written: Written, topic: str
) -> None:
    if topic not in written.seen:
        pytest.skip("this topic was empty at that time")
    assert len(written.seen[topic]) > 10
    assert len(opened.segments(CODECS[0])) > 2
    assert traffic.read(opened.bootstrap, topic) == written.seen[topic]


def test_committed_offsets_are_adopted(opened: BrokerProcess, written: Written) -> None:
    assert traffic.committed(opened.bootstrap, CLASSIC, CODECS[0]) == written.committed[CLASSIC]


def test_groups_of_the_new_protocol_are_adopted(by_kafka: tuple[Written, Written], tmp_path: Path) -> None:
    written = by_kafka[1]
    broker = BrokerProcess(tmp_path, {"broker.id": NODE_ID})
    shutil.copytree(written.data, broker.data)
    try:
        broker.start()
        assert traffic.committed(broker.bootstrap, MODERN, CODECS[0]) == written.committed[MODERN]
    finally:
        broker.kill()


def test_topics_keep_their_ids_and_the_log_of_kraft_is_no_topic(
    opened: BrokerProcess, written: Written
) -> None:
    topics = opened.admin.list_topics(timeout=30).topics
    assert set(topics) >= {*CODECS, TRANSACTIONS, ADOPTED, "__consumer_offsets"}
    assert KRAFT.removesuffix("-0") not in topics
    for topic in CODECS:
        name = f"{topic}-0/partition.metadata"
        assert (opened.data / name).read_bytes() == (written.data / name).read_bytes()


@pytest.mark.parametrize("codec", CODECS)
def test_writing_goes_on_behind_the_last_record(opened: BrokerProcess, written: Written, codec: str) -> None:
    before = traffic.read(opened.bootstrap, codec)
    more = traffic.send(
        opened.bootstrap, codec, range(9000, 9060), compression_type=codec, enable_idempotence=False
    )
    seen = traffic.read(opened.bootstrap, codec)
    assert seen[: len(before)] == before
    assert [one.sent for one in seen[len(before) :]] == more
    assert [one.offset for one in seen] == list(range(len(before) + len(more)))


def test_a_new_producer_is_not_taken_for_one_of_kafkas(opened: BrokerProcess) -> None:
    """What an idempotent producer is told is written must be there."""
    lost = {}
    for topic in CODECS:
        before = traffic.read(opened.bootstrap, topic)
        more = traffic.send(opened.bootstrap, topic, range(9100, 9160))
        lost[topic] = len(before) + len(more) - len(traffic.read(opened.bootstrap, topic))
    assert lost == dict.fromkeys(CODECS, 0)


def test_both_brokers_records_are_sound_together_and_survive_a_restart(
    opened: BrokerProcess, written: Written
) -> None:
    """Read by Kafka's tool and by our own check, with the folder of KRaft where it was."""
    assert opened.stop() == 0
    assert findings(opened.data) == []
    files = opened.segments("zstd")
    dumped = list(dump(files, "--deep-iteration"))
    assert complaints(dumped) == []
    epochs = [int(batch["partitionLeaderEpoch"]) for one in dumped for batch in one.batches]
    assert epochs == sorted(epochs)
    opened.start()
    seen = traffic.read(opened.bootstrap, "zstd")
    assert seen[: len(written.seen["zstd"])] == written.seen["zstd"]
    kraft = f"{KRAFT}/00000000000000000000.log"
    assert (opened.data / kraft).read_bytes() == (written.data / kraft).read_bytes()
