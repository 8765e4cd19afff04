"""Several data directories on a real disk, one of which fails, at the start or later."""

import asyncio
import errno
import os
import threading
from pathlib import Path

import pytest
from tests.kafka_clients.harness import wait_for
from tests.kafka_clients.wire_client import Wire, batch
from tests.shell.test_halt import MARKER, connect
from tests.shell.test_server import refusal, run, server
from tests.support.brokers import epoch_of
from tests.support.waiting import until

from ottla.base.errors import ErrorCode
from ottla.base.files import OsFile
from ottla.base.ids import TopicPartition
from ottla.controller import znodes
from ottla.controller.topics import PlannedTopic
from ottla.shell.embedded import EmbeddedBroker
from ottla.shell.keeper_shared import SharedKeeper, SharedTree
from ottla.shell.server import Server
from ottla.wire.messages.alter_replica_log_dirs import (
    AlterReplicaLogDir,
    AlterReplicaLogDirsRequest,
    AlterReplicaLogDirTopic,
)
from ottla.wire.messages.create_topics import CreatableTopic, CreateTopicsRequest
from ottla.wire.messages.describe_log_dirs import DescribeLogDirsRequest

STORAGE_ERROR = ErrorCode.KAFKA_STORAGE_ERROR
RECORD = bytes(batch(b"x"))


def create(wire: Wire, topic: str, partitions: int) -> None:
    wanted = CreatableTopic(name=topic, num_partitions=partitions, replication_factor=1)
    assert wire.call(CreateTopicsRequest(topics=[wanted]), 5).topics[0].error_code == 0


def broker(*directories: Path, **config: str) -> EmbeddedBroker:
    given = {key.replace("_", "."): config[key] for key in config}
    return EmbeddedBroker({"log.dirs": ",".join(map(str, directories)), **given}, data=directories[0])


def test_a_sync_that_fails_in_one_directory_leaves_the_other_serving(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    first, second = tmp_path / "a", tmp_path / "b"
    is_broken = threading.Event()
    synced: list[str] = []
    sync = OsFile.sync

    def failing(file: OsFile) -> None:
        synced.append(file.path)
        if is_broken.is_set() and file.path.startswith(str(second)):
            raise OSError(errno.EIO, os.strerror(errno.EIO))
        sync(file)

    monkeypatch.setattr(OsFile, "sync", failing)
    with broker(first, second, log_flush_interval_messages="1") as one, connect(one) as wire:
        create(wire, "t", 2)
        assert [wire.produce("t", RECORD, partition=n).error_code for n in (0, 1)] == [0, 0]
        is_broken.set()
        synced.clear()
        assert wire.produce("t", RECORD, partition=1).error_code == STORAGE_ERROR
        assert wire.produce("t", RECORD, partition=1).error_code == STORAGE_ERROR
        assert wire.produce("t", RECORD, partition=0).error_code == 0
        assert one.failure is None
        create(wire, "u", 2)
        assert [wire.produce("u", RECORD, partition=n).error_code for n in (0, 1)] == [0, 0]
    assert len([path for path in synced if path.startswith(str(second))]) == 1
    assert (first / MARKER).exists()
    assert not (second / MARKER).exists()
    is_broken.clear()
    again = server(first, **{"log.dirs": f"{first},{second}"})
    run(again)
    assert again.broker.store.logs[TopicPartition("t", 1)].log_end_offset >= 1


def test_a_directory_that_fails_when_the_broker_stops_is_said(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    first, second = tmp_path / "a", tmp_path / "b"
    with broker(first, second) as one, connect(one) as wire:
        create(wire, "t", 2)
        assert [wire.produce("t", RECORD, partition=n).error_code for n in (0, 1)] == [0, 0]
        sync = OsFile.sync

        def failing(file: OsFile) -> None:
            if file.path.startswith(str(second)):
                raise OSError(errno.EIO, os.strerror(errno.EIO))
            sync(file)

        monkeypatch.setattr(OsFile, "sync", failing)
    assert f"{second} could not be closed cleanly: [Errno 5]" in caplog.text
    assert [(one / MARKER).exists() for one in (first, second)] == [True, False]


def test_a_directory_that_cannot_be_used_is_offline_from_the_start(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    first, second = tmp_path / "a", tmp_path / "b"
    with broker(first, second) as one, connect(one) as wire:
        create(wire, "t", 2)
        assert [wire.produce("t", RECORD, partition=n).error_code for n in (0, 1)] == [0, 0]
    second.rename(tmp_path / "away")
    second.write_text("a file where a folder was mounted")
    with broker(first, second) as one, connect(one) as wire:
        wait_for(lambda: f"{second} is offline until the next start: cannot use {second}" in caplog.text)
        assert [wire.produce("t", RECORD, partition=n).error_code for n in (0, 1)] == [0, STORAGE_ERROR]
        create(wire, "u", 2)
        assert [wire.produce("u", RECORD, partition=n).error_code for n in (0, 1)] == [0, 0]
    second.unlink()
    (tmp_path / "away").rename(second)
    with broker(first, second) as one, connect(one) as wire:
        assert wire.produce("t", RECORD, partition=1).base_offset == 1


def test_without_the_first_directory_there_is_no_start(tmp_path: Path) -> None:
    (tmp_path / "a").write_text("no folder")
    both = f"{tmp_path / 'a'},{tmp_path / 'b'}"
    reason = refusal(server(tmp_path, **{"log.dirs": both}))
    assert reason.startswith(f"cannot use {tmp_path / 'a'} as a data directory")
    assert reason.endswith("it is the first of log.dirs and holds keeper.db: no start without it")
    assert "\n" not in reason


def test_a_partition_moves_to_another_disk_under_load_and_its_size_is_that_of_its_files(
    tmp_path: Path,
) -> None:
    first, second = tmp_path / "a", tmp_path / "b"
    record = bytes(batch(b"x" * 100_000))
    topic = AlterReplicaLogDirTopic(name="t", partitions=[0])
    wish = AlterReplicaLogDirsRequest(dirs=[AlterReplicaLogDir(path=str(second), topics=[topic])])
    count = 400
    with broker(first, second, log_segment_bytes=str(4 << 20)) as one, connect(one) as wire:
        create(wire, "t", 1)
        for _ in range(count):
            assert wire.produce("t", record).error_code == 0
        assert described(wire) == [(str(first), du(first / "t-0"), False)]
        assert wire.call(wish, 2).results[0].partitions[0].error_code == 0

        def has_moved() -> bool:
            nonlocal count
            assert wire.produce("t", record).base_offset == count
            count += 1
            return [where for where, _, _ in described(wire)] == [str(second)]

        wait_for(has_moved, 30, "the move")
        assert described(wire) == [(str(second), du(second / "t-0"), False)]
        assert not (first / "t-0").exists()
    with broker(first, second) as one, connect(one) as wire:
        assert wire.produce("t", record).base_offset == count
        assert [record.offset for record in wire.fetch("t", count - 1)] == [count - 1, count]


def described(wire: Wire) -> list[tuple[str, int, bool]]:
    return [
        (result.log_dir, part.partition_size, part.is_future_key)
        for result in wire.call(DescribeLogDirsRequest(topics=None), 4).results
        for topic in result.topics
        for part in topic.partitions
        if topic.name == "t"
    ]


def du(folder: Path) -> int:
    return sum(file.stat().st_size for file in folder.glob("*.log"))


def on_tree(tree: SharedTree, *directories: Path) -> Server:
    given = {"listeners": "127.0.0.1:0", "log.dirs": ",".join(map(str, directories)), "broker.id": "1"}
    return Server(given, on_halt=lambda _reason: None, keeper=lambda loop: SharedKeeper(loop, tree))


def lost_by(one: Server) -> list[tuple[str, int]]:
    return sorted(one.broker.image.offline.get(1, ()))


def test_in_a_cluster_any_directory_may_be_offline_at_the_start_and_each_session_says_what_is_lost(
    tmp_path: Path,
) -> None:
    first, second = tmp_path / "a", tmp_path / "b"
    tree = SharedTree()

    async def live() -> None:
        one = on_tree(tree, first, second)
        await one.start()
        topic = PlannedTopic(name="t", id=b"i" * 16, assignment={0: (1,), 1: (1,)}, configs={})
        one.broker.outbox.write(topic.operations(one.broker.image), lambda _outcome, _now_ms: None)
        one.core.carry_out()
        await until(lambda: len(one.broker.partitions) == 2)
        await one.stop()
        first.rename(tmp_path / "away")
        first.write_text("a file where a folder was mounted")
        again = on_tree(tree, first, second)
        await again.start()
        assert lost_by(again) == [("t", 0)]
        await until(lambda: again.broker.image.topics["t"].states[0].leader == -1)
        assert again.broker.image.topics["t"].states[1].leader == 1
        epoch = epoch_of(again.broker)
        keeper = tree.owner_of(znodes.OFFLINE + "1")
        assert keeper is not None
        tree.expire(keeper)
        await until(lambda: epoch_of(again.broker) > epoch)
        assert lost_by(again) == [("t", 0)]
        assert tree.owner_of(znodes.OFFLINE + "1") is not None
        await again.stop()
        assert tree.owner_of(znodes.OFFLINE + "1") is None
        first.unlink()
        (tmp_path / "away").rename(first)
        last = on_tree(tree, first, second)
        await last.start()
        assert lost_by(last) == []
        await until(lambda: all(state.leader == 1 for state in last.broker.image.topics["t"].states.values()))
        await last.stop()

    asyncio.run(live())


def test_a_broker_of_its_own_writes_nothing_about_directories(tmp_path: Path) -> None:
    first, second = tmp_path / "a", tmp_path / "b"
    with broker(first, second) as one, connect(one) as wire:
        create(wire, "t", 2)
    second.rename(tmp_path / "away")
    second.write_text("a file where a folder was mounted")
    again = server(first, **{"log.dirs": f"{first},{second}"})
    run(again)
    assert again.broker.store.lost.keys() == {TopicPartition("t", 1)}
    assert again.broker.image.offline == {}
    assert [again.broker.image.topics["t"].states[n].leader for n in (0, 1)] == [1, 1]
