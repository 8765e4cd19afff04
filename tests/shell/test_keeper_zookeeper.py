"""ZooKeeper as it fails: expired sessions, lost answers, servers that sleep, die and come back."""

import asyncio
import logging
import time
import uuid
from collections.abc import Awaitable, Callable, Iterator
from pathlib import Path

import pytest
from kazoo.client import KazooClient
from tests.cluster.zookeeper import Ensemble
from tests.shell.keepers import Watcher
from tests.support.ports import free_ports
from tests.support.processes import running

from ottla.controller.keeper import Create, Delete, NodeChanged, Put, Refused, Unknown, Written
from ottla.controller.znodes import DELETIONS
from ottla.shell import keeper_zookeeper
from ottla.shell.keeper import Session
from ottla.shell.keeper_zookeeper import ZooKeeperKeeper
from ottla.shell.lock import StartError
from ottla.shell.zookeeper_link import split_ensemble
from ottla.shell.zookeeper_write import PACKED_BYTES_MIN

SESSION_MS = 2_000  # where it is meant to run out
LONG_MS = 10_000  # where it is not
T, STATE, ME = "/brokers/topics/t", "/brokers/topics/t/state", "/brokers/ids/1"

pytestmark = pytest.mark.timeout(90)


@pytest.fixture(scope="module")
def ensemble(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Ensemble]:
    with running(Ensemble(tmp_path_factory.mktemp("zookeeper"))) as servers:
        yield servers


@pytest.fixture
def place(ensemble: Ensemble) -> str:
    """A chroot nobody else uses."""
    return f"{ensemble.hosts}/tests/{uuid.uuid4().hex}"


def run(place: str, story: Callable[[Watcher, Watcher], Awaitable[None]], session_ms: int = LONG_MS) -> None:
    """Two brokers on one tree."""

    async def live() -> None:
        loop = asyncio.get_running_loop()
        keepers = [ZooKeeperKeeper(loop, place, session_ms) for _ in range(2)]
        watchers = [Watcher(keeper) for keeper in keepers]
        try:
            for one in watchers:
                await one.load()
            await story(*watchers)
            assert [one.failures for one in watchers] == [[], []]
        finally:
            for keeper in keepers:
                await keeper.close()

    asyncio.run(live())


def client_of(one: Watcher) -> KazooClient:
    assert isinstance(one.keeper, ZooKeeperKeeper)
    return one.keeper._link._client


def expire(hosts: str, one: Watcher) -> None:
    """End a session from outside: whoever knows its id and password may close it."""
    thief = KazooClient(hosts, client_id=client_of(one).client_id)
    thief.start()
    thief.stop()
    thief.close()


def test_after_its_session_expired_a_broker_has_a_new_one_and_knows_what_changed(
    ensemble: Ensemble, place: str
) -> None:
    async def story(one: Watcher, other: Watcher) -> None:
        await one.write(Create(ME, b"{me}", ephemeral=True), Create(T, b"{1}"), Create(STATE, b"{1}"))
        await asyncio.to_thread(expire, ensemble.hosts, one)
        await other.until(lambda it: T in it.tree and ME not in it.tree)
        await other.write(Put(STATE, b"{2}"))
        await one.until(lambda it: Session.EXPIRED in it.said)
        expired = one.said.index(Session.EXPIRED)
        gone = next(
            at for at, said in enumerate(one.said) if said == NodeChanged(ME, None, 0, one.nodes[0].created)
        )
        assert gone < expired, "what went with the session is told before"
        await one.until(lambda it: it.tree == {T: b"{1}", STATE: b"{2}"})
        assert not one.keeper.owns(ME)
        assert await one.write(Create(ME, b"{again}", ephemeral=True)) == Written()
        assert one.keeper.owns(ME)
        assert one.nodes[-1].created > one.nodes[0].created
        await other.write(Put(STATE, b"{3}"))
        await one.until(lambda it: it.tree[STATE] == b"{3}", "its watches work")

    run(place, story)


def test_a_node_of_its_own_that_went_before_anybody_listed_it_is_told_as_gone(
    ensemble: Ensemble, place: str
) -> None:
    async def story(one: Watcher, _other: Watcher) -> None:
        assert isinstance(one.keeper, ZooKeeperKeeper)
        await one.write(Create(ME, b"{me}", ephemeral=True))
        one.keeper._children["/brokers/ids"] = set()  # as if the list had not come yet
        await asyncio.to_thread(expire, ensemble.hosts, one)
        await one.until(lambda it: Session.EXPIRED in it.said)
        assert one.tree == {}

    run(place, story)


def test_the_count_of_deletions_is_told_after_the_topics_that_are_gone(place: str) -> None:
    """Else a broker could write about a topic that was deleted and made again, by the count of now."""
    topics = [f"{T}{number}" for number in range(50)]

    async def story(one: Watcher, other: Watcher) -> None:
        await one.write(Create(DELETIONS, b"{0}"), *(Create(topic, b"{}") for topic in topics))
        await other.until(lambda it: len(it.tree) == 51)
        for topic in topics:
            assert await one.write(Put(DELETIONS, b"{1}"), Delete(topic)) == Written()
        await other.until(lambda it: len(it.tree) == 1)
        for watcher in one, other:
            await watcher.until(lambda it: (it.nodes[-1].path, it.nodes[-1].version) == (DELETIONS, 50))
            there = set(topics)
            for node in watcher.nodes:
                if node.path in there and node.data is None:
                    there.remove(node.path)
                elif node.path == DELETIONS:
                    assert len(there) <= 50 - node.version, f"{node.version} are gone"

    run(place, story)


def test_a_lost_connection_is_resumed_and_nothing_is_missed(place: str) -> None:
    async def story(one: Watcher, other: Watcher) -> None:
        await one.write(Create(ME, b"{me}", ephemeral=True), Create(T, b"{1}"), Create(STATE, b"{1}"))
        await other.until(lambda it: STATE in it.tree)
        client_of(one)._connection._socket.shutdown(2)
        await other.write(Delete(T))
        await other.write(Create(T, b"{2}"), Create(STATE, b"{2}"))
        await one.until(lambda it: Session.RESUMED in it.said)
        assert one.said.index(Session.SUSPENDED) < one.said.index(Session.RESUMED)
        await one.until(lambda it: it.tree == {ME: b"{me}", T: b"{2}", STATE: b"{2}"})
        assert one.keeper.owns(ME), "the session is the same"
        told = [(node.path, node.data) for node in one.nodes]
        assert told.index((T, b"{2}")) < told.index((STATE, b"{2}")), "the new parent before its child"

    run(place, story)


def test_a_write_whose_answer_was_lost_is_unknown_and_what_it_did_is_seen_before(
    ensemble: Ensemble, place: str
) -> None:
    async def story(one: Watcher, _other: Watcher) -> None:
        await one.write(Create(T, b"{1}"))
        before = len(one.said)
        ensemble.pause()
        try:
            future = one.ask(Put(T, b"{2}", 0))
            await one.until(lambda it: Session.SUSPENDED in it.said[before:])
            held = one.ask(Put(T, b"{3}", 1))
            assert not future.done(), "nothing can be known yet"
        finally:
            ensemble.resume()
        outcome = await asyncio.wait_for(future, 30)
        assert isinstance(outcome, Unknown)
        at = one.said.index(outcome)
        assert [node.data for node in one.said[:at] if isinstance(node, NodeChanged)][-1] in {b"{1}", b"{2}"}
        assert isinstance(await asyncio.wait_for(held, 30), Written | Refused), "what waited was decided, too"

    run(place, story, SESSION_MS)


def test_what_waited_for_a_session_that_expired_is_refused(ensemble: Ensemble, place: str) -> None:
    async def story(one: Watcher, _other: Watcher) -> None:
        await one.write(Create(T, b"{1}"))
        before = len(one.said)
        ensemble.pause()
        try:
            await one.until(lambda it: Session.SUSPENDED in it.said[before:])
            held = one.ask(Put(T, b"{2}"))
            await asyncio.sleep(SESSION_MS / 1000)  # it is the time itself that is tested
        finally:
            ensemble.resume()
        outcome = await asyncio.wait_for(held, 30)
        if Session.EXPIRED in one.said[before:]:
            assert outcome == Refused(T, "the session expired")
        else:
            assert outcome == Written()

    run(place, story, SESSION_MS)


def test_nothing_is_confirmed_while_zookeeper_is_away(ensemble: Ensemble, place: str) -> None:
    async def story(one: Watcher, _other: Watcher) -> None:
        confirmed: list[str] = []
        ensemble.pause()
        try:
            one.keeper.confirm(lambda: confirmed.append("under way when it went"))
            await one.until(lambda it: Session.SUSPENDED in it.said, "the loss of the connection")
            one.keeper.confirm(lambda: confirmed.append("while it was away"))
        finally:
            ensemble.resume()
        await one.until(lambda it: {Session.RESUMED, Session.EXPIRED} & set(it.said), "the way back")
        assert confirmed == []

    run(place, story, SESSION_MS)


def test_zookeeper_may_grant_less_than_was_asked_for(ensemble: Ensemble, place: str) -> None:
    async def live() -> None:
        keeper = ZooKeeperKeeper(asyncio.get_running_loop(), place, 3_600_000)
        one = Watcher(keeper)
        await one.load()
        assert keeper._link.timeout_ms == 20 * 500, "20 ticks are the most"
        await keeper.close()

    asyncio.run(live())


def test_the_states_of_many_partitions_fit_into_a_node_and_too_much_is_refused(place: str) -> None:
    async def story(one: Watcher, other: Watcher) -> None:
        large = b'{"partitions":[' + b'{"leader":1,"isr":[1,2,3]},' * 100_000 + b"{}]}"
        assert len(large) > 2 * PACKED_BYTES_MIN
        assert await one.write(Create(T, large)) == Written()
        assert one.tree == {T: large}
        await other.until(lambda it: it.tree == {T: large})
        noise = uuid.uuid4().bytes * 4 + b"".join(uuid.uuid4().bytes for _ in range(80_000))
        outcome = await one.write(Put(T, b"{" + noise))
        assert isinstance(outcome, Refused)
        assert "more than ZooKeeper takes" in outcome.reason
        assert await one.write(Put(T, b"{small}")) == Written()

    run(place, story)


def test_nodes_that_are_not_ours_are_left_alone(ensemble: Ensemble, place: str) -> None:
    async def story(one: Watcher, other: Watcher) -> None:
        chroot = place.removeprefix(ensemble.hosts)
        client = client_of(other)

        def litter() -> None:
            client.create(f"{chroot}/somebody-elses", b"not JSON")
            client.create(f"{chroot}{T}", b"{}", makepath=True)
            client.create(f"{chroot}{T}/unknown-to-us", b"{x}")
            client.create(f"{chroot}{T}/unknown-to-us/and-deeper", b"{y}")

        await asyncio.to_thread(litter)
        await one.until(lambda it: T in it.tree)
        assert "/somebody-elses" not in one.tree
        outcome = await one.write(Delete(T))
        assert isinstance(outcome, Refused), "what lies too deep is nobody's to delete"
        await asyncio.to_thread(client.delete, f"{chroot}{T}/unknown-to-us/and-deeper")
        assert await one.write(Delete(T)) == Written(), "children nobody knew of go with their parent"

    run(place, story)


def test_of_three_servers_one_may_die(tmp_path: Path) -> None:
    ensemble = Ensemble(tmp_path, servers=3)

    async def story(one: Watcher, other: Watcher) -> None:
        await one.write(Create(ME, b"{me}", ephemeral=True), Create("/controller_epoch", b"0"))
        await other.until(lambda it: "/controller_epoch" in it.tree)
        ensemble.kill(ensemble.leader())
        version = 0
        for _ in range(20):
            outcome = await asyncio.wait_for(
                other.ask(Put("/controller_epoch", b"%d" % version, version)), 60
            )
            known = [node for node in other.nodes if node.path == "/controller_epoch"][-1]
            assert isinstance(outcome, Written | Unknown)
            assert known.version in {version, version + 1}
            version = known.version
        await one.until(lambda it: it.tree.get("/controller_epoch") == other.tree["/controller_epoch"])
        seen = [node.version for node in one.nodes if node.path == "/controller_epoch"]
        assert seen == sorted(seen), "never older than what was told before"

    try:
        ensemble.start()
        run(f"{ensemble.hosts}/three", story)
    finally:
        ensemble.stop()


def test_where_no_zookeeper_answers_the_start_waits_and_says_so_rarely(
    caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(keeper_zookeeper, "SILENCE_S", 0.01)
    where = f"127.0.0.1:{free_ports(1)[0]}/x"

    def said() -> list[str]:
        return [one.message for one in caplog.records if one.name == ZooKeeperKeeper.__module__]

    async def live() -> None:
        keeper = ZooKeeperKeeper(asyncio.get_running_loop(), where, 1_000)
        loading = asyncio.ensure_future(Watcher(keeper).load())
        while not said():
            await asyncio.wait([loading], timeout=0.01)
        assert not loading.done()
        loading.cancel()
        await asyncio.wait([loading])

    with caplog.at_level(logging.WARNING):
        asyncio.run(live())
    assert said() == [f"no ZooKeeper answers at {where}; waiting for it"]


def test_a_start_waits_for_a_zookeeper_that_comes_later_than_a_session(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    late = Ensemble(tmp_path)

    async def live() -> None:
        keeper = ZooKeeperKeeper(asyncio.get_running_loop(), f"{late.hosts}/late", 1_000)
        loading = asyncio.ensure_future(Watcher(keeper).load())
        async with asyncio.timeout(60.0):
            while "no ZooKeeper answers" not in caplog.text:  # noqa: ASYNC110 - somebody else says it
                await asyncio.sleep(0.01)
        await asyncio.to_thread(late.start)
        async with asyncio.timeout(60.0):
            assert await loading == []
        await keeper.close()

    try:
        asyncio.run(live())
    finally:
        late.stop()
    assert caplog.text.count("no ZooKeeper answers") == 1


def test_what_happens_to_the_connection_is_logged_once(place: str, caplog: pytest.LogCaptureFixture) -> None:
    async def story(one: Watcher, _other: Watcher) -> None:
        client_of(one)._connection._socket.shutdown(2)
        await one.until(lambda it: Session.RESUMED in it.said)

    with caplog.at_level(logging.WARNING):
        run(place, story)
    said = [one.message for one in caplog.records if one.name == ZooKeeperKeeper.__module__]
    assert len(said) == 2, said
    assert said[0].endswith("is lost")
    assert said[1] == "the connection to ZooKeeper is back"


@pytest.mark.parametrize(
    ("given", "parts"),
    [
        ("a:1", ("a:1", "")),
        ("a:1,b:2/x", ("a:1,b:2", "/x")),
        ("a:1/x/y/", ("a:1", "/x/y")),
        ("[::1]:2181/x", ("[::1]:2181", "/x")),
        ("a", ("a", "")),
    ],
)
def test_an_ensemble_is_hosts_and_perhaps_a_chroot(given: str, parts: tuple[str, str]) -> None:
    assert split_ensemble(given) == parts


@pytest.mark.parametrize("given", ["", "/x", "a:b", "a:70000", "a:1,,b:2", ":1"])
def test_what_is_no_ensemble_is_refused(given: str) -> None:
    with pytest.raises(StartError, match=r"zookeeper\.connect"):
        split_ensemble(given)


def test_it_is_known_when_zookeeper_was_heard_and_how_long_it_took(ensemble: Ensemble, place: str) -> None:
    async def story(one: Watcher, _other: Watcher) -> None:
        keeper = one.keeper
        asked = sum(keeper.request_durations.counts)
        assert asked > 0, "the tree was read"
        await one.write(Create(ME, b"{me}", ephemeral=True))
        assert sum(keeper.request_durations.counts) > asked
        ensemble.pause()
        try:
            heard_s = keeper.heard_s
            assert heard_s is not None
            assert time.monotonic() - heard_s < LONG_MS / 1000
        finally:
            ensemble.resume()
        # Nothing is asked: it is a ping that is answered.
        await one.until(lambda _it: (keeper.heard_s or 0) > heard_s)

    run(place, story, session_ms=SESSION_MS)
