"""A cluster and its clients, from one seed: so many brokers, these topics, this workload."""

from tests.sim.admin import Admin, Founder, new_topic
from tests.sim.client import Client
from tests.sim.consumers import Consumer
from tests.sim.copying import OUTPUT, Copying
from tests.sim.copying import properties as transaction_properties
from tests.sim.forger import Forger
from tests.sim.inquirers import Inquirer, Loyal
from tests.sim.invariants import Invariants
from tests.sim.keeper import SimKeeper
from tests.sim.latecomers import Latecomer
from tests.sim.ledger import Ledger
from tests.sim.machine import Machine
from tests.sim.members import Auditor, ClassicMember, ConsumerMember
from tests.sim.network import Network
from tests.sim.producers import HastyProducer, Newcomer, SafeProducer
from tests.sim.scraper import Scraper
from tests.sim.world import World
from tests.support.brokers import epoch_of

from ottla.base.ids import OFFSETS_TOPIC, TopicPartition
from ottla.broker.internal_partitions import java_hash
from ottla.controller import znodes

SESSIONS_MS = (2_000, 2_000, 6_000)
NOBODY = (-1, -1)
PROPERTIES = {
    "auto.create.topics.enable": "false",
    "controlled.shutdown.retry.backoff.ms": "500",
    "group.consumer.heartbeat.interval.ms": "300",
    "group.consumer.min.heartbeat.interval.ms": "100",
    "group.consumer.min.session.timeout.ms": "1000",
    "group.consumer.session.timeout.ms": "2500",
    "group.initial.rebalance.delay.ms": "50",
    "group.min.session.timeout.ms": "1000",
    "leader.imbalance.check.interval.seconds": "4",
    "ottla.metrics.lag.interval.ms": "300",
    "offsets.topic.num.partitions": "2",
    "replica.fetch.backoff.ms": "100",
    "replica.fetch.wait.max.ms": "400",
    "replica.lag.time.max.ms": "1200",
}


class Cluster:
    def __init__(self, world: World, size: int = 0, session_ms: int = 0) -> None:
        self.world = world
        self.network = Network(world)
        self.keeper = SimKeeper(world, session_ms or world.random.choice(SESSIONS_MS))
        self.ledger = Ledger()
        is_story = bool(size)
        size = size or world.random.choices([1, 2, 3, 4, 5], [4, 6, 70, 15, 5])[0]
        self.replicas = min(size, 3)
        self.isr_min = min(self.replicas, 2)
        self.may_lose = self.replicas > 1
        self.is_synced = world.chance(0.2)  # before anything is acknowledged
        properties = {
            **PROPERTIES,
            "min.insync.replicas": str(self.isr_min),
            "offsets.topic.replication.factor": str(self.replicas),
            "default.replication.factor": str(self.replicas),
        }
        if self.is_synced:
            properties["log.flush.interval.messages"] = "1"
        if world.has_transactions:
            properties.update(transaction_properties(self.replicas, self.isr_min))
        self.machines = {
            id: Machine(world, self.network, self.keeper, id, properties) for id in range(1, size + 1)
        }
        self.invariants = Invariants(world, self.keeper, self.machines, self.ledger)
        self.copying = None
        if world.has_transactions:
            self.copying = Copying(world, self.replicas, self.invariants, self.where)
        self.scraper = Scraper(world, self.machines, self.invariants) if world.has_metrics else None
        self.partitions = {"orders": world.draw(1, 2), "moving": 1}
        self.moving_replicas = self.replicas
        if not is_story and self.is_synced and world.chance(0.5):
            self.moving_replicas, self.may_lose = 1, False
        self.clients: list[Client] = []
        self.consumers: list[Consumer] = []
        self.founder = Founder(*self.where("founder"), topics=self._topics())
        for machine in self.machines.values():
            world.after(world.draw(0, 500), machine.start)

    def where(self, name: str) -> tuple[World, Network, str, list[int]]:
        return self.world, self.network, name, list(self.machines)

    def _topics(self) -> dict:
        topics = {
            name: new_topic(
                name, count, self.expected[name], segment_bytes="1200" if name == "orders" else "1000000"
            )
            for name, count in self.partitions.items()
        }
        return topics if self.copying is None else {**topics, **self.copying.topics()}

    @property
    def expected(self) -> dict[str, int]:
        """How many replicas each topic should have."""
        expected = {"orders": self.replicas, "moving": self.moving_replicas}
        return expected if self.copying is None else {**expected, **self.copying.expected}

    def add_clients(self, *, has_admin: bool = True) -> None:
        if self.copying is None or not self.copying.is_alone:
            self._add_ordinary_clients()
        if self.copying is not None:
            self.clients += self.copying.clients()
        if has_admin:
            self._add_admin()
        readers = self.copying.readers if self.copying is not None else []
        for client in (*self.clients, *self.consumers, *readers):
            client.start()

    def _add_ordinary_clients(self) -> None:
        draw = self.world.draw
        for topic, count in self.partitions.items():
            for partition in range(count):
                where = {"ledger": self.ledger, "topic": topic, "partition": partition}
                pace_ms = draw(60, 400)
                self.clients.append(
                    SafeProducer(*self.where(f"p-{topic}{partition}"), pace_ms=pace_ms, **where)
                )
                if self.world.chance(0.4):
                    name = f"h-{topic}{partition}"
                    self.clients.append(HastyProducer(*self.where(name), pace_ms=2 * pace_ms, **where))
                if self.world.chance(0.3):
                    newcomer = Newcomer(*self.where(f"n-{topic}{partition}"), pace_ms=pace_ms, **where)
                    self.clients.append(newcomer)
                self.consumers.append(Consumer(*self.where(f"c-{topic}{partition}"), **where))
        for kind, name in ((ClassicMember, "classic"), (ConsumerMember, "next")):
            for number in range(draw(0, 2)):
                member = kind(
                    *self.where(f"m-{name}{number}"), ledger=self.ledger, group=name, topic="orders",
                    partitions=self.partitions["orders"],
                )  # fmt: skip
                self.clients.append(member)
        for number in range(draw(1, 2)):
            self.clients.append(self._inquirer(f"i-{number}"))
        if self.world.chance(0.3):
            self.clients.append(self._forger("forger"))

    def _inquirer(self, name: str) -> Inquirer:
        return Inquirer(
            *self.where(name), ledger=self.ledger, groups=["classic", "next"], read="orders",
            topics=self.partitions, coordinator_of=self._coordinator_of,
        )  # fmt: skip

    def add_witnesses(self, broker: int, partitions: list[tuple[str, int]], pace_ms: int) -> None:
        """Of what becomes of partitions that this broker leads: clients who write to whoever leads them, as
        the others say, and one who asks this broker, come what may."""
        others = [other for other in self.machines if other != broker]
        partitions = [(topic, index) for topic, index in partitions if topic in self.partitions]
        loyal = Loyal(
            *self.where(f"loyal-{broker}"), broker=broker, partitions=partitions, pace_ms=pace_ms,
            ledger=self.ledger, groups=[], read="", topics=self.partitions,
            coordinator_of=lambda _group: NOBODY,
        )  # fmt: skip
        newcomers = [
            Newcomer(
                self.world, self.network, f"w-{topic}{partition}", others,
                ledger=self.ledger, topic=topic, partition=partition, pace_ms=pace_ms,
            )
            for topic, partition in partitions
        ]  # fmt: skip
        for witness in (loyal, *newcomers):
            self.clients.append(witness)
            witness.start()

    def _forger(self, name: str) -> Forger:
        return Forger(
            *self.where(name), topics=self.partitions, epochs=self._epochs, controller=self.controller,
            state=lambda topic_id, index: self.invariants.states.get((topic_id, index)),
        )  # fmt: skip

    def _epochs(self) -> dict[int, int]:
        """Of the brokers that are there."""
        nodes = ((id, self.keeper.nodes.get(f"{znodes.BROKERS}{id}")) for id in self.machines)
        return {id: node.created for id, node in nodes if node is not None}

    def _coordinator_of(self, group: str) -> tuple[int, int]:
        """Who leads the partition that stores a group, and in which epoch, if it knows that itself."""
        topic_id, partitions = self.invariants.topics.get(OFFSETS_TOPIC, (b"", {}))
        id = TopicPartition(OFFSETS_TOPIC, abs(java_hash(group)) % max(len(partitions), 1))
        state = self.invariants.states.get((topic_id, id.partition))
        partition = self.invariants.replica(state.leader, id, topic_id) if state is not None else None
        if partition is None or not partition.is_leader or partition.leader_epoch != state.leader_epoch:
            return NOBODY
        return state.leader, state.leader_epoch

    def latecomers(self) -> list[Latecomer]:
        return [Latecomer(*self.where(f"l-{topic}"), topic=topic) for topic in self.partitions]

    def auditors(self) -> list[Auditor]:
        groups = sorted({group for group, _, _ in self.ledger.offsets})
        return [
            Auditor(
                *self.where(f"a-{group}"), ledger=self.ledger, group=group, topic="orders",
                partitions=self.partitions["orders"],
            )
            for group in groups
        ]  # fmt: skip

    def _add_admin(self) -> None:
        kinds = [kind for kind in ("come_and_go", "grow", "move", "prefer") if self.world.chance(0.5)]
        if self.world.chance(0.25):
            kinds.append("set_isr_min")
            self.may_lose = False
        if kinds and self.world.chance(0.7):
            topic, partitions, replicas = "moving", 1, self.moving_replicas
            if self.copying is not None:
                topic, partitions, replicas = OUTPUT, self.copying.targets, self.replicas
            admin = Admin(
                *self.where("admin"), kinds=kinds, topic=topic, partitions=partitions, replicas=replicas
            )
            self.clients.append(admin)

    # What the faults look at

    def controller(self) -> int | None:
        node = self.keeper.nodes.get(znodes.CONTROLLER)
        return znodes.parse(node.data)["brokerid"] if node else None

    def leaders(self, topic: str | None = None) -> list[int]:
        """Of all partitions, or of those of one topic."""
        topic_id = self.invariants.topics.get(topic or "", (None,))[0]
        led = (state.leader for key, state in self.invariants.states.items() if topic_id in (None, key[0]))
        return sorted({leader for leader in led if leader >= 0})

    def replaceable(self) -> dict[int, list[tuple[str, int]]]:
        """What each leader leads that another could lead in its place, of what clients write to."""
        led: dict[int, list[tuple[str, int]]] = {}
        for topic in self.partitions if self.copying is None else sorted(self.invariants.topics):
            topic_id, partitions = self.invariants.topics.get(topic, (b"", {}))
            for index in partitions:
                state = self.invariants.states.get((topic_id, index))
                if state is not None and state.leader >= 0 and len(state.isr) > 1:
                    led.setdefault(state.leader, []).append((topic, index))
        return led

    def is_in_sync(self, broker: int) -> bool:
        """Is it up, and in every ISR that it belongs to, as the incarnation that it is?"""
        process = self.machines[broker].running
        if process is None or epoch_of(process.broker) < 0:
            return False
        for topic_id, partitions in self.invariants.topics.values():
            for index, replicas in partitions.items():
                state = self.invariants.states.get((topic_id, index))
                if broker not in replicas or state is None:
                    continue
                recorded = dict(zip(state.isr, state.isr_epochs, strict=False))
                if recorded.get(broker) != epoch_of(process.broker):
                    return False
        return True
