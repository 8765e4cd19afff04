"""A cluster for the controller's rules alone: an image that changes as nodes would, and nothing else.

    world = World(brokers=3)
    world.topic("t", {0: (1, 2, 3)}, min_insync_replicas=2)
    world.stop(1) / world.crash(1) / world.start(1)      a broker leaves and comes back, cleanly or not
    world.settle()                                       the controller looks, and what it wants is written
    world.state("t", 0)

Broker epochs are taken from one counter, as czxids are.
"""

from collections.abc import Callable, Iterable

from ottla.base.config import override
from ottla.controller import znodes
from ottla.controller.draft import Draft
from ottla.controller.election import in_sync
from ottla.controller.image import Image
from ottla.controller.isr import Proposal, propose
from ottla.controller.keeper import Create, NodeChanged, Operation, Put
from ottla.controller.plan import is_settled, repair
from ottla.controller.znodes import State
from ottla.log.config import LogConfig


class World:
    def __init__(self, brokers: int = 3, racks: dict[int, str] | None = None) -> None:
        self.image = Image()
        self.zxid = 100
        self.racks = racks or {}
        self.versions: dict[str, int] = {}
        self.unclean: set[int] = set()
        self.suspected: set[int] = set()  # by the controller, to be gone
        self.markers: dict[int, int] = {}
        for broker in range(1, brokers + 1):
            self.start(broker)

    # Brokers

    def start(self, broker: int) -> None:
        """Its clean-shutdown marker, if there is one, says since when its logs are whole."""
        self.zxid += 1
        self._set_broker(broker, self.zxid, is_stopping=False, clean_since=self.markers.get(broker, 0))
        self.unclean.discard(broker)
        self.markers[broker] = self.image.brokers[broker].clean_since

    def _set_broker(self, broker: int, created: int, *, is_stopping: bool, clean_since: int = 0) -> None:
        node = znodes.broker_node(
            "h", 9092, self.racks.get(broker),
            is_clean=broker not in self.unclean, is_stopping=is_stopping, clean_since=clean_since,
        )  # fmt: skip
        self.image.apply(NodeChanged(f"{znodes.BROKERS}{broker}", node, 0, created))

    def stop(self, *brokers: int) -> None:
        """They stopped cleanly."""
        for broker in brokers:
            self.image.apply(NodeChanged(f"{znodes.BROKERS}{broker}", None, 0))
            self.image.apply(NodeChanged(f"{znodes.OFFLINE}{broker}", None, 0))

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
        known = self.image.brokers[broker]
        if not known.is_clean:
            self.unclean.add(broker)
        self._set_broker(broker, known.epoch, is_stopping=True, clean_since=known.clean_since)
        self.unclean.discard(broker)

    def lose_directory(self, broker: int, *partitions: tuple[str, int]) -> None:
        self.image.apply(NodeChanged(f"{znodes.OFFLINE}{broker}", znodes.offline_node(partitions), 0))

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
        self.image.apply(NodeChanged(znodes.topic_config_path(name), znodes.config_node(texts), 0))

    def config(self, name: str) -> LogConfig:
        return override(LogConfig(), self.image.topic_config(name))

    def write(self, operations: Iterable[Operation]) -> None:
        for operation in operations:
            assert isinstance(operation, Create | Put)
            known = self.versions.get(operation.path, -1)
            if isinstance(operation, Put):
                assert operation.version == known, "decided on what is there"
            self.versions[operation.path] = known + 1
            self.image.apply(NodeChanged(operation.path, operation.data, known + 1))

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
                alarms += self.decide(topic.name).alarms
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
