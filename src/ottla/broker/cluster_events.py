"""What happens in the cluster: which other brokers come and go, who is the controller, and, said by the
controller alone, which topics are made and deleted."""

import logging
from collections.abc import Iterable

from ottla.base.log_fields import fields
from ottla.broker.event_digest import EventDigest
from ottla.controller import image as images
from ottla.controller.image import BrokerEndpoint, Image

log = logging.getLogger(__name__)


class ClusterEvents:
    """`controllers` counts how often a broker took the controller's seat while this one was there."""

    def __init__(self, broker_id: int, image: Image, digest: EventDigest) -> None:
        self.controllers = 0
        self._broker_id = broker_id
        self._image = image
        self._digest = digest
        self._brokers: dict[int, BrokerEndpoint] = {}  # that were there, as they were
        self._seen: set[int] = set()  # who ever was: a broker's first start is not clean either
        self._offline: dict[int, int] = {}  # how many of their partitions are
        self._controller = -1

    def on_opened(self) -> None:
        """All that there is by now was there before this broker."""
        self._brokers, self._controller = dict(self._image.brokers), self._image.controller_id
        self._seen.update(self._brokers)
        self._offline = {broker: len(partitions) for broker, partitions in self._image.offline.items()}

    def on_changes(self, changes: Iterable[images.Change]) -> None:
        is_controller = self._image.controller_id == self._broker_id
        for change in changes:
            match change:
                case images.BrokerChanged(broker) if broker != self._broker_id:
                    self._on_broker(broker)
                case images.ControllerChanged():
                    self._on_controller()
                case images.TopicCreated(topic) if is_controller and topic in self._image.topics:
                    assignment = self._image.topics[topic].assignment
                    replicas = max(map(len, assignment.values()), default=0)
                    self._digest.add(
                        log, logging.INFO, "topic %s: created, with %d partitions and %d replicas of each",
                        topic, len(assignment), replicas, counted="topics",
                    )  # fmt: skip
                case images.TopicDeleted(topic) if is_controller and topic not in self._image.topics:
                    self._digest.add(log, logging.INFO, "topic %s: deleted", topic, counted="topics")

    def _on_broker(self, broker: int) -> None:
        before, now = self._brokers.pop(broker, None), self._image.brokers.get(broker)
        offline_before, offline = self._offline.pop(broker, 0), len(self._image.offline.get(broker, ()))
        if now is not None:
            self._brokers[broker] = now
            self._offline[broker] = offline
        if now is None:
            if before is not None:
                why = ", as it said that it would stop" if before.is_stopping else ""
                log.info("broker %d is gone%s", broker, why, extra=fields(peer=broker))
        elif before is None or before.epoch != now.epoch:
            how = ", after an end that was not clean" if broker in self._seen and not now.is_clean else ""
            self._seen.add(broker)
            log.info("broker %d is there, in epoch %d%s", broker, now.epoch, how, extra=fields(peer=broker))
        elif now.is_stopping and not before.is_stopping:
            log.info("broker %d is about to stop", broker, extra=fields(peer=broker))
        if now is not None and offline > offline_before:
            log.warning(
                "broker %d has %d partitions in log directories that are offline", broker, offline,
                extra=fields(peer=broker, partitions=offline),
            )  # fmt: skip

    def _on_controller(self) -> None:
        controller = self._image.controller_id
        if controller == self._controller:
            return
        self._controller = controller
        if controller < 0:
            log.info("there is no controller; brokers elect another")
            return
        self.controllers += 1
        if controller != self._broker_id:  # that is said when the seat is taken, with its epoch
            log.info("broker %d is the controller now", controller, extra=fields(peer=controller))
