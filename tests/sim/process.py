"""A running broker and what a shell does for it: feed the real core with inputs, carry out its effects.

Rules: everything that happens to a process comes through `input`, which holds it back while the process is
paused and drops it when the process is gone. So a pause is what SIGSTOP is: time goes on, what comes waits,
and all of it arrives at once, late.
"""

from collections import deque
from collections.abc import Callable
from functools import partial
from random import Random
from typing import Any

from tests.log.simdisk import SimDisk
from tests.sim.frames import decode_answer, encode_request
from tests.sim.keeper import SimKeeper
from tests.sim.keeper_client import KeeperClient
from tests.sim.network import Connection, Network
from tests.sim.peer_line import PeerLine
from tests.sim.worker import Worker, disk_ms
from tests.sim.world import START_MS, ViolationError, World
from tests.support.brokers import epoch_of, jobs_under_way, jobs_waiting
from tests.support.endpoints import plaintext
from tests.support.interpreter import Interpreter

from ottla.api.call import CloseConnection, Silence
from ottla.api.dispatch import on_request
from ottla.base.files import Buffer
from ottla.broker import long_work as slicing
from ottla.broker.broker import Broker
from ottla.broker.effects import CleanLog, Close, Job, Probe, Reply, Send, Sign
from ottla.broker.long_work import Job as Slice
from ottla.broker.parked import ROUND, Parked
from ottla.controller.keeper import NodeChanged, Operation, Outcome, Written
from ottla.controller.registration import founding, registration, succession
from ottla.log import validation
from ottla.log.directories import LogDirectoryError
from ottla.wire.messages.fetch import FetchRequest
from ottla.wire.primitives import ProtocolError

TICK_MS = 200
PEER_TIMEOUT_MS = 1_500
PROBE_TIMEOUT_MS = 800
PROBE = b"are you there?"
FETCH_KEY = FetchRequest.API_KEY.to_bytes(2, "big")
REGISTER_AGAIN_MS = 200
DRAIN_MS = 2_000
LOAD_RECORDS, LOAD_MS = 1, 10  # a slice of a coordinator's load, slow enough to meet what happens
CLUSTER_ID = "a-simulated-cluster"
SECRET_BYTES = 32


class Clock:
    """A machine's clock: it may be off, and run a little fast or slow."""

    def __init__(self, world: World, skew_ms: int, rate: float) -> None:
        self.world, self.skew_ms, self.rate = world, skew_ms, rate
        self.wall_offset_ms = 0

    def now_ms(self) -> int:
        return START_MS + self.skew_ms + int((self.world.now_ms - START_MS) * self.rate)

    def until(self, due_ms: int) -> int:
        """How long the world must wait until this clock shows `due_ms`."""
        return max(int((due_ms - self.now_ms()) / self.rate) + 1, 0)


class Process(Interpreter):
    def __init__(
        self, world: World, network: Network, keeper: SimKeeper, clock: Clock, disk: SimDisk,
        properties: dict[str, str], random: Random, *, is_successor: bool = False,
    ) -> None:  # fmt: skip
        """`is_successor`: its disk proves that the last process, and with it that one's session, is over."""
        self.world, self.network, self.clock, self.disk = world, network, clock, disk
        self.is_successor = is_successor
        self.broker = Broker(disk, random, properties)
        self.broker.allowance.begin_round(self.clock_ms())
        self.worker = Worker(world, self._after, self.job_done)
        coordinators = [self.broker.coordinators.groups.runtime]
        if world.has_transactions:
            coordinators.append(self.broker.coordinators.transactions.runtime)
        for coordinator in coordinators:
            coordinator.slice_work = LOAD_RECORDS * (5 if world.has_transactions else 1)
            coordinator.on_tick(clock.now_ms())
        self.place = self.broker.id
        self.keeper = KeeperClient(world, keeper, network, self, self.place)
        self.is_dead = self.is_paused = self.is_serving = self.is_open = self.is_stopping = False
        self._is_round_over = False
        self._gone: set[int] = set()  # connections that are over
        self._inbox: deque[Callable[[], None]] = deque()
        self._peers: dict[tuple[int, str], PeerLine] = {}
        self._probes: dict[int, tuple[int, Connection]] = {}  # with the incarnation that is asked
        self._deadline_ms: int | None = None
        self._is_carrying = False
        self._clean_since: int | None = None
        self._early: list[NodeChanged] = []
        self._is_starting = False
        network.dark.discard(self.place)
        self.input(self.keeper.connect)

    def clock_ms(self) -> int:
        return self.clock.now_ms()

    # What happens to it

    def input(self, action: Callable[[], None]) -> None:
        if self.is_dead:
            return
        if self.is_paused:
            self._inbox.append(action)
            return
        try:
            action()
        except LogDirectoryError as error:
            self.broker.storage.failed(error)
        if not self.is_dead:
            self._carry_out()

    def pause(self) -> None:
        self.is_paused = True

    def resume(self) -> None:
        self.is_paused = False
        while self._inbox and not self.is_paused and not self.is_dead:
            self.input(self._inbox.popleft())

    def end(self, *, is_silent: bool = False, is_polite: bool = False) -> None:
        """The process is gone. What becomes of its disk is the machine's affair."""
        self.is_dead = True
        self.keeper.close(is_polite=is_polite)
        self.network.on_stopped(self, is_silent=is_silent)
        for line in [*self._peers.values(), *(probe for _, probe in self._probes.values())]:
            line.close()

    def begin_stop(self, then: Callable[[], None]) -> None:
        if not self.is_stopping:
            self.is_stopping = True
            self.input(lambda: self.broker.begin_stop(self.clock_ms()))
            self._wait_for_drain(self.clock_ms() + DRAIN_MS, then)

    def _wait_for_drain(self, until_ms: int, then: Callable[[], None]) -> None:
        """Stop when nothing is led that another could lead, or when the time is up."""
        if self.broker.departure.is_drained or self.clock_ms() >= until_ms:
            self.stop_now()
            then()
        else:
            self._after(50, lambda: self._wait_for_drain(until_ms, then))

    def stop_now(self) -> None:
        """A clean stop that waits for nobody (controlled.shutdown.enable=false)."""
        self.world.note(f"b{self.place} stops")
        self.broker.close(self.clock_ms())
        self.broker.outbox.effects.clear()
        self.end(is_polite=True)

    # The keeper

    def on_nodes(self, nodes: list[NodeChanged]) -> None:
        if self.is_open:
            self._see(nodes)
        else:
            self._early += nodes

    def _see(self, nodes: list[NodeChanged]) -> None:
        """To apply a change twice is to apply it once, so whoever was not reached gets its turn."""
        try:
            self.broker.on_nodes(nodes, self.clock_ms())
        except LogDirectoryError as error:
            if error.directory not in self.broker.store.disks:
                raise
            self.broker.on_directory_failed(error.directory, str(error), self.clock_ms())
            self._see(nodes)

    def _open(self) -> None:
        """Open the logs, once an earlier incarnation is out of the tree."""
        if self.keeper.knows(f"/brokers/ids/{self.place}"):
            if self.is_successor:
                self.is_successor = False
                nodes = {node.path: node for node in self._early}
                self.keeper.write(tuple(succession(self.place, nodes.values())), self._on_succeeded)
            else:
                self._after(REGISTER_AGAIN_MS, self._open)
            return
        self.is_open = True
        nodes, self._early = self._early, []
        for line in self.broker.open(nodes, self.clock_ms()):
            self.world.note(f"b{self.place} recovery:", line)
        self._tick()
        self._register()

    def _on_succeeded(self, changes: list[NodeChanged], _outcome: Outcome) -> None:
        self._early += changes
        self._open()

    def on_session(self) -> None:
        if self.is_open:
            self._register()
        elif not self._is_starting:
            self._is_starting = True
            self._open()

    def _register(self) -> None:
        """For the first time, or again after the session expired: then the logs are as they were."""
        broker, session = self.broker, self.keeper.session
        is_again = self._clean_since is not None
        operations = [
            *founding(broker.image, CLUSTER_ID, broker.random.randbytes(SECRET_BYTES)),
            *registration(
                broker.id, plaintext(f"b{broker.id}", 9092), broker.config.rack or None,
                is_clean=is_again or broker.is_clean, clean_since=self._clean_since or 0,
                lost=broker.store.lost,
            ),
        ]  # fmt: skip

        def on_outcome(changes: list[NodeChanged], outcome: Outcome) -> None:
            if self.keeper.session != session:
                return  # there is a newer session, which sees to it itself
            self._see(changes)
            own = self.keeper.keeper.nodes.get(f"/brokers/ids/{self.place}")
            if isinstance(outcome, Written) or (own is not None and own.owner == session):
                self._serve()
            else:
                self._after(REGISTER_AGAIN_MS, self._register)

        self.keeper.write(tuple(operations), on_outcome)

    def _serve(self) -> None:
        self._clean_since = self.broker.image.brokers[self.place].clean_since
        if not self.is_serving:
            self.is_serving = True
            self.network.servers[self.place] = self
            self.world.note(f"b{self.place} serves, epoch {epoch_of(self.broker)}")

    # Requests

    def on_frame(self, connection: Connection, frame: bytes) -> None:
        if frame is PROBE:
            connection.answer(PROBE)
            return
        buffer = bytearray(frame)
        due_ms, self.broker.outbox.is_stirred = self.broker.next_deadline_ms(), False
        waits = len(self.disk.waits)
        try:
            answer = on_request(self.broker, connection.number, memoryview(buffer), self.clock_ms())
        except (ProtocolError, CloseConnection) as error:
            self.world.note(f"b{self.place} closes {connection.source}: {error}")
            connection.close_by_server()
            return
        if not isinstance(answer, Silence):
            connection.answer(b"".join(answer))
        elif answer is Silence.NO_REPLY:
            connection.answer(None)
        elif answer is Silence.QUEUED:
            self.world.reached["queued as large"] += 1
        elif any(job.owner == connection.number for job in self._jobs()):
            self.world.reached["served in slices"] += 1
        buffer[:] = b"\xee" * len(buffer)  # a frame's bytes are gone once it was handled
        self._check_waits(connection, frame, waits)
        self._check_rest(due_ms)

    def _check_waits(self, connection: Connection, frame: bytes, before: int) -> None:
        """Nobody is kept waiting by a consumer whose records are not in memory."""
        is_consumers = frame[:2] == FETCH_KEY and not self.broker.identities.is_broker(connection.number)
        if is_consumers and len(self.disk.waits) > before:
            raise ViolationError(f"broker {self.place} waits for the disk: {self.disk.waits[before]}")

    def _check_rest(self, before_ms: int | None) -> None:
        """Who says that nothing was stirred has made nothing due earlier: the shell does not look for it, not
        even if there are answers to others who waited."""
        broker, due_ms = self.broker, self.broker.next_deadline_ms()
        is_looked_for = (
            broker.outbox.is_stirred
            or any(not isinstance(effect, Reply) for effect in broker.outbox.effects)
            or broker.store.next_sync_ms is not None
        )
        self.world.reached["at rest"] += not is_looked_for
        if not is_looked_for and due_ms is not None and (before_ms is None or due_ms < before_ms):
            raise ViolationError(f"broker {self.place} has something due at {due_ms}, and says nothing of it")

    def _jobs(self) -> list[Slice]:
        """What takes long, under way or waiting."""
        return [*jobs_under_way(self.broker.slices), *jobs_waiting(self.broker.slices)]

    def on_closed(self, connection: Connection) -> None:
        goes_on = any(job.owner == connection.number and job.is_to_be_finished for job in self._jobs())
        if not goes_on:  # what has begun to change things is answered to nobody
            self._gone.add(connection.number)
        self.broker.on_closed(connection.number)

    # Effects

    def _carry_out(self) -> None:
        if self._is_carrying:
            return
        self._is_carrying = True
        self.carry_out_effects()
        self._is_carrying = False
        self._schedule_deadline()
        broker = self.broker
        is_spent = broker.allowance.items_left < validation.ITEMS_AT_ONCE or broker.allowance.read_left <= 0
        is_spent |= broker.slices.spent_us > slicing.SHARE_US // 2 or ROUND in broker.waiting.by_key
        if is_spent and not self._is_round_over:
            self._is_round_over = True
            self._after(self.world.draw(0, self.world.limits.round_ms), self._begin_round)

    def _begin_round(self) -> None:
        self._is_round_over = False
        self.broker.allowance.begin_round(self.clock_ms())

    def reply(self, number: int, chunks: list[Buffer]) -> None:
        if number in self._gone:
            raise ViolationError(f"broker {self.place} answers somebody who is gone")
        connection = self._connection(number)
        if connection is not None:
            connection.answer(b"".join(chunks) if chunks else None)
            connection.read_on()

    def reply_and_mute(self, number: int, chunks: list[Buffer], mute_ms: int) -> None:
        self.world.reached["muted"] += 1
        connection = self._connection(number)
        if connection is not None:
            connection.answer(b"".join(chunks) if chunks else None)
            connection.is_muted = True
            self._after(mute_ms, partial(self._unmute, connection))

    @staticmethod
    def _unmute(connection: Connection) -> None:
        connection.is_muted = False
        connection.read_on()

    def close(self, effect: Close) -> None:
        connection = self._connection(effect.connection)
        if connection is not None:
            connection.close_by_server()

    def _connection(self, number: int) -> Connection | None:
        connection = self.network.connections.get(number)
        return connection if connection is not None and connection.server is self else None

    def write_nodes(self, token: int, operations: tuple[Operation, ...]) -> None:
        self.keeper.write(operations, lambda changes, outcome: self._wrote(token, changes, outcome))

    def _wrote(self, token: int, changes: list[NodeChanged], outcome: Outcome) -> None:
        if not isinstance(outcome, Written):
            self.world.note(f"b{self.place} write: {outcome}")
        self._see(changes)
        self.broker.outbox.on_written(token, outcome, self.clock_ms())

    def confirm_tree(self, asked_ms: int) -> None:
        self.keeper.confirm(lambda: self.broker.proofs.on_confirmed(asked_ms, self.clock_ms()))

    def work(self, task: Callable[[], None]) -> None:
        self._after(disk_ms(self.world), task)

    def run_job(self, job: Job, parked: Parked) -> None:
        if job.waits_for_disk:
            self.worker.read(job, parked)
        else:
            self.worker.put(job, parked)

    def clean_log(self, effect: CleanLog) -> None:
        raise ViolationError(f"compaction is left out of the simulator: {effect}")

    def take_offline(self, directory: str, reason: str) -> None:
        self.world.note(f"b{self.place} takes {directory} offline: {reason}")
        super().take_offline(directory, reason)

    def halt(self, reason: str) -> None:
        raise ViolationError(f"broker {self.place} halts: {reason}")

    def send(self, effect: Send) -> None:
        peer, channel, token, request = effect.peer, effect.channel, effect.token, effect.request
        line = self._peers.get((peer, channel))
        if line is None or not line.is_open:
            connection, initiator = (
                self.network.connect(self.place, peer),
                self.broker.identities.initiate(peer),
            )
            line = PeerLine(connection, initiator, f"b{self.place}", PEER_TIMEOUT_MS, self.input)
            self._peers[peer, channel] = line
        frame, version = encode_request(request, f"b{self.place}")

        def on_answer(answer: bytes | None) -> None:
            self.input(lambda: self._on_peer_reply(token, request, version, answer))

        line.ask(frame, on_answer)

    def probe(self, effect: Probe) -> None:
        peer, epoch = effect.peer, effect.epoch
        asked, line = self._probes.get(peer, (-1, None))
        if line is not None and line.is_open and asked != epoch:
            line.close()  # that was another incarnation
        if line is None or not line.is_open or asked != epoch:
            line = self.network.connect(self.place, peer)
            line.on_end = lambda: self._on_probed(peer, epoch, line.sign)
            self._probes[peer] = (epoch, line)

        def on_answer(answer: bytes | None) -> None:
            if answer is not None:
                self._on_probed(peer, epoch, Sign.ANSWERED)

        line.ask(PROBE, on_answer, PROBE_TIMEOUT_MS)

    def _on_probed(self, peer: int, epoch: int, sign: Sign) -> None:
        self.input(lambda: self.broker.on_probed(peer, epoch, sign, self.clock_ms()))

    def _on_peer_reply(self, token: int, request: Any, version: int, answer: bytes | None) -> None:
        decoded = None if answer is None else decode_answer(type(request), version, answer)
        self.broker.outbox.on_peer_reply(token, decoded, self.clock_ms())

    # Time

    def _after(self, delay_ms: int, action: Callable[[], None]) -> None:
        self.world.after(delay_ms, lambda: self.input(action))

    def _tick(self) -> None:
        self.broker.on_tick(self.clock_ms(), self.clock.wall_offset_ms)
        self._after(TICK_MS, self._tick)

    def _schedule_deadline(self) -> None:
        due_ms = self.broker.next_deadline_ms()
        if due_ms is None or (self._deadline_ms is not None and due_ms >= self._deadline_ms):
            return
        self._deadline_ms = due_ms
        slice_ms = LOAD_MS if self.broker.coordinators.is_loading else 0
        if self.broker.slices.next_ms() is not None:
            slice_ms = max(self.world.draw(0, self.world.limits.slice_ms), slice_ms)
        self._after(max(self.clock.until(due_ms), slice_ms), lambda: self._on_deadline(due_ms))

    def _on_deadline(self, due_ms: int) -> None:
        if self._deadline_ms != due_ms:
            return
        self._deadline_ms = None
        self.broker.on_deadline(self.clock_ms())
