"""A coordinator with much to load, in a broker with a real loop: others have their turn between slices."""

import asyncio
import gc
from pathlib import Path

import pytest
from tests.shell.test_server import server

from ottla import Broker
from ottla.client import Client, TopicPartition
from ottla.shell.server import Server

COMMITS = 600
SLICE = 20


@pytest.fixture
def stored(tmp_path: Path) -> Path:
    """A data directory with that many commits in one partition of __consumer_offsets."""
    place = TopicPartition("t", 0)
    with (
        Broker({"offsets.topic.num.partitions": 1}, data=tmp_path) as broker,
        Client(broker.bootstrap_servers, timeout_s=30) as client,
    ):
        client.create_topics({"t": 1})
        for offset in range(COMMITS):
            client.commit_offsets("g", {place: offset})
    return tmp_path


async def started(data: Path) -> Server:
    """A broker that serves, and has not begun to load."""
    one = server(data)
    one.broker.coordinators.groups.runtime.slice_work = 0
    one.broker.coordinators.groups.runtime.on_tick(one.core.now_ms())
    await one.start()
    assert one.broker.coordinators.is_loading
    return one


def test_the_loop_goes_round_between_the_slices_of_a_load(stored: Path) -> None:
    async def live() -> tuple[int, int]:
        one = await started(stored)
        one.broker.coordinators.groups.runtime.slice_work = SLICE
        rounds = 0
        while one.broker.coordinators.is_loading:
            rounds += 1
            assert not gc.isenabled(), "a full collection takes longer than many slices"
            await asyncio.sleep(0)
        (shard,) = (shard for _, shard in one.broker.coordinators.groups.shards())
        offset = shard.offsets.newest("g")["t"][0].offset
        await one.stop()
        return rounds, offset

    rounds, offset = asyncio.run(live())
    assert rounds >= COMMITS / SLICE / 2, "a tick and a deadline may come in the same round"
    assert offset == COMMITS - 1
    assert gc.isenabled()


def test_a_broker_that_stops_while_it_loads_leaves_the_collector_as_it_was(stored: Path) -> None:
    async def live() -> None:
        one = await started(stored)
        await one.stop()

    asyncio.run(live())
    assert gc.isenabled()
