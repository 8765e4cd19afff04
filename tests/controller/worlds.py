"""A cluster for the controller's rules alone: an image that changes as nodes would, and nothing else.

    world = World(brokers=3)
    world.topic("t", {0: (1, 2, 3)}, min_insync_replicas=2)
    world.stop(1) / world.crash(1) / world.start(1)      a broker leaves and comes back, cleanly or not
    world.settle()                                       the controller looks, and what it wants is written
    world.state("t", 0)

Broker epochs are taken from one counter, as czxids are.
"""

from collections.abc import Callable, Iterable

from tests.support.endpoints import plaintext

from ottla.base.config import override
from ottla.controller import znodes
from ottla.controller.draft import Draft
from ottla.controller.election import in_sync
from ottla.controller.image import Image
from ottla.controller.isr import Proposal, propose
from ottla.controller.keeper import ANY, Create, NodeChanged, Operation, Put, Written
from ottla.controller.plan import is_settled, repair
from ottla.controller.tree import Tree
from ottla.controller.znodes import State
from ottla.log.config import LogConfig

CONTROLLER = 0  # its session


class World:
    def __init__(self, brokers: int = 3, racks: dict[int, str] | None = None) -> None:
        self.image, self.tree = Image(), Tree()
        self.racks = racks or {}
        self.unclean: set[int] = set()
        self.suspected: set[int] = set()  # by the controller, to be gone
        self.markers: dict[int, int] = {}
        for broker in range(1, brokers + 1):
            self.start(broker)

    # Brokers

    def start(self, broker: int) -> None:
        """Its clean-shutdown marker, if there is one, says since when its logs are whole."""
        node = self._broker_node(broker, is_stopping=False, clean_since=self.markers.get(broker, 0))
        self.write([Create(f"{znodes.BROKERS}{broker}", node, ephemeral=True)], broker)
        self.unclean.discard(broker)
        self.markers[broker] = self.image.brokers[broker].clean_since

    def _broker_node(self, broker: int, *, is_stopping: bool, clean_since: int) -> bytes:
        return znodes.broker_node(
            plaintext("h", 9092), self.racks.get(broker),
            is_clean=broker not in self.unclean, is_stopping=is_stopping, clean_since=clean_since,
        )  # fmt: skip

    def stop(self, *brokers: int) -> None:
        """They stopped cleanly."""
        for broker in brokers:
            self._see(self.tree.end(broker))

    def crash(self, *brokers: int) -> None:
        """They are gone, and come back without what they had not synced."""
        self.stop(*brokers)
        self.unclean.update(brokers)

    def restart(self, *brokers: int) -> None:
        for broker in brokers:
            self.stop(broker)
            self.start(broker)

    def reset(self, *brokers: int) -> None:
        for broker in brokers:
            self.crash(broker)
            self.start(broker)

    def announce_stop(self, broker: int) -> None:
        endpoint = self.image.brokers[broker]
        if not endpoint.is_clean:
            self.unclean.add(broker)
        node = self._broker_node(broker, is_stopping=True, clean_since=endpoint.clean_since)
        self._put(f"{znodes.BROKERS}{broker}", node)
        self.unclean.discard(broker)

    def lose_directory(self, broker: int, *partitions: tuple[str, int]) -> None:
        self._put(f"{znodes.OFFLINE}{broker}", znodes.offline_node(partitions), session=broker)

    def epoch(self, broker: int) -> int:
        return self.image.brokers[broker].epoch

    # Topics

    def topic(self, name: str, assignment: dict[int, tuple[int, ...]], **configs: object) -> None:
        states = {
            p: State(
                replicas[0],
                0,
                replicas,
                isr_epochs=tuple(self.epoch(one) if one in self.image.brokers else 0 for one in replicas),
            )
            for p, replicas in assignment.items()
        }
        node = znodes.topic_node(name.encode().ljust(16, b"-"), assignment)
        self.write([
            Create(znodes.topic_path(name), node),
            Create(znodes.state_path(name), znodes.state_node(1, states)),
        ])  # fmt: skip
        self.configure(name, **configs)

    def configure(self, name: str, **configs: object) -> None:
        texts = {key.replace("_", "."): str(value).lower() for key, value in configs.items()}
        self._put(znodes.topic_config_path(name), znodes.config_node(texts))

    def config(self, name: str) -> LogConfig:
        return override(LogConfig(), self.image.topic_config(name))

    def write(self, operations: Iterable[Operation], session: int = CONTROLLER) -> None:
        operations = list(operations)
        assert all(isinstance(one, Create) or one.version != ANY for one in operations), "no Put is blind"
        changed, outcome = self.tree.write(operations, session)
        assert outcome == Written(), outcome
        self._see(changed)

    def _put(self, path: str, data: bytes, session: int | None = None) -> None:
        """Whatever is there; with a session the node is ephemeral."""
        node = self.tree.nodes.get(path)
        is_ephemeral = session is not None
        operation = Put(path, data, node.version) if node else Create(path, data, ephemeral=is_ephemeral)
        self.write([operation], session or CONTROLLER)

    def _see(self, changed: list[NodeChanged]) -> None:
        for node in changed:
            self.image.apply(node)

    def state(self, name: str, partition: int) -> State:
        return self.image.topics[name].states[partition]

    # The controller

    def draft(self, name: str) -> Draft:
        return Draft(self.image, self.image.topics[name], self.config(name), self.suspected)

    def decide(self, name: str, *decisions: Callable[[Draft], None]) -> Draft:
        draft = self.draft(name)
        for decision in decisions:
            decision(draft)
        repair(draft)
        self.write(draft.operations())
        return draft

    def settle(self) -> list[str]:
        """Look at every topic; answers what an operator would be told."""
        alarms = []
        for topic in list(self.image.topics.values()):
            if not is_settled(self.image, topic, self.suspected):
                alarms += map(str, self.decide(topic.name).alarms)
        return alarms

    def propose(self, name: str, partition: int, *isr: int, **other: int) -> None:
        """The leader wants this ISR. It knows the members in the epochs in which they joined, and others as
        they are."""
        state, topic = self.state(name, partition), self.image.topics[name]
        members = in_sync(state)
        fields = {
            "broker": state.leader,
            "leader_epoch": state.leader_epoch,
            "partition_epoch": state.partition_epoch,
        } | other
        proposal = Proposal(
            partition=partition,
            isr=tuple((one, members.get(one) or self.epoch(one)) for one in isr),
            **fields,
        )
        self.decide(name, lambda draft: propose(draft, proposal, topic.id))
