"""What a coordinator of transactions sends to the leaders of partitions: WriteTxnMarkers (key 27).

A transaction whose end is decided gets its marker in every partition of it, however long that takes, unless
the coordinator's partition moves away (`drop`): its next leader begins again.

Rules
- One request is under way to a leader, with all that waits for it, up to a limit. Where this broker leads
  itself no request is sent: the marker is written into the log.
- What a leader refuses, or does not answer, is tried again more and more slowly, with whoever leads then.
- A partition that is not there has no need of a marker. This broker may not have heard of it yet, though: so
  the keeper is asked to confirm what is known first.
- A later coordinator has ended the transaction (TRANSACTION_COORDINATOR_FENCED): nothing more is sent for
  it, as in Kafka.
- A later epoch of the producer has written to a partition, or ended the transaction there
  (INVALID_PRODUCER_EPOCH): that partition has no need of a marker, and the others get theirs. Kafka gives up
  the whole transaction, which then rests in all of them; a marker that somebody made up is enough for that.
- `on_written` is called by `pump` and when an answer comes, never by `add`: a shard that hands out a
  transaction is in the middle of something.
"""

import logging
from collections import deque
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from functools import partial
from heapq import heappop, heappush
from itertools import count
from typing import Any, Final

from ottla.base.errors import ErrorCode
from ottla.base.ids import TopicPartition
from ottla.base.log_fields import fields
from ottla.broker.leadership_proofs import Proofs
from ottla.broker.marker_writes import MarkerWrite, MarkerWrites, wait_keys
from ottla.broker.parked import Key, Parked, Waiting
from ottla.broker.ports import SendRequest
from ottla.controller.image import Image
from ottla.records.control import Marker
from ottla.txn.markers import EndedTransaction
from ottla.wire.messages.write_txn_markers import (
    WritableTxnMarker,
    WritableTxnMarkerTopic,
    WriteTxnMarkersRequest,
)

log = logging.getLogger(__name__)

CHANNEL: Final = "transaction markers"
RETRY_MS_MIN, RETRY_MS_MAX = 20, 500
CONFIRM_AGAIN_MS: Final = 1_000
LOCAL_WAIT_MS: Final = 5_000
SENT_MAX: Final = 2_000  # partitions in one request
PUMPED_MAX: Final = 500  # partitions that are looked at, and as many that are written here, at once

# Where a marker has no meaning: the transaction is over there, or could not be written in the first place.
_NEEDLESS = frozenset(
    {
        ErrorCode.INVALID_PRODUCER_EPOCH,
        ErrorCode.UNSUPPORTED_FOR_MESSAGE_FORMAT,
        ErrorCode.UNSUPPORTED_VERSION,
    }
)


@dataclass(slots=True, eq=False)
class Ending:
    """A transaction that is being ended, and where its marker is not yet known to be."""

    shard: int
    transaction: EndedTransaction
    open: set[TopicPartition]
    attempts: int = 0
    tried_ms: int = -1  # when that was counted last: many of its partitions may fail at once
    missing_since_ms: int = -1  # since when partitions of it are not there, by this broker's image

    @property
    def marker(self) -> Marker:
        ended = self.transaction
        return Marker(
            ended.producer_id, ended.producer_epoch, ended.committed, ended.coordinator_epoch,
            ended.transaction_version,
        )  # fmt: skip


Batch = dict[Ending, list[TopicPartition]]
Outcomes = Iterable[tuple[Ending, TopicPartition, ErrorCode]]


@dataclass(slots=True)
class MarkerSender:
    """`on_written` hears in which partitions of a transaction the marker is, or need not be; `confirm` asks
    the keeper whether what is known of the cluster is as new as a time."""

    broker_id: int
    image: Image
    send: SendRequest
    writes: MarkerWrites
    waiting: Waiting
    proofs: Proofs
    confirm: Callable[[int], None]
    on_written: Callable[[int, EndedTransaction, set[TopicPartition], int], None]
    committed: int = 0  # transactions whose markers are all written
    aborted: int = 0
    _endings: dict[tuple[int, str], Ending] = field(default_factory=dict)
    _queues: dict[int, Batch] = field(default_factory=dict)  # by leader
    _is_asked: set[int] = field(default_factory=set)  # leaders to which a request is under way
    _unrouted: deque[tuple[Ending, TopicPartition]] = field(default_factory=deque)
    _later: list[tuple[int, int, Ending, list[TopicPartition]]] = field(default_factory=list)  # a heap
    _settled: list[tuple[Ending, TopicPartition, ErrorCode]] = field(default_factory=list)
    _empty: list[Ending] = field(default_factory=list)  # without any partition
    _confirm_ms: int = -1  # when the keeper was last asked
    _numbers: "count[int]" = field(default_factory=count)

    # -- inputs --

    def add(self, shard: int, transaction: EndedTransaction, now_ms: int) -> None:  # noqa: ARG002
        """End a transaction in all its partitions."""
        ending = Ending(shard, transaction, set(transaction.partitions))
        self._endings[shard, transaction.transactional_id] = ending
        self._unrouted.extend((ending, topic_partition) for topic_partition in sorted(ending.open))
        if not ending.open:
            self._empty.append(ending)

    def drop(self, shard: int) -> None:
        """The coordinator's partition has moved away."""
        for key in [key for key in self._endings if key[0] == shard]:
            del self._endings[key]

    def next_ms(self) -> int | None:
        """When `pump` has something to do; 0 is now."""
        if self._unrouted or self._settled or self._empty or self._queues.get(self.broker_id):
            return 0
        return self._later[0][0] if self._later else None

    def pump(self, now_ms: int) -> None:
        while self._later and self._later[0][0] <= now_ms:
            _, _, ending, topic_partitions = heappop(self._later)
            self._unrouted.extend((ending, topic_partition) for topic_partition in topic_partitions)
        for _ in range(min(len(self._unrouted), PUMPED_MAX)):
            self._route(*self._unrouted.popleft(), now_ms)
        for leader in sorted(self._queues):
            if leader not in self._queues:
                continue  # what is written here may wake others, who pump too
            if leader == self.broker_id:
                self._write_here(now_ms)
            elif leader not in self._is_asked:
                self._ask(leader)
        settled, self._settled = self._settled, []
        self._settle(settled, now_ms)
        empty, self._empty = self._empty, []
        for ending in empty:
            if self._is_open(ending):
                self._finish(ending, set(), now_ms)

    def outstanding(self) -> int:
        """Partitions that are still without a marker."""
        return sum([len(ending.open) for ending in self._endings.values()])

    def delayed(self) -> int:
        """Those of them that wait to be tried again, as nobody leads them, or their leader did not answer."""
        return sum([len(topic_partitions) for _, _, _, topic_partitions in self._later])

    # -- to whom --

    def _is_open(self, ending: Ending) -> bool:
        """Not if the shard is gone, or has handed out a later end of the same transactional id."""
        ended = ending.transaction
        return self._endings.get((ending.shard, ended.transactional_id)) is ending

    def _route(self, ending: Ending, topic_partition: TopicPartition, now_ms: int) -> None:
        if not self._is_open(ending) or topic_partition not in ending.open:
            return
        topic = self.image.topics.get(topic_partition.topic)
        state = topic.states.get(topic_partition.partition) if topic is not None else None
        if state is None and (topic is None or topic_partition.partition not in topic.assignment):
            self._on_missing(ending, topic_partition, now_ms)
        elif state is None or (state.leader != self.broker_id and state.leader not in self.image.brokers):
            self._try_later(ending, [topic_partition], now_ms)
        else:
            self._queues.setdefault(state.leader, {}).setdefault(ending, []).append(topic_partition)

    def _on_missing(self, ending: Ending, topic_partition: TopicPartition, now_ms: int) -> None:
        if ending.missing_since_ms < 0:
            ending.missing_since_ms = now_ms
        if self.proofs.confirmed_ms >= ending.missing_since_ms:
            self._settled.append((ending, topic_partition, ErrorCode.NONE))
        else:
            if self._confirm_ms < ending.missing_since_ms or now_ms - self._confirm_ms >= CONFIRM_AGAIN_MS:
                self._confirm_ms = now_ms
                self.confirm(now_ms)
            self._try_later(ending, [topic_partition], now_ms)

    def _try_later(self, ending: Ending, topic_partitions: list[TopicPartition], now_ms: int) -> None:
        if ending.tried_ms != now_ms:
            ending.attempts, ending.tried_ms = min(ending.attempts + 1, 10), now_ms
        due_ms = now_ms + min(RETRY_MS_MIN << (ending.attempts - 1), RETRY_MS_MAX)
        heappush(self._later, (due_ms, next(self._numbers), ending, topic_partitions))

    def _take(self, leader: int, limit: int) -> Batch:
        """The next markers for a leader: of whole transactions, until there are enough."""
        queue, batch, size = self._queues[leader], Batch(), 0
        while queue and size < limit:
            ending, topic_partitions = next(iter(queue.items()))
            del queue[ending]
            if self._is_open(ending):
                batch[ending] = topic_partitions[: limit - size]
                size += len(batch[ending])
                if rest := topic_partitions[len(batch[ending]) :]:
                    queue[ending] = rest
        if not queue:
            del self._queues[leader]
        return batch

    # -- in partitions that others lead --

    def _ask(self, leader: int) -> None:
        batch = self._take(leader, SENT_MAX)
        if batch:
            self._is_asked.add(leader)
            self.send(leader, CHANNEL, _request(batch), partial(self._on_answer, leader, batch))

    def _on_answer(self, leader: int, batch: Batch, answer: Any, now_ms: int) -> None:
        self._is_asked.discard(leader)
        codes: dict[tuple[int, TopicPartition], int] = {}
        if answer is not None:
            codes = {
                (marker.producer_id, TopicPartition(topic.name, result.partition_index)): result.error_code
                for marker in answer.markers
                for topic in marker.topics
                for result in topic.partitions
            }
        unanswered = ErrorCode.NETWORK_EXCEPTION
        self._settle(
            [
                (
                    ending,
                    topic_partition,
                    ErrorCode(codes.get((ending.marker.producer_id, topic_partition), unanswered)),
                )
                for ending, topic_partitions in batch.items()
                for topic_partition in topic_partitions
            ],
            now_ms,
        )
        self.pump(now_ms)

    # -- in partitions that this broker leads --

    def _write_here(self, now_ms: int) -> None:
        writes: list[tuple[Ending, MarkerWrite]] = []
        for ending, topic_partitions in self._take(self.broker_id, PUMPED_MAX).items():
            marker = ending.marker
            for topic_partition in topic_partitions:
                write = self.writes.write(topic_partition, marker, now_ms)
                if write.error is None:
                    writes.append((ending, write))
                else:
                    self._settled.append((ending, topic_partition, write.error))
        if writes:
            self._wait(writes, now_ms)

    def _wait(self, writes: list[tuple[Ending, MarkerWrite]], now_ms: int) -> None:
        """Until markers are committed. Each that is counts at once, and the others no longer than a while."""
        still = writes

        def ready(_key: Key, now_ms: int) -> bool | None:
            nonlocal still
            before, still = still, []
            for ending, write in before:
                if self.writes.is_settled(write, now_ms):
                    error = write.error or ErrorCode.NONE
                    self._settled.append((ending, write.topic_partition, error))
                else:
                    still.append((ending, write))
            return None if still else True

        def expire(_now_ms: int) -> bool:
            late = ErrorCode.REQUEST_TIMED_OUT
            self._settled += [(ending, write.topic_partition, late) for ending, write in still]
            return True

        self.waiting.park(
            Parked(
                keys=wait_keys(write for _, write in writes), deadline_ms=now_ms + LOCAL_WAIT_MS,
                ready=ready, expire=expire, owner=CHANNEL, reply=lambda _answer: None,
            )
        )  # fmt: skip

    # -- what became of it --

    def _settle(self, outcomes: Outcomes, now_ms: int) -> None:
        written: dict[Ending, set[TopicPartition]] = {}
        failed: dict[Ending, list[TopicPartition]] = {}
        for ending, topic_partition, code in outcomes:
            if not self._is_open(ending) or topic_partition not in ending.open:
                continue
            if code == ErrorCode.NONE or code in _NEEDLESS:
                if code == ErrorCode.INVALID_PRODUCER_EPOCH:
                    log.debug(
                        "the end of transaction %r is not needed in %s: a later epoch has written there",
                        ending.transaction.transactional_id, topic_partition,
                    )  # fmt: skip
                ending.open.discard(topic_partition)
                written.setdefault(ending, set()).add(topic_partition)
            elif code == ErrorCode.TRANSACTION_COORDINATOR_FENCED:
                self._give_up(ending, topic_partition)
            else:
                failed.setdefault(ending, []).append(topic_partition)
        for ending, topic_partitions in failed.items():
            if self._is_open(ending):
                self._try_later(ending, topic_partitions, now_ms)
        for ending, arrived in written.items():
            if self._is_open(ending):
                self._finish(ending, arrived, now_ms)

    def _finish(self, ending: Ending, arrived: set[TopicPartition], now_ms: int) -> None:
        """The marker has arrived in some partitions, perhaps the last ones."""
        if not ending.open:
            del self._endings[ending.shard, ending.transaction.transactional_id]
            self.committed += ending.transaction.committed
            self.aborted += not ending.transaction.committed
        self.on_written(ending.shard, ending.transaction, arrived, now_ms)

    def _give_up(self, ending: Ending, topic_partition: TopicPartition) -> None:
        transactional_id = ending.transaction.transactional_id
        log.info(
            "the end of transaction %r is not sent any more: in %s it was ended by a later coordinator",
            transactional_id, topic_partition, extra=fields(transactional_id=transactional_id),
        )  # fmt: skip
        del self._endings[ending.shard, transactional_id]


def _request(batch: Batch) -> WriteTxnMarkersRequest:
    markers = []
    for ending, topic_partitions in batch.items():
        topics: dict[str, WritableTxnMarkerTopic] = {}
        for name, index in topic_partitions:
            topic = topics.setdefault(name, WritableTxnMarkerTopic(name=name))
            topic.partition_indexes.append(index)
        marker = ending.marker
        markers.append(
            WritableTxnMarker(
                producer_id=marker.producer_id,
                producer_epoch=marker.producer_epoch,
                transaction_result=marker.committed,
                topics=list(topics.values()),
                coordinator_epoch=marker.coordinator_epoch,
                transaction_version=marker.transaction_version,
            )
        )
    return WriteTxnMarkersRequest(markers=markers)
