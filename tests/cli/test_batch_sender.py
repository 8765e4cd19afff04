"""What `ottla produce` does about producers that were forgotten and topics that grow, without a broker."""

from collections.abc import Iterable, Mapping
from typing import Any, cast

import pytest

from ottla.base.errors import ErrorCode
from ottla.base.ids import TopicPartition
from ottla.cli.records import batch_sender
from ottla.cli.records.batch_sender import BatchSender
from ottla.cli.records.deliveries import Deliveries
from ottla.cli.records.input_records import Columns, LineError, Parsed
from ottla.client.client import Client
from ottla.client.errors import ClientError
from ottla.client.formats import Outgoing
from ottla.records.batch import read_header
from ottla.records.compression import Codec


class Scripted:
    """A client whose cluster stores what it is sent. `forgets` are the numbers of the requests that are
    answered with UNKNOWN_PRODUCER_ID, and how often their batches had been sent then."""

    def __init__(self, partitions: int = 1, forgets: Mapping[int, int] | None = None) -> None:
        self.count = partitions
        self.forgets = dict(forgets or {})
        self.requests = 0
        self.producers = 0
        self.stored: list[tuple[int, int, int, int]] = []  # partition, producer, first sequence, records

    def partitions(self, _topics: Iterable[str], **_more: Any) -> dict[str, list[int]]:
        return {"t": list(range(self.count))}

    def producer_id(self) -> tuple[int, int]:
        self.producers += 1
        return self.producers, 0

    def produce(
        self,
        batches: Mapping[TopicPartition, bytes],
        *,
        acks: int,
        refusals: dict[TopicPartition, ClientError],
    ) -> dict[TopicPartition, int]:
        assert acks == -1
        self.requests += 1
        if self.requests in self.forgets:
            for topic_partition in batches:
                refusals[topic_partition] = ClientError(
                    "t-0: UNKNOWN_PRODUCER_ID", ErrorCode.UNKNOWN_PRODUCER_ID
                )
                refusals[topic_partition].times_sent = self.forgets[self.requests]
            return {}
        for topic_partition, batch in batches.items():
            header = read_header(batch)
            stored = (topic_partition.partition, header.producer_id, header.base_sequence, header.count)
            self.stored.append(stored)
        return dict.fromkeys(batches, 0)


def sender(cluster: Scripted, deliveries: Deliveries | None = None) -> BatchSender:
    made = BatchSender(
        cast(Client, cluster),
        "t",
        deliveries or Deliveries(),
        acks=-1,
        codec=Codec.NONE,
        partition=None,
        limit=lambda: None,
        quiet=False,
    )
    made.prepare()
    return made


def portion(first: int, count: int) -> Parsed:
    return Parsed(range(first, first + count), Columns([b"v"] * count, None, []))


def test_a_producer_that_was_forgotten_goes_on_as_another_one(capsys: pytest.CaptureFixture[str]) -> None:
    cluster, deliveries = Scripted(forgets={2: 1}), Deliveries()
    sending = sender(cluster, deliveries)
    for first in (1, 4, 7):
        sending.send(portion(first, 3))
    sending.finish()
    assert cluster.stored == [(0, 1, 0, 3), (0, 2, 0, 3), (0, 2, 3, 3)]
    assert deliveries.acknowledged == 9
    assert "the broker has forgotten this producer: a new one goes on" in capsys.readouterr().err


def test_a_batch_that_may_be_stored_is_not_sent_by_another_producer() -> None:
    cluster = Scripted(forgets={2: 2})
    sending = sender(cluster)
    sending.send(portion(1, 3))
    sending.send(portion(4, 3))
    with pytest.raises(ClientError, match="lines 4 to 6 had been sent before, without an answer"):
        sending.finish()
    assert cluster.stored == [(0, 1, 0, 3)]


def test_a_producer_that_has_sent_nothing_cannot_have_been_forgotten() -> None:
    cluster = Scripted(forgets={1: 1})
    sending = sender(cluster)
    sending.send(portion(1, 3))
    with pytest.raises(ClientError, match="UNKNOWN_PRODUCER_ID"):
        sending.finish()
    assert cluster.producers == 1


def test_partitions_that_are_added_meanwhile_are_used_after_a_while(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    cluster = Scripted()
    sending = sender(cluster)
    sending.send(portion(1, 1))
    cluster.count = 3
    sending.send(portion(2, 1))
    monkeypatch.setattr(batch_sender, "METADATA_S", -1.0)
    for line in range(3, 6):
        sending.send(portion(line, 1))
    sending.finish()
    assert [partition for partition, *_ in cluster.stored[:2]] == [0, 0]
    assert {partition for partition, *_ in cluster.stored[2:]} == {0, 1, 2}
    assert capsys.readouterr().err == "topic t has 3 partitions now\n"


def test_a_line_that_names_a_partition_which_was_just_added_is_looked_up() -> None:
    cluster = Scripted()
    sending = sender(cluster)
    cluster.count = 2
    sending.send(Parsed([1], [Outgoing(None, b"v", [], 1)]))
    sending.finish()
    assert [partition for partition, *_ in cluster.stored] == [1]
    with pytest.raises(LineError, match="line 2: topic t has no partition 5, only 0 to 1"):
        sending.send(Parsed([2], [Outgoing(None, b"v", [], 5)]))
