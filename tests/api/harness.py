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
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from tests.log.simdisk import Keep, SimDisk, page_cache
from tests.support.endpoints import plaintext
from tests.support.frames import decode_answer, encode_request
from tests.support.interpreter import Interpreter

from ottla.api.call import Silence
from ottla.api.dispatch import on_request
from ottla.api.gate import on_gated_request
from ottla.base.files import Buffer
from ottla.broker.access import Session
from ottla.broker.adoption import adopted_topics, elections
from ottla.broker.broker import Broker
from ottla.broker.config import ALONE
from ottla.broker.effects import Close, DoChore, Effect, Send
from ottla.broker.long_work import Slices
from ottla.broker.parked import ROUND
from ottla.broker.request_meter import RequestMeter
from ottla.controller.keeper import Operation, Put, Written
from ottla.controller.registration import candidacy, founding, registration
from ottla.controller.tree import Tree
from ottla.controller.znodes import CONTROLLER, controller_node
from ottla.security.principals import Principal

NOW = 1_700_000_000_000
CLUSTER_ID = "the-cluster"
OTHER_BROKER = 99


class Disk(SimDisk):
    total_bytes, usable_bytes = 1 << 40, 1 << 39

    def space(self, directory: str) -> tuple[int, int]:
        return self.total_bytes, self.usable_bytes


@dataclass(eq=False)
class Pending:
    """A request that was sent. `answer` is there as soon as the broker has given it."""

    request: Any
    version: int
    correlation_id: int
    answer: Any = None
    wants_no_reply: bool = False

    def frame(self, client_id: str) -> bytes:
        return encode_request(self.request, self.version, self.correlation_id, client_id)

    def take(self, chunks: list[Buffer]) -> None:
        assert self.answer is None, "a request is answered once"
        if not chunks:
            self.wants_no_reply = True
            return
        data = b"".join(chunks)
        (size,) = struct.unpack_from(">i", data)
        assert size == len(data) - 4, "the frame is as long as it says"
        correlation_id, self.answer = decode_answer(type(self.request), self.version, memoryview(data)[4:])
        assert correlation_id == self.correlation_id


@dataclass(eq=False)
class Client:
    machine: "Machine"
    number: int
    sent: int = 0
    pending: Pending | None = None
    is_sent_away: bool = False
    client_id: str = "a client"
    host: str = ""
    closed: str | None = None  # by the broker, for this reason
    muted_ms: int = 0  # for how long, after its last answer
    answer_to: Callable[..., list[Buffer] | Silence] = on_request
    meter: RequestMeter = field(init=False)

    def __post_init__(self) -> None:
        self.meter = RequestMeter(lambda: self.machine.broker.requests.clock_ns())

    def ask(self, request: Any, version: int | None = None) -> Pending:
        version = request.VERSIONS[1] if version is None else version
        self.sent += 1
        pending = Pending(request, version, self.sent)
        self.pending, self.muted_ms = pending, 0
        answer = self.raw(pending.frame(self.client_id))
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
        self.meter.arrive(self.meter.clock_ns())
        answer = self.answer_to(
            machine.broker, self.number, memoryview(buffer), machine.now_ms, self.host, self.meter
        )
        if not isinstance(answer, Silence):
            answer = [b"".join(answer)]
        if not isinstance(answer, Silence) or answer is Silence.NO_REPLY:
            self.meter.sent()
        buffer[:] = bytes(len(buffer))
        return answer

    def as_broker(self, id: int) -> "Client":
        """Its connection counts as proved to be that broker's."""
        self.machine.broker.identities.admit(self.number, id)
        return self

    def as_user(self, name: str) -> "Client":
        """Its connection counts as authenticated."""
        session = Session(principal=Principal("User", name))
        self.machine.broker.access.begin(self.number, session)
        return self

    def close(self) -> None:
        self.machine.broker.on_closed(self.number)
        del self.machine.clients[self.number]


def lone_tree() -> Tree:
    """What `shell/keeper_embedded` keeps for a broker that is alone."""
    return Tree(is_ordered=False)


@dataclass(eq=False)
class Machine(Interpreter):
    """One broker and everything around it. `properties` are what an operator wrote."""

    properties: dict[str, str] = field(default_factory=dict)
    disk: Disk = field(default_factory=Disk)
    keeper: Tree = field(default_factory=lone_tree)
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
            *registration(broker.id, plaintext("localhost", 9092), broker.config.rack or None),
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
        self.keeper.end()
        self.held.clear()
        self.holding.clear()
        self.clients.clear()

    # The world around it

    def client(self) -> Client:
        number = max(self.clients, default=0) + 1
        self.clients[number] = Client(self, number)
        return self.clients[number]

    def stranger(self, listener: str) -> Client:
        """A connection on a listener with SASL, which has not authenticated."""
        client = self.client()
        client.answer_to = on_gated_request
        self.broker.access.begin(client.number, Session(listener=listener, is_authenticated=False))
        return client

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
            self._carry_out_now(effect)
        self.carry_out()

    def begin_round(self) -> None:
        """A round of the loop is over, and the next begins."""
        self.broker.allowance.begin_round(self.now_ms)

    def carry_out(self) -> None:
        """Everything that is asked for, with all slices of what is long, unless they are held back, and all
        rounds of the loop, unless this is to be one."""
        self.carry_out_effects()
        while self.broker.slices.next_ms() is not None and Slices not in self.holding:
            self._do_slice()
            self.carry_out_effects()
        while ROUND in self.broker.waiting.by_key and not self.is_one_round:
            self.begin_round()
            self.carry_out_effects()

    def _do_slice(self) -> None:
        self.broker.slices.on_deadline(self.now_ms)

    # Effects

    def clock_ms(self) -> int:
        return self.now_ms

    def carry_out_effect(self, effect: Effect) -> None:
        if type(effect) in self.holding:
            self.held.append(effect)
        else:
            self._carry_out_now(effect)

    def _carry_out_now(self, effect: Effect) -> None:
        super().carry_out_effect(effect)
        if isinstance(effect, DoChore):
            self.broker.coordinators.on_tick(self.now_ms)  # what is loaded may have waited for it

    def reply(self, connection: int, chunks: list[Buffer]) -> None:
        client = self.clients.get(connection)
        if client is not None:
            assert client.pending is not None
            client.pending.take(chunks)
            client.meter.sent()

    def reply_and_mute(self, connection: int, chunks: list[Buffer], mute_ms: int) -> None:
        self.reply(connection, chunks)
        self.clients[connection].muted_ms = mute_ms

    def close(self, effect: Close) -> None:
        client = self.clients[effect.connection]
        client.closed, client.is_sent_away = effect.reason, effect.after_answers

    def send(self, effect: Send) -> None:
        """To nobody: other brokers are nodes in the keeper, at most."""

    def halt(self, reason: str) -> None:
        self.halted.append(reason)
