"""What readers of each isolation level see of transactions that are open, committed, aborted or timed out."""

import pytest
from confluent_kafka import KafkaException
from tests.support.waiting import wait_for
from tests.transactions.conftest import NewProducer
from tests.transactions.producers import FENCED, Refused, TransactionalProducer
from tests.transactions.reading import COMMITTED, UNCOMMITTED, Offsets, fill, read
from tests.transactions.servers import Brokers

NOTHING = -1001
TIMEOUT_MS = 1_000


def test_the_first_of_two_producers_with_one_id_is_fenced(
    brokers: Brokers, topic: str, client: str, new_producer: NewProducer
) -> None:
    name = f"{client}-{topic}"
    first, second = (new_producer(client, brokers, name) for _ in range(2))
    first.init()
    first.begin()
    first.written(topic, "of-the-zombie")
    second.init()
    with pytest.raises(Refused) as refused:
        first.commit()
    second.begin()
    second.written(topic, "of-the-living")
    second.commit()
    assert refused.value.reason == FENCED
    assert read(brokers.bootstrap, topic, COMMITTED) == [["of-the-living"]]
    assert read(brokers.bootstrap, topic, UNCOMMITTED) == [["of-the-zombie", "of-the-living"]]


def test_a_fenced_producer_writes_nothing_into_its_successors_transaction(
    brokers: Brokers, topic: str, client: str, new_producer: NewProducer
) -> None:
    """Both write to the same partition, and the first does not know yet that it is a zombie."""
    name = f"{client}-{topic}"
    first, second = (new_producer(client, brokers, name) for _ in range(2))
    first.init()
    first.begin()
    first.written(topic, "before")
    second.init()
    second.begin()
    second.written(topic, "of-the-living")
    with pytest.raises(Refused):
        write_and_commit(first, topic, "too-late")
    second.commit()
    assert read(brokers.bootstrap, topic, COMMITTED) == [["of-the-living"]]
    assert read(brokers.bootstrap, topic, UNCOMMITTED) == [["before", "of-the-living"]]


def test_aborted_records_are_seen_by_read_uncommitted_alone(
    brokers: Brokers, topic: str, client: str, new_producer: NewProducer, offsets: Offsets
) -> None:
    producer = new_producer(client, brokers, f"{client}-{topic}")
    producer.init()
    for number, end in enumerate((producer.commit, producer.abort, producer.commit, producer.abort)):
        producer.begin()
        producer.written(topic, f"{number}-a", f"{number}-b")
        end()
    wait_for(lambda: offsets.is_stable(topic), 30, "the last marker is written")
    assert read(brokers.bootstrap, topic, COMMITTED) == [["0-a", "0-b", "2-a", "2-b"]]
    assert read(brokers.bootstrap, topic, UNCOMMITTED) == [
        [f"{number}-{letter}" for number in range(4) for letter in "ab"]
    ]


def test_an_open_transaction_hides_what_comes_after_it(
    brokers: Brokers, topic: str, client: str, new_producer: NewProducer, offsets: Offsets
) -> None:
    producer = new_producer(client, brokers, f"{client}-{topic}")
    producer.init()
    fill(brokers.bootstrap, topic, {0: ["before"]})
    producer.begin()
    producer.written(topic, "in-doubt")
    fill(brokers.bootstrap, topic, {0: ["after"]})
    assert offsets.ends(topic, 1, COMMITTED) == [1]
    assert offsets.ends(topic, 1, UNCOMMITTED) == [3]
    assert read(brokers.bootstrap, topic, COMMITTED) == [["before"]]
    assert read(brokers.bootstrap, topic, UNCOMMITTED) == [["before", "in-doubt", "after"]]
    producer.commit()
    wait_for(lambda: offsets.is_stable(topic), 30, "the marker is written")
    assert offsets.ends(topic, 1, COMMITTED) == [4]
    assert read(brokers.bootstrap, topic, COMMITTED) == [["before", "in-doubt", "after"]]


def test_a_transaction_that_takes_too_long_is_aborted_and_its_producer_told(
    brokers: Brokers, topic: str, client: str, new_producer: NewProducer, offsets: Offsets
) -> None:
    producer = new_producer(client, brokers, f"{client}-{topic}", TIMEOUT_MS)
    producer.init()
    producer.begin()
    producer.written(topic, "forgotten")
    assert offsets.ends(topic, 1, COMMITTED) == [0]
    wait_for(lambda: offsets.is_stable(topic), 60, "the transaction is aborted")
    with pytest.raises(Refused):
        write_and_commit(producer, topic, "too-late")
    assert read(brokers.bootstrap, topic, COMMITTED) == [[]]
    assert read(brokers.bootstrap, topic, UNCOMMITTED)[0][0] == "forgotten"


def test_offsets_of_an_aborted_transaction_are_not_committed(
    brokers: Brokers, topic: str, client: str, new_producer: NewProducer, offsets: Offsets
) -> None:
    producer = new_producer(client, brokers, f"{client}-{topic}")
    producer.init()
    seen = []
    for offset, end in ((5, producer.abort), (7, producer.commit), (9, producer.abort)):
        producer.begin()
        producer.written(topic, str(offset))
        producer.send_offset(offsets.group, topic, 0, offset)
        end()
        seen += offsets.committed(topic, isolation=COMMITTED, within_s=30)
    assert seen == [NOTHING, 7, 7]


def test_a_reader_of_offsets_waits_while_a_transaction_has_some(
    brokers: Brokers, topic: str, client: str, new_producer: NewProducer, offsets: Offsets
) -> None:
    producer = new_producer(client, brokers, f"{client}-{topic}")
    producer.init()
    producer.begin()
    producer.written(topic, "value")
    producer.send_offset(offsets.group, topic, 0, 3)
    with pytest.raises(KafkaException, match="_TIMED_OUT"):
        offsets.committed(topic, isolation=COMMITTED, within_s=1.5)
    assert offsets.committed(topic, isolation=UNCOMMITTED) == [NOTHING]
    producer.commit()
    assert offsets.committed(topic, isolation=COMMITTED, within_s=30) == [3]


def write_and_commit(producer: TransactionalProducer, topic: str, value: str) -> None:
    """One of the two is refused; which of them, is up to the client."""
    producer.written(topic, value)
    producer.commit()
