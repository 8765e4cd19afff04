"""What the request takes that a connection has under way: time, and of its client's quotas.

    queue    until it is its turn: in a line of `long_work`, or with what its connection sent at once
    local    while it is worked on, also if it is interrupted for others; with the call that hands it over
    remote   while it is parked: for replicas, for the members of a group, for something to fetch
    send     while its answer waits: for its turn, or until its client has read so much that there is room

Rules: one meter measures one request after the other. Time begins when a request is there and those before it
on its connection are answered: as in Kafka, what a client sends behind a request waits at its own expense.
`sent` counts it all, once for each request.
"""

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from ottla.base.metrics import BUCKETS
from ottla.broker.long_work import Slices, Steps
from ottla.broker.parked import Parked
from ottla.broker.request_counts import ApiCounts

if TYPE_CHECKING:
    from ottla.broker.usage import Usage

LONG_US = 1 << (BUCKETS - 1)


class RequestMeter:
    """`usage`: its client has a quota, and may have to be silent afterwards."""

    __slots__ = (
        "_has_waited", "_made_ns", "_queue_ns", "_remote_ns", "_since_ns", "begun_ns", "clock_ns", "counts",
        "usage",
    )  # fmt: skip

    def __init__(self, clock_ns: Callable[[], int]) -> None:
        self.counts: ApiCounts | None = None  # of the API whose request is under way
        self.usage: Usage | None = None
        self.begun_ns = clock_ns()
        self.clock_ns = clock_ns
        self._queue_ns = self._remote_ns = self._made_ns = self._since_ns = 0
        self._has_waited = False  # any part of what is measured, for anything

    # -- before it begins --

    def arrive(self, now_ns: int) -> None:
        """Bytes have come. If nothing is under way, a request may be among them."""
        if self.counts is None:
            self.begun_ns = now_ns
            if self._has_waited:
                self._has_waited, self._queue_ns = False, 0

    def come_to_turn(self) -> None:
        """It was there all the time, and others were served."""
        self._queue_ns += self.clock_ns() - self.begun_ns
        self._has_waited = True

    def begin(self, counts: ApiCounts, version: int, size: int) -> None:
        """It has been understood, and is handled now."""
        self.counts = counts
        counts.versions[version] += 1
        counts.request_bytes += size

    # -- while it waits, and while it is worked on --

    def enqueue(self) -> None:
        self._since_ns = self.clock_ns()
        self.pause()

    def dequeue(self) -> None:
        self._queue_ns += self.clock_ns() - self._since_ns
        self._has_waited = True

    def pause(self) -> None:
        """Others have their turn."""
        if self.usage is not None:
            self.usage.stop()

    def time_steps(self, steps: Steps, slices: Slices) -> Steps:
        """The same steps; of quotas their time counts, without the pauses."""
        return steps if self.usage is None else self.usage.time_steps(steps, slices)

    def park(self, parked: Parked) -> None:
        self._since_ns = self.clock_ns()
        if self.usage is not None:
            self.usage.time_wait(parked)

    def wake(self) -> None:
        self._remote_ns += self.clock_ns() - self._since_ns
        self._has_waited = True

    def resume(self) -> None:
        if self.usage is not None:
            self.usage.start()

    # -- once it is done --

    def charge(self, answer: Any, produced_bytes: int) -> None:
        """What it has used counts, and its answer says what follows from it."""
        if self.usage is not None:
            throttle_ms = self.usage.charge(produced_bytes=produced_bytes)
            if throttle_ms and hasattr(answer, "throttle_time_ms"):
                answer.throttle_time_ms = throttle_ms

    def finish(self) -> int:
        """The answer is made, and is sent later. For how long its client is silent then, in milliseconds."""
        self._made_ns, self._has_waited = self.clock_ns(), True
        return 0 if self.usage is None else self._silence(self.usage.finish())

    def finish_unanswered(self, produced_bytes: int) -> int:
        """A produce with acks=0: its bytes count, the time does not, as in Kafka."""
        if self.usage is None:
            return 0
        return self._silence(self.usage.charge(produced_bytes=produced_bytes, is_timed=False))

    def _silence(self, mute_ms: int) -> int:
        if mute_ms and self.counts is not None:
            self.counts.throttle.observe(mute_ms * 1_000)
        return mute_ms

    def begin_sending(self) -> None:
        """Its client has to read before all of it can leave."""
        if self.counts is not None:
            self._made_ns, self._has_waited = self._made_ns or self.clock_ns(), True

    def sent(self) -> None:
        """The answer has left. Most were made and sent at once: of those one duration is counted, here."""
        counts = self.counts
        if counts is None:
            return
        self.counts = None
        now_ns = self.clock_ns()
        total_us = (now_ns - self.begun_ns) // 1_000
        if self._has_waited or total_us >= LONG_US:
            self._count_parts(counts, total_us, now_ns)
        else:
            at_once = counts.at_once
            at_once.counts[total_us.bit_length()] += 1
            at_once.total_us += total_us
        self.begun_ns = now_ns  # of the next, if it is there

    def _count_parts(self, counts: ApiCounts, total_us: int, now_ns: int) -> None:
        made_ns, queue_ns, remote_ns = self._made_ns or now_ns, self._queue_ns, self._remote_ns
        counts.total.observe(total_us)
        counts.local.observe((made_ns - self.begun_ns - queue_ns - remote_ns) // 1_000)
        counts.queue.observe(queue_ns // 1_000)
        counts.remote.observe(remote_ns // 1_000)
        counts.send.observe((now_ns - made_ns) // 1_000)
        self._made_ns = self._queue_ns = self._remote_ns = 0
        self._has_waited = False
