"""A whole broker without sockets, threads or clocks: simulated disk, keeper in memory, hand-moved clock.

    machine = Machine()                      one broker, started, on an empty disk
    client = machine.client()                a connection to it
    client.send(request, version)            a frame in, the decoded answer out; it must come at once
    pending = client.ask(request, version)   the same, for an answer that may wait: `pending.answer`
    machine.pass_time(ms)                    move the clock and tick
    machine.hold(SyncLog)                    keep effects of this kind back until `release`
    machine.restart() / machine.crash()      the broker again, on the same disk and keeper

Requests go through `api.dispatch` as real frames, header included, and answers are decoded with our codec.
"""

import random
import struct
from collections.abc import Iterable
from dataclasses import dataclass, field
from importlib import import_module
from typing import Any

from tests.log.simdisk import Keep, SimDisk, page_cache

from ottla.api.call import Silence
from ottla.api.dispatch import on_request
from ottla.base.files import Buffer
from ottla.broker.adoption import adopted_topics, elections
from ottla.broker.broker import Broker
from ottla.broker.config import ALONE
from ottla.broker.effects import (
    Close,
    CopyLog,
    Effect,
    Halt,
    Job,
    Reply,
    RunJob,
    SyncFolder,
    SyncLog,
    TakeOffline,
    WriteNodes,
)
from ottla.broker.parked import ROUND
from ottla.broker.slices import Slices
from ottla.controller.keeper import (
    ANY,
    Check,
    Create,
    Delete,
    NodeChanged,
    Operation,
    Outcome,
    Put,
    Refused,
    Written,
)
from ottla.controller.registration import candidacy, founding, registration
from ottla.controller.znodes import CONTROLLER, controller_node
from ottla.log.directories import LogDirectoryError
from ottla.log.directory_moves import MoveError
from ottla.wire.codec import decode, encode
from ottla.wire.header import (
    RequestHeader,
    decode_response_header,
    encode_request_header,
    response_is_flexible,
)

NOW = 1_700_000_000_000
CLUSTER_ID = "the-cluster"
OTHER_BROKER = 99


class Disk(SimDisk):
    total_bytes, usable_bytes = 1 << 40, 1 << 39

    def space(self, directory: str) -> tuple[int, int]:
        return self.total_bytes, self.usable_bytes


class MemoryKeeper:
    """What `shell/keeper_embedded` does, in a dict. `end_session` is the end of whoever made ephemerals."""

    def __init__(self) -> None:
        self.nodes: dict[str, tuple[bytes, int, bool]] = {}

    def load(self) -> list[NodeChanged]:
        return [NodeChanged(path, data, version) for path, (data, version, _) in sorted(self.nodes.items())]

    def write(self, operations: Iterable[Operation]) -> tuple[list[NodeChanged], Outcome]:
        nodes = dict(self.nodes)
        changed: list[NodeChanged] = []
        for operation in operations:
            refusal = self._refusal(nodes, operation)
            if refusal is not None:
                return [], Refused(operation.path, refusal)
            changed += self._apply(nodes, operation)
        self.nodes = nodes
        return changed, Written()

    def end_session(self) -> None:
        self.nodes = {path: node for path, node in self.nodes.items() if not node[2]}

    @staticmethod
    def _refusal(nodes: dict[str, tuple[bytes, int, bool]], operation: Operation) -> str | None:
        path = operation.path
        if isinstance(operation, Create):
            return f"{path} is there already" if path in nodes else None
        if path not in nodes:
            return f"{path} is not there"
        version = nodes[path][1]
        if operation.version in {ANY, version}:
            return None
        return f"{path} is at version {version}, not {operation.version}"

    @staticmethod
    def _apply(nodes: dict[str, tuple[bytes, int, bool]], operation: Operation) -> list[NodeChanged]:
        match operation:
            case Create(path, data, ephemeral):
                nodes[path] = (data, 0, ephemeral)
                return [NodeChanged(path, data, 0)]
            case Put(path, data):
                _, version, ephemeral = nodes[path]
                nodes[path] = (data, version + 1, ephemeral)
                return [NodeChanged(path, data, version + 1)]
            case Delete(path):
                below = sorted(p for p in nodes if p == path or p.startswith(path + "/"))
                return [NodeChanged(p, None, nodes.pop(p)[1]) for p in reversed(below)]
            case Check():
                return []


@dataclass(eq=False)
class Pending:
    """A request that was sent. `answer` is there as soon as the broker has given it."""

    request: Any
    version: int
    correlation_id: int
    answer: Any = None
    wants_no_reply: bool = False

    def take(self, chunks: list[Buffer]) -> None:
        assert self.answer is None, "a request is answered once"
        if not chunks:
            self.wants_no_reply = True
            return
        data = b"".join(chunks)
        (size,) = struct.unpack_from(">i", data)
        assert size == len(data) - 4, "the frame is as long as it says"
        view = memoryview(data)[4:]
        correlation_id, at = decode_response_header(
            view, response_is_flexible(self.request.API_KEY, self.version)
        )
        assert correlation_id == self.correlation_id
        self.answer = decode(response_class(type(self.request)), self.version, view, at)


def response_class(request: type) -> type[Any]:
    module = import_module(request.__module__)
    found: type[Any] = getattr(module, request.__name__.removesuffix("Request") + "Response")
    return found


@dataclass(eq=False)
class Client:
    machine: "Machine"
    number: int
    sent: int = 0
    pending: Pending | None = None
    is_sent_away: bool = False
    client_id: str = "a client"
    closed: str | None = None  # by the broker, for this reason

    def ask(self, request: Any, version: int | None = None) -> Pending:
        key = request.API_KEY
        version = request.VERSIONS[1] if version is None else version
        self.sent += 1
        pending = Pending(request, version, self.sent)
        header = RequestHeader(key, version, self.sent, self.client_id)
        self.pending = pending
        answer = self.raw(encode_request_header(header) + encode(request, version))
        if answer is Silence.NO_REPLY:
            pending.wants_no_reply = True
        elif not isinstance(answer, Silence):
            pending.take(answer)
        self.machine.carry_out()
        return pending

    def send(self, request: Any, version: int | None = None) -> Any:
        answer = self.ask(request, version).answer
        assert answer is not None, f"no answer yet to {request}"
        return answer

    def raw(self, frame: bytes) -> list[Buffer] | Silence:
        """A frame as the splitter hands it out: a writable view, valid until the next one comes."""
        machine = self.machine
        if not machine.is_one_round:
            machine.begin_round()
        buffer = bytearray(frame)
        answer = on_request(machine.broker, self.number, memoryview(buffer), machine.now_ms)
        if not isinstance(answer, Silence):
            answer = [b"".join(answer)]
        buffer[:] = bytes(len(buffer))
        return answer

    def as_broker(self, id: int) -> "Client":
        """Its connection counts as proved to be that broker's."""
        self.machine.broker.identities.admit(self.number, id)
        return self

    def close(self) -> None:
        self.machine.broker.on_closed(self.number)
        del self.machine.clients[self.number]


@dataclass(eq=False)
class Machine:
    """One broker and everything around it. `properties` are what an operator wrote."""

    properties: dict[str, str] = field(default_factory=dict)
    disk: Disk = field(default_factory=Disk)
    keeper: MemoryKeeper = field(default_factory=MemoryKeeper)
    now_ms: int = NOW
    wall_offset_ms: int = 0
    seed: int = 1
    halted: list[str] = field(default_factory=list)
    held: list[Effect] = field(default_factory=list)
    holding: set[type] = field(default_factory=set)
    clients: dict[int, Client] = field(default_factory=dict)
    reports: list[str] = field(default_factory=list)
    is_one_round: bool = False  # all requests come in one round of the loop
    broker: Broker = field(init=False)

    def __post_init__(self) -> None:
        self.properties = {"log.dirs": "/data", **ALONE, **self.properties}
        self.random = random.Random(self.seed)
        self.start()

    # The life of the broker

    def start(self) -> None:
        self.disk.now_ms = self.now_ms
        self.broker = broker = Broker(self.disk, self.random, dict(self.properties))
        self.reports = broker.open(self.keeper.load(), self.now_ms)
        self.write(
            *founding(broker.image, CLUSTER_ID),
            *registration(broker.id, "localhost", 9092, broker.config.rack or None),
            *candidacy(broker.image, broker.id),
            *adopted_topics(broker.adoption, broker.id, broker.image, broker.store, self.random),
            *([] if broker.is_clean else elections(broker.id, broker.image)),
        )

    def stop(self) -> None:
        self.broker.close(self.now_ms)
        self._gone()
        assert self.disk.open_files == [], "a clean stop leaves no file open"

    def restart(self) -> None:
        self.stop()
        self.start()

    def crash(self, keep: Keep = page_cache) -> None:
        """Kill the process, or with `power_loss` the machine, and start the broker again."""
        self.disk.crash(keep)
        self._gone()
        self.start()

    def _gone(self) -> None:
        self.keeper.end_session()
        self.held.clear()
        self.holding.clear()
        self.clients.clear()

    # The world around it

    def client(self) -> Client:
        number = max(self.clients, default=0) + 1
        self.clients[number] = Client(self, number)
        return self.clients[number]

    def write(self, *operations: Operation) -> None:
        """Somebody writes to the keeper; the broker sees what changed."""
        changed, outcome = self.keeper.write(operations)
        assert outcome == Written(), outcome
        self.broker.on_nodes(changed, self.now_ms)
        self.carry_out()

    def give_up_the_seat(self) -> None:
        """Another broker is the controller: what a test writes about partitions stays as it is."""
        self.write(Put(CONTROLLER, controller_node(OTHER_BROKER)))

    def pass_time(self, ms: int) -> None:
        self.now_ms += ms
        self.disk.now_ms = self.now_ms
        self.begin_round()
        self.broker.on_tick(self.now_ms, self.wall_offset_ms)
        self.carry_out()

    def hold(self, *kinds: type) -> None:
        self.holding |= set(kinds)

    def release(self, *, still_hold: bool = False) -> None:
        """Carry out what was held back, in order."""
        if not still_hold:
            self.holding.clear()
        held, self.held = self.held, []
        for effect in held:
            self._carry_out(effect)
        self.carry_out()

    def begin_round(self) -> None:
        """A round of the loop is over, and the next begins."""
        self.broker.allowance.begin_round(self.now_ms)

    def carry_out(self) -> None:
        """Everything that is asked for, with all slices of what is long, unless they are held back, and all
        rounds of the loop, unless this is to be one."""
        self._carry_out_effects()
        while self.broker.slices.next_ms() is not None and Slices not in self.holding:
            self._do_slice()
            self._carry_out_effects()
        while ROUND in self.broker.waiting.by_key and not self.is_one_round:
            self.begin_round()
            self._carry_out_effects()

    def _do_slice(self) -> None:
        self.broker.slices.on_deadline(self.now_ms)

    def _carry_out_effects(self) -> None:
        while self.broker.outbox.effects:
            asked, self.broker.outbox.effects = self.broker.outbox.effects, []
            for effect in asked:
                if type(effect) in self.holding:
                    self.held.append(effect)
                else:
                    self._carry_out(effect)

    def _carry_out(self, effect: Effect) -> None:
        match effect:
            case Reply(connection, chunks, counted_bytes):
                self.broker.allowance.unsent_bytes -= counted_bytes
                client = self.clients.get(connection)
                if client is not None:
                    assert client.pending is not None
                    client.pending.take(chunks)
            case Close(connection, reason, after_answers):
                self.clients[connection].closed = reason
                self.clients[connection].is_sent_away = after_answers
            case WriteNodes(token, operations):
                changed, outcome = self.keeper.write(operations)
                self.broker.on_nodes(changed, self.now_ms)
                self.broker.outbox.on_written(token, outcome, self.now_ms)
            case TakeOffline(directory, reason):
                self.broker.on_directory_failed(directory, reason, self.now_ms)
            case Halt(reason):
                self.halted.append(reason)
            case RunJob(job, parked):
                if parked.reply is not None:
                    job.run(lambda: None)
                    self._job_done(job)
            case _:
                self._work(effect)

    def _job_done(self, job: Job) -> None:
        self.broker.waiting.wake(job, self.now_ms)

    def _work(self, effect: Effect) -> None:
        """What worker threads do with the files of logs."""
        match effect:
            case SyncLog(log, sync):
                try:
                    for file in sync.files:
                        file.sync()
                except LogDirectoryError as error:
                    self.broker.storage.on_sync_failed(log, error)
                else:
                    self.broker.partitions.on_synced(log, sync, self.now_ms)
            case SyncFolder(log, folder):
                try:
                    folder.sync()
                except LogDirectoryError as error:
                    self.broker.storage.failed(error)
                else:
                    self.broker.storage.on_folder_synced(log, self.now_ms)
            case CopyLog(move, part):
                try:
                    part.run()
                except (OSError, MoveError) as error:
                    self.broker.moves.on_copied(move, error, self.now_ms)
                else:
                    self.broker.moves.on_copied(move, None, self.now_ms)
