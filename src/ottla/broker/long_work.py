"""Long work in slices, so that nobody waits for somebody else's large request.

A job is a generator that pauses every few items. It is begun at once, as long as all jobs that are begun in
one round of the loop have taken less than `SHARE_US`; what is not done after `FIRST_US` goes on between other
inputs, a slice of `SLICE_US` at each deadline, in turns with the other jobs that are under way.

Few are: what waits for a place should hold no more than the bytes of its request. Large jobs, which hold much
while they are worked on, have places of their own (from their beginning, or from the step at which they say
`LARGE`). One place is for whoever came first, so that everybody's turn comes; the others are for the smallest
request, so that many large ones do not hold up a small one. Jobs of other brokers have places that no client
can take, and every other turn.

How long a slice has taken says `elapsed_us`, which the shell replaces by a clock. Without one, every look at
it counts as some microseconds, so that a run can be repeated exactly.

Rule: a job sees to its own errors and results. One whose owner is gone is dropped where it stands, unless it
has begun to change things (`TO_BE_FINISHED`): Kafka does not leave half of a request undone, either.
"""

from collections import deque
from collections.abc import Callable, Generator, Hashable
from dataclasses import dataclass, field
from functools import partial
from itertools import count
from typing import Any, Final, TypeAlias

Steps: TypeAlias = Generator[Any, None, Any]

LARGE: Final = "this job has become large"
TO_BE_FINISHED: Final = "this job goes on even if its owner is gone"
ORPHANS_MAX: Final = 32  # jobs without an owner: clients that come, ask and go must not pile them up

FIRST_US: Final = 2_000
SLICE_US: Final = 5_000
SHARE_US: Final = 20_000
STEP_US: Final = 50  # where nobody has a clock

PLACES: Final = 4
LARGE_PLACES: Final = 2
SMALL_BYTES: Final = 8 * 1024  # of a request; as objects some 200 KB at most
GROWN_MAX: Final = 8  # that were begun, have become large, and wait
IN_A_ROW: Final = 16


def finished(steps: Steps) -> Any:
    """What steps return that are few enough to be done at once."""
    try:
        while True:
            next(steps)
    except StopIteration as end:
        return end.value


@dataclass(slots=True, eq=False)
class Job:
    """`size`: the bytes of the request."""

    owner: Hashable
    steps: Steps
    size: int = 0
    is_begun: bool = False
    is_to_be_finished: bool = False


@dataclass(slots=True)
class Line:
    """A few places, and who waits for one."""

    places: int
    waiting: dict[Job, None] = field(default_factory=dict)
    under_way: dict[Job, None] = field(default_factory=dict)
    begun: int = 0  # of those who wait
    _first: Job | None = None  # under way because it came first
    _taken: int = 0  # since no place was taken

    def __contains__(self, job: Job) -> bool:
        return job in self.waiting or job in self.under_way

    def put(self, job: Job) -> None:
        self.waiting[job] = None
        self.begun += job.is_begun

    def take(self, size_max: int | None) -> Job | None:
        """Whose turn it is, if a place is free: nobody with a request above `size_max`. Now and then all
        places become free, so that garbage can be collected."""
        if not self.waiting or len(self.under_way) >= self.places:
            return None
        if not self.under_way:
            self._taken = 0
        if self._taken >= IN_A_ROW:
            return None
        job = next(iter(self.waiting))
        is_first = self._first is None and (size_max is None or job.size <= size_max)
        if not is_first:
            job = min(self.waiting, key=lambda job: job.size)
            if size_max is not None and job.size > size_max:
                return None
        self._first = job if is_first else self._first
        del self.waiting[job]
        self.begun -= job.is_begun
        self.under_way[job] = None
        self._taken += 1
        return job

    def leave(self, job: Job) -> None:
        if job in self.waiting:
            del self.waiting[job]
            self.begun -= job.is_begun
        self.under_way.pop(job, None)
        if self._first is job:
            self._first = None


@dataclass(slots=True)
class Lane:
    """The jobs of clients, or those of brokers."""

    line: Line = field(default_factory=lambda: Line(PLACES))
    large: Line = field(default_factory=lambda: Line(LARGE_PLACES))
    turns: deque[Job] = field(default_factory=deque)  # all that are under way

    def __bool__(self) -> bool:
        return bool(self.turns or self.line.waiting or self.large.waiting)

    @property
    def has_room(self) -> bool:
        """Would what is begun now have a place?"""
        line = self.line
        return not line.waiting and len(line.under_way) < line.places and self.large.begun < GROWN_MAX

    def fill(self) -> None:
        """Give the places that are free to those who wait."""
        while (job := self.large.take(None)) is not None:
            self.turns.append(job)
        while (job := self.line.take(SMALL_BYTES if self.large.begun >= GROWN_MAX else None)) is not None:
            self.turns.append(job)

    def drop(self, owner: Hashable) -> None:
        jobs = [job for line in (self.line, self.large) for job in (*line.waiting, *line.under_way)]
        orphans = sum(job.owner is None for job in jobs)
        for job in jobs:
            if job.owner != owner:
                continue
            if job.is_to_be_finished and orphans < ORPHANS_MAX:
                job.owner = None
                continue
            (self.large if job in self.large else self.line).leave(job)
            if job in self.turns:
                self.turns.remove(job)

    def advance(self, until: Callable[[], bool]) -> None:
        """Go on with the job whose turn it is."""
        job = self.turns.popleft()
        line = self.large if job in self.large.under_way else self.line
        is_over = True
        job.is_begun = True
        try:
            while True:
                step = next(job.steps)
                job.is_to_be_finished |= step is TO_BE_FINISHED
                if step is LARGE and line is not self.large:
                    line.leave(job)
                    self.large.put(job)
                    is_over = False
                    return
                if until():
                    is_over = False
                    self.turns.append(job)
                    return
        except StopIteration:
            pass
        finally:
            if is_over:
                line.leave(job)


@dataclass(slots=True)
class Slices:
    elapsed_us: Callable[[], int] = field(default_factory=lambda: count(0, STEP_US).__next__)
    brokers: Lane = field(default_factory=Lane)
    clients: Lane = field(default_factory=Lane)
    spent_us: int = 0  # of what may be done at once in this round
    now_ms: int = 0  # of the slice that is being done
    _is_clients_turn: bool = False

    def may_begin(self, size: int, *, is_broker: bool) -> bool:
        """May a request of this size be decoded and begun at once? Otherwise it is `put`."""
        if is_broker:
            return True
        return self.spent_us < SHARE_US and (size <= SMALL_BYTES or self.clients.has_room)

    def run(
        self,
        owner: Hashable,
        steps: Steps,
        late: Callable[[Steps], Steps],
        *,
        size: int = 0,
        is_broker: bool = False,
    ) -> tuple[bool, Any]:
        """Begin a job now. (True, what it returns); or (False, None) if it is long: then `late` goes on with
        it."""
        lane = self.brokers if is_broker else self.clients
        if not is_broker and self.spent_us >= SHARE_US:
            lane.line.put(Job(owner, late(steps), size, is_begun=True))
            return False, None
        start_us = now_us = self.elapsed_us()
        is_large = is_to_be_finished = False
        try:
            while now_us < start_us + FIRST_US and not is_large:
                step = next(steps)
                is_large = step is LARGE
                is_to_be_finished |= step is TO_BE_FINISHED
                now_us = self.elapsed_us()
        except StopIteration as end:
            return True, end.value
        finally:
            self.spent_us += 0 if is_broker else self.elapsed_us() - start_us
        job = Job(owner, late(steps), size, is_begun=True, is_to_be_finished=is_to_be_finished)
        (lane.large if is_large else lane.line).put(job)
        return False, None

    def put(
        self, owner: Hashable, steps: Steps, *, size: int = 0, is_large: bool = True, is_broker: bool = False
    ) -> None:
        """A job that is begun when there is a place for it."""
        lane = self.brokers if is_broker else self.clients
        (lane.large if is_large else lane.line).put(Job(owner, steps, size))

    def drop(self, owner: Hashable) -> None:
        """Whoever asked is gone."""
        for lane in (self.brokers, self.clients):
            if lane:
                lane.drop(owner)

    def next_ms(self) -> int | None:
        """Now, whatever the time is."""
        return 0 if self.clients or self.brokers else None

    @property
    def waiting(self) -> int:
        """Jobs that have no place yet."""
        return sum(
            len(line.waiting) for lane in (self.clients, self.brokers) for line in (lane.line, lane.large)
        )

    @property
    def is_large(self) -> bool:
        """Is a large job under way?"""
        return bool(self.clients.large.under_way or self.brokers.large.under_way)

    def on_deadline(self, now_ms: int) -> None:
        """One slice, for as many jobs as it is enough for."""
        if not self.clients and not self.brokers:
            return
        self.now_ms = now_ms
        end_us = self.elapsed_us() + SLICE_US
        while (start_us := self.elapsed_us()) < end_us:
            lane = self._next_lane()
            if lane is None:
                return
            was_large, turn_end_us = self.is_large, min(end_us, start_us + FIRST_US)
            lane.advance(partial(self._has_passed, turn_end_us))
            if was_large and not self.is_large:
                return  # the shell may want to collect garbage before the next

    def _has_passed(self, end_us: int) -> bool:
        return self.elapsed_us() >= end_us

    def _next_lane(self) -> Lane | None:
        self._is_clients_turn = not self._is_clients_turn
        lanes = (self.clients, self.brokers) if self._is_clients_turn else (self.brokers, self.clients)
        for lane in lanes:
            lane.fill()
        return next((lane for lane in lanes if lane.turns), None)
