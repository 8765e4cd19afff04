"""Copies partitions of a topic in transactions with aiokafka, until it is killed: `python -m ... SPEC`, JSON.

aiokafka speaks the first versions of the transactional APIs, and neither tells its generation with the
offsets nor waits for stable ones: it relies on its transactional id, which belongs to these partitions and
ends what a killed process left, before it reads where to go on. Any error ends it with 3; the next process
takes over.
"""

import asyncio
import json
import random
import sys
from typing import Any

from aiokafka import AIOKafkaConsumer, AIOKafkaProducer, TopicPartition
from aiokafka.errors import KafkaError

CANNOT_GO_ON = 3


async def run(spec: dict[str, Any]) -> None:
    chance = random.Random(spec["seed"])
    broker = {"bootstrap_servers": spec["bootstrap"], "request_timeout_ms": 5_000, "retry_backoff_ms": 20}
    producer = AIOKafkaProducer(
        **broker,
        transactional_id=spec["transactional_id"],
        transaction_timeout_ms=spec["transaction_timeout_ms"],
        linger_ms=2,
    )
    await producer.start()
    consumer = AIOKafkaConsumer(
        **broker,
        group_id=spec["group"],
        isolation_level="read_committed",
        enable_auto_commit=False,
        auto_offset_reset="earliest",
        fetch_max_wait_ms=50,
        metadata_max_age_ms=2_000,
    )
    consumer.assign([TopicPartition(spec["input"], number) for number in spec["partitions"]])
    await consumer.start()
    while True:
        read = await consumer.getmany(timeout_ms=100, max_records=spec["transaction_size"])
        if not any(read.values()):
            continue
        await producer.begin_transaction()
        for partition, messages in read.items():
            for message in messages:
                await producer.send(spec["output"], message.value, partition=partition.partition)
        offsets = {partition: messages[-1].offset + 1 for partition, messages in read.items() if messages}
        await producer.send_offsets_to_transaction(offsets, spec["group"])
        if chance.random() < spec["abort_share"]:
            await producer.flush()  # or nothing of it would be in the topic
            await producer.abort_transaction()
            await consumer.seek_to_committed()
        else:
            await producer.commit_transaction()


if __name__ == "__main__":
    try:
        asyncio.run(run(json.loads(sys.argv[1])))
    except (KafkaError, TimeoutError) as error:
        print(f"cannot go on: {error!r}", flush=True)
        sys.exit(CANNOT_GO_ON)
