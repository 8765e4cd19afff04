"""Records in batches of our own, through our own client: how `ottla produce` sends unless told otherwise.

A portion of the input is cut up by partition, made into batches and sent in the background, while the next
one is read: one request is under way at a time, so records of a partition keep their order. With a producer
id, which acks=all has, what is sent again after a failover is stored once.

A batch that a broker refuses is sent again without the records that it blames, or in halves where it does
not say which, until those that it does not want are alone: these are named by their lines, and all others
are stored. A batch whose fate is not known ends the command, since what comes after it could be stored
without it.

A broker may have forgotten the producer (UNKNOWN_PRODUCER_ID: its records were deleted, or it was silent for
long). Nothing of a batch that was sent once is stored then, and a new producer id goes on with it; one that
was sent before, and not answered, may be stored, and ends the command.

Not obvious: partitions are chosen as librdkafka chooses them (`consistent_random`: the CRC-32 of the key;
any, without one), so that keys stay where they were.
"""

import threading
import time
import zlib
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from itertools import count
from random import randrange

from ottla.base.command_error import CommandError
from ottla.base.errors import ErrorCode
from ottla.base.ids import TopicPartition
from ottla.cli import output
from ottla.cli.records.deliveries import Deliveries
from ottla.cli.records.input_records import Columns, LineError, Parsed, Records
from ottla.client.client import Client
from ottla.client.errors import ClientError
from ottla.client.formats import Outgoing
from ottla.client.librdkafka.errors import DENIED, denial
from ottla.records.batch import NO_PRODUCER_ID, NO_SEQUENCE, SEQUENCES
from ottla.records.builder import NewRecord, build_batch
from ottla.records.compression import Codec
from ottla.records.many import COUNT_MAX, batch_of

BATCH_BYTES = 900_000  # below what a broker takes by default, with room for what a batch adds
RECORD_OVERHEAD = 12
# So large a batch is compared with the topic's limit before it is sent: a broker that is sent more than it
# takes in a request (100 MiB, if it is not set otherwise) hangs up, and does not say why.
ASKED_BYTES = 32 << 20
SETTLE_S = 5.0
METADATA_S = 30.0  # then it is looked whether the topic has more partitions
# What is wrong with records, and not with the way to them.
TOO_LARGE = {ErrorCode.MESSAGE_TOO_LARGE, ErrorCode.RECORD_LIST_TOO_LARGE}
OF_RECORDS = TOO_LARGE | {ErrorCode.INVALID_RECORD, ErrorCode.INVALID_TIMESTAMP}
NO_PRODUCER = (NO_PRODUCER_ID, -1)


def size_of(records: Records) -> int:
    """Of keys and values, in bytes."""
    if isinstance(records, Columns):
        return sum(map(len, records.values)) + sum(map(len, records.keys or ()))
    return sum(len(record.key or b"") + len(record.value or b"") for record in records)


def cut(share: Parsed) -> Iterator[Parsed]:
    """Parts that fit into a batch each, most likely."""
    total = len(share.lines)
    mean = size_of(share.records) // total + RECORD_OVERHEAD
    most = max(1, min(COUNT_MAX, BATCH_BYTES // mean))
    return (share.part(start, start + most) for start in range(0, total, most))


def halves(share: Parsed) -> list[Parsed]:
    middle = len(share.lines) // 2
    return [share.part(0, middle), share.part(middle, len(share.lines))]


def as_batch(records: Records, producer: tuple[int, int, int], codec: Codec) -> bytearray:
    """`producer`: id, epoch, and the sequence of the first record."""
    now_ms = int(time.time() * 1000)
    if isinstance(records, Columns):
        headers = tuple(records.headers)
        return batch_of(
            records.values, records.keys, headers, timestamp_ms=now_ms, codec=codec, producer=producer
        )
    new = [
        NewRecord(
            record.key,
            record.value,
            tuple(record.headers),
            now_ms if record.timestamp_ms is None else record.timestamp_ms,
        )
        for record in records
    ]
    producer_id, epoch, sequence = producer
    return build_batch(
        new, codec=codec, producer_id=producer_id, producer_epoch=epoch, base_sequence=sequence
    )


class BatchSender:
    def __init__(
        self,
        client: Client,
        topic: str,
        deliveries: Deliveries,
        *,
        acks: int,
        codec: Codec,
        partition: int | None,
        limit: Callable[[], int | None],
        quiet: bool,
    ) -> None:
        """`limit` says how large a batch may be, where that can be known."""
        self._client = client
        self._topic = topic
        self._deliveries = deliveries
        self._acks = acks
        self._codec = codec
        self._partition = partition
        self._limit = limit
        self._quiet = quiet
        self._partitions: list[int] = []
        self._looked_s = 0.0
        self._producer = NO_PRODUCER
        self._sequences: dict[TopicPartition, int] = {}
        self._turn = count()
        self._background = Background()

    def prepare(self) -> None:
        """Look whether the topic is there; if not, it is created when there is a record for it."""
        self._look()
        if self._partitions:
            self._check_partition()

    def send(self, portion: Parsed) -> None:
        """In the background, when the portion before is done."""
        if not self._partitions:
            self._create()
        elif time.monotonic() - self._looked_s > METADATA_S:
            self._look()
        if self._producer == NO_PRODUCER and self._acks == -1:
            self._producer = self._client.producer_id()
        placeable, wrong = self._placeable(portion)
        if wrong is not None and self._look():
            placeable, wrong = self._placeable(portion)
        shares = self._shares(placeable)
        self._background.start(lambda: self._deliver(shares))
        if wrong is not None:
            raise wrong

    def finish(self) -> None:
        """Wait for what is under way."""
        self._background.wait()

    def settle(self) -> None:
        """The same after an interrupt, for a while only, and whatever comes of it."""
        self._background.abandon(SETTLE_S)

    # -- partitions --

    def _look(self) -> bool:
        """Whether the topic has other partitions than before. What is under way comes first: a client is used
        by one thread at a time."""
        self._background.wait()
        there = self._client.partitions([self._topic]).get(self._topic, [])
        self._looked_s = time.monotonic()
        if there in ([], self._partitions):  # also a topic that is being deleted has none
            return False
        if self._partitions and not self._quiet:
            output.say(f"topic {self._topic} has {len(there)} partitions now")
        self._partitions = there
        return True

    def _create(self) -> None:
        self._partitions = self._client.partitions([self._topic], may_create=True)[self._topic]
        if not self._quiet:
            output.say(f"topic {self._topic} was not there, and was created")
        self._check_partition()

    def _check_partition(self) -> None:
        if self._partition is not None and self._partition not in self._partitions:
            raise CommandError(self._no_partition(self._partition))

    def _no_partition(self, wanted: int | None) -> str:
        first, last = self._partitions[0], self._partitions[-1]
        return f"topic {self._topic} has no partition {wanted}, only {first} to {last}"

    def _placeable(self, portion: Parsed) -> tuple[Parsed, LineError | None]:
        """What comes before the first line that names a partition which is not there; and that."""
        there, records = {None, *self._partitions}, portion.records
        for at, record in enumerate(() if isinstance(records, Columns) else records):
            if record.partition not in there:
                said = f"line {portion.lines[at]}: {self._no_partition(record.partition)}"
                wrong = LineError(f"{said}; give it more, or leave `partition` out of the line")
                return portion.part(0, at), wrong
        return portion, None

    def _shares(self, portion: Parsed) -> dict[TopicPartition, Parsed]:
        """What each partition gets."""
        records = portion.records
        if not isinstance(records, Columns):
            numbers = self._numbers(records)
        elif self._partition is not None or records.keys is None:
            return {TopicPartition(self._topic, self._next(self._partition)): portion}
        else:
            any_one = self._next(None)
            numbers = [self._of_key(key) if key else any_one for key in records.keys]
        rows: dict[int, list[int]] = {}
        for at, number in enumerate(numbers):
            rows.setdefault(number, []).append(at)
        return {
            TopicPartition(self._topic, number): _rows(portion, chosen) for number, chosen in rows.items()
        }

    def _numbers(self, records: Sequence[Outgoing]) -> list[int]:
        any_one = self._next(None)
        numbers = []
        for record in records:
            number = record.partition
            if number is None:
                number = self._of_key(record.key) if record.key else any_one
            numbers.append(number)
        return numbers

    def _next(self, wanted: int | None) -> int:
        """The partition of records without a key: another one for every portion."""
        if wanted is not None:
            return wanted
        turn = next(self._turn)
        if not turn:
            self._turn = count(randrange(len(self._partitions)))  # noqa: S311  # no secret
            turn = next(self._turn)
        return self._partitions[turn % len(self._partitions)]

    def _of_key(self, key: bytes) -> int:
        return self._partitions[zlib.crc32(key) % len(self._partitions)]

    # -- in the background --

    def _deliver(self, shares: dict[TopicPartition, Parsed]) -> None:
        waiting = {topic_partition: deque(cut(share)) for topic_partition, share in shares.items()}
        while waiting:
            batches = {
                topic_partition: as_batch(queue[0].records, self._producer_of(topic_partition), self._codec)
                for topic_partition, queue in waiting.items()
            }
            refusals = {
                topic_partition: ClientError("more than the topic takes", ErrorCode.MESSAGE_TOO_LARGE)
                for topic_partition, batch in batches.items()
                if self._is_beyond_limit(len(batch))
            }
            sent = {
                topic_partition: batch
                for topic_partition, batch in batches.items()
                if topic_partition not in refusals
            }
            for topic_partition in self._client.produce(sent, acks=self._acks, refusals=refusals):
                share = waiting[topic_partition].popleft()
                self._deliveries.on_acknowledged(len(share.lines), size_of(share.records))
                if topic_partition in self._sequences:
                    after = self._sequences[topic_partition] + len(share.lines)
                    self._sequences[topic_partition] = after % SEQUENCES
            for topic_partition, error in refusals.items():
                if error.code != ErrorCode.UNKNOWN_PRODUCER_ID:
                    self._on_refused(waiting[topic_partition], error, len(batches[topic_partition]))
            forgotten = {
                topic_partition: error
                for topic_partition, error in refusals.items()
                if error.code == ErrorCode.UNKNOWN_PRODUCER_ID
            }
            if forgotten:
                self._on_forgotten(forgotten, waiting)
            waiting = {topic_partition: queue for topic_partition, queue in waiting.items() if queue}

    def _producer_of(self, topic_partition: TopicPartition) -> tuple[int, int, int]:
        if self._producer == NO_PRODUCER:
            return (*NO_PRODUCER, NO_SEQUENCE)
        return (*self._producer, self._sequences.setdefault(topic_partition, 0))

    def _on_forgotten(
        self, forgotten: dict[TopicPartition, ClientError], waiting: dict[TopicPartition, deque[Parsed]]
    ) -> None:
        """Everything else of this round is decided, so a new producer begins at sequence 0 everywhere."""
        for topic_partition, error in forgotten.items():
            lines = waiting[topic_partition][0].lines
            if error.times_sent > 1:
                which = f"line {lines[0]}" if len(lines) == 1 else f"lines {lines[0]} to {lines[-1]}"
                raise ClientError(
                    f"{error}: {which} had been sent before, without an answer, and may be stored: look "
                    "before you send them again",
                    error.code,
                )
            if not self._sequences.get(topic_partition):
                raise error  # it has nothing to forget
        self._producer = self._client.producer_id()
        self._sequences.clear()
        if not self._quiet:
            output.say("the broker has forgotten this producer: a new one goes on, and no record is in doubt")

    def _is_beyond_limit(self, size: int) -> bool:
        return size > ASKED_BYTES and size > (self._limit() or size)

    def _on_refused(self, queue: deque[Parsed], error: ClientError, size: int) -> None:
        if error.code not in OF_RECORDS:
            raise error
        share = queue.popleft()
        total = len(share.lines)
        blamed = {0} if total == 1 else {at for at in error.blamed if 0 <= at < total}
        if not blamed:
            queue.extendleft(reversed(halves(share)))
            return
        for at in sorted(blamed):
            self._deliveries.on_refused(partial(self._explain, share.lines[at], error, size))
        if len(blamed) < total:
            queue.appendleft(_rows(share, [at for at in range(total) if at not in blamed]))

    def _explain(self, line: int, error: ClientError, size: int) -> str:
        if error.code == ErrorCode.MESSAGE_TOO_LARGE:
            limit = self._limit()
            most = f"and topic {self._topic} takes {limit} at most" if limit else "more than the topic takes"
            return f"line {line}: the record takes {size} bytes, {most} (max.message.bytes)"
        return f"line {line}: {error}"


def _rows(portion: Parsed, chosen: Sequence[int]) -> Parsed:
    if len(chosen) == len(portion.lines):
        return portion
    lines, records = [portion.lines[at] for at in chosen], portion.records
    if not isinstance(records, Columns):
        return Parsed(lines, [records[at] for at in chosen])
    keys = None if records.keys is None else [records.keys[at] for at in chosen]
    return Parsed(lines, Columns([records.values[at] for at in chosen], keys, records.headers))


class Background:
    """One piece of work at a time, in a thread that does not outlive the command."""

    def __init__(self) -> None:
        self._thread: threading.Thread | None = None
        self._error: BaseException | None = None

    def start(self, work: Callable[[], None]) -> None:
        self.wait()
        self._thread = threading.Thread(target=self._run, args=(work,), daemon=True)
        self._thread.start()

    def wait(self) -> None:
        """Until it is done; what went wrong is raised here."""
        if self._thread is not None:
            self._thread.join()
            self._thread = None
        if self._error is not None:
            error, self._error = self._error, None
            raise error

    def abandon(self, most_s: float) -> None:
        if self._thread is not None:
            self._thread.join(most_s)

    def _run(self, work: Callable[[], None]) -> None:
        try:
            work()
        except BaseException as error:  # noqa: BLE001  # told where it is waited for
            self._error = error


def explained(error: ClientError) -> str:
    """A refusal in the words of the other commands."""
    if error.code not in DENIED:
        return str(error)
    return denial(error.code, of_producer_id=error.code == ErrorCode.CLUSTER_AUTHORIZATION_FAILED)
