"""Copies a topic in transactions with confluent-kafka, until it is killed: `python -m ... SPEC`, JSON.

It reads as a member of a group (static, so that it is back at once after a kill) and commits its offsets in
the transaction (KIP-447). Now and then it aborts one, offsets and all, and reads that part again. It exits
with 3 when its producer cannot go on.
"""

import json
import random
import sys
from collections.abc import Callable
from typing import Any, TypeVar

from confluent_kafka import (
    OFFSET_BEGINNING,
    Consumer,
    KafkaError,
    KafkaException,
    Message,
    Producer,
    TopicPartition,
)

CALL_S = 20.0
CANNOT_GO_ON = 3
BROKER = {
    "log_level": 0,
    "reconnect.backoff.ms": 20,
    "reconnect.backoff.max.ms": 200,
    "socket.timeout.ms": 5_000,
}
R = TypeVar("R")


def retried(call: Callable[[], R]) -> R:
    """As librdkafka's manual says: what is retriable is called again."""
    while True:
        try:
            return call()
        except KafkaException as error:
            if not error.args[0].retriable():
                raise
            print(f"tries again: {error}", flush=True)


def _on_change(_consumer: Consumer, _partitions: list[TopicPartition]) -> None:
    """confluent-kafka assigns or unassigns when this returns."""


class Copier:
    def __init__(self, spec: dict[str, Any]) -> None:
        self.spec = spec
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
        retried(lambda: self.producer.init_transactions(CALL_S))
        self.consumer = Consumer(
            {
                "bootstrap.servers": spec["bootstrap"],
                "group.id": spec["group"],
                "group.instance.id": spec["transactional_id"],
                "auto.offset.reset": "earliest",
                "enable.auto.commit": False,
                "isolation.level": "read_committed",
                "fetch.wait.max.ms": 50,
                # A broker that dies while a group is being joined may keep a member that nobody is any more.
                "session.timeout.ms": 6_000,
                "max.poll.interval.ms": 10_000,
                "topic.metadata.refresh.interval.ms": 2_000,
                **BROKER,
            }
        )
        # With callbacks, partitions and generation change only inside `consume`: what was read is still ours
        # when its offsets are sent. Without them they change at any time, and a copy of a partition that
        # somebody else has by now would count.
        self.consumer.subscribe(
            [spec["input"]], on_assign=_on_change, on_revoke=_on_change, on_lost=_on_change
        )

    def run(self) -> None:
        while True:
            read = self.consumer.consume(self.spec["transaction_size"], 0.1)
            messages = [message for message in read if message.error() is None]
            if messages:
                try:
                    self.copy(messages)
                except KafkaException as error:
                    if not error.args[0].txn_requires_abort():
                        print(f"cannot go on: {error}", flush=True)
                        sys.exit(CANNOT_GO_ON)
                    print(f"aborted: {error}", flush=True)
                    self.abort()

    def copy(self, messages: list[Message]) -> None:
        self.producer.begin_transaction()
        offsets: dict[int, int] = {}
        for message in messages:
            self.producer.produce(self.spec["output"], message.value(), partition=message.partition())
            offsets[message.partition()] = message.offset() + 1
        positions = [TopicPartition(self.spec["input"], *position) for position in offsets.items()]
        group = self.consumer.consumer_group_metadata()
        retried(lambda: self.producer.send_offsets_to_transaction(positions, group, CALL_S))
        if self.chance.random() < self.spec["abort_share"]:
            self.abort()
        else:
            retried(lambda: self.producer.commit_transaction(CALL_S))

    def abort(self) -> None:
        try:
            retried(lambda: self.producer.abort_transaction(CALL_S))
        except KafkaException as error:
            print(f"cannot abort: {error}", flush=True)
            sys.exit(CANNOT_GO_ON)
        self.rewind()

    def rewind(self) -> None:
        """Back to what the group has committed."""
        assigned = self.consumer.assignment()
        while assigned:
            try:
                for position in self.consumer.committed(assigned, CALL_S):
                    if position.offset < 0:
                        position.offset = OFFSET_BEGINNING
                    self.consumer.seek(position)
            except KafkaException as error:
                if error.args[0].code() == KafkaError._STATE:  # it was taken away meanwhile
                    return
                print(f"asks again for its offsets: {error}", flush=True)
            else:
                return


if __name__ == "__main__":
    Copier(json.loads(sys.argv[1])).run()
