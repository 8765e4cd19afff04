"""A scrape of 10,000 partitions and 1,000 groups costs less than 300 ms of CPU, and keeps nobody waiting for
50 ms. Both are counted as time of the thread, so that a busy machine does not matter."""

import asyncio
import gc
import gzip
import tempfile
import threading
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.api.asking import create
from tests.api.harness import Machine
from tests.support.groups import committing, find
from tests.support.http import get
from tests.support.metrics import pieces_of

from ottla import Broker
from ottla.base.errors import ErrorCode
from ottla.base.ids import TopicPartition
from ottla.broker.effects import SyncFolder, SyncLog
from ottla.broker.metrics.sources import sources_of
from ottla.client.client import Client

TOPICS, PARTITIONS, GROUPS = 1_000, 10, 1_000
CPU_S, STALL_S = 0.3, 0.05


@pytest.fixture(autouse=True)
def collector() -> Iterator[None]:
    """What stays is not looked at again, as in a process that is a broker and nothing else."""
    gc.collect()
    gc.freeze()
    yield
    gc.unfreeze()


def test_a_scrape_of_very_many_partitions_and_groups_costs_little() -> None:
    machine = Machine({"offsets.topic.num.partitions": "5", "ottla.metrics.topics.max": "2000"})
    machine.hold(SyncLog, SyncFolder)  # which a simulated disk with so many files takes its time for
    client = machine.client()
    client.send(find("group-0"), 2)
    for number in range(TOPICS):
        create(client, f"a-topic-{number}", PARTITIONS)
    for number in range(GROUPS):
        commit = committing(
            0, group=f"group-{number}", topic=f"a-topic-{number}", partitions=tuple(range(PARTITIONS))
        )
        answer = client.send(commit, 7)
        assert answer.topics[0].partitions[0].error_code == ErrorCode.NONE
    gc.freeze()
    costs = []
    for _ in range(3):
        begun_s = time.thread_time()
        text = "".join(pieces_of(sources_of(machine.broker), machine.now_ms))
        costs.append(time.thread_time() - begun_s)
    assert text.count("kafka_log_log_size{") == TOPICS * PARTITIONS + 5
    assert text.count("kafka_topic_partition_current_offset{") == TOPICS * PARTITIONS + 5
    assert text.count("kafka_consumergroup_lag{") == GROUPS * PARTITIONS
    assert min(costs) < CPU_S, costs


def test_a_scrape_of_very_many_partitions_and_groups_keeps_nobody_waiting() -> None:
    memory = Path("/dev/shm")  # a stop syncs ten thousand logs, which takes a minute on some disks
    config = {"offsets.topic.num.partitions": "5", "ottla.http.listener": "0"}
    with (
        tempfile.TemporaryDirectory(dir=memory if memory.is_dir() else None) as data,
        Broker(data=data, config=config) as broker,
    ):
        for number in range(TOPICS // PARTITIONS):
            broker.create_topic(f"a-topic-{number}", partitions=PARTITIONS * PARTITIONS)
        with Client(broker.bootstrap_servers) as client:
            for number in range(GROUPS):
                topic = f"a-topic-{number % PARTITIONS}"
                offsets = {TopicPartition(topic, index): 0 for index in range(PARTITIONS)}
                client.commit_offsets(f"group-{number}", offsets)
        gc.freeze()
        stalls = [stall_while_scraped(broker) for _ in range(3)]
    # What a broker does besides, such as the checkpoints of ten thousand logs, is not in all of them.
    assert min(stalls) < STALL_S, stalls


def stall_while_scraped(broker: Broker) -> float:
    """The longest time of the loop's thread between two of its rounds, while Prometheus reads all metrics."""
    is_over = threading.Event()

    async def watch() -> float:
        longest_s, seen_s = 0.0, time.thread_time()
        while not is_over.is_set():
            await asyncio.sleep(0)
            longest_s, seen_s = max(longest_s, time.thread_time() - seen_s), time.thread_time()
        return longest_s

    assert broker._loop is not None
    watching = asyncio.run_coroutine_threadsafe(watch(), broker._loop)
    try:
        page = get(broker.http_address, "/metrics", Accept_Encoding="gzip")
        text = gzip.decompress(page.body).decode()
    finally:
        is_over.set()
    assert text.count("kafka_log_log_size{") == TOPICS * PARTITIONS + 5
    assert text.count("kafka_consumergroup_lag{") == GROUPS * PARTITIONS
    return watching.result(60)
