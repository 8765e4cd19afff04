"""Which partition a key goes to, beside what the others compute."""

import numpy as np
import pyarrow as pa
from confluent_kafka import Message, Producer
from hypothesis import given
from hypothesis import strategies as st

from ottla import Broker
from ottla.arrow import partitioner as vectors
from ottla.client.partitioner import likely_partitions, murmur2, partition_of


@given(st.lists(st.binary(max_size=40), min_size=1, max_size=20))
def test_murmur2_is_what_whole_columns_are_hashed_with(keys: list[bytes]) -> None:
    assert np.array_equal(vectors.murmur2(pa.array(keys, pa.binary())), [murmur2(key) for key in keys])


def test_keys_go_where_apache_kafkas_own_test_says() -> None:
    assert [murmur2(key) - (1 << 32 if murmur2(key) >> 31 else 0) for key in (b"21", b"foobar", b"abc")] == [
        -973932308, -790332482, 479470107,
    ]  # fmt: skip


def test_a_key_is_where_librdkafka_puts_it_by_default_and_as_java_does(broker: Broker) -> None:
    broker.create_topic("hashed", 12)
    placed: dict[bytes, set[int]] = {b"key-%d" % number: set() for number in range(30)}

    def arrived(_: object, message: Message) -> None:
        placed[message.key()].add(message.partition())

    for partitioner in ("consistent_random", "murmur2_random"):
        producer = Producer(broker.client_config | {"partitioner": partitioner})
        for key in placed:
            producer.produce("hashed", b"", key, on_delivery=arrived)
        assert producer.flush(30) == 0
    assert {key: set(likely_partitions(key, 12)) for key in placed} == placed
    assert all(partition_of(key, 12) in where for key, where in placed.items())
