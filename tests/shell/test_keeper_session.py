"""A broker's place in the tree: entered once, kept over an expired session, and seen in order."""

import asyncio
import errno
import json
import re
import shutil
from collections.abc import Awaitable, Callable
from pathlib import Path

import pytest
from tests.support.brokers import epoch_of
from tests.support.waiting import until

from ottla.controller import znodes
from ottla.controller.image import Image
from ottla.controller.keeper import Create, NodeChanged, Operation, Put
from ottla.controller.registration import founding
from ottla.shell import core, keeper_session
from ottla.shell.keeper import Session
from ottla.shell.keeper_session import KeeperSession
from ottla.shell.keeper_shared import SharedKeeper, SharedTree
from ottla.shell.lock import StartError
from ottla.shell.server import Server

WITHIN_S = 20.0


class World:
    """Servers on one tree, in one loop."""

    def __init__(self, folder: Path) -> None:
        self.tree = SharedTree()
        self.folder = folder
        self.keepers: dict[Server, SharedKeeper] = {}
        self.halted: list[str] = []

    def server(self, id: int, name: str = "") -> Server:
        properties = {
            "listeners": "127.0.0.1:0", "broker.id": str(id),
            "log.dirs": str(self.folder / (name or str(id))), "zookeeper.session.timeout.ms": "100",
        }  # fmt: skip

        def keeper(loop: asyncio.AbstractEventLoop) -> SharedKeeper:
            self.keepers[made] = SharedKeeper(loop, self.tree)
            return self.keepers[made]

        made = Server(properties, on_halt=self.halted.append, keeper=keeper)
        return made

    async def refusal(self, server: Server) -> str:
        """Why this server does not start."""
        with pytest.raises(StartError) as refused:
            await server.start()
        del self.keepers[server]
        return str(refused.value)


def run(world: World, story: Callable[[], Awaitable[None]]) -> None:
    async def live() -> None:
        await story()
        for one in world.keepers:
            if not one.core.is_ending:
                await one.stop(drain=False)

    asyncio.run(live())
    assert world.halted == []


def node(one: Server) -> dict[str, object]:
    nodes = {changed.path: changed.data for changed in one_look(one)}
    found: dict[str, object] = json.loads(nodes[f"/brokers/ids/{one.broker.id}"] or b"{}")
    return found


def one_look(one: Server) -> list[NodeChanged]:
    keeper = one._session.keeper
    assert isinstance(keeper, SharedKeeper)
    tree = keeper._tree
    return [NodeChanged(path, found.data, found.version) for path, found in tree._tree.nodes.items()]


def test_after_its_session_expired_a_broker_is_registered_again_as_another_incarnation(
    tmp_path: Path,
) -> None:
    world = World(tmp_path)

    async def story() -> None:
        one, other = world.server(1), world.server(2)
        await one.start()
        await other.start()
        await until(lambda: set(one.broker.image.brokers) == {1, 2} and other.broker.image.controller_id > 0)
        assert node(one)["is_clean"] is False, "a new folder says nothing of before"
        epoch = epoch_of(one.broker)
        world.tree.expire(world.keepers[one])
        await until(lambda: epoch_of(one.broker) > epoch)
        assert node(one)["is_clean"] is True, "it has not stopped"
        assert node(one)["clean_since"] == epoch, "but nothing is known of before its start"
        await until(lambda: other.broker.image.brokers[1].epoch == epoch_of(one.broker))
        assert other.broker.image.controller_id > 0

    run(world, story)


def test_a_broker_that_stopped_cleanly_says_so_when_it_comes_back(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("ottla.shell.keeper_session.LINGER_S", 30.0)
    world = World(tmp_path)

    async def story() -> None:
        first = world.server(1)
        await first.start()
        await first.stop()
        again = world.server(1)
        await again.start()
        assert node(again)["is_clean"] is True
        await again.kill()
        world.keepers[again].abandon(0.05)
        crashed = world.server(1)
        await crashed.start()
        assert node(crashed)["is_clean"] is False
        await crashed.stop()
        replaced = world.server(1, "an-empty-folder")
        await replaced.start()
        assert node(replaced)["is_clean"] is False

    run(world, story)


def test_a_broker_that_was_killed_takes_its_place_at_once_with_the_seat_it_had(tmp_path: Path) -> None:
    world = World(tmp_path)

    async def story() -> None:
        first = world.server(1)
        await first.start()
        epoch = epoch_of(first.broker)
        assert first.broker.seat.is_active
        await first.kill()
        world.keepers[first].abandon(3600)
        again = world.server(1)
        await again.start()
        assert epoch_of(again.broker) > epoch
        await until(lambda: again.broker.seat.is_active)

    run(world, story)


@pytest.mark.parametrize(
    "is_founded", [False, True], ids=["a new cluster", "one from before there was a secret"]
)
def test_brokers_that_come_at_once_agree_on_one_secret(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, is_founded: bool
) -> None:
    world = World(tmp_path)
    servers = [world.server(id) for id in (1, 2, 3)]
    barrier = asyncio.Barrier(3 - is_founded)
    register = KeeperSession.register

    async def register_together(self: KeeperSession, cluster_id: str, claims: dict[str, str | None]) -> None:
        """All have read the tree before any of them writes."""
        async with asyncio.timeout(WITHIN_S):
            await barrier.wait()
        await register(self, cluster_id, claims)

    async def story() -> None:
        if is_founded:
            await servers[0].start()
            del world.tree._tree.nodes[znodes.PEER_SECRET]
            servers[0].broker.image.peer_secret = b""
        monkeypatch.setattr(KeeperSession, "register", register_together)
        await asyncio.gather(*(one.start() for one in servers[is_founded:]))
        await until(lambda: all(len(one.broker.image.brokers) == 3 for one in servers))
        await until(lambda: len({one.broker.image.peer_secret for one in servers}) == 1)
        assert len(servers[0].broker.image.peer_secret) == 32

    run(world, story)


@pytest.mark.parametrize("spoiled", [znodes.peer_secret_node(b""), b"", b"{}", b'{"secret":7}'])
def test_a_secret_that_is_none_is_one_line_that_says_what_to_do_and_running_brokers_go_on(
    tmp_path: Path, spoiled: bytes
) -> None:
    world = World(tmp_path)

    async def story() -> None:
        running = world.server(1)
        await running.start()
        secret = running.broker.image.peer_secret
        kept = world.tree._tree.nodes[znodes.PEER_SECRET]
        world.tree._tree.nodes[znodes.PEER_SECRET] = kept._replace(data=spoiled)
        running.core.on_nodes([NodeChanged(znodes.PEER_SECRET, spoiled, 1)])
        assert running.broker.image.peer_secret == secret
        second = world.server(2)
        refusal = await world.refusal(second)
        assert "node /cluster/peer_secret cannot be read: " in refusal
        assert refusal.endswith("; delete it: the next broker that starts makes another")
        assert "\n" not in refusal
        del world.tree._tree.nodes[znodes.PEER_SECRET]
        third = world.server(3)
        await third.start()
        assert len(third.broker.image.peer_secret) == 32

    run(world, story)


def test_a_copy_of_a_directory_is_no_proof_that_its_broker_is_gone(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(keeper_session, "LINGER_S", 0.1)
    world = World(tmp_path)

    async def story() -> None:
        owner = world.server(1)
        await owner.start()
        shutil.copytree(tmp_path / "1", tmp_path / "copy")
        copy = world.server(1, "copy")
        assert "broker id 1 is registered already" in await world.refusal(copy)
        assert epoch_of(owner.broker) > 0

    run(world, story)


def test_an_id_that_is_taken_is_refused_and_its_owner_is_not_disturbed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(keeper_session, "LINGER_S", 0.1)
    world = World(tmp_path)

    async def story() -> None:
        owner, second = world.server(1), world.server(1, "second")
        await owner.start()
        epoch = epoch_of(owner.broker)
        assert f"broker id 1 is registered already by {owner.address}" in await world.refusal(second)
        assert epoch_of(owner.broker) == epoch
        assert owner.broker.image.controller_id == 1

    run(world, story)


def test_while_the_keeper_is_away_a_broker_waits_for_its_earlier_session_as_long_as_that_takes(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(keeper_session, "LINGER_S", 0.1)
    world = World(tmp_path)

    async def story() -> None:
        crashed, again = world.server(1), world.server(1)
        await crashed.start()
        await crashed.kill()
        (tmp_path / "1" / "incarnation").unlink()  # without it nothing tells whose the session is
        starting = asyncio.ensure_future(again.start())
        await until(lambda: "waiting for that to end" in caplog.text)
        again._session.on_session(Session.SUSPENDED)
        began_s = asyncio.get_running_loop().time()
        await until(lambda: asyncio.get_running_loop().time() > began_s + 1.0)  # session and linger: 0.2 s
        assert not starting.done()
        assert caplog.text.count("is away; waiting for it") == 1
        world.keepers[crashed].abandon(0.0)
        again._session.on_session(Session.RESUMED)
        await starting
        assert epoch_of(again.broker) > 0

    run(world, story)


def test_a_cluster_is_entered_by_its_own_brokers_only(tmp_path: Path) -> None:
    world, elsewhere = World(tmp_path), World(tmp_path)

    async def story() -> None:
        one = world.server(1)
        await one.start()
        founder = elsewhere.server(1, "elsewhere")
        await founder.start()
        await founder.stop()
        stranger = world.server(2, "elsewhere")
        assert "belongs to broker 1" in await world.refusal(stranger)
        await one.stop()
        stranger = world.server(1, "elsewhere")
        refusal = await world.refusal(stranger)
        assert re.search("belongs to cluster .*, and the keeper in memory to cluster", refusal)

    run(world, story)


def test_what_finds_no_descriptor_is_given_again_and_nothing_overtakes_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(core, "SHORTAGE_S", 0.01)
    world = World(tmp_path)

    async def story() -> None:
        one = world.server(1)
        await one.start()
        seen: list[str] = []
        failures = [OSError(errno.EMFILE, "too many open files")] * 3

        def on_nodes(nodes: list[NodeChanged]) -> None:
            if failures:
                raise failures.pop()
            seen.extend(changed.path for changed in nodes)

        monkeypatch.setattr(one.core, "on_nodes", on_nodes)
        for path in ("/config/topics/a", "/config/topics/b"):
            one._session.on_nodes([NodeChanged(path, b"{}", 0)])
        assert seen == []
        await until(lambda: seen == ["/config/topics/a", "/config/topics/b"])

    run(world, story)


def test_much_that_the_keeper_says_at_once_is_taken_in_over_several_rounds_in_its_order(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    world = World(tmp_path)
    monkeypatch.setattr(keeper_session, "SHARE_US", 0)
    seen: list[str] = []

    async def story() -> None:
        first = world.server(1)
        await first.start()
        await until(lambda: not first._session._inbox)
        monkeypatch.setattr(first.core, "on_nodes", lambda nodes: seen.append(nodes[0].path))
        monkeypatch.setattr(first.core.stalls, "elapsed_us", lambda: len(seen))  # longer than the share
        for number in range(20):
            first._session.on_nodes([NodeChanged(f"/{number}", b"", 0)])
        assert len(seen) < 3
        await asyncio.sleep(0)
        assert len(seen) < 6
        await until(lambda: len(seen) == 20)

    run(world, story)
    assert seen == [f"/{number}" for number in range(20)]


def test_what_the_keeper_said_is_left_to_the_next_start_once_the_broker_stops(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    world = World(tmp_path)
    monkeypatch.setattr(keeper_session, "SHARE_US", 0)
    seen: list[str] = []

    async def story() -> None:
        first = world.server(1)
        await first.start()
        await until(lambda: not first._session._inbox)
        monkeypatch.setattr(first.core, "on_nodes", lambda nodes: seen.append(nodes[0].path))
        monkeypatch.setattr(first.core.stalls, "elapsed_us", lambda: len(seen))
        for number in range(20):
            first._session.on_nodes([NodeChanged(f"/{number}", b"", 0)])
        await first.stop(drain=False)
        for _ in range(50):
            await asyncio.sleep(0)

    run(world, story)
    assert len(seen) < 5


def test_a_keeper_that_lost_everything_is_refused_and_no_log_is_removed(tmp_path: Path) -> None:
    """Else the first broker would found the cluster again, and others would take their logs for strays."""
    world = World(tmp_path)

    async def story() -> None:
        for id in (1, 2):
            await world.server(id).start()
        for one in list(world.keepers):
            await one.stop(drain=False)
        log = with_a_log(world.folder / "2")
        world.tree = SharedTree()
        for id in (1, 2):
            refusal = await world.refusal(world.server(id))
            assert "of which the keeper in memory knows nothing" in refusal
        assert log.exists()

    run(world, story)


def test_the_folder_of_a_cluster_does_not_start_without_its_keeper(tmp_path: Path) -> None:
    """It would be a cluster of its own, acknowledge what the other one does not know, and remove what it does
    not know itself."""
    world = World(tmp_path)

    async def story() -> None:
        server = world.server(1)
        await server.start()
        await server.stop()
        folder = world.folder / "1"
        properties = {"log.dirs": str(folder), "listeners": "PLAINTEXT://127.0.0.1:0", "broker.id": "1"}
        alone = Server(properties, on_halt=lambda _reason: None)
        with pytest.raises(StartError, match="on ZooKeeper: start with --zookeeper"):
            await alone.start()
        assert not (folder / "keeper.db").exists()

    run(world, story)


BEYOND = znodes.features_node({"transaction.version": 3, "later.version": 1})
SAID = (
    "later.version is at 1, and this release knows no such feature, "
    "transaction.version is at 3, and this release knows 0 to 2; start a release that knows it"
)


def test_a_broker_does_not_start_in_a_cluster_whose_levels_it_does_not_know(tmp_path: Path) -> None:
    """A later release has raised them: what it writes since then this one cannot read."""
    world = World(tmp_path)
    world.tree.prepare([Create(znodes.FEATURES, BEYOND)])

    async def story() -> None:
        assert SAID in await world.refusal(world.server(1))
        assert not (world.folder / "1" / "meta.properties").exists(), "it has touched nothing"

    run(world, story)


def test_a_broker_stops_when_a_level_is_raised_that_it_does_not_know(tmp_path: Path) -> None:
    """UpdateFeatures does not do that while this broker is registered; somebody else may."""
    world = World(tmp_path)

    async def story() -> None:
        server = world.server(1)
        await server.start()
        keeper = world.keepers[server]
        world.tree.write(keeper, [Put(znodes.FEATURES, BEYOND)], lambda _outcome: None)
        await until(lambda: server.core.is_halted)
        assert SAID in world.halted.pop()

    run(world, story)


def test_a_broker_enters_only_with_the_levels_it_has_seen(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """One is raised between its look and its entry: it looks again."""
    world = World(tmp_path)
    lowered = znodes.features_node({"transaction.version": 1})
    looks: list[int] = []

    def levels_change(image: Image, *given: object) -> list[Operation]:
        operations = founding(image, *given)  # type: ignore[arg-type]
        looks.append(image.transaction_version)
        if len(looks) == 1:
            world.tree.write(world.keepers[second], [Put(znodes.FEATURES, lowered)], lambda _outcome: None)
        return operations

    async def story() -> None:
        await world.server(1).start()
        monkeypatch.setattr(keeper_session, "founding", levels_change)
        await second.start()
        assert looks == [2, 1]
        assert second.broker.image.transaction_version == 1

    second = world.server(2)
    run(world, story)


def test_logs_of_no_cluster_are_not_brought_into_one_that_would_remove_them(tmp_path: Path) -> None:
    world = World(tmp_path)

    async def story() -> None:
        await world.server(1).start()
        log = with_a_log(world.folder / "2")
        refusal = await world.refusal(world.server(2))
        assert "holds logs and does not say of which cluster" in refusal
        assert log.exists()

    run(world, story)


def with_a_log(data: Path) -> Path:
    log = data / "letters-0"
    log.mkdir(parents=True)
    (log / f"{0:020}.log").write_bytes(b"")
    return log
