"""Copies a topic in transactions with confluent-kafka, until it is killed: `python -m ... SPEC`, JSON.

It reads its partitions from where the offsets of its group are stable, waiting for them if a transaction that
was left open has some (KIP-447), and commits its own offsets in its transactions. Now and then it aborts one,
offsets and all, and reads that part again. It exits with 3 when its producer cannot go on.
"""

import json
import random
import sys
from collections.abc import Callable
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
                "auto.offset.reset": "earliest",
                "enable.auto.commit": False,
                "isolation.level": "read_committed",
                "fetch.wait.max.ms": 50,
                "topic.metadata.refresh.interval.ms": 2_000,
                **BROKER,
            }
        )
        # Its own partitions, from where the group's offsets are stable.
        self.partitions = [
            TopicPartition(spec["input"], number, OFFSET_STORED) for number in spec["partitions"]
        ]
        self.consumer.assign(self.partitions)

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
            self.producer.flush(CALL_S)  # or nothing of it would be in the topic
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
        while True:
            try:
                for position in self.consumer.committed(self.partitions, CALL_S):
                    if position.offset < 0:
                        position.offset = OFFSET_BEGINNING
                    self.consumer.seek(position)
            except KafkaException as error:
                print(f"asks again for its offsets: {error}", flush=True)
            else:
                return


if __name__ == "__main__":
    Copier(json.loads(sys.argv[1])).run()
