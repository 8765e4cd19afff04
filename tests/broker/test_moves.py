"""Partitions move between log directories while they are used, and a crash leaves them in one of both."""

import errno

import pytest
from tests.api.asking import BY_NAME, batch, create, fetch, fetch_of, idempotent, produce, values
from tests.api.harness import Client, Machine
from tests.api.test_table import delete_all_of
from tests.log.simdisk import Crashed, Keep, page_cache, power_loss

from ottla.base.errors import ErrorCode
from ottla.base.ids import ZERO_UUID, TopicPartition
from ottla.broker.effects import CopyLog
from ottla.log import directory_moves
from ottla.log.store import TIMES_LOOK_MS
from ottla.records.control import Marker
from ottla.wire.messages.alter_replica_log_dirs import (
    AlterReplicaLogDir,
    AlterReplicaLogDirsRequest,
    AlterReplicaLogDirTopic,
)
from ottla.wire.messages.delete_topics import DeleteTopicsRequest, DeleteTopicState
from ottla.wire.messages.describe_log_dirs import DescribeLogDirsRequest

T0 = TopicPartition("t", 0)
COUNT = 12


@pytest.fixture(autouse=True)
def small_slices(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(directory_moves, "SLICE_BYTES", 300)
    monkeypatch.setattr(directory_moves, "CHUNK_BYTES", 100)
    monkeypatch.setattr(directory_moves, "TAIL_BYTES", 200)


def filled(**properties: str) -> tuple[Machine, Client]:
    """Partition t-0 in /a, with records 0 to 11 in several segments."""
    given = {key.replace("_", "."): properties[key] for key in properties}
    machine = Machine({"log.dirs": "/a,/b", "log.segment.bytes": "400", **given})
    client = machine.client()
    create(client, "t")
    for number in range(COUNT):
        assert produce(client, "t", batch(str(number))).base_offset == number
    return machine, client


def move_to(directory: str, *ids: TopicPartition) -> AlterReplicaLogDirsRequest:
    topics = [AlterReplicaLogDirTopic(name=id.topic, partitions=[id.partition]) for id in ids or (T0,)]
    return AlterReplicaLogDirsRequest(dirs=[AlterReplicaLogDir(path=directory, topics=topics)])


def moved(client: Client, directory: str, *ids: TopicPartition) -> list[int]:
    results = client.send(move_to(directory, *ids)).results
    return [one.error_code for topic in results for one in topic.partitions]


def numbers(client: Client) -> list[int]:
    found: list[int] = []
    while True:
        part = fetch(client, "t", len(found))
        assert part.error_code == ErrorCode.NONE
        if not part.records:
            return found
        found += [int(value) for value in values(part)]


def home(machine: Machine) -> str:
    return machine.broker.store.directory_of(T0)


def sizes(client: Client) -> dict[tuple[str, bool], tuple[int, int]]:
    """(directory, is future) to (size, lag), for t-0."""
    return {
        (result.log_dir, part.is_future_key): (part.partition_size, part.offset_lag)
        for result in client.send(DescribeLogDirsRequest(topics=None)).results
        for topic in result.topics
        for part in topic.partitions
        if topic.name == "t"
    }


def test_a_partition_moves_with_all_it_holds_and_goes_on_in_its_new_place() -> None:
    machine, client = filled()
    before = {
        name: data
        for name in machine.disk.list("/a/t-0")
        if name.endswith(".log") and (data := machine.disk.read(f"/a/t-0/{name}"))
    }
    assert moved(client, "/b") == [ErrorCode.NONE]
    assert home(machine) == "/a"
    machine.pass_time(200)
    assert home(machine) == "/b"
    assert {name: machine.disk.read(f"/b/t-0/{name}") for name in before} == before
    assert numbers(client) == list(range(COUNT))
    assert produce(client, "t", batch("12")).base_offset == 12
    assert not machine.disk.exists("/a/t-0")
    machine.pass_time(60_000)
    assert not any(name.startswith("t-0") for name in machine.disk.list("/a"))
    assert not any("future" in name for name in machine.disk.list("/b"))
    machine.restart()
    assert home(machine) == "/b"
    assert numbers(machine.client()) == list(range(COUNT + 1))


def test_it_is_used_while_it_moves_and_shown_as_a_future_log() -> None:
    machine, client = filled()
    whole = machine.broker.store.logs[T0].size
    machine.hold(CopyLog)
    moved(client, "/b")
    assert sizes(client) == {("/a", False): (whole, 0), ("/b", True): (0, COUNT)}
    machine.pass_time(200)
    waiting = machine.client().ask(fetch_of(("t", 0, COUNT + 30), max_wait_ms=60_000), BY_NAME)
    lags = []
    for number in range(30):
        assert produce(client, "t", batch(str(COUNT + number))).base_offset == COUNT + number
        machine.release(still_hold=True)
        lags.append(sizes(client).get(("/b", True), (0, 0))[1])
    assert waiting.answer.responses[0].partitions[0].error_code == ErrorCode.OFFSET_OUT_OF_RANGE
    machine.release()
    assert home(machine) == "/b"
    assert lags[0] > lags[-1]
    assert numbers(client) == list(range(COUNT + 30))
    assert sizes(client) == {("/b", False): (machine.broker.store.logs[T0].size, 0)}


def test_who_waits_at_the_end_of_the_log_is_woken_in_its_new_place() -> None:
    machine, client = filled()
    pending = machine.client().ask(fetch_of(("t", 0, COUNT), max_wait_ms=60_000), BY_NAME)
    moved(client, "/b")
    machine.pass_time(200)
    assert home(machine) == "/b"
    assert pending.answer is None
    produce(client, "t", batch("new"))
    assert values(pending.answer.responses[0].partitions[0]) == ["new"]


def test_the_sizes_shown_are_those_of_the_segment_files() -> None:
    machine, client = filled()
    files = [one.data for path, one in machine.disk.nodes.items() if path.endswith(".log")]
    assert sizes(client)["/a", False] == (sum(map(len, files)), 0)


@pytest.mark.parametrize("keep", [page_cache, power_loss])
def test_a_crash_at_any_step_leaves_it_in_one_place_with_all_it_holds(keep: Keep) -> None:
    steps, homes = 0, []
    while True:
        machine, client = filled(log_flush_interval_messages="1")
        client.send(delete_up_to(3))
        machine.pass_time(60_000)
        moved(client, "/b")
        machine.disk.crash_after(steps)
        try:
            machine.pass_time(200)
        except Crashed:
            machine.crash(keep)
        else:
            break
        client = machine.client()
        homes.append(home(machine))
        assert fetch(client, "t").error_code == ErrorCode.OFFSET_OUT_OF_RANGE
        assert [int(value) for value in values_from(client, 3)] == list(range(3, COUNT))
        assert produce(client, "t", batch("more")).base_offset == COUNT
        for _ in range(3):
            machine.pass_time(60_000)
        folders = [
            f"{one}/{name}" for one in ("/a", "/b") for name in machine.disk.list(one) if "t-0" in name
        ]
        assert folders == [f"{home(machine)}/t-0"], "nothing is left lying about"
        assert values_from(client, COUNT) == ["more"]
        steps += 1
    assert set(homes) == {"/a", "/b"}
    assert steps > 20


def delete_up_to(offset: int) -> object:
    request = delete_all_of("t")
    request.topics[0].partitions[0].offset = offset
    return request


def values_from(client: Client, offset: int) -> list[str]:
    found: list[str] = []
    while (part := fetch(client, "t", offset + len(found))).records:
        found += values(part)
    return found


def test_a_move_that_a_restart_cut_short_begins_anew() -> None:
    machine, client = filled()
    machine.hold(CopyLog)
    moved(client, "/b")
    machine.pass_time(200)
    assert any(name.endswith("-future") for name in machine.disk.list("/b"))
    machine.restart()
    assert home(machine) == "/a"
    assert not any(name.endswith("-future") for name in machine.disk.list("/b"))
    machine.pass_time(200)
    assert home(machine) == "/b"
    assert numbers(machine.client()) == list(range(COUNT))


def test_errors_are_those_of_kafka() -> None:
    machine, client = filled()
    absent = TopicPartition("absent", 0)
    assert moved(client, "/c") == [ErrorCode.LOG_DIR_NOT_FOUND]
    assert moved(client, "/b", absent) == [ErrorCode.UNKNOWN_TOPIC_OR_PARTITION]
    assert moved(client, "/b", TopicPartition("x" * 240, 0)) == [ErrorCode.INVALID_TOPIC_EXCEPTION]
    assert moved(client, "/a") == [ErrorCode.NONE], "it is there already"
    assert machine.broker.store.moves.by_topic_partition == {}
    create(client, "u", partitions=2)
    machine.broker.on_directory_failed("/b", "it burns", machine.now_ms)
    assert moved(client, "/b") == [ErrorCode.KAFKA_STORAGE_ERROR]
    assert moved(client, "/a", TopicPartition("u", 0)) == [ErrorCode.KAFKA_STORAGE_ERROR], "it is lost"


def test_a_partition_that_is_not_there_yet_is_made_where_it_was_wished_to_be() -> None:
    machine, client = filled()
    ids = [TopicPartition("u", n) for n in range(3)]
    assert set(moved(client, "/a", *ids)) == {ErrorCode.UNKNOWN_TOPIC_OR_PARTITION}
    create(client, "u", partitions=4)
    store = machine.broker.store
    assert [store.directory_of(TopicPartition("u", n)) for n in range(4)] == ["/a", "/a", "/a", "/b"]


def test_a_move_can_be_turned_round_and_called_off() -> None:
    machine, client = filled()
    machine.hold(CopyLog)
    moved(client, "/b")
    machine.pass_time(200)
    assert moved(client, "/a") == [ErrorCode.NONE]
    assert machine.broker.store.moves.by_topic_partition == {}
    machine.release()
    machine.pass_time(200)
    assert home(machine) == "/a"
    assert not any("future" in name for name in machine.disk.list("/b"))
    assert numbers(client) == list(range(COUNT))


def test_a_topic_that_is_deleted_while_it_moves_leaves_nothing() -> None:
    machine, client = filled()
    machine.hold(CopyLog)
    moved(client, "/b")
    machine.pass_time(200)
    gone = DeleteTopicsRequest(topics=[DeleteTopicState(name="t", topic_id=ZERO_UUID)], timeout_ms=1000)
    client.send(gone)
    machine.release()
    machine.pass_time(60_000)
    assert not any("t-0" in name for one in ("/a", "/b") for name in machine.disk.list(one))
    assert machine.halted == []


@pytest.mark.parametrize(("directory", "is_lost"), [("/a", True), ("/b", False)])
def test_a_directory_that_fails_ends_the_moves_from_and_to_it(directory: str, is_lost: bool) -> None:
    machine, client = filled()
    moved(client, "/b")
    machine.disk.break_down(directory, errno.EIO)
    machine.pass_time(200)
    machine.pass_time(60_000)
    assert machine.broker.store.offline.keys() == {directory}
    assert machine.broker.store.moves.by_topic_partition == {}
    if is_lost:
        assert fetch(client, "t").error_code == ErrorCode.KAFKA_STORAGE_ERROR
    else:
        assert numbers(client) == list(range(COUNT))
    machine.disk.repair()
    machine.restart()
    assert numbers(machine.client()) == list(range(COUNT))


def test_retention_and_compaction_wait_until_the_log_has_moved() -> None:
    machine, client = filled(log_retention_bytes="300")
    machine.hold(CopyLog)
    moved(client, "/b")
    machine.pass_time(200)
    machine.pass_time(600_000)
    assert machine.broker.store.logs[T0].log_start_offset == 0
    machine.release()
    machine.pass_time(600_000)
    machine.pass_time(TIMES_LOOK_MS)
    assert home(machine) == "/b"
    assert machine.broker.store.logs[T0].log_start_offset > 0


def test_a_cut_of_the_log_begins_the_move_anew() -> None:
    machine, client = filled()
    machine.hold(CopyLog)
    moved(client, "/b")
    machine.pass_time(200)
    machine.release(still_hold=True)
    machine.broker.store.logs[T0].truncate_to(5, machine.now_ms)
    machine.broker.partitions[T0].high_watermark = 5
    machine.release()
    machine.pass_time(200)
    machine.pass_time(200)
    assert home(machine) == "/b"
    assert numbers(client) == list(range(5))


def test_a_source_that_was_cut_on_disk_stays_where_it_is(caplog: pytest.LogCaptureFixture) -> None:
    machine, client = filled()
    first = "/a/t-0/00000000000000000000.log"
    moved(client, "/b")
    del machine.disk.nodes[first].data[150:]
    machine.pass_time(200)
    machine.pass_time(200)
    assert home(machine) == "/a"
    assert f"t-0 stays in /a: {first} ends at 150" in caplog.text
    assert not any("t-0" in name for name in machine.disk.list("/b"))


def test_moving_back_does_not_believe_what_the_old_directory_remembers() -> None:
    machine, client = filled()
    machine.pass_time(60_000)
    for directory in ("/b", "/a", "/b"):
        moved(client, directory)
        machine.pass_time(200)
        assert home(machine) == directory
    machine.crash()
    assert numbers(machine.client()) == list(range(COUNT))


def test_a_move_to_a_directory_that_fails_is_over_and_what_was_in_it_is_lost() -> None:
    machine = Machine({"log.dirs": "/a,/b"})
    create(machine.client(), "t", partitions=2)
    store, moving, there = machine.broker.store, TopicPartition("t", 0), TopicPartition("t", 1)
    store.moves.begin(moving, "/b")
    (move,) = store.moves.by_topic_partition.values()
    assert (move.topic_partition, move.directory, move.lag) == (moving, "/b", 0)
    machine.broker.on_directory_failed("/b", "it burns", machine.now_ms)
    assert (store.offline, list(store.lost), store.moves.by_topic_partition) == (
        {"/b": "it burns"},
        [there],
        {},
    )


def test_aborted_and_open_transactions_move_along() -> None:
    machine, client = filled()
    partition, replicas = machine.broker.partitions[T0], machine.broker.replicas

    def write(producer_id: int) -> None:
        records = idempotent(0, "x", producer_id=producer_id, transactional=True)
        replicas.append(
            partition, memoryview(bytearray(records)), acks=-1, now_ms=machine.now_ms, wall_ms=machine.now_ms,
            produce_version=13,
        )  # fmt: skip

    for producer_id in (1, 2, 3):
        write(producer_id)
        if producer_id < 3:
            replicas.append_marker(
                partition, Marker(producer_id, 1, False, 0, 2), machine.now_ms, machine.now_ms
            )
    before = partition.log.segments.aborted_between(0, 1 << 60)
    assert len(before) == 2
    assert moved(client, "/b") == [0]
    machine.pass_time(200)
    assert home(machine) == "/b"
    partition = machine.broker.partitions[T0]
    assert partition.log.segments.aborted_between(0, 1 << 60) == before
    assert partition.last_stable_offset == COUNT + 4
