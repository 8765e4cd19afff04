"""Clients: scripts that ask brokers and wait, each a generator that the world runs.

    answer = yield self.ask(broker, request)    the decoded answer; None if there was none
    answers = yield [self.ask(...), ...]        several to one broker, one after the other without waiting
    yield 50                                    50 ms later

A client finds leaders as real ones do: it asks any broker for metadata, believes it until it is refused, and
then asks again.
"""

from abc import ABC, abstractmethod
from collections.abc import Callable, Generator
from dataclasses import dataclass
from typing import Any

from tests.sim.frames import decode_answer, encode_request
from tests.sim.network import Connection, Network
from tests.sim.world import World

from ottla.wire.messages.api_versions import ApiVersionsRequest
from ottla.wire.messages.find_coordinator import FindCoordinatorRequest
from ottla.wire.messages.metadata import MetadataRequest, MetadataRequestTopic, MetadataResponseTopic

TIMEOUT_MS = 2_000
HANG_UP_MS = 60  # after the request: while the answer is being made, or has come


@dataclass(frozen=True, slots=True)
class Ask:
    broker: int
    request: Any
    version: int | None
    timeout_ms: int


Script = Generator[Ask | list[Ask] | int, Any, Any]


class Client(ABC):
    def __init__(self, world: World, network: Network, name: str, brokers: list[int]) -> None:
        self.world, self.network, self.name = world, network, name
        self.brokers = brokers
        self.leaders: dict[tuple[str, int], tuple[int, int]] = {}  # leader and its epoch
        self.topic_ids: dict[str, bytes] = {}
        self.coordinators: dict[str, int] = {}
        self.is_stopping = False
        self.is_done = False
        self._connections: dict[int, Connection] = {}
        self._asked = 0

    # Running

    def start(self) -> None:
        script = self.script()
        self.world.after(self.world.draw(1, 200), lambda: self._go_on(script, None))

    @abstractmethod
    def script(self) -> Script: ...

    def _go_on(self, script: Script, value: Any) -> None:
        try:
            wanted = script.send(value)
        except StopIteration:
            self.is_done = True
            return
        if isinstance(wanted, int):
            self.world.after(max(wanted, 1), lambda: self._go_on(script, None))
        elif isinstance(wanted, Ask):
            self._send(wanted, lambda answer: self._go_on(script, answer))
        else:
            answers: list[Any] = []
            for one in wanted:
                self._send(one, lambda answer: self._gather(script, answers, len(wanted), answer))

    def _gather(self, script: Script, answers: list[Any], count: int, answer: Any) -> None:
        """Answers of one connection come in order; when it is lost, nothing comes for all the rest."""
        answers.append(answer)
        if len(answers) == count:
            self._go_on(script, answers)

    def _send(self, wanted: Ask, then: Callable[[Any], None]) -> None:
        connection = self._connections.get(wanted.broker)
        if connection is None or not connection.is_open:
            connection = self.network.connect(self.name, wanted.broker)
            self._connections[wanted.broker] = connection
        connection.lag_ms = self.lag_ms()
        request = wanted.request
        self._asked = number = self._asked + 1
        frame, version = encode_request(request, self.name, wanted.version, number)

        def on_answer(answer: bytes | None) -> None:
            decoded = None if answer is None else decode_answer(type(request), version, answer, number)
            self.world.after(0, lambda: then(decoded))

        connection.ask(frame, on_answer, wanted.timeout_ms)
        hang_ups = 0.0 if self.world.is_calm else self.world.limits.hang_ups
        if hang_ups and self.world.chance(hang_ups):
            connection.fail_later(self.world.draw(1, HANG_UP_MS))

    def lag_ms(self) -> int:
        """How much longer than usual it takes what is sent now to arrive."""
        return 0

    def hang_up(self) -> None:
        for connection in self._connections.values():
            connection.close()

    # What all of them ask

    def ask(self, broker: int, request: Any, version: int | None = None, timeout_ms: int = TIMEOUT_MS) -> Ask:
        return Ask(broker, request, version, timeout_ms)

    def any_broker(self) -> int:
        return self.brokers[self.world.draw(0, len(self.brokers) - 1)]

    def refresh(self, topic: str, broker: int | None = None) -> Script:
        """Ask somebody, or this broker, who leads; answers the topic, or None."""
        named = MetadataRequestTopic(name=topic)
        request = MetadataRequest(topics=[named], allow_auto_topic_creation=False)
        asked = self.any_broker() if broker is None else broker
        answer = yield self.ask(asked, request, timeout_ms=1_000)
        if answer is None:
            return None
        found: MetadataResponseTopic = answer.topics[0]
        if found.error_code:
            return None
        if self.topic_ids.get(topic) != found.topic_id:
            self.topic_ids[topic] = found.topic_id
            self.leaders = {key: known for key, known in self.leaders.items() if key[0] != topic}
        for one in found.partitions:
            known = self.leaders.get((topic, one.partition_index))
            if known is None or one.leader_epoch >= known[1]:  # news may come from a broker that is behind
                self.leaders[topic, one.partition_index] = (one.leader_id, one.leader_epoch)
        return found

    def feature_level(self, broker: int, feature: str) -> Script:
        """What the cluster has agreed upon, as this broker says; None if it does not answer."""
        request = ApiVersionsRequest(client_software_name="sim", client_software_version="1")
        answer = yield self.ask(broker, request, timeout_ms=1_000)
        if answer is None or answer.error_code:
            return None
        levels = {key.name: key.max_version_level for key in answer.finalized_features}
        return levels.get(feature, 0)

    def leader_of(self, topic: str, partition: int) -> int:
        return self.leaders.get((topic, partition), (-1, -1))[0]

    def find_coordinator(self, group: str) -> Script:
        request = FindCoordinatorRequest(key_type=0, coordinator_keys=[group])
        answer = yield self.ask(self.any_broker(), request, timeout_ms=1_000)
        if answer is not None and not answer.coordinators[0].error_code:
            self.coordinators[group] = answer.coordinators[0].node_id
            return True
        self.coordinators.pop(group, None)
        yield 100
        return False
