"""Three brokers with TLS and SCRAM between them, on a ZooKeeper that knows who asks: SASL, and nodes that are
theirs alone. `make faults SECURE=1` runs all tests of faults on such a cluster; here are some."""

import random
import ssl
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest
from confluent_kafka.admin import (
    AclBinding,
    AclBindingFilter,
    AclOperation,
    AclPermissionType,
    ResourcePatternType,
    ResourceType,
    ScramCredentialInfo,
    ScramMechanism,
    UserScramCredentialDeletion,
    UserScramCredentialUpsertion,
)
from kazoo.client import KazooClient
from kazoo.exceptions import NoAuthError
from tests.cluster.load import Load
from tests.cluster.real import START_S, RealBroker, RealCluster
from tests.cluster.secured import MECHANISM, SecuredBroker, SecuredCluster
from tests.cluster.survival import flows_again, survive
from tests.cluster.test_quotas import rate_on, set_quota
from tests.cluster.zookeeper_security import USER, client_jaas
from tests.kafka_clients.wire_client import Wire
from tests.support.ports import free_ports
from tests.support.processes import running
from tests.support.waiting import seconds_until, wait_for

from ottla.broker.zookeeper_config import JAAS_FILE
from ottla.security.sasl.client import Credentials, client_exchange
from ottla.wire.messages.metadata import MetadataRequest
from ottla.wire.messages.sasl_authenticate import SaslAuthenticateRequest
from ottla.wire.messages.sasl_handshake import SaslHandshakeRequest

FAILOVER_S = 20.0
REACHES_S = 5.0  # a second is the aim, which is printed; a machine with other work may take longer
PASSWORD = "alices-password"


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SecuredCluster]:
    folder = tmp_path_factory.mktemp("sasl")
    cluster = SecuredCluster(folder)
    try:
        with cluster.explained(), running(cluster):
            yield cluster
    finally:
        cluster.stop()


def test_leaders_and_the_controller_fail_over(cluster: RealCluster) -> None:
    def fault(topic: str, load: Load) -> None:
        for victim in (cluster.leader(topic), cluster.controller()):
            cluster.brokers[victim].kill()
            flows_again(load)
            cluster.brokers[victim].start()
            cluster.wait_settled()

    survive(cluster, "kill-secured", fault, FAILOVER_S)


def test_a_leader_that_slept_past_its_session_and_brokers_that_were_killed_at_once_log_in_again(
    cluster: RealCluster,
) -> None:
    def fault(topic: str, load: Load) -> None:
        zombie = cluster.brokers[cluster.leader(topic)]
        zombie.pause()
        try:
            wait_for(lambda: cluster.leader(topic) != zombie.id, START_S, "another one leads")
            flows_again(load)
        finally:
            zombie.resume()
        cluster.wait_settled()
        for broker in cluster.brokers.values():
            broker.kill()
        cluster.start_brokers()

    survive(cluster, "sleep-and-kill-all-secured", fault, START_S)


def test_brokers_authenticate_again_to_a_zookeeper_that_was_killed_and_is_back(cluster: RealCluster) -> None:
    cluster.zookeeper.kill(1)
    cluster.zookeeper.start()
    cluster.wait_settled()
    assert cluster.create_topic("after-zookeeper")
    cluster.wait_settled()


def test_of_a_running_cluster_others_cannot_read_the_secrets_and_cannot_change_anything_cve_2023_44981(
    cluster: RealCluster,
) -> None:
    cluster.create_topic("guarded")
    anybody = KazooClient(f"{cluster.zookeeper.hosts}/ottla")
    anybody.start(START_S)
    try:
        tree = ["/"]
        for path in tree:
            try:
                tree += [f"{path.rstrip('/')}/{name}" for name in anybody.get_children(path)]
                content = anybody.get(path)[0]
            except NoAuthError:
                content = None
            is_secret = path.startswith(("/cluster/peer_secret", "/config/users", "/config/brokers"))
            assert (content is None) is is_secret, path
            with pytest.raises(NoAuthError):
                anybody.set(path, b"mine")
            with pytest.raises(NoAuthError):
                anybody.create(f"{path.rstrip('/')}/mine", b"mine")
            acls = anybody.get_acls(path)[0] if not is_secret else []
            assert all(acl.id.id in {USER, "anyone"} for acl in acls), path
        assert {"/controller", "/cluster/peer_secret", "/config/users", "/brokers/topics/guarded/state"} <= {
            *tree
        }
        with pytest.raises(NoAuthError):
            anybody.delete("/controller")
    finally:
        anybody.stop()
        anybody.close()


def test_a_broker_with_a_wrong_password_ends_with_one_line_that_names_the_remedy(
    cluster: RealCluster, tmp_path: Path
) -> None:
    settings = {JAAS_FILE: str(client_jaas(tmp_path, USER, "wrong"))}
    [port] = free_ports(1)
    stranger = RealBroker(9, port, tmp_path, f"{cluster.zookeeper.hosts}/ottla", settings)
    stranger.launch()
    try:
        wait_for(lambda: not stranger.is_running, START_S, "the broker ends")
    finally:
        stranger.kill()
    assert stranger.process.returncode == 1
    [line] = [line for line in stranger.log.splitlines() if "ZooKeeper" in line]
    remedy = f"correct the file that {JAAS_FILE} names"
    assert line.endswith(f"it does not accept this user and password; {remedy}")
    assert "Traceback" not in stranger.log
    assert "wrong" not in stranger.log


# -- what is changed at one broker, at all --


def login(cluster: SecuredCluster, broker: RealBroker) -> Wire | None:
    """A connection of alice's to the listener with TLS and SASL; None if she is not let in."""
    assert isinstance(broker, SecuredBroker)
    wire = Wire(broker.brokers_port)
    context = ssl.create_default_context(cadata=cluster.authority.pem)
    wire.socket = context.wrap_socket(wire.socket, server_hostname=broker.host)
    exchange = client_exchange(MECHANISM.title, Credentials("alice", PASSWORD), random.randbytes(32))
    wire.call(SaslHandshakeRequest(mechanism=MECHANISM.title), 1)
    token: bytes | None = exchange.first()
    while token is not None:
        answer = wire.call(SaslAuthenticateRequest(auth_bytes=token), 2)
        if answer.error_code:
            wire.close()
            return None
        token = exchange.on_reply(answer.auth_bytes)
    return wire


@pytest.fixture
def changed(cluster: SecuredCluster) -> Iterator[Callable[[str, Callable[[], bool]], None]]:
    """Waits until a change that was made at one broker is one for all, and reports how long that took."""
    figures: list[str] = []

    def changed(what: str, is_everywhere: Callable[[], bool]) -> None:
        took_s = seconds_until(is_everywhere, START_S, f"{what} at all brokers")
        figures.append(f"{what} {took_s * 1000:.0f} ms")
        assert took_s < REACHES_S

    yield changed
    print(f"\nat all brokers after: {', '.join(figures)}")


def test_users_acls_and_quotas_reach_all_brokers_within_a_second(
    cluster: SecuredCluster, changed: Callable[[str, Callable[[], bool]], None]
) -> None:
    topic = cluster.create_topic("seen-by-alice", 1)
    cluster.wait_settled()
    admin, brokers = cluster.admin(), list(cluster.brokers.values())
    info = ScramCredentialInfo(ScramMechanism[MECHANISM.name], 4096)
    with ExitStack() as stack:

        def let_in() -> list[Wire]:
            wires = [wire for broker in brokers if (wire := login(cluster, broker)) is not None]
            return [stack.enter_context(wire) for wire in wires]

        def seen() -> list[bool]:
            answers = [wire.call(MetadataRequest(topics=None), 12) for wire in wires]
            return [topic in [entry.name for entry in answer.topics] for answer in answers]

        def rates() -> set[float | None]:
            return {rate_on(broker, "alice", "c") for broker in brokers}

        assert let_in() == []
        admin.alter_user_scram_credentials([UserScramCredentialUpsertion("alice", info, PASSWORD.encode())])[
            "alice"
        ].result(START_S)
        changed("a user", lambda: len(let_in()) == len(brokers))
        wires = let_in()
        assert seen() == [False] * 3
        acl = AclBinding(
            ResourceType.TOPIC, topic, ResourcePatternType.LITERAL, "User:alice", "*", AclOperation.DESCRIBE,
            AclPermissionType.ALLOW,
        )  # fmt: skip
        admin.create_acls([acl])[acl].result(START_S)
        changed("an ACL", lambda: all(seen()))
        chosen = AclBindingFilter(
            ResourceType.TOPIC, topic, ResourcePatternType.LITERAL, None, None, AclOperation.ANY,
            AclPermissionType.ANY,
        )  # fmt: skip
        admin.delete_acls([chosen])[chosen].result(START_S)
        changed("an ACL that is gone", lambda: not any(seen()))
        set_quota(brokers[0], 12_345.0, user="alice", client_id="c")
        changed("a quota", lambda: rates() == {12_345.0})
        set_quota(brokers[1], None, user="alice", client_id="c")
        changed("a quota that is gone", lambda: rates() == {None})
        deletion = UserScramCredentialDeletion("alice", ScramMechanism[MECHANISM.name])
        admin.alter_user_scram_credentials([deletion])["alice"].result(START_S)
        changed("a user that is gone", lambda: not let_in())
