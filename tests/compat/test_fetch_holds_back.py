"""A fetch that waits holds back what is asked behind it on the same connection, on Apache Kafka and on Ottla.

Spark's official connector asks for offsets behind a fetch at the end of the log, and takes
`fetch.max.wait.ms` a task for it: docs/performance.md."""

import time

from tests.compat.transactional import Server
from tests.kafka_clients.wire_client import TIMEOUT_S, Wire, batch, fetch_request

from ottla.base.offset_times import LATEST
from ottla.wire.messages.fetch import FetchRequest
from ottla.wire.messages.list_offsets import ListOffsetsPartition, ListOffsetsRequest, ListOffsetsTopic

FETCH_VERSION, LIST_OFFSETS_VERSION = 11, 7
WAIT_S = 0.5


def end_request(topic: str) -> ListOffsetsRequest:
    wanted = ListOffsetsPartition(partition_index=0, timestamp=LATEST)
    return ListOffsetsRequest(replica_id=-1, topics=[ListOffsetsTopic(name=topic, partitions=[wanted])])


def connect(server: Server) -> Wire:
    return Wire(int(server.bootstrap.rpartition(":")[2]))


def fetch_and_ask_for_the_end(wire: Wire, topic: str, max_wait_s: float) -> None:
    wire.send(fetch_request(topic, max_wait_ms=int(max_wait_s * 1000)), FETCH_VERSION)
    wire.send(end_request(topic), LIST_OFFSETS_VERSION)


def receive_both(wire: Wire) -> tuple[bytes, int]:
    """The records of the fetch, and the end of the log."""
    _, fetched = wire.receive(FetchRequest, FETCH_VERSION)
    _, listed = wire.receive(ListOffsetsRequest, LIST_OFFSETS_VERSION)
    return bytes(fetched.responses[0].partitions[0].records), listed.topics[0].partitions[0].offset


def test_offsets_asked_behind_an_empty_fetch_are_answered_when_its_wait_is_over(
    transactional: Server, transactional_topic: str
) -> None:
    with connect(transactional) as wire:
        began = time.monotonic()
        fetch_and_ask_for_the_end(wire, transactional_topic, WAIT_S)
        assert receive_both(wire) == (b"", 0)
        assert time.monotonic() - began > 0.9 * WAIT_S


def test_a_new_record_ends_the_wait_of_both(transactional: Server, transactional_topic: str) -> None:
    with connect(transactional) as wire, connect(transactional) as other:
        fetch_and_ask_for_the_end(wire, transactional_topic, 2 * TIMEOUT_S)
        other.produce(transactional_topic, bytes(batch(b"x")))
        records, end = receive_both(wire)  # whose socket would not wait for that long
        assert (bool(records), end) == (True, 1)
