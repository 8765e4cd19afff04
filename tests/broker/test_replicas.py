"""An append to a partition here is whole: what follows from it happens with it, whoever appends."""

import errno
from typing import Any

import pytest
from tests.api.asking import batch, create
from tests.api.harness import Machine

from ottla.base.errors import ApiError, ErrorCode
from ottla.base.ids import TopicPartition
from ottla.broker.effects import SyncLog, TakeOffline
from ottla.broker.parked import Key, Parked
from ottla.log.log import Appended
from ottla.records.control import Marker

T = TopicPartition("t", 0)


class Appender:
    """Appends to partition 0 of a topic, and keeps whom that wakes."""

    def __init__(self, **configs: str) -> None:
        self.machine = Machine({"log.dirs": "/a,/b"})
        create(self.machine.client(), "t", **configs)
        self.broker = self.machine.broker
        self.woken: list[Key] = []
        self.broker.waiting.park(
            Parked(
                keys=(T,), deadline_ms=1 << 60, ready=lambda key, _now_ms: self.woken.append(key),
                expire=lambda _now_ms: None, reply=lambda _answer: None,
            )
        )  # fmt: skip

    def __call__(self, how: str, value: str = "a") -> Appended:
        now_ms, records = self.machine.now_ms, memoryview(bytearray(batch(value)))
        partition = self.broker.partitions[T]
        if how == "internal":
            return self.broker.replicas.append_internal(partition, records, now_ms, now_ms)
        if how == "marker":
            marker = Marker(7, 1, committed=True, coordinator_epoch=0, transaction_version=1)
            return self.broker.replicas.append_marker(partition, marker, now_ms, now_ms)
        return self.broker.replicas.append(
            partition, records, acks=-1, now_ms=now_ms, wall_ms=now_ms, produce_version=13
        )

    def effects(self, kind: type) -> list[Any]:
        return [effect for effect in self.broker.outbox.effects if isinstance(effect, kind)]


by_whom = pytest.mark.parametrize("how", ["produced", "internal", "marker"])


@by_whom
def test_an_append_moves_the_watermark_and_wakes_whoever_waits_for_it(how: str) -> None:
    append = Appender()
    assert append(how).base_offset == 0
    assert (append.broker.partitions[T].high_watermark, append.woken) == (1, [T])


@by_whom
def test_what_must_be_durable_first_is_on_its_way_to_the_disk(how: str) -> None:
    append = Appender(flush_messages="1")
    append(how)
    assert (append.broker.partitions[T].high_watermark, append.woken) == (0, [])
    (effect,) = append.effects(SyncLog)
    for file in effect.sync.files:
        file.sync()
    append.broker.partitions.on_synced(effect.log, effect.sync, append.machine.now_ms)
    assert (append.broker.partitions[T].high_watermark, append.woken) == (1, [T])


@by_whom
def test_a_disk_that_fails_under_it_is_taken_offline(how: str) -> None:
    append = Appender()
    append.machine.disk.fail("append", errno.EIO, "/a/t-0")
    with pytest.raises(ApiError) as refused:
        append(how)
    assert refused.value.code == ErrorCode.KAFKA_STORAGE_ERROR
    assert [effect.directory for effect in append.effects(TakeOffline)] == ["/a"]
    assert append.woken == []


@by_whom
def test_a_lack_of_descriptors_costs_the_append_alone(how: str) -> None:
    append = Appender(segment_bytes="150")
    append(how, "a" * 60)
    append.machine.disk.fail("open", errno.EMFILE, "/a/t-0")
    with pytest.raises((OSError, ApiError), match=f"Errno {errno.EMFILE}|KAFKA_STORAGE_ERROR"):
        append(how, "b" * 60)
    assert append.effects(TakeOffline) == []
    assert append(how, "c" * 60).base_offset == 1
