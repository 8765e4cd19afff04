"""`ottla ship` on files that grow, turn, are cut and come back: every line once, in order."""

import contextlib
import os
import shutil
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, NamedTuple

import pytest
from confluent_kafka import Consumer, TopicPartition

from ottla import Broker
from ottla.ship import watch
from ottla.ship.watch import Watch

WAIT_S = 40.0
LONG_AGO = 1_700_000_000


class Shipped(NamedTuple):
    value: bytes
    key: bytes
    headers: dict[str, bytes]


class Topic:
    """What a topic has, read from its beginning each time."""

    def __init__(self, bootstrap: str, name: str) -> None:
        self.bootstrap, self.name = bootstrap, name

    def records(self) -> list[Shipped]:
        settings = {
            "bootstrap.servers": self.bootstrap,
            "group.id": "test",
            "enable.auto.commit": False,
            "enable.partition.eof": True,
            "fetch.wait.max.ms": 10,
        }
        client = Consumer(settings)
        found: list[Shipped] = []
        try:
            client.assign([TopicPartition(self.name, 0, 0)])
            deadline = time.monotonic() + WAIT_S
            while time.monotonic() < deadline:
                message = client.poll(1)
                if message is None:
                    continue
                error = message.error()
                if error is not None:
                    assert error.name() == "_PARTITION_EOF"
                    return found
                headers = dict(message.headers() or [])
                found.append(Shipped(message.value() or b"", message.key() or b"", headers))  # type: ignore[arg-type]
        finally:
            client.close()
        raise AssertionError("the topic was not read to its end")

    def lines(self) -> list[bytes]:
        return [one.value for one in self.records()]


@pytest.fixture
def topic(ottla_broker: Broker, ottla_topic: str) -> Topic:
    return Topic(ottla_broker.bootstrap_servers, ottla_topic)


@pytest.fixture
def once(ottla: Any, topic: Topic, tmp_path: Path) -> Callable[..., Any]:
    def once(*files: Path | str, code: int = 0, options: tuple[str, ...] = ()) -> Any:
        names = [str(one) for one in files]
        state = str(tmp_path / "state" / "ship.json")
        outcome = ottla("ship", *names, "--topic", topic.name, "--once", "--state", state, *options)
        assert outcome.code == code, outcome.err
        return outcome

    return once


@pytest.fixture
def follow(topic: Topic, tmp_path: Path) -> Iterator[Callable[..., subprocess.Popen[bytes]]]:
    started: list[subprocess.Popen[bytes]] = []

    def follow(*files: Path | str) -> subprocess.Popen[bytes]:
        command = [sys.executable, "-m", "ottla.cli", "ship", *map(str, files), "--topic", topic.name]
        command += ["--bootstrap", topic.bootstrap, "--state", str(tmp_path / "state" / "ship.json")]
        started.append(subprocess.Popen(command, stderr=subprocess.PIPE))
        return started[-1]

    yield follow
    for one in started:
        one.kill()
        one.wait()
        assert one.stderr is not None
        one.stderr.close()


def wait(is_reached: Callable[[], bool]) -> None:
    deadline = time.monotonic() + WAIT_S
    while not is_reached():
        assert time.monotonic() < deadline, "not reached in time"
        time.sleep(0.05)


def write(path: Path, *lines: str, end: str = "\n") -> None:
    with path.open("a") as file:
        file.write("\n".join(lines) + end)


def numbered(first: int, last: int) -> list[str]:
    return [f"line {number}" for number in range(first, last)]


def as_bytes(lines: list[str]) -> list[bytes]:
    return [line.encode() for line in lines]


def test_lines_go_with_key_and_headers(once: Any, topic: Topic, tmp_path: Path) -> None:
    log = tmp_path / "app.log"
    log.write_bytes(b"first\r\n\nthird\n")
    outcome = once(log)
    host = socket.gethostname()
    records = topic.records()
    assert [one.value for one in records] == [b"first", b"", b"third"]
    assert {one.key for one in records} == {f"{host}:{log}".encode()}
    assert [one.headers["offset"] for one in records] == [b"0", b"7", b"8"]
    assert {(one.headers["host"], one.headers["path"]) for one in records} == {
        (host.encode(), str(log).encode())
    }
    assert outcome.err == f"3 lines, 10 bytes to {topic.name}\n"


def test_another_run_sends_only_what_is_new(once: Any, topic: Topic, tmp_path: Path) -> None:
    log = tmp_path / "app.log"
    for first in range(0, 300, 100):
        write(log, *numbered(first, first + 100))
        once(log)
    once(log)
    assert topic.lines() == as_bytes(numbered(0, 300))


def test_an_unfinished_line_waits_for_its_newline(once: Any, topic: Topic, tmp_path: Path) -> None:
    log = tmp_path / "app.log"
    write(log, "whole", "half", end="")
    assert "1 unfinished line left" in once(log).err
    assert topic.lines() == [b"whole"]
    write(log, " and half")
    once(log)
    assert topic.lines() == [b"whole", b"half and half"]


def test_an_unfinished_line_goes_when_asked_and_its_rest_says_so(
    once: Any, topic: Topic, tmp_path: Path
) -> None:
    log = tmp_path / "app.log"
    write(log, "whole", "half", end="")
    once(log, options=("--unfinished",))
    write(log, " and half")
    once(log)
    records = topic.records()
    assert [one.value for one in records] == [b"whole", b"half", b" and half"]
    assert ["continued" in one.headers for one in records] == [False, False, True]


def test_junk_and_very_long_lines_arrive_whole(once: Any, topic: Topic, tmp_path: Path) -> None:
    log = tmp_path / "app.log"
    junk = bytes(range(256)).replace(b"\n", b"") * 3
    long = b"x" * 2_500_000
    log.write_bytes(junk + b"\n" + long + b"\n" + b"after\n")
    once(log)
    records = topic.records()
    assert records[0].value == junk
    assert b"".join(one.value for one in records[1:-1]) == long
    assert ["continued" in one.headers for one in records] == [False, False, True, True, False]
    assert records[-1].value == b"after"


def test_a_file_that_was_renamed_is_read_to_its_end_and_the_new_one_too(
    once: Any, topic: Topic, tmp_path: Path
) -> None:
    log = tmp_path / "app.log"
    write(log, *numbered(0, 10))
    once(log)
    write(log, *numbered(10, 20))
    log.rename(tmp_path / "app.log.1")
    write(log, *numbered(20, 30))
    once(log)
    assert sorted(topic.lines()) == sorted(as_bytes(numbered(0, 30)))
    assert {one.headers["path"] for one in topic.records()} == {str(log).encode()}
    (tmp_path / "app.log.1").rename(tmp_path / "app.log.2")
    log.rename(tmp_path / "app.log.1")
    once(tmp_path / "app.log*")
    assert len(topic.lines()) == 30


def test_the_last_line_of_a_renamed_file_goes_without_its_newline(
    once: Any, topic: Topic, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    log, old = tmp_path / "app.log", tmp_path / "app.log.1"
    write(log, "first", "last", end="")
    once(log)
    log.rename(old)
    write(log, "new")
    once(log)
    assert topic.lines() == [b"first", b"new"]  # somebody may still write to it
    os.utime(old, (LONG_AGO, LONG_AGO))
    once(log)
    assert topic.lines() == [b"first", b"new"]  # it was renamed just now, and its writer may not know
    monkeypatch.setattr(watch, "STILL_S", 0.0)
    once(log)
    assert topic.lines() == [b"first", b"new", b"last"]


def test_a_renamed_file_is_followed_until_it_is_still_and_there_is_a_new_one(tmp_path: Path) -> None:
    log, old, now_s = tmp_path / "app.log", tmp_path / "app.log.1", time.time()
    write(log, "first")
    watch = Watch([str(log)])
    watch.scan(now_s)
    (one,) = watch.files.values()
    log.rename(old)
    now_s = old.stat().st_ctime
    watch.scan(now_s)
    assert watch.finished(now_s + 600) == []  # nothing new yet
    assert watch.finished(now_s + 4000) == [one]
    write(log, "new")
    watch.scan(now_s)
    assert watch.finished(now_s + 50) == []
    assert watch.finished(now_s + 65) == [one]
    os.utime(old, (now_s + 60, now_s + 60))  # written to again
    assert watch.finished(now_s + 65) == []
    log.unlink()
    old.unlink()
    watch.scan(now_s)
    assert watch.finished(now_s + 125) == [*watch.files.values()]  # removed: nothing new is waited for
    watch.close()


def test_a_file_that_was_copied_and_cut_loses_nothing(once: Any, topic: Topic, tmp_path: Path) -> None:
    log = tmp_path / "app.log"
    write(log, *numbered(0, 200))
    once(log)
    write(log, *numbered(200, 250))
    shutil.copyfile(log, tmp_path / "app.log.1")
    os.truncate(log, 0)
    write(log, *numbered(250, 260))
    once(log)
    assert sorted(topic.lines()) == sorted(as_bytes(numbered(0, 260)))
    once(tmp_path / "app.log*")
    assert len(topic.lines()) == 260


def test_a_copy_that_matches_the_pattern_is_not_sent_again(once: Any, topic: Topic, tmp_path: Path) -> None:
    log, pattern = tmp_path / "app.log", tmp_path / "app.log*"
    write(log, *numbered(0, 200))
    once(pattern)
    shutil.copyfile(log, tmp_path / "app.log.1")
    once(pattern)
    os.truncate(log, 0)
    write(log, *numbered(200, 500))  # longer than before
    once(pattern)
    assert topic.lines() == as_bytes(numbered(0, 500))


def test_a_writer_that_does_not_notice_the_cut_leaves_a_hole_that_is_no_line(
    once: Any, topic: Topic, tmp_path: Path
) -> None:
    log = tmp_path / "app.log"
    with log.open("w") as writer:
        writer.write("before\n" * 20_000)
        writer.flush()
        once(log)
        os.truncate(log, 0)
        writer.write("after\n")
    outcome = once(log)
    assert topic.lines() == [b"before"] * 20_000 + [b"after"]
    assert "is not there any more" in outcome.err


def test_a_file_with_the_inode_of_an_old_one_is_a_new_file(once: Any, topic: Topic, tmp_path: Path) -> None:
    log = tmp_path / "app.log"
    write(log, *numbered(0, 5))
    once(log)
    log.write_text("one\ntwo\nthree\nfour\nfive\nsix\nseven\n")  # same inode, longer
    once(log)
    assert topic.lines()[5:] == [b"one", b"two", b"three", b"four", b"five", b"six", b"seven"]


def test_patterns_and_nothing_there(once: Any, topic: Topic, tmp_path: Path) -> None:
    deep = tmp_path / "a" / "b"
    deep.mkdir(parents=True)
    write(deep / "x.log", "x")
    write(tmp_path / "y.log", "y")
    write(tmp_path / "z.log.gz", "z")
    once(f"{tmp_path}/**/*.log*")
    assert sorted(topic.lines()) == [b"x", b"y"]
    nothing = str(tmp_path / "nothing*")
    outcome = once(nothing, code=1, options=("--state", str(tmp_path / "s")))
    assert outcome.err == f"ottla: no file matches {nothing}\n"


def test_a_file_that_is_not_there_yet_is_waited_for(follow: Any, topic: Topic, tmp_path: Path) -> None:
    process = follow(tmp_path / "later.log")
    line = process.stderr.readline().decode()
    assert line == f"ottla: no file matches {tmp_path}/later.log yet; waiting for one\n"
    write(tmp_path / "later.log", "here")
    wait(lambda: topic.lines() == [b"here"])


def test_two_shippers_do_not_share_a_state(once: Any, follow: Any, topic: Topic, tmp_path: Path) -> None:
    log = tmp_path / "app.log"
    write(log, "one")
    follow(log)
    wait(lambda: topic.lines() == [b"one"])
    assert "another shipper uses" in once(log, code=1).err


def test_the_state_of_another_topic_is_refused(ottla: Any, once: Any, tmp_path: Path) -> None:
    log = tmp_path / "app.log"
    write(log, "one")
    once(log)
    state = str(tmp_path / "state" / "ship.json")
    assert ottla("ship", str(log), "--topic", "other", "--once", "--state", state).code == 2
    Path(state).write_text("{")
    assert "is not the state of a shipper" in once(log, code=1).err


def test_a_state_of_another_cluster_or_of_a_deleted_topic_is_begun_anew(run: Any, tmp_path: Path) -> None:
    log, state = tmp_path / "app.log", str(tmp_path / "ship.json")
    write(log, "one", "two")

    def ship(broker: Broker) -> list[str]:
        command = ("ship", str(log), "--topic", "lines", "--once", "--state", state)
        outcome = run(*command, "--bootstrap", broker.bootstrap_servers)
        assert outcome.code == 0, outcome.err
        assert Topic(broker.bootstrap_servers, "lines").lines() == [b"one", b"two"]
        said: list[str] = outcome.err.splitlines()
        return said

    with Broker() as first, Broker() as second:
        assert ship(first) == ["2 lines, 6 bytes to lines"]
        assert ship(first) == ["0 lines, 0 bytes to lines"]
        why = f"ottla: {state} is of another cluster, or of a topic lines that was deleted; "
        said = [f"{why}starting over from the beginning of the files", "2 lines, 6 bytes to lines"]
        assert ship(second) == said
        second.delete_topic("lines")
        assert ship(second) == said
        assert ship(second) == ["0 lines, 0 bytes to lines"]


def test_following_sees_growth_rotation_and_files_that_come_later(
    follow: Any, topic: Topic, tmp_path: Path
) -> None:
    log, later = tmp_path / "app.log", tmp_path / "later.log"
    write(log, *numbered(0, 10))
    process = follow(tmp_path / "*.log")
    wait(lambda: len(topic.lines()) == 10)
    write(log, *numbered(10, 20))
    log.rename(tmp_path / "app.log.1")
    write(tmp_path / "app.log.1", *numbered(20, 30))  # a writer that has not noticed yet
    write(log, *numbered(30, 40))
    write(later, *numbered(40, 50))
    wait(lambda: len(topic.lines()) == 50)
    process.send_signal(signal.SIGINT)
    _, errors = process.communicate(timeout=WAIT_S)
    assert process.returncode == 0
    assert errors.decode() == f"50 lines, {len(''.join(numbered(0, 50)))} bytes to {topic.name}\n"
    assert sorted(topic.lines()) == sorted(as_bytes(numbered(0, 50)))


@pytest.mark.timeout(180)
def test_killed_again_and_again_while_files_turn_every_line_goes_once(
    follow: Any, once: Any, topic: Topic, tmp_path: Path
) -> None:
    """kill -9 at places that differ each time, with both kinds of rotation in between."""
    log, written, turns = tmp_path / "app.log", 0, 0
    for round_ in range(6):
        first, enough = written, 1000 * (round_ % 4)
        process = follow(log)
        for _ in range(4):
            write(log, *numbered(written, written + 2500))
            written += 2500
        # Of this round: what the process before had under way when it was killed may still come.
        own = set(as_bytes(numbered(first, written)))
        wait(lambda own=own, enough=enough: sum(line in own for line in topic.lines()) > enough)  # type: ignore[misc]
        process.kill()
        process.communicate()
        if round_ % 3 == 1:
            log.rename(tmp_path / f"app.log.{turns}")
            turns += 1
        elif round_ % 3 == 2:
            shutil.copyfile(log, tmp_path / f"app.log.{turns}")
            os.truncate(log, 0)
            turns += 1
    once(log)
    lines = topic.lines()
    assert len(lines) == written
    assert set(lines) == set(as_bytes(numbered(0, written)))


def test_what_was_sent_but_not_stored_is_found_in_the_topic(once: Any, topic: Topic, tmp_path: Path) -> None:
    """The state of a run that was killed after its records were acknowledged, and before it was stored."""
    log, state = tmp_path / "app.log", tmp_path / "state" / "ship.json"
    write(log, *numbered(0, 10))
    once(log)
    before = state.read_text().replace('"is_clean": true', '"is_clean": false')
    write(log, *numbered(10, 20))
    fresh = tmp_path / "fresh.log"
    write(fresh, *numbered(20, 30))
    once(tmp_path / "*.log")
    state.write_text(before)
    write(fresh, *numbered(30, 40))
    once(tmp_path / "*.log")
    with contextlib.suppress(FileNotFoundError):
        os.unlink(f"{state}.new")
    assert sorted(topic.lines()) == sorted(as_bytes(numbered(0, 40)))


def test_the_rest_of_a_file_that_was_cut_before_it_was_ever_in_the_state_is_found_in_its_copy(
    once: Any, topic: Topic, tmp_path: Path
) -> None:
    """A run that was killed after it had sent of a new file, and before it was stored; then copytruncate."""
    log, fresh, state = tmp_path / "app.log", tmp_path / "fresh.log", tmp_path / "state" / "ship.json"
    write(log, *numbered(0, 10))
    once(log)
    before = state.read_text().replace('"is_clean": true', '"is_clean": false')
    write(fresh, *numbered(10, 20))
    once(tmp_path / "*.log")
    state.write_text(before)
    write(fresh, *numbered(20, 30))
    shutil.copyfile(fresh, tmp_path / "fresh.log.1")
    os.truncate(fresh, 0)
    write(fresh, *numbered(30, 40))
    once(tmp_path / "*.log")
    assert sorted(topic.lines()) == sorted(as_bytes(numbered(0, 40)))
    once(tmp_path / "*.log")
    assert len(topic.lines()) == 40


@pytest.mark.timeout(120)
def test_a_broker_that_is_away_is_waited_for(tmp_path: Path) -> None:
    log, data = tmp_path / "app.log", tmp_path / "data"
    write(log, *numbered(0, 100))
    with Broker(data=data) as broker:
        bootstrap = broker.bootstrap_servers
        topic = Topic(bootstrap, broker.create_topic("lines"))
        command = [sys.executable, "-m", "ottla.cli", "ship", str(log), "--topic", "lines"]
        command += ["--bootstrap", bootstrap, "--state", str(tmp_path / "ship.json")]
        process = subprocess.Popen(command, stderr=subprocess.DEVNULL)
        try:
            wait(lambda: len(topic.lines()) == 100)
            broker.stop()
            write(log, *numbered(100, 200))
            with Broker(data=data, port=int(bootstrap.rpartition(":")[2])):
                write(log, *numbered(200, 300))
                wait(lambda: len(topic.lines()) >= 300)
                process.send_signal(signal.SIGTERM)
                assert process.wait(WAIT_S) == 0
                assert topic.lines() == as_bytes(numbered(0, 300))
        finally:
            process.kill()
            process.wait()


def test_a_name_that_no_file_has_exits_with_1_with_and_without_a_state(once: Any, tmp_path: Path) -> None:
    nothing = str(tmp_path / "nosuch.log")
    assert f"no file matches {nothing}" in once(nothing, code=1).err
    log = tmp_path / "app.log"
    log.write_text("first\n")
    once(log)
    assert f"no file matches {nothing}" in once(nothing, code=1).err
    assert once(nothing, log).code == 0


def test_a_directory_is_an_error_that_says_what_to_write(once: Any, tmp_path: Path) -> None:
    refused = once(tmp_path, code=2)
    assert refused.err == f"ottla: {tmp_path} is a directory; name its files, such as '{tmp_path}/*.log'\n"
