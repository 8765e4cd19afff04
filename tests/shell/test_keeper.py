"""What every keeper promises: the same tests for that of one broker, that in memory, and ZooKeeper."""

import asyncio
import contextlib
import uuid
from collections.abc import Callable, Coroutine, Iterator
from pathlib import Path
from typing import Any

import pytest
from tests.cluster.zookeeper import Ensemble
from tests.shell.keepers import Watcher
from tests.support.processes import running

from ottla.controller import user_nodes, znodes
from ottla.controller.image import Configs, Image
from ottla.controller.keeper import Check, Create, Delete, NodeChanged, Put, Refused, Written
from ottla.controller.user_nodes import Entity
from ottla.shell.keeper import Keeper, Session
from ottla.shell.keeper_embedded import EmbeddedKeeper
from ottla.shell.keeper_local import LocalKeeper
from ottla.shell.keeper_shared import SharedKeeper, SharedTree
from ottla.shell.keeper_zookeeper import ZooKeeperKeeper

T, STATE, CONFIG = "/brokers/topics/t", "/brokers/topics/t/state", "/config/topics/t"
ME = "/brokers/ids/1"
Make = Callable[[], Keeper]
Story = Callable[[Make], Coroutine[Any, Any, None]]


@pytest.fixture(scope="module")
def ensemble(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Ensemble]:
    with running(Ensemble(tmp_path_factory.mktemp("keeper"))) as servers:
        yield servers


@pytest.fixture(params=["local", "shared", "zookeeper"])
def tell(request: pytest.FixtureRequest, tmp_path: Path) -> Callable[[Story], None]:
    return _teller(request, tmp_path)


@pytest.fixture(params=["shared", "zookeeper"])
def several(request: pytest.FixtureRequest, tmp_path: Path) -> Callable[[Story], None]:
    """The keepers that more than one broker can use."""
    return _teller(request, tmp_path)


def _teller(request: pytest.FixtureRequest, tmp_path: Path) -> Callable[[Story], None]:
    """Runs a story with a function that makes keepers of one tree; all of them are closed afterwards."""
    kind = request.param
    tree, path = SharedTree(), str(tmp_path / "keeper.db")
    hosts = request.getfixturevalue("ensemble").hosts if kind == "zookeeper" else ""
    chroot = f"{hosts}/tests/{uuid.uuid4().hex}"

    def tell(story: Story) -> None:
        async def run() -> None:
            loop, made = asyncio.get_running_loop(), list[Keeper]()

            def make() -> Keeper:
                keeper: Keeper
                if kind == "local":
                    keeper = LocalKeeper(loop, path, durable=False)
                elif kind == "shared":
                    keeper = SharedKeeper(loop, tree)
                else:
                    keeper = ZooKeeperKeeper(loop, chroot, 10_000)
                made.append(keeper)
                return keeper

            try:
                await story(make)
            finally:
                for keeper in made:
                    await keeper.close()

        asyncio.run(run())

    tell.kind = kind  # type: ignore[attr-defined]
    return tell


class TestEveryKeeper:
    def test_a_node_is_created_changed_and_deleted_and_each_is_told_before_the_outcome(
        self, tell: Callable[[Story], None]
    ) -> None:
        async def story(make: Make) -> None:
            one = Watcher(make())
            assert await one.load() == []
            assert await one.write(Create(T, b"{1}")) == Written()
            assert await one.write(Put(T, b"{2}", 0)) == Written()
            assert await one.write(Put(T, b"{3}")) == Written()
            assert await one.write(Check(T, 2), Delete(T, 2)) == Written()
            created = one.nodes[0].created
            assert one.said == [
                NodeChanged(T, b"{1}", 0, created), Written(), NodeChanged(T, b"{2}", 1, created), Written(),
                NodeChanged(T, b"{3}", 2, created), Written(), NodeChanged(T, None, 2, created), Written(),
            ]  # fmt: skip

        tell(story)

    def test_a_condition_that_does_not_hold_refuses_the_whole_write(
        self, tell: Callable[[Story], None]
    ) -> None:
        async def story(make: Make) -> None:
            one = Watcher(make())
            await one.load()
            await one.write(Create(T, b"{kept}"), Create(CONFIG, b"{kept}"))
            for operation, reason in (
                (Create(T, b"{}"), f"{T} is there already"),
                (Put(STATE, b"{}"), f"{STATE} is not there"),
                (Put(T, b"{}", 3), f"{T} is at version 0, not 3"),
                (Delete(STATE), f"{STATE} is not there"),
                (Delete(T, 4), f"{T} is at version 0, not 4"),
                (Check(STATE, -1), f"{STATE} is not there"),
                (Check(T, 7), f"{T} is at version 0, not 7"),
            ):
                outcome = await one.write(Create(ME, b"{new}"), Put(CONFIG, b"{changed}"), operation)
                assert outcome == Refused(operation.path, reason)
            assert one.tree == {T: b"{kept}", CONFIG: b"{kept}"}
            assert await one.write(Put(T, b"{changed}", 0)) == Written(), "nothing is in its way"

        tell(story)

    def test_every_kind_of_config_has_its_place(self, tell: Callable[[Story], None]) -> None:
        async def story(make: Make) -> None:
            one = Watcher(make())
            await one.load()
            paths = [
                znodes.topic_config_path("t"),
                znodes.broker_config_path(""),
                znodes.group_config_path("a/b .. käfer"),
                znodes.group_config_path("."),
                Entity("alice/..").path,
                Entity("").path,
                Entity(client_id="app 1").path,
                Entity(ip="10.0.0.1").path,
            ]
            assert await one.write(*(Create(path, b"{}") for path in paths)) == Written()
            assert one.tree == dict.fromkeys(paths, b"{}")
            again = Watcher(make())
            assert {node.path for node in await again.load()} == set(paths)

        tell(story)

    def test_the_clients_of_a_user_are_told_and_the_user_can_be_written_after_them(
        self, tell: Callable[[Story], None]
    ) -> None:
        """ZooKeeper makes the user's node, empty, for the sake of those below it."""
        client, user = Entity("alice", "app"), Entity("alice")

        async def story(make: Make) -> None:
            one = Watcher(make())
            await one.load()
            assert await one.write(*user_nodes.write(client, {"a": "1"}, -1)) == Written()
            if tell.kind == "zookeeper":  # type: ignore[attr-defined]
                await one.until(lambda watcher: watcher.tree.get(user.path) == b"", "the user's node")
            image = Image()
            for node in one.nodes:
                image.apply(node)
            assert image.entity_configs[client].values == {"a": "1"}
            there = image.entity_configs.get(user, Configs({}, -1))
            assert await one.write(*user_nodes.write(user, {"b": "2"}, there.version)) == Written()
            again, loaded = Watcher(make()), Image()
            for node in await again.load():
                loaded.apply(node)
            assert {entity: configs.values for entity, configs in loaded.entity_configs.items()} == {
                client: {"a": "1"},
                user: {"b": "2"},
            }

        tell(story)

    def test_another_broker_hears_of_a_users_client(self, several: Callable[[Story], None]) -> None:
        client = Entity("", "a/b")

        async def story(make: Make) -> None:
            one, other = Watcher(make()), Watcher(make())
            await one.load()
            await other.load()
            await one.write(*user_nodes.write(client, {"a": "1"}, -1))
            await other.until(lambda watcher: client.path in watcher.tree, "the client's node")
            await one.write(*user_nodes.write(client, {"a": "2"}, 0))
            await other.until(lambda watcher: b'"2"' in watcher.tree[client.path], "the other value")

        several(story)

    def test_a_node_goes_with_everything_below_it(self, tell: Callable[[Story], None]) -> None:
        async def story(make: Make) -> None:
            one = Watcher(make())
            await one.load()
            beside = "/brokers/topics/t-1"
            await one.write(Create(T, b"{}"), Create(STATE, b"{}"), Create(beside, b"{}"))
            assert await one.write(Delete(T)) == Written()
            assert [node.path for node in one.nodes if node.data is None] == [STATE, T], "children first"
            assert one.tree == {beside: b"{}"}

        tell(story)

    def test_what_is_made_again_after_its_deletion_is_told_parents_first(
        self, tell: Callable[[Story], None]
    ) -> None:
        async def story(make: Make) -> None:
            one = Watcher(make())
            await one.load()
            await one.write(Create(T, b"{a}"), Create(STATE, b"{a}"))
            await one.write(Delete(T))
            await one.write(Create(T, b"{b}"), Create(STATE, b"{b}"))
            assert [(node.path, node.data) for node in one.nodes[-2:]] == [(T, b"{b}"), (STATE, b"{b}")]

        tell(story)

    def test_the_tree_is_loaded_parents_before_children(self, tell: Callable[[Story], None]) -> None:
        async def story(make: Make) -> None:
            one = Watcher(make())
            await one.load()
            topics = [f"/brokers/topics/t{number}" for number in range(200)]
            for path in topics:
                await one.write(Create(path, b"{}"), Create(f"{path}/state", b"{s}"))
            await one.keeper.close()
            other = Watcher(make())
            loaded = [node.path for node in await other.load()]
            assert sorted(loaded) == sorted([*topics, *(f"{path}/state" for path in topics)])
            assert all(loaded.index(path) < loaded.index(f"{path}/state") for path in topics)

        tell(story)

    def test_writes_happen_in_the_order_they_were_asked_for(self, tell: Callable[[Story], None]) -> None:
        async def story(make: Make) -> None:
            one = Watcher(make())
            await one.load()
            futures = [one.ask(Create(T, b"{0}"))]
            futures += [one.ask(Put(T, f"{{{number}}}".encode(), number - 1)) for number in range(1, 50)]
            assert {await future for future in futures} == {Written()}
            versions = [node.version for node in one.nodes]
            assert versions == sorted(versions)
            assert one.tree == {T: b"{49}"}

        tell(story)

    def test_what_is_ephemeral_goes_with_its_session(self, tell: Callable[[Story], None]) -> None:
        async def story(make: Make) -> None:
            one = Watcher(make())
            await one.load()
            await one.write(Create(ME, b"{me}", ephemeral=True), Create(T, b"{kept}"))
            assert one.keeper.owns(ME)
            await one.keeper.close()
            again = Watcher(make())
            assert [node.path for node in await again.load()] == [T]

        tell(story)

    def test_an_empty_write_is_written(self, tell: Callable[[Story], None]) -> None:
        async def story(make: Make) -> None:
            one = Watcher(make())
            await one.load()
            assert await one.write() == Written()

        tell(story)


async def _confirm(one: Watcher) -> None:
    """Nothing is called if the connection is lost meanwhile, as under a load: ask again."""
    confirmed = asyncio.Event()
    async with asyncio.timeout(60):
        while not confirmed.is_set():
            one.keeper.confirm(confirmed.set)
            with contextlib.suppress(TimeoutError):
                await asyncio.wait_for(confirmed.wait(), 1.0)


class TestKeepersOfManyBrokers:
    def test_what_is_confirmed_was_told_before(self, several: Callable[[Story], None]) -> None:
        """However quickly another writes: a confirmation does not overtake a change."""

        async def story(make: Make) -> None:
            one, other = Watcher(make()), Watcher(make())
            await one.load()
            await other.load()
            await other.write(Create(T, b"{0}"))
            for number in range(1, 100):
                content = b"{%d}" % number
                assert await other.write(Put(T, content)) == Written()
                await _confirm(one)
                assert one.tree[T] == content

        several(story)

    def test_every_broker_sees_what_another_writes(self, several: Callable[[Story], None]) -> None:
        async def story(make: Make) -> None:
            one, other = Watcher(make()), Watcher(make())
            await one.load()
            await other.load()
            assert await one.write(Create(T, b"{1}"), Create(STATE, b"{1}")) == Written()
            await other.until(lambda it: it.tree == {T: b"{1}", STATE: b"{1}"})
            assert await other.write(Put(STATE, b"{2}", 0)) == Written()
            assert await one.write(Put(STATE, b"{3}", 0)) == Refused(STATE, f"{STATE} is at version 1, not 0")
            assert one.tree[STATE] == b"{2}", "what was in the way is known with the refusal"
            assert await one.write(Delete(T)) == Written()
            await other.until(lambda it: it.tree == {})

        several(story)

    def test_only_one_of_many_gets_the_seat(self, several: Callable[[Story], None]) -> None:
        async def story(make: Make) -> None:
            watchers = [Watcher(make()) for _ in range(4)]
            for one in watchers:
                await one.load()
            await watchers[0].write(Create("/controller_epoch", b"0"))
            outcomes = [
                one.ask(
                    Create("/controller", f"{{{number}}}".encode(), ephemeral=True),
                    Put("/controller_epoch", b"1", 0),
                )
                for number, one in enumerate(watchers)
            ]
            assert [isinstance(await one, Written) for one in outcomes].count(True) == 1
            owners = [one for one in watchers if one.keeper.owns("/controller")]
            assert len(owners) == 1
            await owners[0].keeper.close()
            for one in watchers:
                if one is not owners[0]:
                    await one.until(lambda it: "/controller" not in it.tree)

        several(story)

    def test_another_incarnation_of_a_broker_has_another_epoch(
        self, several: Callable[[Story], None]
    ) -> None:
        async def story(make: Make) -> None:
            other = Watcher(make())
            await other.load()
            epochs = []
            for _ in range(3):
                one = Watcher(make())
                await one.load()
                assert await one.write(Create(ME, b"{me}", ephemeral=True)) == Written()
                epochs.append(one.nodes[-1].created)
                await other.until(lambda it: ME in it.tree)
                assert not other.keeper.owns(ME)
                await one.keeper.close()
                await other.until(lambda it: ME not in it.tree)
            assert epochs == sorted(set(epochs))

        several(story)


def test_a_shared_session_that_expires_is_told_so_after_its_nodes_went() -> None:
    async def run() -> None:
        tree, loop = SharedTree(), asyncio.get_running_loop()
        one, other = Watcher(SharedKeeper(loop, tree)), Watcher(SharedKeeper(loop, tree))
        await one.load()
        await other.load()
        await one.write(Create(ME, b"{me}", ephemeral=True))
        assert isinstance(one.keeper, SharedKeeper)
        tree.expire(one.keeper)
        await one.until(lambda it: Session.EXPIRED in it.said)
        assert one.tree == {}
        await other.until(lambda it: it.nodes and it.tree == {})
        assert await one.write(Create(ME, b"{again}", ephemeral=True)) == Written()
        one.keeper.abandon(0.01)
        await other.until(lambda it: it.tree == {} and len(it.nodes) == 4, "the abandoned session's end")

    asyncio.run(run())


def test_the_file_of_the_embedded_keeper_is_for_its_owner_alone(tmp_path: Path) -> None:
    path = tmp_path / "keeper.db"
    for _ in range(2):
        EmbeddedKeeper(str(path)).close()
        assert path.stat().st_mode & 0o777 == 0o600
        path.chmod(0o644)


ACLS = ("/kafka-acl/Topic/t", "/kafka-acl-extended/prefixed/Topic/t-")


def test_every_broker_hears_of_acls_and_features_and_a_later_start_finds_them(
    several: Callable[[Story], None],
) -> None:
    """The folders above a node are made by the first write below them."""
    paths = (*ACLS, znodes.FEATURES)

    async def story(make: Make) -> None:
        one, other, late = (Watcher(make()) for _ in range(3))
        await one.load()
        await other.load()
        for path in paths:
            assert await one.write(Create(path, b"{1}")) == Written()
        await other.until(lambda watcher: watcher.tree == dict.fromkeys(paths, b"{1}"))
        for path in paths:
            assert await other.write(Put(path, b"{2}", 0)) == Written()
        await one.until(lambda watcher: watcher.tree == dict.fromkeys(paths, b"{2}"))
        assert {node.path for node in await late.load()} == set(paths)
        assert await late.write(Delete(ACLS[1])) == Written()
        await one.until(lambda watcher: ACLS[1] not in watcher.tree)

    several(story)
