"""After a run of real clients, the counters of a topic say exactly what they did."""

import pytest
from confluent_kafka import Consumer, KafkaError, Producer

from ottla import Broker

RECORDS = 500


def of(broker: Broker, name: str, topic: str = "orders") -> int:
    return int(broker.metrics()[f'kafka_server_brokertopicmetrics_{name}_total{{topic="{topic}"}}'])


def log_bytes(broker: Broker) -> int:
    samples = broker.metrics()
    return sum(
        int(size) for name, size in samples.items() if name.startswith('kafka_log_log_size{topic="orders"')
    )


def produce(broker: Broker, **settings: object) -> None:
    producer = Producer({"bootstrap.servers": broker.bootstrap_servers, "linger.ms": 20, **settings})
    for number in range(RECORDS):
        producer.produce("orders", key=str(number), value=b"v" * 200)
    assert producer.flush(30) == 0


def consume(broker: Broker, count: int) -> None:
    settings = {
        "bootstrap.servers": broker.bootstrap_servers, "group.id": "readers", "auto.offset.reset": "earliest",
        "enable.auto.commit": False,
    }  # fmt: skip
    consumer = Consumer(settings)
    consumer.subscribe(["orders"])
    try:
        read = 0
        while read < count:
            messages = consumer.consume(count - read, 30)
            assert messages, f"only {read} records came"
            read += len(messages)
    finally:
        consumer.close()


@pytest.mark.parametrize("codec", ["none", "zstd"])
@pytest.mark.parametrize("acks", ["all", "1", "0"])
def test_a_real_producer_is_counted_to_the_record_and_to_the_byte(acks: str, codec: str) -> None:
    with Broker() as broker:
        broker.create_topic("orders", partitions=3)
        produce(broker, **{"acks": acks, "compression.type": codec, "enable.idempotence": acks == "all"})
        if acks == "0":  # nobody is told when it is written
            consume(broker, RECORDS)
        assert of(broker, "messagesin") == RECORDS
        assert of(broker, "bytesin") == log_bytes(broker), "all that came is in the logs, as it came"
        assert of(broker, "failedproducerequests") == 0


def test_real_consumers_and_a_refused_record_are_counted_and_a_restart_begins_at_zero(
    tmp_path_factory: pytest.TempPathFactory,
) -> None:
    data = tmp_path_factory.mktemp("data")
    with Broker(data=data) as broker:
        broker.create_topic("orders", partitions=2, config={"max.message.bytes": "100000"})
        produce(broker)
        consume(broker, RECORDS)
        consume(broker, RECORDS)  # nothing was committed
        size = log_bytes(broker)
        assert of(broker, "bytesout") >= 2 * size, "a batch that did not fit a first time comes again"
        producer = Producer({
            "bootstrap.servers": broker.bootstrap_servers, "message.max.bytes": 2_000_000
        })  # fmt: skip
        refused: list[KafkaError] = []
        producer.produce("orders", b"x" * 200_000, on_delivery=lambda error, _: refused.append(error))
        producer.flush(30)
        assert [error.code() for error in refused] == [KafkaError.MSG_SIZE_TOO_LARGE]
        assert of(broker, "bytesrejected") > 200_000
        assert of(broker, "messagesin") == RECORDS
    with Broker(data=data) as broker:
        assert (of(broker, "messagesin"), of(broker, "bytesin"), log_bytes(broker)) == (0, 0, size)
        produce(broker, **{"compression.type": "lz4"})
        assert of(broker, "messagesin") == RECORDS
        assert of(broker, "bytesin") == log_bytes(broker) - size


def test_an_aborted_transaction_counts_its_records_and_its_markers() -> None:
    with Broker() as broker:
        broker.create_topic("orders", partitions=1)
        settings = {"bootstrap.servers": broker.bootstrap_servers, "transactional.id": "orders-1"}
        producer = Producer(settings)
        producer.init_transactions(30)
        for number in range(2):
            producer.begin_transaction()
            for value in range(10):
                producer.produce("orders", str(value), partition=0)
            producer.flush(30)
            if number:
                producer.commit_transaction(30)
            else:
                producer.abort_transaction(30)
        assert of(broker, "messagesin") == 2 * (10 + 1)
        assert of(broker, "bytesin") == log_bytes(broker)


def test_the_time_that_the_disk_takes_for_syncs_is_measured() -> None:
    with Broker() as broker:
        broker.create_topic("orders", config={"flush.messages": "1"})
        before = broker.metrics()["kafka_log_logflushstats_logflushrateandtimems_count"]
        producer = Producer({"bootstrap.servers": broker.bootstrap_servers, "acks": "all"})
        for _ in range(3):
            producer.produce("orders", b"v")
            assert producer.flush(30) == 0
        samples = broker.metrics()
    assert samples["kafka_log_logflushstats_logflushrateandtimems_count"] >= before + 3
    assert samples["ottla_log_flush_seconds_sum"] > 0
