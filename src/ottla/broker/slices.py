"""Long work in slices, so that nobody waits for somebody else's large request.

A job is a generator that pauses every few items. It is begun at once; what is not done after `FIRST_US` goes
on between other inputs, a slice of `SLICE_US` at each deadline, in turns with the other jobs that are under
way. What holds much memory while it is worked on goes one at a time, in the order it came: large requests
from their beginning, others from the step at which they say so (`LARGE`).

How long a slice has taken says `elapsed_us`, which the shell replaces by a clock. Without one, every look at
it counts as some microseconds, so that a run can be repeated exactly.

Rule: a job sees to its own errors and results. One whose owner is gone is dropped where it stands, unless it
has begun to change things (`TO_BE_FINISHED`): Kafka does not leave half of a request undone, either.
"""

from collections import deque
from collections.abc import Callable, Generator, Hashable
from dataclasses import dataclass, field
from itertools import count
from typing import Any, Final, TypeAlias

Steps: TypeAlias = Generator[Any, None, Any]

LARGE: Final = "this job has become large"
TO_BE_FINISHED: Final = "this job goes on even if its owner is gone"
ORPHANS_MAX: Final = 32  # jobs without an owner: clients that come, ask and go must not pile them up

FIRST_US: Final = 2_000
SLICE_US: Final = 5_000
STEP_US: Final = 50  # where nobody has a clock


def finished(steps: Steps) -> Any:
    """What steps return that are few enough to be done at once."""
    try:
        while True:
            next(steps)
    except StopIteration as end:
        return end.value


@dataclass(slots=True, eq=False)
class Job:
    owner: Hashable
    steps: Steps
    is_to_be_finished: bool = False


@dataclass(slots=True)
class Slices:
    elapsed_us: Callable[[], int] = field(default_factory=lambda: count(0, STEP_US).__next__)
    jobs: deque[Job] = field(default_factory=deque)  # under way
    queue: deque[Job] = field(default_factory=deque)  # large ones that wait for their turn
    large: Job | None = None
    now_ms: int = 0  # of the slice that is being done

    def run(self, owner: Hashable, steps: Steps, late: Callable[[Steps], Steps]) -> tuple[bool, Any]:
        """Begin a job now. (True, what it returns); or (False, None) if it is long: then `late` goes on with
        it."""
        end_us = self.elapsed_us() + FIRST_US
        is_large = is_to_be_finished = False
        try:
            while self.elapsed_us() < end_us and not is_large:
                step = next(steps)
                is_large = step is LARGE
                is_to_be_finished |= step is TO_BE_FINISHED
        except StopIteration as end:
            return True, end.value
        (self.queue if is_large else self.jobs).append(Job(owner, late(steps), is_to_be_finished))
        return False, None

    def put(self, owner: Hashable, steps: Steps) -> None:
        """A large job, which is begun when those before it are done."""
        self.queue.append(Job(owner, steps))

    def drop(self, owner: Hashable) -> None:
        """Whoever asked is gone."""
        orphans = sum(job.owner is None for job in self.jobs)
        for job in self.jobs:
            if job.owner == owner and job.is_to_be_finished and orphans < ORPHANS_MAX:
                job.owner = None
        self.jobs = deque(job for job in self.jobs if job.owner != owner)
        self.queue = deque(job for job in self.queue if job.owner != owner)
        if self.large is not None and self.large.owner == owner:
            self.large = None

    def next_ms(self) -> int | None:
        """Now, whatever the time is."""
        return 0 if self.jobs or self.queue else None

    def on_deadline(self, now_ms: int) -> None:
        """One slice, for as many jobs as it is enough for."""
        if not self.jobs and not self.queue:
            return
        self.now_ms = now_ms
        end_us = self.elapsed_us() + SLICE_US
        while (start_us := self.elapsed_us()) < end_us:
            if self.queue and self.large is None:
                self.large = self.queue.popleft()
                self.jobs.append(self.large)
            if not self.jobs:
                return
            before = self.large
            self._advance(self.jobs.popleft(), min(end_us, start_us + FIRST_US))
            if before is not None and self.large is None:
                return  # the shell may want to collect garbage before the next

    def _advance(self, job: Job, end_us: int) -> None:
        is_over = True
        try:
            while True:
                step = next(job.steps)
                if step is LARGE and self.large is not job:
                    self.queue.append(job)
                    return
                if step is TO_BE_FINISHED:
                    job.is_to_be_finished = True
                if self.elapsed_us() >= end_us:
                    is_over = False
                    return
        except StopIteration:
            pass
        finally:
            if not is_over:
                self.jobs.append(job)
            elif self.large is job:
                self.large = None
