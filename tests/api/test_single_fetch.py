"""A fetch of one partition: the broker says and counts what it does for those of many."""

import errno
import gc
from typing import Any
from unittest.mock import patch

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.api.asking import batch, create, fetch_of, produce
from tests.api.harness import Machine
from tests.api.test_read_committed import READ_COMMITTED, Topic, transactional
from tests.support.metrics import metrics_of

from ottla.api.call import CloseConnection
from ottla.api.partition_reads import PartitionReads

NO_ID = bytes(15) + b"\1"
RECORDS = [batch("a"), batch("b", "c"), transactional("d"), batch("e" * 200), batch("f")]
STEPS = st.one_of(
    st.fixed_dictionaries(
        {
            "version": st.sampled_from([4, 6, 7, 10, 11, 12, 13, 16, 18]),
            "topic": st.sampled_from(["t", "t", "t", "t", "elsewhere"]),
            "offset": st.integers(-1, 12),
            "max_wait_ms": st.sampled_from([0, 0, 500]),
            "min_bytes": st.sampled_from([0, 1, 1, 400, 1 << 20]),
            "max_bytes": st.sampled_from([-1, 0, 1, 100, 250, 1 << 20]),
            "partition_max_bytes": st.sampled_from([-1, 0, 1, 100, 250, 1 << 20]),
            "current_leader_epoch": st.sampled_from([-1, -1, 0, 0, 5]),
            "last_fetched_epoch": st.sampled_from([-1, -1, -1, 0]),
            "isolation_level": st.integers(0, READ_COMMITTED),
            "session": st.sampled_from([None, None, "begin", "go on"]),
            "rack_id": st.sampled_from(["", "a rack"]),
        }
    ),
    st.sampled_from(["write", "delete", "forget", "fail", "tire"]),
)


class Dialogue:
    """A consumer and a broker, and what was said."""

    def __init__(self) -> None:
        self.topic = Topic(segment_bytes="300", index_interval_bytes="100")
        self.machine = self.topic.machine
        for records in RECORDS:
            self.topic.write(records)
        self.topic.end(False)
        self.topic_id = self.topic.partition.topic_id
        self.session, self.epoch = 0, 0
        self.said: list[Any] = []

    def fetch(self, asked: dict[str, Any]) -> None:
        topic, offset, version, session = (
            asked.pop(key) for key in ("topic", "offset", "version", "session")
        )
        if version >= 13:
            topic = self.topic_id if topic == "t" else NO_ID
        if session is not None and version >= 7:
            self.epoch = 0 if session == "begin" else self.epoch + 1
            asked |= {"session_id": self.session, "session_epoch": self.epoch}
        client = self.machine.client()
        try:
            pending = client.ask(fetch_of((topic, 0, offset), **asked), version)
        except CloseConnection as closed:
            self.said.append(str(closed))
            return
        if pending.answer is not None and pending.answer.session_id:
            self.session = pending.answer.session_id
        self.said += [pending, self.machine.broker.allowance.read_left]

    def do(self, what: str) -> None:
        disk, partition = self.machine.disk, self.topic.partition
        if what == "write":
            self.topic.write(batch("more"))
        elif what == "delete":
            partition.delete_records(min(partition.log.log_start_offset + 2, partition.high_watermark))
        elif what == "forget":
            disk.drop_caches()
        elif what == "fail":
            disk.fail("read", errno.EIO)
        elif what == "tire":
            self.machine.broker.allowance.read_left = 0
            self.machine.is_one_round = True

    def run(self, steps: list[Any]) -> tuple[list[Any], dict[str, float], list[str], int]:
        for step in steps:
            if self.machine.halted:
                break
            if isinstance(step, dict):
                self.fetch(dict(step))
            else:
                self.do(step)
        self.machine.pass_time(1_000)
        said = [getattr(part, "answer", part) for part in self.said]
        broker = self.machine.broker
        return said, metrics_of(broker, self.machine.now_ms), self.machine.halted, self.machine.disk.reads


@given(st.lists(STEPS, min_size=1, max_size=8))
@settings(max_examples=300, deadline=None)
def test_what_is_answered_and_counted_is_the_same_the_long_way(steps: list[Any]) -> None:
    outcome = Dialogue().run(steps)
    with (
        patch("ottla.api.fetch.respond_single", return_value=None),
        patch("ottla.api.consumer_fetch.respond_single", return_value=None),
    ):
        assert Dialogue().run(steps) == outcome


@pytest.mark.parametrize("isolation", [0, READ_COMMITTED])
def test_a_fetch_of_one_partition_takes_the_short_way(
    isolation: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    machine = Machine()
    create(machine.client(), "t")
    waiting = machine.client().ask(fetch_of(("t", 0, 0), max_wait_ms=500, isolation_level=isolation), 11)
    monkeypatch.setattr(PartitionReads, "respond", lambda *_: pytest.fail("it took the long way"))
    produce(machine.client(), "t")
    at_once = machine.client().send(fetch_of(("t", 0, 0), max_wait_ms=500, isolation_level=isolation), 11)
    assert waiting.answer == at_once
    assert at_once.responses[0].partitions[0].high_watermark == 1


def test_a_read_that_has_to_wait_for_the_disk_leaves_no_circle_of_objects_behind() -> None:
    """In it would be what was read so far."""
    machine = Machine()
    client = machine.client()
    create(client, "t")
    produce(client, "t")
    client.send(fetch_of(("t", 0, 0)), 11)
    machine.disk.drop_caches()
    gc.collect()
    gc.disable()
    try:
        answer = client.send(fetch_of(("t", 0, 0)), 11)
        assert gc.collect() == 0
    finally:
        gc.enable()
    assert answer.responses[0].partitions[0].records
