"""Raw record batches of one partition, one answer ahead of the reader.

The next request is sent before an answer is handed out: while the caller decodes, the broker reads and the
kernel receives. At most two answers are in memory, one in the caller's hands and one under way. How much is
asked for follows from what is still wanted and from how large records have been, so that the end of a range
does not bring megabytes of what comes after it.

What ends a range is the offset, not a count of records: compaction and transaction markers leave holes,
also at its very end. An empty answer of a broker whose log goes on beyond the range means that nothing in
it is left.
"""

from collections.abc import Iterator
from functools import partial
from struct import Struct

from ottla.base.errors import ErrorCode
from ottla.base.ids import TopicPartition
from ottla.base.offset_times import EARLIEST, LATEST
from ottla.client.cluster import Cluster
from ottla.client.connection import Connection
from ottla.client.errors import Again, ClientError, OffsetOutOfRange, check
from ottla.client.offsets import list_offsets
from ottla.client.retry import Deadline, until
from ottla.records.batch import HEADER_SIZE, LOG_OVERHEAD, MAGIC, MAGIC_AT
from ottla.records.fetched import Aborted, Fetched
from ottla.wire.messages.fetch import FetchPartition, FetchRequest, FetchResponse, FetchTopic, PartitionData
from ottla.wire.primitives import ProtocolError

FIRST_BYTES = 1 << 20
SPARE_BYTES = 64 << 10
WAIT_MS = 500
_HEAD = Struct(">qi11xi")  # base offset, length, last offset delta


class Fetch:
    """A range of one partition that is being read. `position` is the next offset to ask for."""

    def __init__(
        self,
        cluster: Cluster,
        topic_partition: TopicPartition,
        start: int,
        end: int,
        *,
        read_committed: bool,
        max_bytes: int,
        timeout_s: float,
    ) -> None:
        self._cluster = cluster
        self._topic_partition = topic_partition
        self._end = end
        self._read_committed = read_committed
        self._max_bytes = max_bytes
        self._timeout_s = timeout_s
        self._bytes_wanted = min(FIRST_BYTES, max_bytes)
        self._connection: Connection | None = None
        self._is_known = topic_partition in cluster.leaders
        self.position = start

    def __iter__(self) -> Iterator[Fetched]:
        try:
            while self.position < self._end:
                deadline = Deadline(self._timeout_s)
                fetched = until(
                    deadline, f"reading {self._topic_partition}", partial(self._attempt, deadline)
                )
                if fetched is None:
                    return
                yield fetched
        finally:
            if self._connection is not None:
                self._cluster.give_back(self._connection)
                self._connection = None

    def _attempt(self, deadline: Deadline) -> Fetched | None:
        """The next batches; None when there are no more in the range."""
        try:
            connection = self._ready(deadline)
            if not connection.in_flight:
                self._ask(connection, deadline)
            answer = self._answer(connection.receive(FetchResponse, deadline))
        except (OSError, ProtocolError, ClientError, Again):
            self._disconnect()
            raise
        if answer.error_code == ErrorCode.OFFSET_OUT_OF_RANGE:
            raise self._out_of_range(deadline)
        try:
            check(answer.error_code, f"reading {self._topic_partition} from offset {self.position}")
        except Again:
            self._disconnect()
            raise
        records = answer.records if answer.records is not None else memoryview(b"")
        size, after = whole_batches(self._topic_partition, memoryview(records), self.position)
        if not size:
            self._end_reached(answer, len(records))
            return None
        self._estimate(size, after - self.position)
        self.position = after
        if after < self._end:
            self._ask_ahead(connection)
        aborted = answer.aborted_transactions or ()
        return Fetched(
            memoryview(records)[:size],
            tuple(
                Aborted(transaction.producer_id, transaction.first_offset)
                for transaction in aborted
                if self._read_committed
            ),
        )

    def _ready(self, deadline: Deadline) -> Connection:
        if self._connection is None:
            if not self._is_known:
                self._cluster.refresh([self._topic_partition.topic], deadline)
            self._is_known = False  # if this one fails, ask again who leads
            node = self._cluster.leader_of(self._topic_partition).node
            self._connection = self._cluster.take(self._cluster.address_of(node), deadline)
        return self._connection

    def _disconnect(self) -> None:
        if self._connection is not None:
            self._connection.close()
            self._connection = None

    def _ask_ahead(self, connection: Connection) -> None:
        """If this fails, the next attempt finds no connection, or one that is broken, and begins anew."""
        try:
            self._ask(connection, Deadline(self._timeout_s))
        except OSError:
            self._disconnect()

    def _ask(self, connection: Connection, deadline: Deadline) -> None:
        wanted = FetchPartition(
            partition=self._topic_partition.partition,
            current_leader_epoch=self._cluster.leader_of(self._topic_partition).epoch,
            fetch_offset=self.position,
            partition_max_bytes=self._bytes_wanted,
        )
        request = FetchRequest(
            max_wait_ms=WAIT_MS,
            min_bytes=1,
            max_bytes=self._bytes_wanted,
            isolation_level=int(self._read_committed),
            topics=[FetchTopic(topic=self._topic_partition.topic, partitions=[wanted])],
        )
        connection.send(request, FetchResponse, deadline)

    def _answer(self, response: FetchResponse) -> PartitionData:
        check(response.error_code, f"reading {self._topic_partition}")
        for topic in response.responses:
            for partition in topic.partitions:
                if (topic.topic, partition.partition_index) == self._topic_partition:
                    return partition
        raise Again(f"reading {self._topic_partition}: the broker holds back what it has (a quota?)")

    def _end_reached(self, answer: PartitionData, size: int) -> None:
        """An answer without a whole batch: the end of what there is, or none of it yet."""
        if size:
            raise ClientError(
                f"reading {self._topic_partition} from offset {self.position}: the broker cut the first "
                f"batch off after {size} bytes; allow more than max_bytes={self._max_bytes}"
            )
        committed = self._read_committed and answer.last_stable_offset >= 0
        log_end = answer.last_stable_offset if committed else answer.high_watermark
        if log_end < self._end:
            raise Again(
                f"reading {self._topic_partition} up to offset {self._end}: the log ends at {log_end}",
                ErrorCode.OFFSET_NOT_AVAILABLE,
            )
        self.position = self._end

    def _estimate(self, size: int, offsets: int) -> None:
        """Ask for what is still wanted, by the size of what came."""
        left = (self._end - self.position - offsets) * size // offsets
        self._bytes_wanted = min(self._max_bytes, max(left + left // 8, 0) + SPARE_BYTES)

    def _out_of_range(self, deadline: Deadline) -> OffsetOutOfRange:
        ends = [
            list_offsets(
                self._cluster, {self._topic_partition: which}, read_committed=False, deadline=deadline
            )
            for which in (EARLIEST, LATEST)
        ]
        start, end = (offsets[self._topic_partition] for offsets in ends)
        return OffsetOutOfRange(
            f"reading {self._topic_partition} from offset {self.position}: the log holds {start} to {end} "
            "(exclusive)",
            start,
            end,
        )


def whole_batches(topic_partition: TopicPartition, records: memoryview, position: int) -> tuple[int, int]:
    """How many bytes of whole batches there are, and the offset after the last of them.

    A broker may cut the last batch off. What cannot be stepped over is refused, as the offset after it is
    not known.
    """
    at, end, after = 0, len(records), position
    while end - at > MAGIC_AT:
        if records[at + MAGIC_AT] != MAGIC:
            raise ClientError(_format_of(topic_partition, after, records[at + MAGIC_AT]))
        if end - at < HEADER_SIZE:
            break
        base, length, last_delta = _HEAD.unpack_from(records, at)
        stop = at + LOG_OVERHEAD + length
        if length < HEADER_SIZE - LOG_OVERHEAD or last_delta < 0:
            raise ClientError(
                f"{topic_partition}: no record batch begins where one should, after offset {after}"
            )
        if stop > end:
            break
        at, after = stop, base + last_delta + 1
    if at and after <= position:
        raise ClientError(
            f"{topic_partition}: the broker answers offset {position} with what ends at {after}"
        )
    return at, after


def _format_of(topic_partition: TopicPartition, offset: int, magic: int) -> str:
    if magic in {0, 1}:
        return (
            f"{topic_partition} has a message of the old format {magic} at or after offset {offset}, and "
            "only format 2 (Kafka 0.11 and later) is read; rewrite the topic, or read it with Kafka's own "
            "client"
        )
    sentence = f"no record batch begins where one should, after offset {offset} (magic byte {magic})"
    return f"{topic_partition}: {sentence}"
