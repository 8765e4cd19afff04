"""What must hold inside a cluster at any moment: looked at from outside, in the keeper and in the logs.

one leader             a leader epoch names one leader, and epochs only grow
the ISR has it all     whoever may be elected (ISR and ELR, in the incarnation that is recorded) holds all
                       that was acknowledged: leader completeness, before anybody is elected
logs agree             below their high watermarks all replicas hold the same bytes
the maximal ISR        of a leader contains the ISR that is written
"""

from bisect import bisect_left
from collections.abc import Iterable
from typing import Any

from tests.sim.keeper import SimKeeper
from tests.sim.ledger import Ledger
from tests.sim.machine import Machine
from tests.sim.world import ViolationError, World
from tests.support.brokers import epoch_of

from ottla.base.ids import TopicPartition, uuid_from_text
from ottla.controller import znodes
from ottla.controller.election import LOST
from ottla.controller.znodes import State
from ottla.records.batch import split

READ_BYTES = 1 << 20
NOBODY_LEADS = 1 << 60


class Invariants:
    def __init__(self, world: World, keeper: SimKeeper, machines: dict[int, Machine], ledger: Ledger) -> None:
        self.world, self.keeper, self.machines, self.ledger = world, keeper, machines, ledger
        self.states: dict[tuple[bytes, int], State] = {}
        self.topics: dict[str, tuple[bytes, dict[int, list[int]]]] = {}
        self.elections = 0
        self.seats = 0  # how often the controller's was taken
        self._leaders: dict[tuple[bytes, int, int], int] = {}
        self._committed: dict[tuple[bytes, int], tuple[list[bytes], list[int]]] = {}
        self._checked: dict[tuple[int, int, bytes, int], int] = {}
        keeper.observers.append(self._on_written)

    # What is written

    def _on_written(self, _session: int, paths: Iterable[str]) -> None:
        for path in sorted(paths):
            self.seats += path == znodes.CONTROLLER_EPOCH
            if not path.startswith(znodes.TOPICS):
                continue
            topic = path.removeprefix(znodes.TOPICS).removesuffix(znodes.STATE)
            node = self.keeper.nodes.get(path)
            if node is None:
                if topic in self.topics and not path.endswith(znodes.STATE):
                    gone, partitions = self.topics.pop(topic)
                    self.ledger.given_up |= {(gone, p) for p in partitions}
            elif path.endswith(znodes.STATE):
                self._on_states(topic, znodes.parse_state_node(node.data))
            else:
                fields = znodes.parse(node.data)
                assigned = {int(p): replicas for p, replicas in fields["partitions"].items()}
                self.topics[topic] = (uuid_from_text(fields["topic_id"]), assigned)

    def _on_states(self, topic: str, states: dict[int, State]) -> None:
        topic_id = self.topics[topic][0]
        for index, state in states.items():
            before = self.states.get((topic_id, index))
            if state == before:
                continue
            self.states[topic_id, index] = state
            where = f"{topic}-{index}"
            self.world.note(f"{where} is {tuple(state)}")
            if before is not None:
                if (
                    state.leader_epoch < before.leader_epoch
                    or state.partition_epoch <= before.partition_epoch
                ):
                    raise ViolationError(f"the state of {where} goes back from {before} to {state}")
                if state.leader != before.leader:
                    self.elections += 1
            leader = self._leaders.setdefault((topic_id, index, state.leader_epoch), state.leader)
            if leader != state.leader:
                raise ViolationError(
                    f"{where} has two leaders in epoch {state.leader_epoch}: {leader} and {state}"
                )
            if state.leader >= 0 and state.leader not in state.isr:
                raise ViolationError(f"the leader of {where} is not in sync: {state}")
            self._check_candidates(topic, index, state)

    # What replicas hold

    def check(self) -> None:
        """Everything, now."""
        for topic, (topic_id, partitions) in self.topics.items():
            for index in partitions:
                state = self.states.get((topic_id, index))
                if state is not None:
                    self._check_candidates(topic, index, state)
                    self._check_replicas(TopicPartition(topic, index), topic_id, state)

    def replica(self, broker: int, id: TopicPartition, topic_id: bytes) -> Any | None:
        """A broker's replica, if the broker runs and knows of it."""
        machine = self.machines.get(broker)
        process = machine.running if machine else None
        found = process.broker.partitions.get(id) if process is not None and process.is_open else None
        if found is not None and machine.disk.is_broken(process.broker.store.directory_of(id)):
            return None  # its directory is about to be found out
        return found if found is not None and found.topic_id == topic_id else None

    def _check_candidates(self, topic: str, index: int, state: State) -> None:
        topic_id = self.topics[topic][0]
        end = self.ledger.acknowledged_end.get((topic_id, index), 0)
        if not end:
            return
        recorded = [*zip(state.isr, state.isr_epochs, strict=False)]
        recorded += zip(state.elr, state.elr_epochs, strict=False)
        for broker, epoch in recorded:
            partition = self.replica(broker, TopicPartition(topic, index), topic_id)
            if partition is None or epoch == LOST or epoch_of(self.machines[broker].process.broker) != epoch:
                continue  # LOST is -1, and so is the epoch of a broker that does not know its own yet
            if partition.log.log_end_offset < end:
                raise ViolationError(
                    f"broker {broker} may lead {topic}-{index}, whose records up to {end} were acknowledged, "
                    f"and holds {partition.log.log_end_offset}: {state}"
                )

    def _check_replicas(self, id: TopicPartition, topic_id: bytes, state: State) -> None:
        for broker, machine in self.machines.items():
            partition = self.replica(broker, id, topic_id)
            if partition is None:
                continue
            self._check_committed(broker, machine, partition, topic_id)
            leads = partition.is_leader and partition.leader_epoch == state.leader_epoch
            if leads and partition.replication is not None:
                missing = set(state.isr) - set(partition.replication.isr_maximal)
                if missing:
                    raise ViolationError(f"leader {broker} of {id} does not count {missing}: {state}")

    def _check_committed(self, broker: int, machine: Machine, partition: Any, topic_id: bytes) -> None:
        """Compare what became committed on this replica since we last looked with what others had there."""
        place = (topic_id, partition.topic_partition.partition)
        key = (broker, machine.starts, *place)
        batches, ends = self._committed.setdefault(place, ([], []))
        done = min(self._checked.get(key, 0), partition.log.log_end_offset)
        high_watermark = min(partition.high_watermark, partition.log.log_end_offset)
        while done < high_watermark:
            found = partition.log.read(done, READ_BYTES, end=high_watermark, at_least_one=True)
            if not found.records:
                break
            for header, batch in split(memoryview(bytes(found.records))):
                self._compare(broker, partition.topic_partition, batches, ends, header, bytes(batch))
                done = header.next_offset
        self._checked[key] = done

    def _compare(
        self,
        broker: int,
        where: TopicPartition,
        batches: list[bytes],
        ends: list[int],
        header: Any,
        batch: bytes,
    ) -> None:
        end = ends[-1] if ends else 0
        if header.base_offset == end:
            batches.append(batch)
            ends.append(header.next_offset)
            return
        at = _position(ends, header.next_offset)
        if at is None or batches[at] != batch:
            raise ViolationError(
                f"broker {broker} has another batch at {header.base_offset} of {where} below its high "
                f"watermark than others had"
            )

    # The end

    def unsettled(self, wanted_replicas: dict[str, int]) -> str | None:
        """Why the cluster is not yet whole again, if it is not."""
        for topic, (topic_id, partitions) in self.topics.items():
            for index, replicas in partitions.items():
                reason = self._unsettled(TopicPartition(topic, index), topic_id, replicas)
                if reason is not None:
                    return f"{topic}-{index}: {reason}"
                if len(replicas) != wanted_replicas.get(topic, len(replicas)):
                    return f"{topic}-{index}: it has the replicas {replicas}"
        return None

    def _unsettled(self, id: TopicPartition, topic_id: bytes, replicas: list[int]) -> str | None:
        state = self.states.get((topic_id, id.partition))
        if state is None or state.leader < 0:
            return f"it has no leader: {state}"
        if sorted(state.isr) != sorted(replicas):
            return f"not all of {replicas} are in sync: {state}"
        logs = []
        for broker in replicas:
            partition = self.replica(broker, id, topic_id)
            if partition is None:
                return f"broker {broker} does not have it"
            if partition.leader != state.leader or partition.leader_epoch != state.leader_epoch:
                return f"broker {broker} does not know of {state}"
            if partition.high_watermark != partition.log.log_end_offset:
                return f"broker {broker} has {partition.log.log_end_offset}, {partition.high_watermark} safe"
            logs.append(_bytes(partition))
        for broker, log in zip(replicas, logs, strict=True):
            if log != logs[0]:
                return f"brokers {replicas[0]} and {broker} hold different bytes{_difference(logs[0], log)}"
        return None

    def end(self, topic: str, partition: int) -> int:
        """The end of the log of whoever leads; further than anything, if nobody does."""
        topic_id = self.topics[topic][0]
        leader = self.states[topic_id, partition].leader
        replica = self.replica(leader, TopicPartition(topic, partition), topic_id)
        return NOBODY_LEADS if replica is None else replica.log.log_end_offset

    def contents(self, id: TopicPartition, topic_id: bytes) -> bytes:
        leader = self.states[topic_id, id.partition].leader
        return _bytes(self.replica(leader, id, topic_id))


def _difference(one: bytes, other: bytes) -> str:
    pairs = zip(split(memoryview(one)), split(memoryview(other)), strict=False)
    found = next(((a[0], b[0]) for a, b in pairs if bytes(a[1]) != bytes(b[1])), None)
    return f": {len(one)} and {len(other)} of them" if found is None else f": {found[0]} and {found[1]}"


def _position(ends: list[int], end: int) -> int | None:
    at = bisect_left(ends, end)
    return at if at < len(ends) and ends[at] == end else None


def _bytes(partition: Any) -> bytes:
    log = partition.log
    found, at = bytearray(), log.log_start_offset
    while at < log.log_end_offset:
        piece = log.read(at, READ_BYTES, end=log.log_end_offset, at_least_one=True)
        found += piece.records
        at = piece.next_offset
    return bytes(found)
