"""ISR changes on their way to the controller."""

from tests.api.asking import batch, to
from tests.replication.pump import CONTROLLER, TOPIC_ID, Cluster

from ottla.base.errors import ErrorCode
from ottla.controller import znodes
from ottla.controller.keeper import Delete
from ottla.wire.messages.alter_partition import AlterPartitionRequest, AlterPartitionResponse


def behind(partitions: int = 1) -> Cluster:
    """Broker 2 does not get what it should; decisions wait."""
    cluster = Cluster((1, 2), {"replica.lag.time.max.ms": "1000"})
    cluster.is_deciding = False
    cluster.topic("t", *[(1, 2)] * partitions)
    cluster.run()
    cluster.cut(1, 2)
    cluster.client(1).send(to("t", *[batch()] * partitions, acks=1), 12)
    cluster.run()
    return cluster


def requests(cluster: Cluster) -> list[AlterPartitionRequest]:
    return [one for _, _, one in cluster.sent if isinstance(one, AlterPartitionRequest)]


def test_all_that_change_at_once_go_in_one_request() -> None:
    cluster = behind(3)
    cluster.pass_time(3_000)
    (request,) = requests(cluster)
    assert (request.broker_id, request.broker_epoch) == (1, cluster.epochs((1,))[0])
    (topic,) = request.topics
    assert topic.topic_id == TOPIC_ID
    assert [(one.partition_index, one.leader_epoch, one.partition_epoch) for one in topic.partitions] == [
        (0, 0, 0),
        (1, 0, 0),
        (2, 0, 0),
    ]
    (member,) = topic.partitions[0].new_isr_with_epochs
    assert (member.broker_id, member.broker_epoch) == (1, cluster.epochs((1,))[0])


def test_it_is_asked_again_more_and_more_slowly() -> None:
    cluster = behind()
    cluster.pass_time(3_000)
    times = []
    for _ in range(6):
        (proposal,) = cluster.proposals
        cluster.proposals.clear()
        answered_ms = cluster.now_ms
        answer = AlterPartitionResponse(error_code=ErrorCode.NOT_CONTROLLER)
        cluster._answer(1, proposal.token, answer)
        while not cluster.proposals:
            cluster.pass_time(50)
        times.append(cluster.now_ms - answered_ms)
    assert times == [50, 100, 200, 400, 500, 500]


def test_nobody_is_asked_while_there_is_no_controller() -> None:
    cluster = behind()
    cluster.write(Delete(znodes.BROKERS + str(CONTROLLER)))
    cluster.pass_time(3_000)
    assert requests(cluster) == []
    assert cluster.nodes[1].broker.isr.next_ms() is None
    cluster.register(CONTROLLER)
    assert len(requests(cluster)) == 1


def test_what_was_told_to_the_keeper_is_not_settled_by_an_answer() -> None:
    """The controller may read it there, and write it, after it has refused the same proposal on the direct
    way."""
    cluster = behind()
    cluster.pass_time(5_000)  # without an answer: it is in the report
    (proposal,) = cluster.proposals
    broker, leader = cluster.nodes[1].broker, cluster.partition(1).replication
    assert leader is not None
    assert [told.partition for told in broker.isr.unanswered(cluster.now_ms)] == [0]
    cluster.settle(proposal, lambda _one: ErrorCode.INELIGIBLE_REPLICA)
    assert leader.pending is not None
    assert len(broker.isr.unanswered(cluster.now_ms)) == 1, "it stays there until the state moves on"
    cluster.state("t", isr=(1, 2))
    assert leader.pending is None
    assert broker.isr.unanswered(cluster.now_ms) == ()


def test_what_is_refused_for_good_is_not_asked_again() -> None:
    cluster = behind()
    while not cluster.proposals:
        cluster.pass_time(50)
    (proposal,) = cluster.proposals
    cluster.settle(proposal, lambda _one: ErrorCode.OPERATION_NOT_ATTEMPTED)
    leader = cluster.partition(1).replication
    assert leader is not None
    assert leader.pending is None
    assert cluster.nodes[1].broker.isr.waiting == {}


def test_a_version_that_is_out_of_date_leaves_the_proposal_open() -> None:
    cluster = behind()
    cluster.pass_time(3_000)
    (proposal,) = cluster.proposals
    cluster.settle(proposal, lambda _one: ErrorCode.INVALID_UPDATE_VERSION)
    leader = cluster.partition(1).replication
    assert leader is not None
    assert leader.pending is not None
    cluster.pass_time(100)
    assert len(cluster.proposals) == 2


def test_a_refusal_for_a_topic_that_is_gone_is_nothing() -> None:
    cluster = behind()
    cluster.pass_time(3_000)
    (proposal,) = cluster.proposals
    cluster.write(Delete(znodes.topic_path("t")), Delete(znodes.topic_config_path("t")))
    cluster.topic("t", (1, 2))
    cluster.settle(proposal, lambda _one: ErrorCode.INELIGIBLE_REPLICA)
    assert cluster.nodes[1].broker.isr.waiting == {}


def test_whoever_stops_leading_has_nothing_to_propose() -> None:
    cluster = behind()
    cluster.pass_time(3_000)
    cluster.state("t", leader=2, leader_epoch=1)
    assert cluster.nodes[1].broker.isr.waiting == {}


def test_what_the_controller_does_not_answer_is_told_to_the_keeper_until_it_is_settled() -> None:
    cluster = behind()
    while not requests(cluster):
        cluster.pass_time(50)
    (request,) = requests(cluster)
    assert cluster.nodes[1].broker.image.report(1) is None, "it may still answer"
    cluster.pass_time(1_200)
    report = cluster.nodes[2].broker.image.report(1)
    assert report is not None
    (proposed,) = report.proposals
    member = request.topics[0].partitions[0].new_isr_with_epochs[0]
    assert proposed == (TOPIC_ID, 0, 0, 0, ((member.broker_id, member.broker_epoch),))
    (proposal,) = cluster.proposals
    cluster.settle(proposal, lambda _one: ErrorCode.NONE)
    cluster.pass_time(400)
    report = cluster.nodes[2].broker.image.report(1)
    assert report is not None
    assert report.proposals == ()


def test_a_request_that_is_lost_is_told_to_the_keeper_at_once() -> None:
    cluster = behind()
    cluster.pass_time(3_000)
    (proposal,) = cluster.proposals
    cluster._answer(1, proposal.token, None)
    cluster.pass_time(200)
    report = cluster.nodes[2].broker.image.report(1)
    assert report is not None
    assert len(report.proposals) == 1


def test_a_failure_of_before_says_nothing_about_the_next_proposal() -> None:
    cluster = behind()
    cluster.pass_time(3_000)
    (proposal,) = cluster.proposals
    cluster._answer(1, proposal.token, None)
    broker = cluster.nodes[1].broker
    assert broker.isr.unanswered(cluster.now_ms)
    cluster.state("t", leader=1, leader_epoch=1)
    assert broker.isr.waiting == {}
    while not broker.isr.waiting:
        cluster.pass_time(50)
    assert broker.isr.unanswered(cluster.now_ms) == ()
