"""An operator who cannot leave the cluster alone: topics come and go, grow, move and are configured anew."""

from typing import Any

from tests.sim.client import Client, Script

from ottla.base.ids import ZERO_UUID
from ottla.wire.messages.alter_partition_reassignments import (
    AlterPartitionReassignmentsRequest,
    ReassignablePartition,
    ReassignableTopic,
)
from ottla.wire.messages.create_partitions import CreatePartitionsRequest, CreatePartitionsTopic
from ottla.wire.messages.create_topics import CreatableTopic, CreatableTopicConfig, CreateTopicsRequest
from ottla.wire.messages.delete_topics import DeleteTopicsRequest, DeleteTopicState
from ottla.wire.messages.elect_leaders import ElectLeadersRequest
from ottla.wire.messages.incremental_alter_configs import (
    AlterableConfig,
    AlterConfigsResource,
    IncrementalAlterConfigsRequest,
)
from ottla.wire.messages.update_features import FeatureUpdateKey, UpdateFeaturesRequest

PREFERRED = 0
UPGRADE, SAFE_DOWNGRADE = 1, 2
TOPIC = 2
SET = 0


def new_topic(name: str, partitions: int, replicas: int, **configs: str) -> CreateTopicsRequest:
    wanted = CreatableTopic(
        name=name,
        num_partitions=partitions,
        replication_factor=replicas,
        configs=[CreatableTopicConfig(name=key.replace("_", "."), value=configs[key]) for key in configs],
    )
    return CreateTopicsRequest(topics=[wanted], timeout_ms=1_500)


class Founder(Client):
    """Creates the topics of the workload, each until it is there."""

    def __init__(self, *place: Any, topics: dict[str, CreateTopicsRequest]) -> None:
        super().__init__(*place)
        self.topics = topics

    def script(self) -> Script:
        for name, request in self.topics.items():
            while (yield from self.refresh(name)) is None:
                yield self.ask(self.any_broker(), request)
                yield 50


class Admin(Client):
    """`kinds`: what it may do, by the name of the method; `topic`: the one that it grows and moves."""

    def __init__(self, *place: Any, kinds: list[str], topic: str, partitions: int, replicas: int) -> None:
        super().__init__(*place)
        self.kinds, self.topic = kinds, topic
        self.partitions, self.replicas = partitions, replicas
        self.made = 0
        self.isr_min = min(2, replicas)

    def script(self) -> Script:
        while not self.is_stopping:
            yield self.world.draw(200, 2_500)
            kind = self.kinds[self.world.draw(0, len(self.kinds) - 1)]
            self.world.note("admin:", kind)
            yield from getattr(self, kind)()

    def come_and_go(self) -> Script:
        """A topic is created, and the next time deleted; its name is used again."""
        self.made += 1
        if self.made % 2:
            request: Any = new_topic("passing", 2, self.replicas)
        else:
            request = DeleteTopicsRequest(
                topics=[DeleteTopicState(name="passing", topic_id=ZERO_UUID)],
                topic_names=["passing"],
                timeout_ms=1_500,
            )
        yield self.ask(self.any_broker(), request)

    def grow(self) -> Script:
        """One partition more, of the passing topic, if there is one."""
        wanted = CreatePartitionsTopic(name="passing", count=self.world.draw(3, 4), assignments=None)
        request = CreatePartitionsRequest(topics=[wanted], timeout_ms=1_500, validate_only=False)
        yield self.ask(self.any_broker(), request)

    def move(self) -> Script:
        """Other brokers for one partition; sometimes what is under way is taken back."""
        brokers = list(self.brokers)
        self.world.random.shuffle(brokers)
        replicas = None if self.world.chance(0.15) else brokers[: self.replicas]
        part = ReassignablePartition(
            partition_index=self.world.draw(0, self.partitions - 1), replicas=replicas
        )
        topic = ReassignableTopic(name=self.topic, partitions=[part])
        request = AlterPartitionReassignmentsRequest(timeout_ms=1_500, topics=[topic])
        yield self.ask(self.any_broker(), request)

    def prefer(self) -> Script:
        request = ElectLeadersRequest(election_type=PREFERRED, topic_partitions=None, timeout_ms=1_500)
        yield self.ask(self.any_broker(), request)

    def set_isr_min(self) -> Script:
        self.isr_min = self.world.draw(1, min(2, self.replicas))
        config = AlterableConfig(name="min.insync.replicas", config_operation=SET, value=str(self.isr_min))
        resource = AlterConfigsResource(resource_type=TOPIC, resource_name=self.topic, configs=[config])
        request = IncrementalAlterConfigsRequest(resources=[resource], validate_only=False)
        yield self.ask(self.any_broker(), request)


class FeatureAdmin(Client):
    """Sets a feature to a level and sees it everywhere; without a level, changes it again and again."""

    def __init__(self, *where: Any, feature: str, level: int | None) -> None:
        super().__init__(*where)
        self.feature, self.level = feature, level

    def script(self) -> Script:
        if self.level is not None:
            while not (yield from self._is_everywhere(self.level)):
                yield from self._update(self.level)
                yield 50
            return
        while not self.is_stopping:
            yield self.world.draw(500, 4_000)
            yield from self._update(self.world.draw(0, 2))

    def _update(self, level: int) -> Script:
        for way in (UPGRADE, SAFE_DOWNGRADE):
            key = FeatureUpdateKey(feature=self.feature, max_version_level=level, upgrade_type=way)
            request = UpdateFeaturesRequest(timeout_ms=1_500, feature_updates=[key])
            answer = yield self.ask(self.any_broker(), request)
            if answer is not None and not answer.error_code:
                self.world.note(f"{self.name}: {self.feature} is {level}")
                return

    def _is_everywhere(self, level: int) -> Script:
        for broker in self.brokers:
            if (yield from self.feature_level(broker, self.feature)) != level:
                return False
        return True
