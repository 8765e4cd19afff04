"""One fault at a time in an otherwise calm cluster, at the default session timeout: what must come of it.

    story = Story(seed)             three brokers, producers with acks=all, everything in sync
    story.machines[1].kill()        a fault
    story.acknowledges(2_000)       every partition takes writes again within this time
    story.passes(60_000)            time; all that `invariants` checks is checked
    story.elections, story.seats    how many leaders and controllers were elected since the story began

A story that does not go as it should raises a ViolationError.
"""

import logging
from collections.abc import Callable

from tests.sim.cluster import Cluster
from tests.sim.producers import SafeProducer
from tests.sim.run import STEP_MS, BugHandler, advance
from tests.sim.world import ViolationError, World

from ottla.base.ids import OFFSETS_TOPIC

SESSION_MS = 18_000
FOUNDING_MS = 30_000


class Story:
    def __init__(self, seed: int, brokers: int = 3) -> None:
        self.world = World(seed)
        self.cluster = Cluster(self.world, brokers, SESSION_MS)
        self.machines, self.network = self.cluster.machines, self.cluster.network
        self._invariants = self.cluster.invariants
        self._handler = BugHandler(self.world)
        self._handler.setLevel(logging.ERROR)
        self.cluster.founder.start()
        self.until(lambda: self.cluster.founder.is_done, FOUNDING_MS, "there are topics")
        self.cluster.add_clients(has_admin=False)
        self.until(lambda: self._unsettled() is None, FOUNDING_MS, "all are in sync")
        self.acknowledges(FOUNDING_MS)
        self._began = self._invariants.elections, self._invariants.seats

    def ask_often(self, clients: int) -> None:
        """More clients that ask any broker how things stand, and know what must not be denied."""
        for number in range(clients):
            self.cluster._inquirer(f"often-{number}").start()

    def _unsettled(self) -> str | None:
        for topic, (topic_id, partitions) in self._invariants.topics.items():
            for index, replicas in partitions.items():
                if set(self.isr(topic, index)) != set(replicas):
                    return f"{topic}-{index}: {self._invariants.states.get((topic_id, index))}"
        return None

    # What is there

    @property
    def controller(self) -> int:
        return self.cluster.controller() or -1

    @property
    def others(self) -> list[int]:
        return [id for id in self.machines if id != self.controller]

    @property
    def elections(self) -> int:
        return self._invariants.elections - self._began[0]

    @property
    def seats(self) -> int:
        return self._invariants.seats - self._began[1]

    def places(self) -> list[tuple[str, int]]:
        """The partitions that producers write to, and that another replica can take over."""
        return [
            (topic, index)
            for topic, (_, partitions) in sorted(self._invariants.topics.items())
            if topic != OFFSETS_TOPIC
            for index, replicas in partitions.items()
            if len(replicas) > 1
        ]

    def producers(self) -> list[str]:
        return [client.name for client in self.cluster.clients if isinstance(client, SafeProducer)]

    def leader(self, topic: str, index: int) -> int:
        return self._state(topic, index).leader

    def isr(self, topic: str, index: int) -> tuple[int, ...]:
        return self._state(topic, index).isr

    def _state(self, topic: str, index: int):  # type: ignore[no-untyped-def]
        return self._invariants.states[self._invariants.topics[topic][0], index]

    # Time

    def passes(self, duration_ms: int) -> None:
        advance(self.cluster, self._handler, duration_ms)

    def until(self, condition: Callable[[], bool], within_ms: int, what: str) -> int:
        """How long it took."""
        began_ms = self.world.now_ms
        while not condition():
            if self.world.now_ms - began_ms >= within_ms:
                raise ViolationError(f"not within {within_ms} ms: {what}")
            self.passes(STEP_MS // 5)
        return self.world.now_ms - began_ms

    def acknowledges(self, within_ms: int) -> int:
        """Every partition acknowledges something that is written from now on."""
        place = {name: self._invariants.topics[name][0] for name, _ in self.places()}
        ends = self.cluster.ledger.acknowledged_end
        before = {(place[name], index): ends.get((place[name], index), 0) for name, index in self.places()}
        return self.until(
            lambda: all(ends.get(one, 0) > end for one, end in before.items()), within_ms, "writes flow"
        )
