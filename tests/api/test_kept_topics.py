"""Topics are encoded once for all answers with their metadata: until they change, or the brokers do."""

from collections.abc import Callable
from unittest.mock import patch

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.api.harness import Client, Machine
from tests.api.rights import Guarded

from ottla.base.addresses import Address
from ottla.base.errors import ErrorCode
from ottla.base.ids import TopicPartition
from ottla.broker import kept_answers
from ottla.broker.access import Session
from ottla.broker.long_work import Slices
from ottla.controller import znodes
from ottla.controller.keeper import ANY, Create, Delete, Put
from ottla.controller.registration import registration
from ottla.security.resources import Operation, ResourceType
from ottla.wire.codec import encode
from ottla.wire.messages.metadata import MetadataRequest, MetadataRequestTopic, MetadataResponse

INSIDE, OUTSIDE = "PLAINTEXT", "OUTSIDE"
VERSIONS = st.integers(0, 13)
REPLICAS = ((2, 1), (3, 2), (1, 3), (1,))


class Cluster:
    """What a broker knows of a cluster of three, in which any of these changes may happen."""

    def __init__(self) -> None:
        self.machine = Machine()
        self.machine.give_up_the_seat()
        self.made = 0
        self.brokers = {1}
        self.come_or_go(2)
        self.come_or_go(3)
        for name in "abc":
            self.create(name)

    def create(self, name: str, partitions: int = 3) -> None:
        self.made += 1
        assignment = {p: REPLICAS[(p + self.made) % 4] for p in range(partitions)}
        self.machine.write(
            Create(znodes.topic_path(name), znodes.topic_node(b"%016d" % self.made, assignment)),
            Create(znodes.state_path(name), self._states(name, assignment)),
        )

    def _states(self, name: str, assignment: dict[int, tuple[int, ...]]) -> bytes:
        self.made += 1
        pick = self.made % 3
        return znodes.state_node(
            1, {p: (r[pick % len(r)], self.made, r[: 1 + pick]) for p, r in assignment.items()}
        )

    def elect(self, name: str) -> None:
        if name in self.machine.broker.image.topics:
            assignment = self.machine.broker.image.topics[name].assignment
            self.machine.write(Put(znodes.state_path(name), self._states(name, assignment), ANY))

    def delete_or_create(self, name: str) -> None:
        if name not in self.machine.broker.image.topics:
            self.create(name)
            return
        self.machine.write(Delete(znodes.state_path(name)), Delete(znodes.topic_path(name)))

    def grow(self, name: str) -> None:
        """Its first node says other replicas and more partitions; of these the other node speaks later."""
        topic = self.machine.broker.image.topics.get(name)
        if topic is not None:
            assignment = {**topic.assignment, 0: (2, 3, 1), len(topic.assignment): (2, 3)}
            self.machine.write(Put(znodes.topic_path(name), znodes.topic_node(topic.id, assignment), ANY))

    def come_or_go(self, broker: int) -> None:
        if broker in self.brokers:
            self.machine.write(Delete(f"{znodes.BROKERS}{broker}"))
        else:
            endpoints = {INSIDE: Address(f"b{broker}", 9092)}
            if broker == 2:
                endpoints[OUTSIDE] = Address("b2.example", 443)
            self.machine.write(
                *registration(broker, endpoints, None, protocols=dict.fromkeys(endpoints, "PLAINTEXT"))
            )
        self.brokers ^= {broker}

    def fail_directory(self, name: str) -> None:
        path = f"{znodes.OFFLINE}3"
        is_there = any(node.path == path for node in self.machine.keeper.load())
        node = znodes.offline_node([(name, 0), (name, 1)])
        self.machine.write(Put(path, node, ANY) if is_there else Create(path, node))

    def lose(self, name: str) -> None:
        """This broker's own replica, which the others have not heard of."""
        lost, topic_partition = self.machine.broker.store.lost, TopicPartition(name, 0)
        if lost.pop(topic_partition, None) is None:
            lost[topic_partition] = "/data"
        self.machine.broker.answers = {}

    def doubt(self, name: str) -> None:
        in_doubt = self.machine.broker.proofs.in_doubt
        in_doubt ^= {TopicPartition(name, 1)}
        self.machine.broker.answers = {}

    def configure(self, name: str) -> None:
        self.made += 1
        self.machine.write(Put(znodes.CONTROLLER_EPOCH, b"%d" % self.made, ANY))


CHANGES: list[Callable[[Cluster, str], None]] = [
    Cluster.elect,
    Cluster.delete_or_create,
    Cluster.grow,
    Cluster.fail_directory,
    Cluster.lose,
    Cluster.doubt,
    Cluster.configure,
    lambda cluster, name: cluster.come_or_go(2 + "abc".index(name) % 2),
]


def client_of(machine: Machine, listener: str = INSIDE) -> Client:
    client = machine.client()
    machine.broker.access.begin(client.number, Session(listener=listener))
    return client


def asked(version: int, *, operations: bool = False) -> MetadataRequest:
    topics = None if version else []
    request = MetadataRequest(topics=topics, allow_auto_topic_creation=version < 4)
    request.include_topic_authorized_operations = operations and version >= 8
    return request


def body(machine: Machine, request: MetadataRequest, version: int, listener: str = INSIDE) -> bytes:
    """The answer, as it was sent: all that is decoded of it, encoded at once, is the same."""
    answer: MetadataResponse = client_of(machine, listener).send(request, version)
    return encode(answer, version)


def forget(machine: Machine) -> None:
    broker = machine.broker
    broker.answers = {}
    broker.kept_topics = kept_answers.KeptTopics(broker.image, broker.store.lost, broker.proofs)


@given(
    st.lists(
        st.tuples(st.sampled_from(CHANGES), st.sampled_from("abc"), VERSIONS, st.booleans(), st.booleans()),
        max_size=12,
    )
)
def test_after_any_change_the_answer_is_as_if_nothing_had_been_kept(
    steps: list[tuple[Callable[[Cluster, str], None], str, int, bool, bool]],
) -> None:
    cluster = Cluster()
    machine = cluster.machine
    for change, name, version, is_outside, operations in steps:
        request, listener = asked(version, operations=operations), OUTSIDE if is_outside else INSIDE
        body(machine, request, version, listener)
        change(cluster, name)
        answer, kept = body(machine, request, version, listener), machine.broker.kept_topics
        forget(machine)
        assert answer == body(machine, request, version, listener)
        machine.broker.kept_topics, machine.broker.answers = kept, {}


@pytest.mark.parametrize("version", range(14))
def test_the_bytes_of_an_answer_are_those_of_the_encoder_whether_topics_were_kept_or_not(
    version: int,
) -> None:
    cluster = Cluster()
    cluster.create("large", 300)
    sent = []
    with patch("tests.api.harness.Pending.take", lambda _, chunks: sent.append(b"".join(chunks))):
        for _ in range(2):
            client_of(cluster.machine).ask(asked(version), version)
            cluster.machine.broker.answers = {}
    first, second = sent
    assert first == second
    plain = client_of(cluster.machine).send(asked(version), version)
    assert first.endswith(encode(plain, version))
    assert len(first) - len(encode(plain, version)) <= 9, "nothing but the header comes before it"


def described(cluster: Cluster, listener: str = INSIDE) -> dict[str | None, list[int]]:
    """The leaders of each topic."""
    answer = client_of(cluster.machine, listener).send(asked(12), 12)
    return {topic.name: [one.leader_id for one in topic.partitions] for topic in answer.topics}


def test_only_what_has_changed_is_made_again() -> None:
    cluster = Cluster()
    described(cluster)
    cluster.elect("b")
    with patch("ottla.api.metadata._describe_partitions", return_value=[]) as made:
        described(cluster)
    assert [call.args[1].name for call in made.call_args_list] == ["b"]


def test_a_topic_that_is_made_again_with_the_name_of_another_is_the_new_one_at_once() -> None:
    cluster = Cluster()
    client = client_of(cluster.machine)
    before = {topic.name: topic.topic_id for topic in client.send(asked(12), 12).topics}
    cluster.delete_or_create("a")
    assert set(described(cluster)) == {"b", "c"}
    cluster.delete_or_create("a")
    after = {topic.name: topic.topic_id for topic in client.send(asked(12), 12).topics}
    assert after["a"] != before.pop("a")
    assert {name: after[name] for name in before} == before


def test_leaders_that_go_and_come_back_are_seen_at_once_on_every_listener() -> None:
    cluster = Cluster()
    for listener in (INSIDE, OUTSIDE):
        everything = {leader for leaders in described(cluster, listener).values() for leader in leaders}
        assert (2 in everything, 3 in everything) == (True, listener == INSIDE)
    cluster.come_or_go(2)
    for listener in (INSIDE, OUTSIDE):
        assert not any(2 in leaders for leaders in described(cluster, listener).values())
    cluster.come_or_go(2)
    assert any(2 in leaders for leaders in described(cluster, OUTSIDE).values())


def test_a_topic_that_changes_while_it_is_encoded_is_not_kept() -> None:
    cluster = Cluster()
    cluster.create("large", 3_000)
    machine = cluster.machine
    machine.hold(Slices)
    pending = client_of(machine).ask(asked(12), 12)
    assert pending.answer is None
    cluster.elect("large")
    machine.release()
    assert pending.answer is not None
    answer = body(machine, asked(12), 12)
    forget(machine)
    assert answer == body(machine, asked(12), 12)


def test_error_codes_of_kept_topics_count_each_time() -> None:
    cluster = Cluster()
    cluster.come_or_go(2)
    counts = cluster.machine.broker.requests.of(3, "Metadata")
    described(cluster)
    first = dict(counts.errors)
    assert first[ErrorCode.LEADER_NOT_AVAILABLE]
    cluster.configure("a")
    described(cluster)
    assert counts.errors == {code: 2 * count for code, count in first.items()}


def test_who_may_do_more_is_told_so_whoever_asked_before() -> None:
    guarded = Guarded()
    guarded.allow(Operation.DESCRIBE, ResourceType.TOPIC, who="User:alice")
    guarded.allow(Operation.READ, ResourceType.TOPIC, who="User:bob")
    request = MetadataRequest(
        topics=[MetadataRequestTopic(name="t")], include_topic_authorized_operations=True
    )
    told = {
        name: guarded.user(name).send(request, 12).topics[0].topic_authorized_operations
        for name in ("admin", "alice", "bob", "carol", "admin", "alice")
    }
    assert len(set(told.values())) == 4
    assert not guarded.user("carol").send(MetadataRequest(topics=None), 12).topics
    assert (
        guarded.user("carol").send(request, 12).topics[0].error_code == ErrorCode.TOPIC_AUTHORIZATION_FAILED
    )


def test_what_is_kept_is_bounded() -> None:
    cluster = Cluster()
    with patch.object(kept_answers, "KEPT_TOPICS_BYTES_MAX", 3_000):
        for at in range(20):
            cluster.create(f"more-{at}")
            described(cluster)
            assert len(cluster.machine.broker.kept_topics) <= 5
    assert len(described(cluster)) == 23
