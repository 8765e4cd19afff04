"""A broker that is about to stop: others lead first what it led.

It says so in its node, until the image shows it; the controller moves leadership away, and `is_drained` tells
when nothing is left that another could lead.
"""

from ottla.broker.liveness import Liveness
from ottla.broker.outbox import Outbox
from ottla.controller import znodes
from ottla.controller.draft import endpoints
from ottla.controller.election import LOST, Around, eligible, in_sync, successor
from ottla.controller.image import Image
from ottla.controller.keeper import ANY, Outcome, Put


class Departure:
    def __init__(self, broker_id: int, image: Image, liveness: Liveness, outbox: Outbox) -> None:
        self.is_stopping = False
        self._broker_id = broker_id
        self._image = image
        self._liveness = liveness
        self._outbox = outbox
        self._is_announcing = False
        self._clean_since = 0

    def on_changes(self) -> None:
        me = self._image.brokers.get(self._broker_id)
        self._clean_since = me.clean_since if me is not None else self._clean_since

    def begin(self) -> None:
        """This broker will stop: tell the cluster."""
        self.is_stopping = True
        self.announce()

    def announce(self) -> None:
        me = self._image.brokers.get(self._broker_id)
        if not self.is_stopping or self._is_announcing or me is None or me.is_stopping:
            return
        if len(self._image.brokers) == 1:
            return  # nobody to tell
        self._is_announcing = True
        node = znodes.broker_node(
            me.endpoints, me.rack, protocols=me.protocols,
            is_clean=me.is_clean, is_stopping=True, clean_since=me.clean_since, incarnation=me.incarnation,
        )  # fmt: skip
        self._outbox.write([Put(znodes.BROKERS + str(me.id), node, ANY)], self._on_announced)

    def _on_announced(self, _outcome: Outcome, _now_ms: int) -> None:
        """Whatever came of it, the image shows; the next tick tries again if need be."""
        self._is_announcing = False

    @property
    def is_drained(self) -> bool:
        """May this broker stop without anybody missing it? Only meaningful after `begin`."""
        image, me = self._image, self._image.brokers.get(self._broker_id)
        if me is None or not self.others_stay:
            return True
        if not me.is_stopping:
            return False
        for topic in image.topics.values():
            for partition, state in topic.states.items():
                if state.leader == me.id and len(state.isr) > 1:
                    replicas = topic.assignment.get(partition, ())
                    there = endpoints(image, topic.name, partition, replicas)
                    there = {
                        replica: endpoint
                        for replica, endpoint in there.items()
                        if replica not in self._liveness.suspected
                    }
                    if successor(state, Around(replicas, there, 1)) is not None:
                        return False
        return True

    @property
    def may_stop_cleanly(self) -> bool:
        """After an unclean start, a clean stop would hide it from a controller that has not seen it: while a
        state still counts on an incarnation before that start, the next one must not call itself clean."""
        me = self._image.brokers.get(self._broker_id)
        since = self._clean_since if me is None else me.clean_since
        if since <= 0:
            return True
        return all(
            not LOST < {**eligible(state), **in_sync(state)}.get(self._broker_id, LOST) < since
            for topic in self._image.topics.values()
            for state in topic.states.values()
        )

    @property
    def others_stay(self) -> bool:
        return any(
            not broker.is_stopping
            for broker in self._image.brokers.values()
            if broker.id != self._broker_id and broker.id not in self._liveness.suspected
        )
