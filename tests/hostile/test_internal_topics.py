"""Clients and disks that put into `__consumer_offsets` what no coordinator can read."""

import re
import subprocess
import sys
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
        assert commit_everywhere(broker, 1) == set(GROUPS)
        for record in UNREADABLE.values():
            assert {produced(broker, record, index, client_id) for index in range(SHARDS)} == {code}
    assert broker.stop() == 0
    broker.start()
    assert commit_everywhere(broker, 2) == set(GROUPS)


def test_what_is_forged_on_a_disk_costs_one_partition_of_groups_until_it_is_skipped(
    start_broker: StartBroker,
) -> None:
    broker = start_broker({"offsets.topic.num.partitions": str(SHARDS)})
    broker.create_topic("healthy")
    assert commit_everywhere(broker, 1) == set(GROUPS)
    assert broker.stop() == 0
    bad = TopicPartition(OFFSETS_TOPIC, shard_of(GROUPS[0]))
    first = forge(broker.data / str(bad), *UNREADABLE.values())
    verified = ottla("verify", str(broker.data))
    assert verified.returncode == 1
    assert f"`ottla skip {bad} {first}` leaves it out" in verified.stdout

    broker.start()
    hit = {group for group in GROUPS if shard_of(group) == bad.partition}
    with Healthy(broker):
        assert commit_everywhere(broker, 2) == set(GROUPS) - hit
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
