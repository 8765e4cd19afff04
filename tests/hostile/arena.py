"""A whole broker in this process, without sockets or a clock, that takes one hostile frame after the other.

Whatever comes, it must be answered, wait, or close its connection by a declared error. `Arena.take` says what
became of a frame, or raises `Found`: an error that is not declared, a bug in the broker's log, an answer that
kio cannot read, more than 200 ms of processor time before others have their turn (or 5 s in all), or more
than 64 MB of memory.
"""

import gc
import logging
import resource
import time
from collections import Counter, deque
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, TypeVar

from kio.index import load_response_schema
from kio.records.readers import read_record
from kio.serial import entity_reader
from tests.api.harness import Client, Machine
from tests.hostile.generate import Pool
from tests.kafka_clients.wire_client import batch, fetch_request, produce_request

from ottla.api.call import CloseConnection, Silence
from ottla.base.errors import ApiError
from ottla.base.ids import TopicPartition
from ottla.broker.effects import Effect, Job, Reply, RunJob
from ottla.records.batch import BatchHeader, split
from ottla.records.record import open_body, read_records
from ottla.wire.messages.create_topics import CreatableTopic, CreateTopicsRequest
from ottla.wire.messages.find_coordinator import FindCoordinatorRequest
from ottla.wire.messages.metadata import MetadataRequest
from ottla.wire.messages.offset_commit import (
    OffsetCommitRequest,
    OffsetCommitRequestPartition,
    OffsetCommitRequestTopic,
)
from ottla.wire.messages.offset_fetch import OffsetFetchRequest, OffsetFetchRequestTopic
from ottla.wire.primitives import ProtocolError

STEP_S_MAX = 0.2
CPU_S_MAX = 5.0
GROWTH_BYTES_MAX = 64 << 20
OPEN_MAX = 20
R = TypeVar("R")
TICK_EVERY = 40
TOPICS = ("fuzz", "fuzz-2")
HEALTHY = "healthy"
GROUP = "honest"
ROUNDS_MAX = 50


class Found(Exception):  # noqa: N818
    """A frame that the broker should have taken otherwise."""


class _Bugs(logging.Handler):
    """What a broker logs only if something is wrong with the broker."""

    def __init__(self) -> None:
        super().__init__(logging.ERROR)
        self.lines: list[str] = []

    def emit(self, record: logging.LogRecord) -> None:
        if record.exc_info:
            self.lines.append(self.format(record))


@dataclass(eq=False)
class TimedMachine(Machine):
    """Knows how long the broker has kept others waiting, at most at once and in all: not how long a worker
    takes for a job, nor how long kio takes to read an answer."""

    longest_s: float = 0.0
    total_s: float = 0.0

    def start(self) -> None:
        super().start()
        self.broker.slices.elapsed_us = lambda: time.process_time_ns() // 1000

    def step(self, work: Callable[[], R]) -> R:
        began = time.process_time()
        try:
            return work()
        finally:
            took_s = time.process_time() - began
            self.longest_s, self.total_s = max(self.longest_s, took_s), self.total_s + took_s

    def _do_slice(self) -> None:
        self.step(super()._do_slice)

    def begin_round(self) -> None:
        self.step(super().begin_round)

    def job_done(self, job: Job) -> None:
        self.step(lambda: super(TimedMachine, self).job_done(job))

    def carry_out_effect(self, effect: Effect) -> None:
        if isinstance(effect, Reply | RunJob):
            super().carry_out_effect(effect)
        else:
            self.step(lambda: super(TimedMachine, self).carry_out_effect(effect))


@dataclass(eq=False)
class _Late:
    """Where a late answer goes."""

    frame: bytes
    is_answered: bool = False

    def take(self, chunks: Any) -> None:
        if chunks:  # none, where the protocol wants no answer
            check_answer(self.frame, b"".join(chunks))
        self.is_answered = True


@dataclass(eq=False)
class Arena:
    machine: TimedMachine = field(default_factory=lambda: TimedMachine({"offsets.topic.num.partitions": "2"}))
    outcomes: Counter[str] = field(default_factory=Counter)
    slowest_s: float = 0.0
    _read: dict[TopicPartition, int] = field(default_factory=dict)
    _open: deque[Client] = field(default_factory=deque)
    _bugs: _Bugs = field(default_factory=_Bugs)
    _offset: int = 0

    def __post_init__(self) -> None:
        logging.getLogger("ottla").addHandler(self._bugs)
        client = self.machine.client()
        wanted = [
            CreatableTopic(name=name, num_partitions=3, replication_factor=1) for name in (*TOPICS, HEALTHY)
        ]
        client.send(CreateTopicsRequest(topics=wanted))
        self.check_health()
        gc.freeze()  # the collector looks through what the broker makes, not through the tests and kio

    def close(self) -> None:
        logging.getLogger("ottla").removeHandler(self._bugs)

    def pool(self, records: list[bytes]) -> Pool:
        topics = self.machine.broker.image.topics
        ids = [topics[name].id for name in TOPICS if name in topics]
        return Pool(topic_ids=[*Pool().topic_ids, *ids], records=records)

    def take(self, frame: bytes) -> str:
        """What became of it: answered, silent, waiting, closed."""
        grown = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
        self.machine.longest_s = self.machine.total_s = 0.0
        try:
            outcome = self._take(frame)
        except Found:
            raise
        except Exception as error:
            raise Found(f"{type(error).__name__}: {error}") from error
        longest_s, total_s = self.machine.longest_s, self.machine.total_s
        grown = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - grown
        self.slowest_s = max(self.slowest_s, longest_s)
        if self._bugs.lines:
            raise Found(self._bugs.lines.pop())
        if self.machine.halted:
            raise Found(f"the broker halted: {self.machine.halted}")
        if longest_s > STEP_S_MAX or total_s > CPU_S_MAX:
            raise Found(
                f"it took {longest_s * 1000:.0f} ms of processor time at once, {total_s:.1f} s in all"
            )
        if grown << 10 > GROWTH_BYTES_MAX:
            raise Found(f"memory grew by {grown >> 10} MB")
        self.outcomes[outcome] += 1
        return outcome

    def _take(self, frame: bytes) -> str:
        machine = self.machine
        client = machine.client()
        late = client.pending = _Late(frame)  # type: ignore[assignment]
        self._open.append(client)
        if len(self._open) > OPEN_MAX:
            self._open.popleft().close()
        try:
            answer = machine.step(lambda: client.raw(frame))
        except (ProtocolError, CloseConnection):
            answer = None
        machine.carry_out()
        if sum(self.outcomes.values()) % TICK_EVERY == 0:
            machine.pass_time(500)
        if answer is None:
            return "closed"
        if answer is Silence.NO_REPLY:
            return "silent"
        if isinstance(answer, Silence):
            return "answered" if late.is_answered else "waiting"
        check_answer(frame, b"".join(answer))
        return "answered"

    def check_health(self) -> None:
        """An honest client is served: what it writes it reads, and so are the offsets of its group."""
        client = self.machine.client()
        answer = client.send(produce_request(HEALTHY, bytes(batch(b"well"))), 9)
        outcome = answer.responses[0].partition_responses[0]
        if outcome.error_code:
            raise Found(f"an honest producer is answered {outcome.error_code}")
        read = client.send(fetch_request(HEALTHY, outcome.base_offset), 12)
        records = read.responses[0].partitions[0].records
        if b"well" not in bytes(records or b"") or outcome.base_offset != self._offset:
            raise Found("an honest consumer does not read what was produced")
        self._offset += 1
        client.send(MetadataRequest(topics=None), 9)
        self._check_group(client)
        client.close()

    def _check_group(self, client: Client) -> None:
        committed = OffsetCommitRequestPartition(partition_index=0, committed_offset=self._offset)
        topic = OffsetCommitRequestTopic(name=HEALTHY, partitions=[committed])
        asked = OffsetFetchRequestTopic(name=HEALTHY, partition_indexes=[0])
        for _ in range(ROUNDS_MAX):  # the topic may have to be made, and to be loaded
            client.ask(FindCoordinatorRequest(key=GROUP), 3)
            code = client.send(OffsetCommitRequest(group_id=GROUP, member_id="", topics=[topic]), 8)
            read = client.send(OffsetFetchRequest(group_id=GROUP, topics=[asked]), 7)
            if not code.topics[0].partitions[0].error_code and not read.error_code:
                break
            self.machine.pass_time(200)
        if [part.committed_offset for topic in read.topics for part in topic.partitions] != [self._offset]:
            raise Found(f"an honest group does not read what it has committed: {code} {read}")

    def check_readable(self) -> None:
        """Whatever was accepted since the last time can be read by consumers: ours, and kio's."""
        for id, log in self.machine.broker.store.logs.items():
            begin, end = self._read.get(id, 0), log.log_end_offset
            if id.topic not in TOPICS or end <= begin:
                continue
            self._read[id] = end
            data = bytes(log.read(begin, 1 << 20, end=end).records)
            try:
                offsets = [record.offset for _, view in split(data) for record in read_records(view)]
                others = [offset for header, view in split(data) for offset in offsets_by_kio(header, view)]
            except (ApiError, ValueError, IndexError) as error:
                raise Found(f"a batch was accepted that cannot be read: {error!r}") from error
            if offsets != list(range(begin, end)) or others != offsets:
                raise Found(f"offsets {begin} to {end - 1} were given, and consumers see {offsets}, {others}")

    def end(self) -> None:
        """Honest clients are served, also after a clean stop, also after a crash."""
        try:
            self.check_health()
            for again in (self.machine.restart, self.machine.crash):
                self._open.clear()
                again()
                self.machine.pass_time(1_000)
                self.check_health()
        except Found:
            raise
        except Exception as error:
            raise Found(f"afterwards: {type(error).__name__}: {error}") from error
        if self._bugs.lines:
            raise Found(f"afterwards: {self._bugs.lines.pop()}")


@dataclass
class Report:
    """What became of many."""

    lane: str
    cases: int = 0
    outcomes: Counter[str] = field(default_factory=Counter)
    slowest_s: float = 0.0
    found: list[str] = field(default_factory=list)

    def add(self, arena: "Arena") -> None:
        """Take over what an arena counted, and close it."""
        arena.close()
        self.outcomes += arena.outcomes
        self.slowest_s = max(self.slowest_s, arena.slowest_s)


def offsets_by_kio(header: BatchHeader, view: memoryview) -> list[int]:
    body, at, offsets = bytes(open_body(view, header)), 0, []
    for number in range(header.count):
        try:
            record, size = read_record(body, 0, header.base_offset, at)  # type: ignore[arg-type]
        except (ValueError, OverflowError, TypeError) as error:
            if "year" in str(error) or not isinstance(error, ValueError):  # a day that Python does not know
                return list(range(header.base_offset, header.base_offset + header.count))
            raise ValueError(f"record {number}: {error}") from error
        at += size
        offsets.append(record.offset)
    if at != len(body):
        raise ValueError(f"the records are {at} of {len(body)} bytes")
    return offsets


def check_answer(frame: bytes, data: bytes) -> None:
    """An answer is a frame that kio reads to its last byte."""
    key, version = (int.from_bytes(frame[at : at + 2], "big", signed=True) for at in (0, 2))
    size = int.from_bytes(data[:4], "big")
    if size != len(data) - 4 or data[4:8] != frame[4:8]:
        raise Found(f"an answer of {len(data)} bytes that is no frame for this request")
    try:
        entity = load_response_schema(key, version)
    except Exception:  # noqa: BLE001
        entity = load_response_schema(key, 0)  # ApiVersions is answered in any version
    at = 8
    if entity.__header_schema__.__flexible__:
        if data[8:9] != b"\x00":
            raise Found("the header of the answer has tags")
        at = 9
    _, read = entity_reader(entity)(data, at)
    if at + read != len(data):
        raise Found(f"kio reads {at + read} bytes of an answer of {len(data)}")
