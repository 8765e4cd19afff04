"""A leader is killed while `ottla produce` sends and `ottla consume` reads: no line is lost or doubled.

`OTTLA_LONG_TESTS=1` does it with two million lines.
"""

import os
import subprocess
import sys
import threading
import uuid
from collections.abc import Iterator
from contextlib import contextmanager
from typing import IO

from tests.cluster.real import START_S, RealCluster
from tests.support.processes import die_with_parent
from tests.support.waiting import wait_for

from ottla.client import Client, TopicPartition

LINES = 2_000_000 if os.environ.get("OTTLA_LONG_TESTS") else 300_000
HELD_BACK = LINES * 9 // 10  # the last lines come after the kill, however fast the machine is
DONE_S = 300.0


@contextmanager
def ottla(cluster: RealCluster, *arguments: str) -> Iterator[subprocess.Popen[bytes]]:
    process = subprocess.Popen(
        [sys.executable, "-m", "ottla.cli", *arguments, "--bootstrap", cluster.bootstrap],
        stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE, preexec_fn=die_with_parent,
    )  # fmt: skip
    try:
        yield process
    finally:
        process.kill()
        process.communicate()


def lines(first: int, last: int) -> bytes:
    return b"".join(b"%07d\n" % number for number in range(first, last))


def written(cluster: RealCluster, topic: str) -> int:
    with Client(cluster.bootstrap) as client:
        return sum(client.ends(TopicPartition(topic, partition) for partition in range(3)).values())


def collected(stream: IO[bytes]) -> tuple[threading.Thread, list[bytes]]:
    """What is left of a stream, read in the background so that nobody waits for us."""
    chunks: list[bytes] = []
    thread = threading.Thread(target=lambda: chunks.extend(stream), daemon=True)
    thread.start()
    return thread, chunks


def test_a_leader_that_is_killed_costs_the_commands_no_line_and_doubles_none(cluster: RealCluster) -> None:
    topic = cluster.create_topic(f"lines-{uuid.uuid4().hex[:6]}")
    with ottla(cluster, "produce", topic, "--no-progress") as produce:
        assert produce.stdin is not None
        victim = cluster.brokers[cluster.leader(topic, 0)]
        feeding = threading.Thread(target=produce.stdin.write, args=(lines(0, HELD_BACK),), daemon=True)
        feeding.start()
        wait_for(lambda: written(cluster, topic) > LINES // 10, START_S, "the first lines are written")
        victim.kill()
        feeding.join(DONE_S)
        _, said = produce.communicate(lines(HELD_BACK, LINES), timeout=DONE_S)
        assert produce.returncode == 0, said
        assert f"{LINES} records" in said.decode()
    victim.start()
    cluster.wait_settled()

    with ottla(cluster, "consume", topic) as consume:
        assert consume.stdout is not None
        assert consume.stderr is not None
        begun = [consume.stdout.readline() for _ in range(100)]  # the rest waits in a pipe that is full
        cluster.brokers[cluster.leader(topic, 1)].kill()
        stderr_thread, complaints = collected(consume.stderr)
        thread, rest = collected(consume.stdout)
        thread.join(DONE_S)
        stderr_thread.join(DONE_S)
        assert consume.wait(DONE_S) == 0, b"".join(complaints)
    read = sorted([*begun, *rest])
    assert len(read) == LINES
    assert b"".join(read) == lines(0, LINES)
