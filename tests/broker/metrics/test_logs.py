"""What is shown of logs, their directories and their retention is what is on the disk."""

import errno

from tests.api.asking import BY_NAME, batch, create, produce, to
from tests.api.harness import Machine
from tests.support.metrics import metrics_of

from ottla.base.ids import TopicPartition
from ottla.wire.messages.delete_records import (
    DeleteRecordsPartition,
    DeleteRecordsRequest,
    DeleteRecordsTopic,
)

SIZE = len(batch("0"))


def of(machine: Machine, name: str, partition: int = 0) -> float:
    return metrics_of(machine.broker)[f'kafka_log_log_{name}{{topic="t",partition="{partition}"}}']


def test_the_size_segments_start_and_end_of_each_log() -> None:
    machine = Machine()
    client = machine.client()
    create(client, "t", 2, segment_bytes=str(2 * SIZE))
    for number in range(5):
        produce(client, "t", batch(str(number)))
    assert [of(machine, name) for name in ("size", "numlogsegments", "logstartoffset", "logendoffset")] == [
        5 * SIZE, 3, 0, 5
    ]  # fmt: skip
    assert [of(machine, name, 1) for name in ("size", "numlogsegments", "logendoffset")] == [0, 1, 0]
    cut = DeleteRecordsPartition(partition_index=0, offset=3)
    topic = DeleteRecordsTopic(name="t", partitions=[cut])
    client.send(DeleteRecordsRequest(topics=[topic], timeout_ms=1_000))
    assert of(machine, "logstartoffset") == 3


def test_what_retention_deletes_is_counted_in_segments_and_bytes() -> None:
    machine = Machine()
    client = machine.client()
    create(client, "t", 1, segment_bytes=str(2 * SIZE), retention_bytes=str(SIZE))
    for number in range(6):
        produce(client, "t", batch(str(number)))
    machine.pass_time(300_000)
    samples = metrics_of(machine.broker)
    assert samples["ottla_log_retention_deleted_segments_total"] == 2
    assert samples["ottla_log_retention_deleted_bytes_total"] == 4 * SIZE
    assert of(machine, "size") == 2 * SIZE


def test_a_log_whose_last_segment_is_deleted_counts_it_too() -> None:
    machine = Machine()
    client = machine.client()
    create(client, "t", 1, segment_bytes=str(2 * SIZE), retention_ms="1000")
    for number in range(3):
        produce(client, "t", batch(str(number)))
    machine.pass_time(300_000)
    samples = metrics_of(machine.broker)
    assert samples["ottla_log_retention_deleted_segments_total"] == 2
    assert samples["ottla_log_retention_deleted_bytes_total"] == 3 * SIZE
    assert of(machine, "size") == 0


def test_every_sync_of_a_log_is_counted() -> None:
    machine = Machine()
    client = machine.client()
    create(client, "t", 1, flush_messages="1")
    before = metrics_of(machine.broker)["kafka_log_logflushstats_logflushrateandtimems_count"]
    for number in range(3):
        produce(client, "t", batch(str(number)))
    samples = metrics_of(machine.broker)
    assert samples["kafka_log_logflushstats_logflushrateandtimems_count"] == before + 3
    assert samples["ottla_log_flush_seconds_count"] == before + 3


def test_a_failed_directory_is_named_and_its_partitions_are_counted() -> None:
    machine = Machine({"log.dirs": "/data,/more"})
    client = machine.client()
    create(client, "t", 4)
    samples = metrics_of(machine.broker)
    assert samples["kafka_log_logmanager_offlinelogdirectorycount"] == 0
    assert samples['kafka_log_logmanager_logdirectoryoffline{logDirectory="/more"}'] == 0
    lost = [index for index in range(4) if directory(machine, index) == "/more"]
    machine.disk.break_down("/more", errno.EIO)
    client.send(to("t", *[batch("a")] * 4), BY_NAME)
    samples = metrics_of(machine.broker)
    assert samples["kafka_log_logmanager_offlinelogdirectorycount"] == 1
    assert samples['kafka_log_logmanager_logdirectoryoffline{logDirectory="/more"}'] == 1
    assert samples['kafka_log_logmanager_logdirectoryoffline{logDirectory="/data"}'] == 0
    assert samples["ottla_log_lost_partitions"] == len(lost) == 2
    assert f'kafka_log_log_size{{topic="t",partition="{lost[0]}"}}' not in samples


def directory(machine: Machine, index: int) -> str:
    return machine.broker.store.directory_of(TopicPartition("t", index))
