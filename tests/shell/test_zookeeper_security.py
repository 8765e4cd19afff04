"""Towards a real ZooKeeper: SASL, TLS, and nodes that not everybody may read or change."""

import asyncio
import logging
import uuid
from collections.abc import Awaitable, Callable, Iterator, Mapping
from pathlib import Path

import pytest
from kazoo.client import KazooClient
from kazoo.exceptions import NoAuthError
from kazoo.security import make_acl
from tests.cluster.zookeeper import Ensemble
from tests.cluster.zookeeper_security import (
    PASSWORD,
    USER,
    Authority,
    TlsEnsemble,
    client_jaas,
    sasl_ensemble,
)
from tests.shell.keepers import Watcher
from tests.support.processes import running

from ottla.base.config import load
from ottla.broker.zookeeper_config import JAAS_FILE, ZooKeeperConfig
from ottla.controller.keeper import Create, Put, Refused, Written
from ottla.controller.znodes import CLUSTER_ID, PEER_SECRET
from ottla.shell import keeper_zookeeper
from ottla.shell.keeper import Session
from ottla.shell.keeper_zookeeper import ZooKeeperKeeper
from ottla.shell.lock import StartError
from ottla.shell.zookeeper_access import zookeeper_access

SESSION_MS = 10_000
TOPIC, ALICE, BROKER_CONFIG = "/brokers/topics/t", "/config/users/alice", "/config/brokers/1"

pytestmark = pytest.mark.timeout(90)

Story = Callable[[Watcher], Awaitable[None]]


def run(where: str, settings: Mapping[str, str], story: Story | None = None) -> None:
    async def live() -> None:
        access = zookeeper_access(load(ZooKeeperConfig, settings))
        keeper = ZooKeeperKeeper(asyncio.get_running_loop(), where, SESSION_MS, access)
        try:
            watcher = Watcher(keeper)
            async with asyncio.timeout(60.0):
                await watcher.load()
                if story is not None:
                    await story(watcher)
            assert watcher.failures == []
        finally:
            await keeper.close()

    asyncio.run(live())


def refusal(where: str, settings: Mapping[str, str]) -> str:
    with pytest.raises(StartError) as refused:
        run(where, settings)
    assert "\n" not in str(refused.value)
    assert PASSWORD not in str(refused.value)
    return str(refused.value)


def client_of(watcher: Watcher) -> KazooClient:
    assert isinstance(watcher.keeper, ZooKeeperKeeper)
    return watcher.keeper._link._client


@pytest.fixture(scope="module")
def sasl(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Ensemble]:
    with running(sasl_ensemble(tmp_path_factory.mktemp("sasl"))) as servers:
        yield servers


@pytest.fixture
def where(sasl: Ensemble) -> str:
    """A chroot nobody else uses."""
    return f"{sasl.hosts}/tests-{uuid.uuid4().hex}"


@pytest.fixture
def settings(tmp_path: Path) -> dict[str, str]:
    return {JAAS_FILE: str(client_jaas(tmp_path)), "zookeeper.set.acl": "true"}


@pytest.fixture
def anybody(sasl: Ensemble, where: str) -> Iterator[KazooClient]:
    """A client that has shown nothing of itself."""
    client = KazooClient(sasl.hosts)
    client.start(30)
    client.chroot = "/" + where.partition("/")[2]
    yield client
    client.stop()
    client.close()


# -- SASL --


def test_nodes_are_kept_for_who_made_them_and_secrets_are_not_even_read_by_others(
    where: str, settings: dict[str, str], anybody: KazooClient
) -> None:
    async def story(broker: Watcher) -> None:
        for path in (CLUSTER_ID, PEER_SECRET, TOPIC, f"{TOPIC}/state", ALICE, BROKER_CONFIG):
            assert await broker.write(Create(path, b"{}")) == Written()
        assert await broker.write(Create("/controller", b"{}", ephemeral=True)) == Written()
        await asyncio.to_thread(look_around)
        assert await broker.write(Put(ALICE, b"{1}", 0)) == Written()

    def look_around() -> None:
        for path in (CLUSTER_ID, TOPIC, f"{TOPIC}/state", "/controller"):
            assert anybody.get(path)[0] == b"{}"
            with pytest.raises(NoAuthError):
                anybody.set(path, b"mine")
        for path in (PEER_SECRET, ALICE, BROKER_CONFIG):
            with pytest.raises(NoAuthError):
                anybody.get(path)
            with pytest.raises(NoAuthError):
                anybody.set(path, b"mine")
        for folder in ("/config/users", "/config/brokers"):
            with pytest.raises(NoAuthError):
                anybody.get_children(folder)
        for path in (TOPIC + "/state", PEER_SECRET, "/controller", ALICE):
            with pytest.raises(NoAuthError):
                anybody.delete(path)
        for path in ("/mine", "/brokers/ids/7", "/config/users/eve", "/cluster/x"):
            with pytest.raises(NoAuthError):
                anybody.create(path, b"{}")
        assert {acl.id.scheme: acl.id.id for acl in anybody.get_acls("/brokers")[0]} == {
            "sasl": USER,
            "world": "anyone",
        }

    run(where, settings, story)


def test_without_set_acl_nodes_stay_open_to_everybody(
    where: str, settings: dict[str, str], anybody: KazooClient
) -> None:
    async def story(broker: Watcher) -> None:
        assert await broker.write(Create(PEER_SECRET, b"{}")) == Written()
        assert (await asyncio.to_thread(anybody.get, PEER_SECRET))[0] == b"{}"

    run(where, {**settings, "zookeeper.set.acl": "false"}, story)


def test_a_lost_connection_and_an_expired_session_are_followed_by_one_that_is_authenticated_again(
    sasl: Ensemble, where: str, settings: dict[str, str]
) -> None:
    async def story(broker: Watcher) -> None:
        assert await broker.write(Create(ALICE, b"{}")) == Written()
        client_of(broker)._connection._socket.shutdown(2)
        await broker.until(lambda it: Session.RESUMED in it.said)
        assert await broker.write(Put(ALICE, b"{1}", 0)) == Written()
        await asyncio.to_thread(expire, broker)
        await broker.until(lambda it: Session.EXPIRED in it.said)
        assert await broker.write(Put(ALICE, b"{2}", 1)) == Written()
        assert broker.tree[ALICE] == b"{2}"

    def expire(broker: Watcher) -> None:
        thief = KazooClient(sasl.hosts, client_id=client_of(broker).client_id)
        thief.start()
        thief.stop()
        thief.close()

    run(where, settings, story)


@pytest.mark.parametrize(("user", "password"), [(USER, "wrong"), ("nobody", PASSWORD)])
def test_a_wrong_user_or_password_ends_the_start_with_one_line(
    sasl: Ensemble, where: str, tmp_path: Path, user: str, password: str
) -> None:
    said = refusal(where, {JAAS_FILE: str(client_jaas(tmp_path, user, password))})
    assert said == (
        f"ZooKeeper at {where}: it does not accept this user and password; correct the file that "
        f"{JAAS_FILE} names"
    )


def test_nodes_of_another_user_end_the_start_with_one_line(
    where: str, settings: dict[str, str], tmp_path: Path
) -> None:
    run(where, settings)
    said = refusal(where, {JAAS_FILE: str(client_jaas(tmp_path, "other", "other"))})
    assert said.startswith(f"ZooKeeper at {where} refuses to ")
    assert said.endswith(f"its ACL is for another user; authenticate as that one ({JAAS_FILE})")


def test_a_write_to_a_node_of_another_user_is_refused_with_the_reason(
    where: str, settings: dict[str, str]
) -> None:
    async def story(broker: Watcher) -> None:
        client = client_of(broker)
        chroot = "/" + where.partition("/")[2]
        acls = [make_acl("world", "anyone", read=True)]
        await asyncio.to_thread(client.create, f"{chroot}{TOPIC}", b"{}", acls)
        await broker.until(lambda it: TOPIC in it.tree)
        outcome = await broker.write(Put(TOPIC, b"{1}", 0))
        assert outcome == Refused(
            TOPIC, f"the ACL of {TOPIC} or of the node above it does not let this broker write"
        )

    run(where, settings, story)


def test_zookeeper_that_enforces_sasl_takes_who_authenticates_and_tells_others_how(tmp_path: Path) -> None:
    with running(sasl_ensemble(tmp_path, is_enforced=True)) as servers:
        run(servers.hosts, {JAAS_FILE: str(client_jaas(tmp_path))})
        assert refusal(servers.hosts, {}) == (
            f"ZooKeeper at {servers.hosts}: it lets in only who authenticates; name user and password by "
            f"{JAAS_FILE}"
        )
        assert "does not accept this user and password" in refusal(
            servers.hosts, {JAAS_FILE: str(client_jaas(tmp_path, USER, "wrong"))}
        )


def test_zookeeper_without_sasl_is_said_to_be_without(tmp_path: Path) -> None:
    with running(Ensemble(tmp_path)) as servers:
        said = refusal(servers.hosts, {JAAS_FILE: str(client_jaas(tmp_path))})
    assert said.startswith(f"ZooKeeper at {servers.hosts}: it does not do SASL; give it a JAAS file")


def test_a_password_that_zookeeper_no_longer_takes_is_told_and_tried_again_until_it_does(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """The session decides how long the broker counts; nobody ends it for what an operator may set right."""
    servers = sasl_ensemble(tmp_path)
    jaas = tmp_path / "server.jaas"
    before = jaas.read_text()

    def restart(content: str) -> None:
        servers.kill(1)
        jaas.write_text(content)
        servers.start()

    async def story(broker: Watcher) -> None:
        assert await broker.write(Create(ALICE, b"{}")) == Written()
        await asyncio.to_thread(restart, before.replace(f"user_{USER}", "user_someone"))
        await broker.until(lambda _: "refuses the connection: it does not accept" in caplog.text)
        await asyncio.to_thread(restart, before)
        await broker.until(lambda it: {Session.RESUMED, Session.EXPIRED} & set(it.said))
        assert await broker.write(Put(ALICE, b"{1}", 0)) == Written()

    with caplog.at_level(logging.WARNING), running(servers):
        run(servers.hosts, {JAAS_FILE: str(client_jaas(tmp_path)), "zookeeper.set.acl": "true"}, story)
    assert caplog.text.count("refuses the connection") == 1


@pytest.mark.parametrize(
    ("content", "reason"),
    [
        (None, "No such file or directory"),
        ("Server { x required; };", "it has no section Client"),
        ("Client { com.example.Other required; };", "not org.apache.zookeeper.server.auth.DigestLoginModule"),
        ("\xff", "it is not UTF-8"),
    ],
)
def test_a_jaas_file_that_is_none_ends_the_start_with_its_name(
    tmp_path: Path, content: str | None, reason: str
) -> None:
    path = tmp_path / "file.jaas"
    if content is not None:
        path.write_bytes(content.encode("latin-1"))
    said = refusal("127.0.0.1:1", {JAAS_FILE: str(path)})
    assert said.startswith(f"{JAAS_FILE}: {path}: ")
    assert reason in said


# -- TLS --


@pytest.fixture(scope="module")
def authority(tmp_path_factory: pytest.TempPathFactory) -> Authority:
    return Authority(tmp_path_factory.mktemp("authority"))


@pytest.fixture(scope="module")
def tls(tmp_path_factory: pytest.TempPathFactory, authority: Authority) -> Iterator[TlsEnsemble]:
    with running(TlsEnsemble(tmp_path_factory.mktemp("tls"), authority)) as servers:
        yield servers


@pytest.fixture
def tls_settings(authority: Authority) -> dict[str, str]:
    return {
        "zookeeper.ssl.client.enable": "true",
        "zookeeper.clientCnxnSocket": "org.apache.zookeeper.ClientCnxnSocketNetty",
        "zookeeper.ssl.truststore.location": str(authority.path),
        "zookeeper.ssl.keystore.location": str(authority.issue("broker", "key password")),
        "zookeeper.ssl.keystore.password": "key password",
    }


@pytest.mark.parametrize("protocol", ["TLSv1.2", "TLSv1.3"])
def test_over_tls_a_thousand_nodes_are_written_and_read_and_kept_for_the_certificate(
    tls: TlsEnsemble, tls_settings: dict[str, str], protocol: str
) -> None:
    where = f"{tls.secure_hosts}/{uuid.uuid4().hex}"
    settings = {**tls_settings, "zookeeper.set.acl": "true", "zookeeper.ssl.protocol": protocol}

    async def write(broker: Watcher) -> None:
        assert client_of(broker)._connection._socket.version() == protocol
        writes = [broker.ask(Create(f"/config/topics/t{n}", b"{" * 1000)) for n in range(1000)]
        assert set(await asyncio.gather(*writes)) == {Written()}

    async def read(broker: Watcher) -> None:
        assert len([path for path in broker.tree if path.startswith("/config/topics/")]) == 1000
        client_of(broker)._connection._socket.shutdown(2)
        await broker.until(lambda it: Session.RESUMED in it.said)
        acls = await asyncio.to_thread(client_of(broker).get_acls, "/" + where.partition("/")[2])
        assert [(acl.id.scheme, acl.id.id) for acl in acls[0]] == [("x509", "CN=broker"), ("world", "anyone")]

    run(where, settings, write)
    run(where, settings, read)


def test_keys_and_authorities_may_be_in_pkcs12(
    tls: TlsEnsemble, tls_settings: dict[str, str], authority: Authority, tmp_path: Path
) -> None:
    """By the ends of their names, or by what the types say."""
    key, trusted = authority.issue_pkcs12("broker", "key password"), tmp_path / "trusted"
    trusted.write_bytes(authority.path.read_bytes())
    stores = {
        "zookeeper.ssl.keystore.location": str(key),
        "zookeeper.ssl.truststore.location": str(trusted),
        "zookeeper.ssl.truststore.type": "PEM",
    }
    run(tls.secure_hosts, {**tls_settings, **stores})
    unnamed = key.rename(key.with_suffix(""))
    stores["zookeeper.ssl.keystore.location"] = str(unnamed)
    run(tls.secure_hosts, {**tls_settings, **stores, "zookeeper.ssl.keystore.type": "PKCS12"})
    said = refusal(tls.secure_hosts, {**tls_settings, **stores, "zookeeper.ssl.keystore.password": "wrong"})
    assert said.startswith(f"zookeeper.ssl.keystore.location: {unnamed} is no PKCS12, ")
    assert said.endswith(" or zookeeper.ssl.keystore.password is wrong")


def test_a_zookeeper_of_another_authority_or_for_another_host_is_not_talked_to(
    tls: TlsEnsemble, tls_settings: dict[str, str], tmp_path: Path, authority: Authority
) -> None:
    other = Authority(tmp_path, "other")
    said = refusal(tls.secure_hosts, {**tls_settings, "zookeeper.ssl.truststore.location": str(other.path)})
    assert said.startswith(f"ZooKeeper at {tls.secure_hosts}: its certificate is not accepted (")
    assert "zookeeper.ssl.truststore.location" in said
    elsewhere = f"localhost:{tls.secure_port}"
    assert "its certificate is not accepted (Hostname mismatch" in refusal(elsewhere, tls_settings)
    run(elsewhere, {**tls_settings, "zookeeper.ssl.endpoint.identification.algorithm": ""})


def test_a_port_without_tls_is_waited_for_and_suspected(
    tls: TlsEnsemble,
    tls_settings: dict[str, str],
    caplog: pytest.LogCaptureFixture,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """It ends the connection, as a server does that is about to stop."""
    monkeypatch.setattr(keeper_zookeeper, "SILENCE_S", 0.2)

    async def live() -> None:
        access = zookeeper_access(load(ZooKeeperConfig, tls_settings))
        keeper = ZooKeeperKeeper(asyncio.get_running_loop(), tls.hosts, SESSION_MS, access)
        loading = asyncio.ensure_future(Watcher(keeper).load())
        async with asyncio.timeout(60.0):
            while "is this its secureClientPort?" not in caplog.text:
                await asyncio.wait([loading], timeout=0.01)
        assert not loading.done()
        loading.cancel()
        await asyncio.wait([loading])

    with caplog.at_level(logging.WARNING):
        asyncio.run(live())


def test_a_broker_without_a_key_is_told_where_to_name_it(
    tls: TlsEnsemble, tls_settings: dict[str, str]
) -> None:
    for protocol in ("TLSv1.2", "TLSv1.3"):
        without_key = {name: value for name, value in tls_settings.items() if "keystore" not in name}
        said = refusal(tls.secure_hosts, {**without_key, "zookeeper.ssl.protocol": protocol})
        assert ": TLS failed (" in said
        assert "zookeeper.ssl.keystore.location" in said


@pytest.mark.parametrize(
    ("name", "value", "said"),
    [
        ("zookeeper.ssl.keystore.password", "wrong", "zookeeper.ssl.keystore.location: "),
        (
            "zookeeper.ssl.keystore.location",
            "/nowhere.pem",
            "zookeeper.ssl.keystore.location: cannot read /nowh",
        ),
        (
            "zookeeper.ssl.truststore.location",
            "/nowhere",
            "zookeeper.ssl.truststore.location: cannot read /no",
        ),
        ("zookeeper.ssl.cipher.suites", "NONE_SUCH", "zookeeper.ssl.cipher.suites: "),
    ],
)
def test_a_file_that_cannot_be_used_ends_the_start_with_its_key(
    tls_settings: dict[str, str], name: str, value: str, said: str
) -> None:
    assert refusal("127.0.0.1:1", {**tls_settings, name: value}).startswith(said)
