"""Requests of real clients, as metrics show them."""

from confluent_kafka import Consumer, Producer, TopicPartition
from tests.support.waiting import wait_for

from ottla import Broker, Cluster
from ottla.client.admin.broker_metrics import parsed

WITHIN_S = 30.0
RECORDS = 50


def samples(cluster: Cluster, name: str) -> float:
    """The sum over all brokers."""
    shown = [broker.metrics() for broker in cluster.brokers.values()]
    return sum(broker.get(name, 0.0) for broker in shown)


def requests(cluster: Cluster, request: str) -> float:
    shown = [broker.metrics() for broker in cluster.brokers.values()]
    name = f'kafka_network_requestmetrics_requests_total{{request="{request}",'
    return sum(value for broker in shown for key, value in broker.items() if key.startswith(name))


def test_a_producer_that_waits_for_replicas_and_a_consumer_that_waits_for_records_are_remote() -> None:
    with Cluster(brokers=3) as cluster:
        cluster.create_topic("t", partitions=1, replicas=3)
        producer = Producer({**cluster.client_config, "acks": "all", "linger.ms": 0})
        for number in range(RECORDS):
            producer.produce("t", f"{number}".encode(), partition=0)
            assert producer.flush(WITHIN_S) == 0
        assert requests(cluster, "Produce") == RECORDS
        assert samples(cluster, 'ottla_request_seconds_count{request="Produce"}') == RECORDS
        parts = {
            part: samples(cluster, f'ottla_request{part}_seconds_sum{{request="Produce"}}')
            for part in ("", "_queue", "_local", "_remote", "_send")
        }
        assert parts["_remote"] > 0, "followers have to fetch what is produced"
        assert parts["_local"] > 0
        whole = parts.pop("")
        assert abs(sum(parts.values()) - whole) < 1e-5 * RECORDS, "the parts are all of it"
        assert requests(cluster, "FetchFollower") > 0
        assert requests(cluster, "FetchConsumer") == 0

        consumer = Consumer({**cluster.client_config, "group.id": "g", "auto.offset.reset": "earliest"})
        try:
            consumer.assign([TopicPartition("t", 0, RECORDS)])  # the end

            def waits() -> bool:
                consumer.poll(0.1)
                name = 'kafka_server_delayedoperationpurgatory_purgatorysize{delayedOperation="Fetch"}'
                return requests(cluster, "FetchConsumer") > 0 and samples(cluster, name) > 0

            wait_for(waits, WITHIN_S, "its fetch waits")
        finally:
            consumer.close()
        fetches = requests(cluster, "FetchConsumer") + requests(cluster, "FetchFollower")
        assert requests(cluster, "Fetch") >= fetches


def test_a_group_with_separators_of_lines_in_its_name_can_be_read() -> None:
    group = "a\rb\x85c\u2028d\x0be"
    with Broker() as broker:
        broker.create_topic("t")
        consumer = Consumer({**broker.client_config, "group.id": group})
        consumer.commit(offsets=[TopicPartition("t", 0, 7)], asynchronous=False)
        consumer.close()
        metrics = broker.metrics()
    name = "kafka_consumergroup_current_offset_sum"
    sample = f'{name}{{consumergroup="{group}",topic="t"}}'
    assert metrics[sample] == 7
    [measurement] = parsed(f"{sample} 7\n")
    assert measurement == (name, 7, {"consumergroup": group, "topic": "t"})
