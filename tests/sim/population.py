"""Many brokers on one keeper, reduced to what decides on the shape of a cluster: seats, controller, image.

    population = Population(brokers=100, topics=1_000, partitions=100)
    population.die(7)           its session ends; the controller elects, until nothing is left to be written
    population.come(7)          it is there again, and is back in its ISRs
    population.restart(7)       a controlled stop, and both of the above
    population.costs            what all of that took since `population.costs` was last replaced

There are no logs. Every broker of this model hears of a change in the same moment, so they share one image,
which follows from the nodes alone. What a change costs to read is measured once, and paid by each. The keeper
answers after KEEPER_MS of simulated time; processor time is the real one of this thread. A *step* is what a
broker's loop does without looking up: an input, and what follows from it. Replication is modelled: who is
back, is caught up, and leaders propose it, each for all of its partitions in one request (AlterPartition).

How a broker with ZooKeeper reads and watches is counted as `shell/keeper_zookeeper` does it: every node is
watched by every broker, and read again by each of them when it has changed.
"""

import gc
import time
from collections import Counter, deque
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import partial

from tests.support.endpoints import plaintext

from ottla.broker.controller_events import ControllerEvents
from ottla.broker.controller_seat import Seat
from ottla.broker.controller_writes import Ask, ControllerWrites
from ottla.broker.departure import Departure
from ottla.broker.effects import WriteNodes
from ottla.broker.event_digest import EventDigest
from ottla.broker.liveness import Liveness
from ottla.broker.outbox import Outbox
from ottla.broker.settings import Settings
from ottla.controller.election import in_sync
from ottla.controller.image import Image
from ottla.controller.isr import Proposal, propose
from ottla.controller.keeper import Create, NodeChanged, Operation, Outcome, Put
from ottla.controller.registration import founding, registration
from ottla.controller.topics import NewTopic, plan_topic
from ottla.controller.tree import Tree
from ottla.controller.znodes import NO_LEADER, STATE, TOPICS
from ottla.log.config import LogConfig
from ottla.shell.zookeeper_write import is_folder, packed

NOW_MS = 1_700_000_000_000
KEEPER_MS = 5  # a write to an ensemble, with its syncs
RACKS = 3
REPLICAS = 3
ROUNDS_MAX = 100_000
REQUEST_BYTES = 60  # the head and the path of an operation or of an answer, about


@dataclass
class Costs:
    """Of a phase. `decided_s` and `steps_ms` are of whoever is the controller, `seen_s` of any broker."""

    decided_s: float = 0.0
    seen_s: float = 0.0
    simulated_ms: int = 0
    writes: int = 0
    operations: int = 0
    written_bytes: int = 0
    reads: int = 0  # of all brokers together; so many watches fired
    read_bytes: int = 0
    elected: int = 0  # partitions, by whatever reason
    steps: int = 0
    steps_ms: dict[str, float] = field(default_factory=dict)  # the longest of each kind

    @property
    def step_ms(self) -> float:
        return max(self.steps_ms.values(), default=0.0)

    @property
    def longest(self) -> str:
        return max(self.steps_ms, key=lambda kind: self.steps_ms[kind], default="")


class Member:
    """What a broker has for the sake of the cluster's shape, as `broker/broker` puts it together."""

    def __init__(self, number: int, image: Image) -> None:
        self.number, self.outbox = number, Outbox()
        self.liveness = Liveness(number)
        self.departure = Departure(number, image, self.liveness, self.outbox)
        self.seat = Seat(number, image, self.liveness, self.departure, self.outbox, on_taken=self._on_seat)
        properties = {"broker.id": str(number), "min.insync.replicas": "2"}
        self.events = ControllerEvents(EventDigest())
        self.writes = ControllerWrites(
            image, Settings(properties, image), self.seat, self.liveness, self.outbox, self.events
        )

    def _on_seat(self, now_ms: int) -> None:
        self.writes.on_seat(now_ms)


class Population:
    def __init__(self, brokers: int, topics: int, partitions: int) -> None:
        self.tree, self.image = Tree(), Image()
        self.now_ms = NOW_MS
        self.costs = Costs()
        self.members: dict[int, Member] = {}
        self._due: deque[tuple[int, int, WriteNodes]] = deque()  # when, who, what
        self._sessions: dict[int, int] = {}
        for number in range(1, brokers + 1):
            self._register(number)
            self.run()
        for number in range(topics):
            self._create(f"topic-{number:06}", partitions)
        self.run()
        gc.collect()
        gc.freeze()  # as a broker does with what has survived long: `shell/garbage_collection`
        self.costs = Costs()

    # -- what happens --

    def die(self, number: int) -> None:
        """Its session is over."""
        del self.members[number]
        self._tell(self.tree.end(self._sessions.pop(number)))
        self.run()

    def come(self, number: int, *, is_clean: bool = True) -> None:
        """It registers, follows, and is proposed by those who lead its partitions."""
        self._register(number, is_clean=is_clean)
        self.run()
        self.catch_up(number)

    def restart(self, number: int) -> None:
        """A controlled stop, in which others lead first, and a clean start."""
        member = self.members[number]
        with self._step("stop"):
            member.departure.begin()
        self._collect(member)
        self.run()
        with self._step("is it drained?"):
            is_drained = member.departure.is_drained
        assert is_drained, f"broker {number} leads what others could"
        self.die(number)
        self.come(number)

    def catch_up(self, number: int) -> None:
        for _, proposals in sorted(self._proposals(number).items()):
            controller = self.controller
            with self._step("proposals"):
                for topic, topic_id, proposal in proposals:
                    decide = partial(propose, proposal=proposal, topic_id=topic_id)
                    controller.writes.ask(Ask(topic, decide, lambda _draft, _error, _now_ms: None))
                controller.writes.work(self.now_ms)
            self._collect(controller)
        self.run()

    def tick(self, later_ms: int = 1_000) -> None:
        """Time passes for the controller."""
        self.now_ms += later_ms
        controller = self.controller
        with self._step("tick"):
            controller.seat.on_tick(self.now_ms)
            controller.writes.on_tick(self.now_ms)
        with self._step("lines"):
            controller.events.digest.on_tick()
        self._collect(controller)
        self.run()

    # -- what is there --

    @property
    def controller(self) -> Member:
        return self.members[self.image.controller_id]

    @property
    def watches(self) -> int:
        """Of one broker: one on each node, and one on the children of what may have some."""
        return len(self.tree.nodes) + sum(map(is_folder, self.tree.nodes))

    @property
    def tree_bytes(self) -> int:
        return sum(len(packed(node.data)) for node in self.tree.nodes.values())

    def out_of_sync(self) -> int:
        """Partitions that lack a leader or a member of their ISR."""
        return sum(
            state.leader < 0 or len(state.isr) < len(topic.assignment[partition])
            for topic in self.image.topics.values()
            for partition, state in topic.states.items()
        )

    def leaders(self) -> Counter[int]:
        return Counter(
            state.leader for topic in self.image.topics.values() for state in topic.states.values()
        )

    # -- the inside --

    def _register(self, number: int, *, is_clean: bool = True) -> None:
        member = self.members[number] = Member(number, self.image)
        self._sessions[number] = self.tree.writes + 1
        rack = f"rack-{number % RACKS}"
        operations = [
            *founding(self.image, "a-large-cluster"),
            *registration(number, plaintext(f"b{number}", 9092), rack, is_clean=is_clean),
        ]
        self._write(member, operations)
        with self._step("seat"):
            member.seat.on_changes(self.now_ms)
        self._collect(member)

    def _create(self, name: str, partitions: int) -> None:
        new = NewTopic(name=name, partitions=partitions, replication_factor=REPLICAS)
        topic = plan_topic(
            self.image, new, name.encode()[-16:].rjust(16), LogConfig(), partitions=1, replication=1
        )
        self._write(self.controller, topic.operations(self.image))

    def run(self) -> None:
        """Until nothing is left to be written."""
        for _ in range(ROUNDS_MAX):
            if self._due:
                due_ms, number, effect = self._due.popleft()
                self.now_ms, before_ms = max(self.now_ms, due_ms), self.now_ms
                self.costs.simulated_ms += self.now_ms - before_ms
                member = self.members.get(number)
                if member is not None:
                    outcome = self._write(member, effect.operations)
                    with self._step("outcome"):
                        member.outbox.on_written(effect.token, outcome, self.now_ms)
                    self._collect(member)
            elif not self._work_on():
                return
        raise AssertionError("it does not come to rest")

    def _work_on(self) -> bool:
        """What the controller has put off to its next step; whether there was something."""
        controller = self.members.get(self.image.controller_id)
        if controller is None or controller.writes.next_ms() is None:
            return False
        with self._step("more"):
            controller.writes.pump(self.now_ms)
        self._collect(controller)
        return True

    def _collect(self, member: Member) -> None:
        """What it asks of the keeper."""
        for effect in member.outbox.take():
            assert isinstance(effect, WriteNodes), effect
            self._due.append((self.now_ms + KEEPER_MS, member.number, effect))

    def _write(self, member: Member, operations: Iterable[Operation]) -> Outcome:
        operations = tuple(operations)
        changed, outcome = self.tree.write(operations, self._sessions[member.number])
        costs = self.costs
        costs.writes += 1
        costs.operations += len(operations)
        costs.written_bytes += sum(REQUEST_BYTES + _size(operation) for operation in operations)
        self._tell(changed)
        return outcome

    def _tell(self, changed: list[NodeChanged]) -> None:
        """All brokers read what has changed."""
        costs, readers = self.costs, len(self.members)
        costs.reads += readers * len(changed)
        costs.read_bytes += readers * sum(
            2 * REQUEST_BYTES + len(packed(node.data or b"")) for node in changed
        )
        leaders = self._leaders_of(changed)
        began_s = time.thread_time()
        changes = [change for node in changed for change in self.image.apply(node)]
        self._took("image", time.thread_time() - began_s)
        costs.seen_s += time.thread_time() - began_s
        costs.elected += sum(
            self.image.topics[name].states[partition].leader not in {before, NO_LEADER}
            for (name, partition), before in leaders.items()
        )
        for member in list(self.members.values()):
            is_controller = member.number == self.image.controller_id
            if is_controller or self.image.controller_id not in self.members:
                with self._step("changes"):
                    member.departure.on_changes()
                    member.seat.on_changes(self.now_ms)
                    member.writes.on_changes(changes, self.now_ms)
            self._collect(member)

    def _leaders_of(self, changed: list[NodeChanged]) -> dict[tuple[str, int], int]:
        """Of the partitions in these nodes, as they were before."""
        names = [node.path.removeprefix(TOPICS).removesuffix(STATE) for node in changed]
        return {
            (name, partition): state.leader
            for name in names
            if name in self.image.topics
            for partition, state in self.image.topics[name].states.items()
        }

    def _proposals(self, number: int) -> dict[int, list[tuple[str, bytes, Proposal]]]:
        """By leader: the ISRs that this broker is missing from."""
        epochs = {broker: endpoint.epoch for broker, endpoint in self.image.brokers.items()}
        proposals: dict[int, list[tuple[str, bytes, Proposal]]] = {}
        for topic in self.image.topics.values():
            for partition, replicas in topic.assignment.items():
                state = topic.states[partition]
                if number in replicas and number not in state.isr and state.leader in self.members:
                    isr = (*in_sync(state).items(), (number, epochs[number]))
                    proposal = Proposal(
                        state.leader, partition, state.leader_epoch, state.partition_epoch, isr
                    )
                    proposals.setdefault(state.leader, []).append((topic.name, topic.id, proposal))
        return proposals

    @contextmanager
    def _step(self, kind: str) -> Iterator[None]:
        """Of the controller, or of a broker that does what a controller would have to wait for."""
        began_s = time.thread_time()
        yield
        took_s = time.thread_time() - began_s
        self.costs.decided_s += took_s
        self.costs.steps += 1
        self._took(kind, took_s)

    def _took(self, kind: str, took_s: float) -> None:
        steps = self.costs.steps_ms
        steps[kind] = max(steps.get(kind, 0.0), took_s * 1e3)


def _size(operation: Operation) -> int:
    return len(packed(operation.data)) if isinstance(operation, Create | Put) else 0
