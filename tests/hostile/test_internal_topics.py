"""Clients and disks that put into `__consumer_offsets` what no coordinator can read."""

import re
import subprocess
import sys
import time
from collections.abc import Callable

import pytest
from tests.group.forgeries import UNREADABLE
from tests.hostile.healthy import Healthy
from tests.kafka_clients.harness import BrokerProcess, wait_for
from tests.kafka_clients.wire_client import Wire, frame_of, produce_request
from tests.support.forging import forge

from ottla.base.errors import ErrorCode
from ottla.base.ids import OFFSETS_TOPIC, TopicPartition
from ottla.broker.internal_partitions import java_hash
from ottla.client import Client
from ottla.client.errors import ClientError
from ottla.coordinator.turn import StoredRecord
from ottla.group.records import OffsetCommit, OffsetCommitValue, store
from ottla.records.builder import NewRecord, build_batch
from ottla.wire.messages.produce import ProduceRequest

StartBroker = Callable[..., BrokerProcess]

SHARDS = 5
GROUPS = [f"group-{number}" for number in range(8)]
PLACE = TopicPartition("healthy", 0)


def shard_of(group: str) -> int:
    return abs(java_hash(group)) % SHARDS


def produced(broker: BrokerProcess, record: StoredRecord, index: int, client_id: str) -> int:
    request = produce_request(OFFSETS_TOPIC, bytes(build_batch([NewRecord(record.key, record.value)])), index)
    with Wire(broker.port) as wire:
        wire.send_bytes(frame_of(request, 9, client_id=client_id))
        _, answer = wire.receive(ProduceRequest, 9)
    return int(answer.responses[0].partition_responses[0].error_code)


def commit_in_all(broker: BrokerProcess, offset: int) -> None:
    """Every group can commit, at the latest after a while."""
    for group in GROUPS:
        with Client(broker.bootstrap, timeout_s=60) as client:
            client.commit_offsets(group, {PLACE: offset})


def commit_everywhere(broker: BrokerProcess, offset: int) -> set[str]:
    """The groups that could commit."""
    done = set()
    for group in GROUPS:
        with Client(broker.bootstrap, timeout_s=1) as client:
            try:
                client.commit_offsets(group, {PLACE: offset})
            except ClientError:
                continue
        done.add(group)
    return done


def ottla(*args: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-m", "ottla.cli", *args], capture_output=True, text=True, timeout=120
    )


@pytest.mark.parametrize(
    ("client_id", "code"),
    [("anybody", ErrorCode.INVALID_TOPIC_EXCEPTION), ("__admin_client", ErrorCode.INVALID_RECORD)],
)
def test_no_client_writes_what_a_coordinator_cannot_read_and_a_restart_is_clean(
    start_broker: StartBroker, client_id: str, code: ErrorCode
) -> None:
    broker = start_broker({"offsets.topic.num.partitions": str(SHARDS)})
    broker.create_topic("healthy")
    with Healthy(broker):
        commit_in_all(broker, 1)
        for record in UNREADABLE.values():
            assert {produced(broker, record, index, client_id) for index in range(SHARDS)} == {code}
    assert broker.stop() == 0
    broker.start()
    commit_in_all(broker, 2)


def test_what_is_forged_on_a_disk_costs_one_partition_of_groups_until_it_is_skipped(
    start_broker: StartBroker,
) -> None:
    broker = start_broker({"offsets.topic.num.partitions": str(SHARDS)})
    broker.create_topic("healthy")
    commit_in_all(broker, 1)
    assert broker.stop() == 0
    bad = TopicPartition(OFFSETS_TOPIC, shard_of(GROUPS[0]))
    first = forge(broker.data / str(bad), *UNREADABLE.values())
    verified = ottla("verify", str(broker.data))
    assert verified.returncode == 1
    assert f"`ottla skip {bad} {first}` leaves it out" in verified.stdout

    broker.start()
    hit = {group for group in GROUPS if shard_of(group) == bad.partition}
    with Healthy(broker):
        wait_for(lambda: commit_everywhere(broker, 2) == set(GROUPS) - hit, 60, "the groups that are well")
        lines = [line for line in broker.log.splitlines() if "are not served" in line]
        assert len(lines) == 1
        assert f"{broker.data}/{bad}/{0:020}.log, offset " in lines[0]

        offsets = re.findall(rf"ottla skip {bad} (\d+)", verified.stdout)
        skipped = ottla("skip", str(bad), *offsets, "--yes", "--bootstrap", broker.bootstrap)
        assert skipped.returncode == 0, skipped.stderr
        assert all(map(str.isprintable, skipped.stderr.splitlines())), (
            "what is forged does not reach a terminal"
        )
        wait_for(lambda: commit_everywhere(broker, 3) == set(GROUPS), 30, "the groups to be served again")
    assert broker.stop() == 0
    assert ottla("verify", str(broker.data)).returncode == 0
    broker.start()
    with Client(broker.bootstrap) as client:
        assert client.committed(GROUPS[0]) == {PLACE: 3}
    again = ottla("skip", str(bad), "0", "--yes", "--bootstrap", broker.bootstrap)
    assert (again.returncode, "there is nothing to leave out" in again.stderr) == (1, True)


def test_transactions_on_a_disk_are_shown_checked_and_skipped_only_where_they_make_no_sense(
    start_broker: StartBroker,
) -> None:
    broker = start_broker({"offsets.topic.num.partitions": "1"})
    broker.create_topic("healthy")
    commit_in_all(broker, 1)
    assert broker.stop() == 0
    bad = TopicPartition(OFFSETS_TOPIC, 0)
    folder, transaction = (
        broker.data / str(bad),
        {"producer_id": 7, "producer_epoch": 0, "transactional": True},
    )
    value = OffsetCommitValue(offset=9, metadata="", commit_timestamp=int(time.time() * 1000))
    commit = store(OffsetCommit(GROUPS[0], *PLACE, value))
    forge(folder, commit, base_sequence=0, **transaction)
    aborted = forge(folder, UNREADABLE["a value that is cut off"], base_sequence=0, producer_id=8,
                    producer_epoch=0, transactional=True)  # fmt: skip
    forge(folder, StoredRecord(b"\0\0\0\0", bytes(6)), control=True, producer_id=8, producer_epoch=0,
          transactional=True)  # fmt: skip
    marker = forge(folder, StoredRecord(b"\0\0\0\1", bytes(6)), control=True, **transaction)
    forged = forge(folder, StoredRecord(b"\0\0\0\1", b"cut"), control=True, **transaction)

    verified = ottla("verify", str(broker.data))
    assert set(re.findall(rf"ottla skip {bad} (\d+)", verified.stdout)) == {str(forged)}
    dumped = ottla("dump", str(folder / f"{0:020}.log"), "--records")
    assert f"offset {marker} " in dumped.stdout
    assert re.findall(r"control (\w+)", dumped.stdout) == ["ABORT", "COMMIT", "COMMIT"]

    broker.start()
    assert commit_everywhere(broker, 2) == set()
    for sound in (marker, aborted + 1):
        refused = ottla("skip", str(bad), str(sound), "--yes", "--bootstrap", broker.bootstrap)
        assert (refused.returncode, "there is nothing to leave out" in refused.stderr) == (1, True)
    skipped = ottla("skip", str(bad), str(forged), "--yes", "--bootstrap", broker.bootstrap)
    assert skipped.returncode == 0, skipped.stderr
    with Client(broker.bootstrap, timeout_s=30) as client:
        assert client.committed(GROUPS[0]) == {PLACE: 9}
        assert client.committed(GROUPS[1]) == {PLACE: 1}
    shown = ottla("groups", "describe", GROUPS[0], "--bootstrap", broker.bootstrap)
    assert shown.returncode == 0, shown.stderr
