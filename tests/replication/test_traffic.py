"""What leaders give and followers get is counted apart from what producers and consumers send and read."""

from tests.api.asking import batch, fetch_of, idempotent, to, values
from tests.replication.pump import Cluster
from tests.support.metrics import metrics_of, traffic_of

SENT = [batch("a"), batch("b", "c"), batch("d" * 1_000)]
SIZE = sum(map(len, SENT))


def filled() -> Cluster:
    """Broker 1 leads, and two others have all that it has."""
    cluster = Cluster(properties={"replica.lag.time.max.ms": "3000"})
    cluster.topic("t", (1, 2, 3))
    cluster.run()
    for sent in SENT:
        cluster.client(1).ask(to("t", sent), 12)
        cluster.run()
    cluster.pass_time(600)
    return cluster


def counted(cluster: Cluster, broker: int, *names: str) -> list[int]:
    traffic = traffic_of(cluster.nodes[broker].broker)
    return [traffic.get(name, 0) for name in names]


def test_followers_get_every_byte_once_and_none_of_it_counts_as_produced_or_consumed() -> None:
    cluster = filled()
    names = ("messagesin", "bytesin", "bytesout", "replicationbytesin", "replicationbytesout")
    assert counted(cluster, 1, *names) == [4, SIZE, 0, 0, 2 * SIZE]
    for follower in (2, 3):
        assert counted(cluster, follower, *names) == [0, 0, 0, SIZE, 0]
        assert "totalproducerequests" not in traffic_of(cluster.nodes[follower].broker)


def test_what_a_consumer_reads_from_a_follower_is_counted_there() -> None:
    cluster = filled()
    answer = cluster.client(2).send(fetch_of(("t", 0, 0)), 12)
    assert len(values(answer.responses[0].partitions[0])) == 4
    assert counted(cluster, 2, "bytesout", "replicationbytesout") == [SIZE, 0]
    assert traffic_of(cluster.nodes[2].broker, "t") == {"bytesout": SIZE, "totalfetchrequests": 1}
    assert counted(cluster, 1, "bytesout") == [0]


def test_a_consumer_that_is_too_old_for_followers_is_refused_and_given_nothing() -> None:
    cluster = filled()
    cluster.client(2).send(fetch_of(("t", 0, 0)), 10)
    assert traffic_of(cluster.nodes[2].broker, "t") == {"totalfetchrequests": 1}


def test_after_a_failover_the_next_leader_counts_on_and_a_batch_sent_again_is_counted_once() -> None:
    cluster = filled()
    sent = idempotent(0, "e", "f")
    cluster.client(1).ask(to("t", sent), 12)
    cluster.run()
    cluster.pass_time(600)
    cluster.kill(1)
    cluster.state("t", leader=2, leader_epoch=1, isr=(2, 3))
    cluster.run()
    again = cluster.client(2).ask(to("t", sent), 12)
    cluster.pass_time(20_000)
    assert again.answer.responses[0].partition_responses[0].base_offset == 4
    cluster.client(2).ask(to("t", idempotent(2, "g")), 12)
    cluster.pass_time(600)
    assert counted(cluster, 2, "messagesin", "bytesin", "totalproducerequests") == [
        1, len(idempotent(2, "g")), 2
    ]  # fmt: skip
    assert counted(cluster, 3, "messagesin", "replicationbytesin") == [
        0, SIZE + len(sent) + len(idempotent(2, "g"))
    ]  # fmt: skip


def test_a_restarted_follower_begins_at_zero_and_gets_what_it_missed() -> None:
    cluster = filled()
    cluster.stop(2)
    cluster.run()
    cluster.client(1).ask(to("t", batch("x"), acks=1), 12)
    cluster.run()
    cluster.start(2)
    cluster.pass_time(5_000)
    assert counted(cluster, 2, "replicationbytesin") == [len(batch("x"))]


def test_a_partition_is_shown_by_its_leader_alone() -> None:
    cluster = filled()

    def shown(broker: int) -> dict[str, float]:
        return {
            name.removeprefix("kafka_topic_"): value
            for name, value in metrics_of(cluster.nodes[broker].broker).items()
            if name.startswith("kafka_topic_")
        }

    of = '{topic="t",partition="0"}'
    assert shown(1) == {
        'partitions{topic="t"}': 1,
        f"partition_current_offset{of}": 4,
        f"partition_oldest_offset{of}": 0,
        f"partition_leader{of}": 1,
        f"partition_replicas{of}": 3,
        f"partition_in_sync_replica{of}": 3,
        f"partition_leader_is_preferred{of}": 1,
        f"partition_under_replicated_partition{of}": 0,
    }
    assert shown(2) == shown(3) == {}
    cluster.kill(1)
    cluster.state("t", leader=2, leader_epoch=1, isr=(2, 3))
    cluster.pass_time(20_000)
    assert shown(3) == {}
    after = shown(2)
    assert [after[f"partition_{name}{of}"] for name in ("leader", "in_sync_replica")] == [2, 2]
    assert after[f"partition_leader_is_preferred{of}"] == 0
    assert after[f"partition_under_replicated_partition{of}"] == 1
