"""Copies a topic in transactions with confluent-kafka, until it is killed: `python -m ... SPEC`, JSON.

It reads its partitions from where the offsets of its group are stable, waiting for them if a transaction that
was left open has some (KIP-447), and commits its own offsets in its transactions. Now and then it aborts one,
offsets and all, and reads that part again. It exits with 3 when its producer cannot go on, with 4 when a call
of librdkafka has hung.

Its partitions are those it is given, or, as a member of the group, those it is assigned: then its offsets
tell the generation that the records were read in, so that a member that lost its partitions is refused.
"""

import json
import os
import random
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any, TypeVar

from confluent_kafka import (
    OFFSET_BEGINNING,
    OFFSET_STORED,
    Consumer,
    KafkaException,
    Message,
    Producer,
    TopicPartition,
)

CANNOT_GO_ON = 3
HUNG = 4
HANG_SLACK_S = 3.0  # what a call may take beyond its own timeout, on a machine that stalls
BROKER = {
    "log_level": 0,
    "reconnect.backoff.ms": 20,
    "reconnect.backoff.max.ms": 200,
    "socket.timeout.ms": 5_000,
    # When no broker can be reached, librdkafka by default forgets them all and begins anew. Its producer then
    # keeps a group coordinator that it never connects to again, and offsets for it wait for ever: seen in its
    # log at nearly every kill of a lone broker.
    "metadata.recovery.strategy": "none",
}
# The shortest session a broker takes by default: so long nobody reads the partitions of a killed member.
MEMBER = {"session.timeout.ms": 6_000, "heartbeat.interval.ms": 500}
R = TypeVar("R")


@contextmanager
def watched(call_s: float) -> Iterator[None]:
    """Ends the process when a call lasts longer than the timeout it was given.

    librdkafka's send_offsets_to_transaction ignores its timeout, and may wait for ever when a coordinator
    went down at the wrong moment (librdkafka #5456 and #5511).
    """
    watchdog = threading.Timer(call_s + HANG_SLACK_S, _end_hung)
    watchdog.daemon = True
    watchdog.start()
    try:
        yield
    finally:
        watchdog.cancel()


def _end_hung() -> None:
    print("hung in a call that should have timed out", flush=True)
    os._exit(HUNG)


def retried(call: Callable[[float], R], call_s: float) -> R:
    """As librdkafka's manual says: what is retriable is called again."""
    while True:
        try:
            with watched(call_s):
                return call(call_s)
        except KafkaException as error:
            if not error.args[0].retriable():
                raise
            print(f"tries again: {error}", flush=True)


class Copier:
    def __init__(self, spec: dict[str, Any]) -> None:
        self.spec = spec
        self.call_s: float = spec["call_s"]
        self.chance = random.Random(spec["seed"])
        self.producer = Producer(
            {
                "bootstrap.servers": spec["bootstrap"],
                "transactional.id": spec["transactional_id"],
                "transaction.timeout.ms": spec["transaction_timeout_ms"],
                "linger.ms": 2,
                **BROKER,
            }
        )
        retried(self.producer.init_transactions, self.call_s)
        self.consumer = Consumer(
            {
                "bootstrap.servers": spec["bootstrap"],
                "group.id": spec["group"],
                "auto.offset.reset": "earliest",
                "enable.auto.commit": False,
                "isolation.level": "read_committed",
                "fetch.wait.max.ms": 50,
                "topic.metadata.refresh.interval.ms": 2_000,
                **BROKER,
                **(MEMBER if spec["is_member"] else {}),
            }
        )
        self.partitions: list[TopicPartition] = []
        self.group = self.consumer.consumer_group_metadata()
        if spec["is_member"]:
            self.consumer.subscribe(
                [spec["input"]], on_assign=self._on_assign, on_revoke=self._on_revoke, on_lost=self._on_revoke
            )
        else:
            self._on_assign(
                self.consumer, [TopicPartition(spec["input"], number) for number in spec["partitions"]]
            )

    def _on_assign(self, consumer: Consumer, partitions: list[TopicPartition]) -> None:
        """From where the group's offsets are stable. The generation is taken down now: by the time that the
        records are copied, a member that was thrown out has none, and offsets without one are not refused."""
        for partition in partitions:
            partition.offset = OFFSET_STORED
        consumer.assign(partitions)
        self.partitions, self.group = partitions, consumer.consumer_group_metadata()

    def _on_revoke(self, consumer: Consumer, partitions: list[TopicPartition]) -> None:
        """No transaction is open: callbacks come in `consume`."""
        consumer.unassign()
        self.partitions = []

    def run(self) -> None:
        while True:
            read = self.consumer.consume(self.spec["transaction_size"], 0.1)
            messages = [message for message in read if message.error() is None]
            if messages:
                try:
                    self.copy(messages)
                except KafkaException as error:
                    if not error.args[0].txn_requires_abort():
                        raise
                    print(f"aborted: {error}", flush=True)
                    self.abort()

    def copy(self, messages: list[Message]) -> None:
        self.producer.begin_transaction()
        offsets: dict[int, int] = {}
        for message in messages:
            self.producer.produce(self.spec["output"], message.value(), partition=message.partition())
            offsets[message.partition()] = message.offset() + 1
        positions = [TopicPartition(self.spec["input"], *position) for position in offsets.items()]
        retried(
            lambda call_s: self.producer.send_offsets_to_transaction(positions, self.group, call_s),
            self.call_s,
        )
        if self.chance.random() < self.spec["abort_share"]:
            retried(self.producer.flush, self.call_s)  # or nothing of it would be in the topic
            self.abort()
        else:
            retried(self.producer.commit_transaction, self.call_s)

    def abort(self) -> None:
        retried(self.producer.abort_transaction, self.call_s)
        self.rewind()

    def rewind(self) -> None:
        """Back to what the group has committed."""
        while True:
            try:
                with watched(self.call_s):
                    positions = self.consumer.committed(self.partitions, self.call_s)
            except KafkaException as error:
                print(f"asks again for its offsets: {error}", flush=True)
            else:
                break
        for position in positions:
            if position.offset < 0:
                position.offset = OFFSET_BEGINNING
            self.consumer.seek(position)


if __name__ == "__main__":
    try:
        Copier(json.loads(sys.argv[1])).run()
    except KafkaException as error:
        print(f"cannot go on: {error}", flush=True)
        sys.exit(CANNOT_GO_ON)
