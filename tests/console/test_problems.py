"""What is wrong with a cluster, and what to do about it: from what was seen to sentences."""

from ottla.client.admin.groups import Group, Member, Position
from ottla.console.cluster.history import History, rate
from ottla.console.cluster.log_dirs import LogDirectory
from ottla.console.cluster.measurement import Measurement
from ottla.console.cluster.reassignments import Reassignment, progress
from ottla.console.cluster.sampler import LAG
from ottla.console.cluster.snapshot import NOBODY, BrokerNode, Partition, Snapshot, Topic
from ottla.console.problems import RISING_SAMPLES, Problem, problems

BROKERS = {number: BrokerNode(number, "h", 9092) for number in (1, 2, 3)}


def seen(*partitions: Partition, brokers: dict[int, BrokerNode] = BROKERS, controller: int = 1) -> Snapshot:
    return Snapshot("c", controller, brokers, {"orders": Topic("orders", partitions)})


def wrong(
    snapshot: Snapshot, measured: Measurement | None = None, history: History | None = None
) -> list[Problem]:
    return problems(snapshot, measured, history or History())


FINE = Partition(0, 1, (1, 2, 3), (1, 2, 3))


def test_nothing_is_wrong_with_a_cluster_that_is_fine() -> None:
    assert wrong(seen(FINE), Measurement(0.0)) == []


def test_a_broker_that_is_gone_is_named_with_what_to_do() -> None:
    two = {number: BROKERS[number] for number in (1, 2)}
    (gone, late) = wrong(seen(Partition(0, 1, (1, 2, 3), (1, 2)), brokers=two))
    assert "1 broker of the cluster is not there: 3." in gone.what
    assert gone.command == "ottla cluster rebalance"
    assert late.tone == "warn"
    assert "Broker 3 is behind or gone" in late.remedy


def test_topics_that_people_know_are_named_before_internal_ones() -> None:
    late = tuple(Partition(number, 1, (1, 2), (1,)) for number in range(5))
    topics = {name: Topic(name, late) for name in ("__consumer_offsets", "orders")}
    (problem,) = wrong(Snapshot("c", 1, BROKERS, topics))
    assert "orders 0, orders 1, orders 2 and 7 more" in problem.what


def test_a_partition_that_nobody_leads_comes_first() -> None:
    first, *_ = wrong(seen(FINE, Partition(1, NOBODY, (2, 3), (2,)), controller=NOBODY))
    assert first.tone == "bad"
    offline = next(problem for problem in wrong(seen(FINE, Partition(1, NOBODY, (2, 3), (2,)))))
    assert "1 partition cannot be read or written: orders 1." in offline.what
    assert "last in sync: 2" in offline.remedy


def test_too_few_replicas_in_sync_are_worse_than_few() -> None:
    snapshot = seen(Partition(0, 1, (1, 2, 3), (1,)))
    measured = Measurement(0.0, configs={"orders": {"min.insync.replicas": "2"}})
    assert wrong(snapshot)[0].tone == "warn"
    (worse,) = wrong(snapshot, measured)
    assert worse.tone == "bad"
    assert "refuse writes with acks=all" in worse.what


def test_leaders_that_are_not_the_first_replicas_are_an_uneven_load() -> None:
    (uneven,) = wrong(seen(FINE, Partition(1, 1, (2, 1, 3), (1, 2, 3))))
    assert "1 of 2 partitions are not led by their first replica" in uneven.what
    assert uneven.command == "ottla cluster elect"


def test_a_disk_that_fills_up_and_one_that_failed_are_seen() -> None:
    full = LogDirectory(1, "/data", "", 100, 3, {})
    failed = LogDirectory(2, "/more", "KAFKA_STORAGE_ERROR", None, None, {})
    sentences = [problem.what for problem in wrong(seen(FINE), Measurement(0.0, directories=[full, failed]))]
    assert "The disk of /data of broker 1 is 97% full: 3 B are left." in sentences
    assert "The log directory /more of broker 2 is offline (KAFKA_STORAGE_ERROR)." in sentences


def group(members: int) -> Group:
    people = [Member(str(number), None, "c", "h", [], None) for number in range(members)]
    positions = [Position("orders", 0, 0, 5000, "", None)]
    return Group("billing", "Stable", "classic", False, None, (1, "h", 1), people, positions)


def test_a_lag_that_grows_without_end_is_said_with_or_without_members() -> None:
    history = History()
    for number in range(RISING_SAMPLES):
        history.add(float(number), {(LAG, "billing"): 1000.0 * number})
    for members, sentence in ((2, "falls further behind"), (0, "has no members")):
        (late,) = wrong(seen(FINE), Measurement(0.0, groups={"billing": group(members)}), history)
        assert sentence in late.what
        assert late.link == "/groups/billing"
    history.add(99.0, {(LAG, "billing"): 1.0})
    assert wrong(seen(FINE), Measurement(0.0, groups={"billing": group(2)}), history) == []


def test_a_counter_that_went_back_has_no_rate() -> None:
    assert rate(10, 30, 10.0) == 2.0
    assert rate(30, 10, 10.0) is None
    assert rate(None, 10, 10.0) is None
    assert rate(1, 2, 0.0) is None


def test_a_move_is_as_far_as_its_bytes() -> None:
    move = Reassignment("orders", 0, (1, 2), (2,), (1,))
    sizes = [LogDirectory(1, "a", "", None, None, {("orders", 0): 200})]
    assert progress(move, sizes) == 0.0
    assert progress(move, [*sizes, LogDirectory(2, "b", "", None, None, {("orders", 0): 50})]) == 0.25
    assert progress(move, []) is None
