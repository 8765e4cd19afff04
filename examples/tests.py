# Tests: how to test a program that uses Kafka with a real broker, in milliseconds and without Docker or
# Java.
#
#     pip install ottla pytest
#     pytest examples/tests.py                          # as tests
#     python examples/tests.py                          # or cell by cell, as in a notebook
#     OTTLA_BOOTSTRAP=localhost:9092 python examples/tests.py
#
# Every `# %%` begins a cell.

# %% The program under test: it reads payments from one topic and writes receipts to another, and commits
# what it has done in the same transaction, so that a payment has one receipt whatever happens.
import json
import os
import uuid

from confluent_kafka import Consumer, KafkaError, KafkaException, Producer
from confluent_kafka.admin import AdminClient, NewTopic

from ottla import Broker


def write_receipts(bootstrap, payments, receipts, count):
    group = {
        "group.id": f"receipts-of-{payments}",
        "enable.auto.commit": False,
        "auto.offset.reset": "earliest",
    }
    consumer = Consumer({"bootstrap.servers": bootstrap, **group})
    consumer.subscribe([payments])
    producer = Producer({"bootstrap.servers": bootstrap, "transactional.id": group["group.id"]})
    producer.init_transactions(30)
    try:
        while count > 0:
            messages = consumer.consume(count, timeout=1)
            producer.begin_transaction()
            for message in messages:
                if message.error():
                    raise KafkaException(message.error())
                payment = json.loads(message.value())
                producer.produce(receipts, f"{payment['name']} paid {payment['amount']}", key=message.key())
            offsets = consumer.position(consumer.assignment())
            producer.send_offsets_to_transaction(offsets, consumer.consumer_group_metadata(), 30)
            producer.commit_transaction(30)
            count -= len(messages)
    finally:
        consumer.close()


# %% What tests need: topics of their own, something to send, and a look at what came out.
def make_topics(bootstrap):
    run = uuid.uuid4().hex[:6]
    names = [f"payments-{run}", f"receipts-{run}"]
    admin = AdminClient({"bootstrap.servers": bootstrap})
    created = admin.create_topics([NewTopic(name, 2) for name in names])
    for name in names:
        created[name].result(30)
    return names


def pay(bootstrap, topic, **payment):
    producer = Producer({"bootstrap.servers": bootstrap})
    producer.produce(topic, json.dumps(payment), key=payment["name"])
    assert producer.flush(30) == 0


def everything_in(bootstrap, topic):
    settings = {"group.id": uuid.uuid4().hex, "auto.offset.reset": "earliest", "enable.partition.eof": True}
    consumer = Consumer({"bootstrap.servers": bootstrap, **settings})
    consumer.subscribe([topic])
    values, ended = [], set()
    while len(ended) < 2:  # both partitions say that there is no more
        message = consumer.poll(30)
        assert message is not None, "the broker did not answer"
        if message.error() is None:
            values.append(message.value().decode())
        elif message.error().code() == KafkaError._PARTITION_EOF:
            ended.add(message.partition())
        else:
            raise KafkaException(message.error())
    consumer.close()
    return sorted(values)


# %% The tests. `ottla_broker` is a fixture that comes with Ottla: one broker for the whole run, started
# when a test first asks for it. `ottla_topic`, `ottla_cluster` and `ottla_secure_broker` are others.
def test_every_payment_has_a_receipt(ottla_broker):
    bootstrap = ottla_broker.bootstrap_servers
    payments, receipts = make_topics(bootstrap)
    pay(bootstrap, payments, name="Ottla", amount=12)
    pay(bootstrap, payments, name="Josef", amount=7)
    write_receipts(bootstrap, payments, receipts, 2)
    assert everything_in(bootstrap, receipts) == ["Josef paid 7", "Ottla paid 12"]


def test_a_program_that_is_started_again_writes_no_receipt_twice(ottla_broker):
    bootstrap = ottla_broker.bootstrap_servers
    payments, receipts = make_topics(bootstrap)
    pay(bootstrap, payments, name="Ottla", amount=12)
    write_receipts(bootstrap, payments, receipts, 1)
    pay(bootstrap, payments, name="Ottla", amount=1)
    write_receipts(bootstrap, payments, receipts, 1)
    assert everything_in(bootstrap, receipts) == ["Ottla paid 1", "Ottla paid 12"]


# %% The same without pytest: `Broker` is the object that the fixture gives. It starts in about a tenth of a
# second.
class Elsewhere:
    bootstrap_servers = os.environ.get("OTTLA_BOOTSTRAP")


if __name__ == "__main__":
    broker = Elsewhere() if Elsewhere.bootstrap_servers else Broker().start()
    test_every_payment_has_a_receipt(broker)
    test_a_program_that_is_started_again_writes_no_receipt_twice(broker)
    print("all receipts are there, none of them twice")
    if isinstance(broker, Broker):
        broker.stop()
