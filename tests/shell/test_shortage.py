"""No file descriptor is free: that costs a request, and is no failure of the disk."""

import errno
import resource

import pytest
from tests.api.asking import BY_NAME, batch, create, fetch, fetch_of, produce, values
from tests.api.harness import Client, Machine

from ottla.base.errors import ErrorCode
from ottla.base.ids import TopicPartition
from ottla.shell import descriptors
from ottla.wire.messages.list_offsets import ListOffsetsPartition, ListOffsetsRequest, ListOffsetsTopic

SHORTAGES = pytest.mark.parametrize("number", [errno.EMFILE, errno.ENFILE])


@SHORTAGES
def test_a_produce_that_finds_no_descriptor_is_refused_and_the_next_is_taken(number: int) -> None:
    machine = Machine()
    client = machine.client()
    create(client, "t")
    machine.disk.fail("open", number)
    assert produce(client, "t", batch("a")).error_code == ErrorCode.KAFKA_STORAGE_ERROR
    assert produce(client, "t", batch("b")).base_offset == 0
    assert machine.halted == []
    assert values(fetch(client, "t")) == ["b"]


def test_a_segment_that_could_not_be_made_is_never_written_to() -> None:
    machine = Machine()
    client = machine.client()
    create(client, "t", segment_bytes="200")
    assert produce(client, "t", batch("a" * 90)).error_code == ErrorCode.NONE
    machine.disk.fail("open", errno.EMFILE, "00001.log")
    assert produce(client, "t", batch("b" * 90)).error_code == ErrorCode.KAFKA_STORAGE_ERROR
    log = machine.broker.partitions[TopicPartition("t", 0)].log
    assert machine.halted or log.segments[-1] is log.active
    if not machine.halted:
        assert produce(client, "t", batch("c" * 90)).base_offset == 1
        assert values(fetch(client, "t", 1)) == ["c" * 90]


def restarted() -> tuple[Machine, Client]:
    """A broker that has a record, and has opened nothing of it yet."""
    machine = Machine()
    create(machine.client(), "t")
    produce(machine.client(), "t", batch("a"))
    machine.restart()
    return machine, machine.client()


@SHORTAGES
def test_a_fetch_that_finds_no_descriptor_is_refused_and_the_next_is_served(number: int) -> None:
    machine, client = restarted()
    machine.disk.fail("open", number)
    answer = fetch(client, "t")
    assert (answer.error_code, answer.records) == (ErrorCode.KAFKA_STORAGE_ERROR, b"")
    assert values(fetch(client, "t")) == ["a"]
    assert machine.halted == []


@pytest.mark.parametrize(("number", "is_fatal"), [(errno.EMFILE, False), (errno.EIO, True)])
def test_so_is_any_other_request(number: int, is_fatal: bool) -> None:
    machine, client = restarted()
    machine.disk.fail("open", number)
    machine.disk.fail("read", number)
    by_time = ListOffsetsPartition(partition_index=0, timestamp=1)
    (topic,) = client.send(
        ListOffsetsRequest(replica_id=-1, topics=[ListOffsetsTopic(name="t", partitions=[by_time])])
    ).topics
    assert topic.partitions[0].error_code == ErrorCode.KAFKA_STORAGE_ERROR
    assert bool(machine.halted) == is_fatal


@pytest.mark.parametrize(("idle_ms", "waits_ms"), [(600_000, 300_000), (20_000, 20_000)])
def test_no_fetch_waits_for_ever(idle_ms: int, waits_ms: int) -> None:
    machine = Machine(properties={"connections.max.idle.ms": str(idle_ms)})
    client = machine.client()
    create(client, "t")
    pending = client.ask(fetch_of(("t", 0, 0), max_wait_ms=2**31 - 1), BY_NAME)
    machine.pass_time(waits_ms - 1)
    assert pending.answer is None
    machine.pass_time(1)
    assert pending.answer is not None


@pytest.mark.parametrize(
    ("limit", "connections"), [(90, 26), (128, 64), (1024, 683), (10, 1), (resource.RLIM_INFINITY, None)]
)
def test_connections_leave_descriptors_for_logs(
    limit: int, connections: int | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(resource, "getrlimit", lambda _: (limit, limit))
    assert descriptors.connections_max() == connections


def test_the_limit_is_raised_as_far_as_the_system_lets(monkeypatch: pytest.MonkeyPatch) -> None:
    given: list[tuple[int, int]] = []
    monkeypatch.setattr(resource, "getrlimit", lambda _: (256, 4096))
    monkeypatch.setattr(resource, "setrlimit", lambda _, limits: given.append(limits))
    descriptors.raise_limit()
    assert given == [(4096, 4096)]

    def refuse(*_: object) -> None:
        raise ValueError("not allowed")

    monkeypatch.setattr(resource, "setrlimit", refuse)
    descriptors.raise_limit()
