"""`ottla dump` over the small files of a data directory, and over what groups wrote."""

import json
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka import Consumer, Producer, TopicPartition

from ottla import Broker
from ottla.cli.storage.group_records import decode_group_record
from ottla.log.transaction_index import ENTRY
from ottla.records.builder import NewRecord, build_batch
from ottla.records.record import Record
from ottla.txn.records import TransactionEntry, TransactionLogValue, TransactionPartitions, store


@pytest.fixture(scope="module")
def data(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A topic, and a group that committed an offset."""
    data = tmp_path_factory.mktemp("data")
    with Broker(data=data) as broker:
        broker.create_topic("letters")
        producer = Producer({"bootstrap.servers": broker.bootstrap_servers, "log_level": 0})
        producer.produce("letters", "first")
        assert producer.flush(20) == 0
        consumer = Consumer(
            {"bootstrap.servers": broker.bootstrap_servers, "group.id": "readers", "log_level": 0}
        )
        consumer.commit(offsets=[TopicPartition("letters", 0, 1)], asynchronous=False)
        consumer.close()
    return data


def offsets_log(data: Path) -> Path:
    (found,) = (path for path in data.glob("__consumer_offsets-*/*.log") if path.stat().st_size)
    return found


def test_checkpoints_are_shown_entry_by_entry(run: Any, data: Path) -> None:
    outcome = run("dump", str(data / "recovery-point-offset-checkpoint"))
    assert outcome.code == 0, outcome.err
    assert "topic letters · partition 0 · offset 1" in outcome.out.splitlines()
    shown = run("dump", "--json", str(data / "recovery-point-offset-checkpoint")).out.splitlines()
    assert {"topic": "letters", "partition": 0, "offset": 1} in map(json.loads, shown)


def test_the_small_files_are_shown(run: Any, data: Path) -> None:
    names = ("letters-0/leader-epoch-checkpoint", "letters-0/partition.metadata", "meta.properties")
    outcome = run("dump", *(str(data / name) for name in names))
    assert outcome.code == 0, outcome.err
    assert "epoch 0 · start_offset 0" in outcome.out
    assert "version 0 · topic_id " in outcome.out
    assert "broker.id 1 · cluster.id " in outcome.out


def test_records_of_groups_say_what_they_mean(run: Any, data: Path) -> None:
    path = str(offsets_log(data))
    shown = run("dump", "--records", path).out
    assert "OffsetCommit · group 'readers' · topic 'letters' · partition 0 · offset=1 " in shown
    records = [json.loads(line) for line in run("dump", "--records", "--json", path).out.splitlines()]
    commits = [one["decoded"] for one in records if one["decoded"]["type"] == "OffsetCommit"]
    assert [one["value"]["offset"] for one in commits] == [1]


def test_records_of_groups_that_are_unknown_deleted_or_corrupt() -> None:
    key = b"\0\x02\0\x01g"
    assert decode_group_record(Record(0, 0, key, None)) == (
        {"type": "GroupMetadata", "group": "g", "value": None}, "",
    )  # fmt: skip
    assert decode_group_record(Record(0, 0, b"\0\x63", None)) == ({"type": "unknown (99)"}, "")
    assert decode_group_record(Record(0, 0, None, b"")) == ({}, "a record without a key")
    fields, problem = decode_group_record(Record(0, 0, key, b"\0\x03\0"))
    assert fields == {}
    assert "corrupt" in problem


def test_a_corrupt_record_of_a_group_is_reported_with_its_place(run: Any, tmp_path: Path) -> None:
    folder = tmp_path / "__consumer_offsets-0"
    folder.mkdir()
    path = folder / "00000000000000000000.log"
    records = [NewRecord(b"\0\x02\0\x01g", value, (), 1) for value in (None, b"\0\x03\0")]
    path.write_bytes(build_batch(records))
    outcome = run("dump", "--records", str(path))
    assert outcome.code == 1
    assert "GroupMetadata · group 'g' · deleted" in outcome.out
    assert outcome.err.startswith(
        f"ottla: {path}: at byte 0: offset 1: a record of type GroupMetadata is corrupt"
    )


def test_records_of_transactional_ids_say_what_they_mean(run: Any, tmp_path: Path) -> None:
    value = TransactionLogValue(
        producer_id=4, producer_epoch=2, transaction_timeout_ms=60_000, transaction_status=1,
        transaction_partitions=[TransactionPartitions(topic="orders", partition_ids=[0, 3])],
        transaction_last_update_timestamp_ms=9, transaction_start_timestamp_ms=8,
    )  # fmt: skip
    stored = [store(TransactionEntry("app-1", value), 1), store(TransactionEntry("app-2", None), 1)]
    (folder := tmp_path / "__transaction_state-7").mkdir()
    path = folder / "00000000000000000000.log"
    path.write_bytes(build_batch([NewRecord(record.key, record.value, (), 1) for record in stored]))
    shown = run("dump", "--records", str(path)).out
    assert "TransactionEntry · transactional_id 'app-1' · producer_id=4 " in shown
    assert "transaction_status='Ongoing' " in shown
    assert "'topic': 'orders', 'partition_ids': [0, 3]" in shown
    assert "TransactionEntry · transactional_id 'app-2' · deleted" in shown
    lines = run("dump", "--records", "--json", str(path)).out.splitlines()
    assert json.loads(lines[0])["decoded"]["value"]["transaction_status"] == "Ongoing"
    path.write_bytes(build_batch([NewRecord(stored[0].key, b"\0\x09", (), 1)]))
    outcome = run("dump", "--records", str(path))
    assert outcome.code == 1
    assert "offset 0: the record of a transaction has version 9" in outcome.err


def test_aborted_transactions_are_shown(run: Any, tmp_path: Path) -> None:
    path = tmp_path / "00000000000000000000.txnindex"
    path.write_bytes(ENTRY.pack(0, 7, 10, 19, 10) + b"half")
    outcome = run("dump", str(path))
    assert outcome.out == "producer_id 7 · first_offset 10 · last_offset 19 · last_stable_offset 10\n"
    assert outcome.code == 1
    assert outcome.err == f"ottla: {path}: at byte 34 of 38: half an entry\n"
    path.write_bytes(ENTRY.pack(9, 7, 10, 19, 10))
    assert run("dump", str(path)).err == f"ottla: {path}: at byte 0: unknown version 9\n"


def test_files_that_are_set_aside_are_read_like_others(run: Any, data: Path, tmp_path: Path) -> None:
    path = tmp_path / "00000000000000000000.log.deleted"
    path.write_bytes((data / "letters-0" / "00000000000000000000.log").read_bytes())
    assert run("dump", "--records", str(path)).out.endswith(
        f"1 batch, 1 record, {path.stat().st_size} bytes\n"
    )


@pytest.mark.parametrize(
    ("name", "content", "problem"),
    [
        (
            "leader-epoch-checkpoint",
            "0\n2\n0 0\nnonsense\n",
            "at byte 8: line 4 is not an epoch and an offset",
        ),
        ("recovery-point-offset-checkpoint", "0\n9\nt 0 1\n", "at byte 0: 9 entries announced, 1 found"),
        ("log-start-offset-checkpoint", "what\n", "at byte 0: the file ends before its entries"),
        ("partition.metadata", "version: 8\n", "at byte 0 of 11: this is not version 0 and a topic id"),
        ("topic.config", '{"version": 0', "at byte 0 of 13: this is not version 0 and configs"),
        ("meta.properties", "nothing\n", "at byte 0: there is no name=value in it"),
        ("1.index", "\0\0\0\5\0\0\0\5\0\0\0\4\0\0\0\6", "at byte 8: entries are out of order"),
        ("1.timeindex", "xxx", "at byte 0: 3 bytes are not a whole number of entries"),
        ("1.snapshot", "xxx", "at byte 0 of 3: too short"),
    ],
)
def test_damage_is_reported_with_its_place(
    run: Any, tmp_path: Path, name: str, content: str, problem: str
) -> None:
    path = tmp_path / name
    path.write_text(content)
    outcome = run("dump", str(path))
    assert outcome.code == 1
    assert outcome.err.startswith(f"ottla: {path}: {problem}")


def test_an_empty_checkpoint_says_nothing(run: Any, tmp_path: Path) -> None:
    """Apache Kafka makes them like this."""
    path = tmp_path / "cleaner-offset-checkpoint"
    path.write_text("")
    assert (run("dump", str(path)).code, run("dump", str(path)).out) == (0, "")


def test_other_files_are_a_mistake(run: Any, tmp_path: Path) -> None:
    outcome = run("dump", str(tmp_path / "notes.txt"))
    assert outcome.code == 2
    assert "dump reads .log, .index" in outcome.err
