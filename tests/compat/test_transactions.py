"""Logs with transactions: Apache Kafka's, served by Ottla; and Ottla's, read by Apache Kafka."""

import re
from collections.abc import Iterator
from pathlib import Path

import pytest
from confluent_kafka import Consumer, TopicPartition
from tests.compat import traffic
from tests.compat.apache import complaints, dump
from tests.compat.conftest import COMMITTED, INTERLEAVED, OTTLAS_TRANSACTIONS, TRANSACTIONS, Written
from tests.compat.ottla import over_copy
from tests.compat.ottla_transactions import COORDINATOR_EPOCH, OPEN, WrittenLog
from tests.kafka_clients.harness import BrokerProcess

_ABORTED = re.compile(
    r"version: 0 producerId: (\d+) firstOffset: (\d+) lastOffset: (\d+) lastStableOffset: (\d+)"
)


@pytest.fixture(scope="module", params=["clean", "killed"])
def written(request: pytest.FixtureRequest, by_kafka: tuple[Written, Written]) -> Written:
    return by_kafka[("clean", "killed").index(request.param)]


@pytest.fixture(scope="module")
def opened(written: Written, tmp_path_factory: pytest.TempPathFactory) -> Iterator[BrokerProcess]:
    with over_copy(written.data, tmp_path_factory.mktemp("transactions")) as broker:
        yield broker


def values(seen: list[traffic.Seen]) -> list[tuple[int, str]]:
    return [(record.offset, (record.sent.value or b"").decode()) for record in seen]


@pytest.mark.parametrize("topic", [TRANSACTIONS, INTERLEAVED])
def test_committed_and_other_records_of_kafkas_are_told_apart_as_kafka_does_it(
    opened: BrokerProcess, written: Written, topic: str
) -> None:
    everything, committed = written.seen[topic], written.seen[topic + COMMITTED]
    assert 0 < len(committed) < len(everything)
    assert traffic.read(opened.bootstrap, topic) == everything
    assert traffic.read(opened.bootstrap, topic, isolation_level="read_committed") == committed
    if topic == INTERLEAVED:
        assert len(opened.segments(topic)) > 2
        assert {value.split("-")[0] for _, value in values(committed)} == {"commit_transaction", "last"}


def test_kafkas_open_transaction_holds_back_what_comes_behind_it(
    opened: BrokerProcess, written: Written
) -> None:
    first = next(offset for offset, value in values(written.seen[INTERLEAVED]) if value.startswith("open"))
    settings = {"bootstrap.servers": opened.bootstrap, "group.id": "ends", **traffic.QUIET}
    ends = {}
    for level in ("read_committed", "read_uncommitted"):
        consumer = Consumer({**settings, "isolation.level": level})
        ends[level] = consumer.get_watermark_offsets(TopicPartition(INTERLEAVED, 0), timeout=30)[1]
        consumer.close()
    assert ends == {"read_committed": first, "read_uncommitted": first + 8}


def test_after_a_restart_it_is_still_so(opened: BrokerProcess, written: Written) -> None:
    """Indexes that are damaged meanwhile are built anew, and become what Kafka wrote."""
    assert opened.stop() == 0
    indexes = [path for path in (opened.data / f"{INTERLEAVED}-0").glob("*.txnindex") if path.stat().st_size]
    assert len(indexes) > 1
    for path in indexes:
        path.write_bytes(b"nonsense")
    opened.start()
    seen = traffic.read(opened.bootstrap, INTERLEAVED, isolation_level="read_committed")
    assert seen == written.seen[INTERLEAVED + COMMITTED]
    assert opened.stop() == 0
    for path in indexes:
        original = written.data / f"{INTERLEAVED}-0" / path.name
        assert path.read_bytes() == original.read_bytes()
    opened.start()


def test_kafkas_broker_serves_ottlas_transactions(
    by_kafka: tuple[Written, Written], transactions_by_ottla: WrittenLog
) -> None:
    killed = by_kafka[1]
    assert values(killed.seen[OTTLAS_TRANSACTIONS + COMMITTED]) == transactions_by_ottla.committed
    assert {value.split("-")[0] for _, value in transactions_by_ottla.committed} == {"committed"}
    everything = values(killed.seen[OTTLAS_TRANSACTIONS])
    assert {value.split("-")[0] for _, value in everything} == {"committed", "aborted", "open", "behind"}


def test_kafkas_tool_reads_ottlas_markers_indexes_and_snapshots(
    kafka_jars: str, transactions_by_ottla: WrittenLog
) -> None:
    folder: Path = transactions_by_ottla.folder
    logs = list(dump(sorted(folder.glob("*.log")), "--deep-iteration"))
    assert complaints(logs) == []
    batches = [batch for file in logs for batch in file.batches]
    controls = [batch for batch in batches if batch["isControl"] == "true"]
    lines = [line for file in logs for line in file.lines if "endTxnMarker" in line]
    assert len(controls) == len(lines) == 11
    assert sum("endTxnMarker: ABORT" in line for line in lines) == 3
    assert all(f"coordinatorEpoch: {COORDINATOR_EPOCH}" in line for line in lines)

    indexes = list(dump(sorted(folder.glob("*.txnindex"))))
    entries = [_ABORTED.search(line) for file in indexes for line in file.lines if "producerId" in line]
    shown = [tuple(map(int, entry.groups())) for entry in entries if entry]
    assert shown == [tuple(aborted) for aborted in transactions_by_ottla.aborted]
    assert len(shown) == 3

    snapshot = list(dump([max(folder.glob("*.snapshot"))]))
    begun = {
        entry["producerId"]: entry["currentTxnFirstOffset"]
        for entry in snapshot[0].entries
        if entry["currentTxnFirstOffset"] not in {"None", "Optional.empty", "OptionalLong.empty"}
    }
    assert set(begun) == {str(OPEN)}
