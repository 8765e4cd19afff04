"""A query over the partitions of a topic: streams what it finds, says how far it is, and stops when told to.

What is passed over: partitions that a key does not go to (the caller chooses them), offsets before the first
record that is new enough, which the broker's time index knows, and batches without the bytes that every match
has (`scan`).

Newest first, a partition is read in spans from its end, and the partition whose next span is newest comes
next; oldest first, the other way round. That is done in a thread (or several, each with a client of its own),
so that whoever asked hears how far it is, and can stop it, while a broker is slow. A match waits until no
partition can have one that comes before it: so matches are in order, and those that a limit leaves out are
the last ones.

Rules: memory is bounded by two answers per thread, and BYTES_MAX of matches. `close()` of the generator, or
its end, stops the threads before their next answer. Not obvious: timestamps need not grow with offsets, so
until_ms ends a search only LATE_MS after it; a record that came later than that is not found.
"""

import heapq
import queue
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass

from ottla.base.command_error import CommandError
from ottla.base.ids import TopicPartition
from ottla.client import Client, ClientError, Fetched, OffsetOutOfRange
from ottla.client.formats import PLAIN, Decoders, Message
from ottla.console.records.batches import Problems
from ottla.console.records.connection import Extent, extents
from ottla.console.records.query import Query
from ottla.console.records.scan import Part, Scan

RESULTS = 200
RESULTS_MAX = 5_000
RESULTS_WAITING = 256
BYTES_MAX = 64 << 20  # of all results: what a browser can hold
THREADS = 1  # a second makes it no faster on two cores: bytes are searched under the interpreter's lock
FETCH_BYTES_MAX = 8 << 20
SPAN_FIRST, SPAN_MIN, SPAN_MAX = 500, 100, 5_000_000
SPAN_BYTES = 16 << 20
TELL_S = 0.25
LATE_MS = 3_600_000
FUTURE_MS = 1 << 62


@dataclass(frozen=True)
class Progress:
    """How far a search is. `share` is of the offsets that it was to look at."""

    offsets: int
    offsets_total: int
    records: int
    bytes: int
    found: int
    seconds: float

    @property
    def share(self) -> float:
        return self.offsets / self.offsets_total if self.offsets_total else 1.0


@dataclass(frozen=True)
class Found:
    messages: list[Message]


@dataclass(frozen=True)
class Ended:
    """`reason` is "all" if everything was looked at, or "limit"."""

    reason: str
    progress: Progress
    problems: list[str]


Event = Progress | Found | Ended


@dataclass(frozen=True)
class Scope:
    """Where to look, and in which order."""

    topic: str
    partitions: Sequence[int]
    is_newest_first: bool = True
    read_committed: bool = True
    limit: int = RESULTS
    first_offset: int = 0  # of every partition


def search(
    connect: Callable[[], Client],
    scope: Scope,
    query: Query,
    decoders: Decoders = PLAIN,
    threads: int = THREADS,
) -> Iterator[Event]:
    """Events until it is over; one comes at least every second. CommandError: the cluster refuses."""
    try:
        with connect() as client:
            ranges = _ranges(client, scope, query)
    except ClientError as error:
        raise CommandError(str(error)) from None
    work = _Work(scope, query, decoders, ranges)
    workers = [
        threading.Thread(target=work.run, args=(connect,), name=f"search-{number}", daemon=True)
        for number in range(min(threads, len(ranges)))
    ]
    for worker in workers:
        worker.start()
    try:
        yield from work.events(workers)
    finally:
        work.stop()
        for worker in workers:
            worker.join()


def _ranges(client: Client, scope: Scope, query: Query) -> dict[int, Extent]:
    """The offsets that may have a match."""
    ranges = extents(client, scope.topic, scope.partitions, read_committed=scope.read_committed)

    def offsets_at(time_ms: int) -> Mapping[TopicPartition, int | None]:
        return client.offsets_at({TopicPartition(scope.topic, number): max(0, time_ms) for number in ranges})

    since = offsets_at(query.since_ms) if query.since_ms is not None else {}
    until = offsets_at(query.until_ms + LATE_MS) if query.until_ms is not None else {}
    cut = {}
    for number, (start, end) in ranges.items():
        topic_partition = TopicPartition(scope.topic, number)
        start = max(start, min(end, scope.first_offset))
        if topic_partition in since:
            first = since[topic_partition]
            start = end if first is None else max(start, first)
        after = until.get(topic_partition)
        cut[number] = Extent(start, end if after is None else max(start, min(end, after)))
    return {number: extent for number, extent in cut.items() if extent.end > extent.start}


@dataclass
class _Span:
    """Offsets of a partition that one thread reads in one go."""

    partition: int
    start: int
    end: int


@dataclass
class _Partition:
    """What is left of one. Only who took its span changes it, so there is one at a time."""

    number: int
    start: int
    end: int
    time_ms: int  # of the next record, as far as is known
    step: int = SPAN_FIRST

    def next_span(self, is_newest_first: bool) -> _Span:
        if is_newest_first:
            start = max(self.start, self.end - self.step)
            span = _Span(self.number, start, self.end)
            self.end = start
        else:
            end = min(self.end, self.start + self.step)
            span = _Span(self.number, self.start, end)
            self.start = end
        return span


@dataclass
class _Counts:
    offsets: int = 0
    records: int = 0
    bytes: int = 0
    found: int = 0
    found_bytes: int = 0


class _Work:
    """What the threads share."""

    def __init__(self, scope: Scope, query: Query, decoders: Decoders, ranges: Mapping[int, Extent]) -> None:
        self._scope = scope
        self._scan = Scan(scope.topic, query, decoders)
        self._total = sum(extent.end - extent.start for extent in ranges.values())
        self._counts = _Counts()
        self._lock = threading.Lock()
        self._stopped = threading.Event()
        self._results: queue.Queue[Found | CommandError] = queue.Queue(RESULTS_WAITING)
        self._begun_s = time.monotonic()
        first = FUTURE_MS if scope.is_newest_first else -FUTURE_MS
        self._matches = _Matches(scope)
        self._waiting: list[tuple[int, int, _Partition]] = []
        self._unfinished: dict[int, _Partition] = {}
        for number, extent in ranges.items():
            self._push(_Partition(number, extent.start, extent.end, first))
        self.problems = Problems()

    # -- who asked -------------------------------------------------------------------------------------------

    def events(self, workers: Sequence[threading.Thread]) -> Iterator[Event]:
        told_s = time.monotonic()
        yield self._progress()
        while True:
            is_over = not any(worker.is_alive() for worker in workers)
            try:
                result = self._results.get(block=not is_over, timeout=TELL_S)
            except queue.Empty:
                if is_over:
                    break
            else:
                if isinstance(result, CommandError):
                    raise result
                if result.messages:
                    yield result
                if self._is_enough():
                    yield Ended("limit", self._progress(), list(self.problems))
                    return
            if time.monotonic() - told_s >= TELL_S:
                told_s = time.monotonic()
                yield self._progress()
        if self._unfinished:
            raise CommandError("The search has failed half-way: a bug in the console. Its log says more.")
        yield Ended("all", self._progress(), list(self.problems))

    def stop(self) -> None:
        """The threads end before their next answer; whoever waits for room in the queue gets it."""
        self._stopped.set()
        while True:
            try:
                self._results.get_nowait()
            except queue.Empty:
                return

    def _progress(self) -> Progress:
        with self._lock:
            counts = self._counts
            return Progress(
                counts.offsets,
                self._total,
                counts.records,
                counts.bytes,
                min(self._scope.limit, counts.found + len(self._matches)),
                time.monotonic() - self._begun_s,
            )

    def _is_enough(self) -> bool:
        return self._counts.found >= self._scope.limit or self._counts.found_bytes >= BYTES_MAX

    # -- the threads -----------------------------------------------------------------------------------------

    def run(self, connect: Callable[[], Client]) -> None:
        try:
            with connect() as client:
                while not self._stopped.is_set() and (partition := self._pop()) is not None:
                    self._look_through(client, partition)
        except (ClientError, CommandError) as error:
            self._put(CommandError(str(error)))

    def _look_through(self, client: Client, partition: _Partition) -> None:
        span = partition.next_span(self._scope.is_newest_first)
        matches: list[Message] = []
        first: Part | None = None
        done_to, size = span.start, 0
        for fetched in self._fetched(client, span, partition):
            if self._stopped.is_set():
                return
            part = self._scan(span.partition, fetched, span.start, span.end, self.problems)
            matches = self._matches.kept(matches + part.messages)
            size += len(fetched.records)
            if part.after:
                first, last = first or part, part
            after = min(part.after, span.end)
            with self._lock:
                self._counts.offsets += max(0, after - done_to)
                self._counts.records += part.records
                self._counts.bytes += len(fetched.records)
            done_to = max(done_to, after)
        with self._lock:
            self._counts.offsets += span.end - done_to
        partition.step = _next_step(span, size)
        time_ms = partition.time_ms
        if first is not None:
            time_ms = first.first_ms if self._scope.is_newest_first else last.last_ms
        self._release(partition, time_ms, matches)

    def _fetched(self, client: Client, span: _Span, partition: _Partition) -> Iterator[Fetched]:
        """What is there of the span: retention goes on while somebody searches."""
        topic_partition = TopicPartition(self._scope.topic, span.partition)
        start = span.start
        while start < span.end:
            try:
                yield from client.fetch(
                    topic_partition,
                    start,
                    span.end,
                    read_committed=self._scope.read_committed,
                    max_bytes=FETCH_BYTES_MAX,
                )
            except OffsetOutOfRange as error:
                if error.start is None or error.start <= start:
                    raise
                start = error.start
                partition.start = max(partition.start, min(start, partition.end))
            else:
                return

    def _release(self, partition: _Partition, time_ms: int, matches: list[Message]) -> None:
        """A span is done: hand on what nothing can come before any more."""
        with self._lock:
            partition.time_ms = time_ms
            self._push(partition)
            self._matches.add(matches)
            frontier = min(map(self._order, self._unfinished.values()), default=None)
            ready = self._matches.before(frontier)[: max(0, self._scope.limit - self._counts.found)]
            self._counts.found += len(ready)
            self._counts.found_bytes += sum(len(message.value or b"") for message in ready)
        if ready:
            self._put(Found(ready))

    def _order(self, partition: _Partition) -> int:
        return -partition.time_ms if self._scope.is_newest_first else partition.time_ms

    def _put(self, result: Found | CommandError) -> None:
        while not self._stopped.is_set():
            try:
                self._results.put(result, timeout=TELL_S)
            except queue.Full:
                continue
            return

    def _pop(self) -> _Partition | None:
        with self._lock:
            return heapq.heappop(self._waiting)[2] if self._waiting else None

    def _push(self, partition: _Partition) -> None:
        """To be called with the lock."""
        if partition.start >= partition.end:
            self._unfinished.pop(partition.number, None)
            return
        self._unfinished[partition.number] = partition
        heapq.heappush(self._waiting, (self._order(partition), partition.number, partition))


class _Matches:
    """What was found and waits, in the order in which it is wanted."""

    def __init__(self, scope: Scope) -> None:
        self._sign = -1 if scope.is_newest_first else 1
        self._limit = scope.limit
        self._heap: list[tuple[int, int, int, Message]] = []

    def __len__(self) -> int:
        return len(self._heap)

    def add(self, messages: list[Message]) -> None:
        for message in messages:
            order = self._sign * message.timestamp_ms, message.partition, self._sign * message.offset
            heapq.heappush(self._heap, (*order, message))
        kept = self.kept([entry[3] for entry in sorted(self._heap)][:: self._sign])
        if len(kept) < len(self._heap):
            self._heap = []
            self.add(kept)

    def before(self, frontier: int | None) -> list[Message]:
        """Those that come no later than this, in order; None is the end."""
        ready = []
        while self._heap and (frontier is None or self._heap[0][0] <= frontier):
            ready.append(heapq.heappop(self._heap)[3])
        return ready

    def kept(self, messages: list[Message]) -> list[Message]:
        """Of messages in the order of their offsets, so many as can be shown in the end."""
        limit = self._limit
        while len(messages) > 1 and sum(len(message.value or b"") for message in messages) > BYTES_MAX:
            limit = min(limit, len(messages)) // 2 or 1
            messages = messages[-limit:] if self._sign < 0 else messages[:limit]
        return messages[-limit:] if self._sign < 0 else messages[:limit]


def _next_step(span: _Span, size: int) -> int:
    """So many offsets as are about SPAN_BYTES."""
    offsets = span.end - span.start
    if not size:
        return SPAN_MAX
    return min(SPAN_MAX, 8 * offsets, max(SPAN_MIN, offsets * SPAN_BYTES // size))
