"""The worker of a broker that runs what would keep everybody else waiting: one job at a time, in their order.

Some jobs take long: up to forty seconds, or until the faults are over. Whoever hung up or was told that its
time is up is skipped when its turn comes.

What waits for the disk waits apart, and for each other no more than threads do. Where disks are slow
(`World.has_slow_disks`), that takes up to seconds, and so do syncs.
"""

from collections import deque
from collections.abc import Callable

from tests.sim.world import World

from ottla.broker.effects import Job
from ottla.broker.parked import Parked

SHORT_MS = (1, 15)
LONG_MS = ((100, 1_000), (1_000, 4_000), (4_000, 40_000))
DISK_MS = ((1, 15), (1, 15), (15, 300), (300, 3_000))
LOOK_MS = 100  # how often a long job looks whether the faults are over


def disk_ms(world: World) -> int:
    """How long the disk takes for something."""
    if world.is_calm or not world.has_slow_disks:
        return world.draw(*SHORT_MS)
    return world.draw(*DISK_MS[world.draw(0, len(DISK_MS) - 1)])


class Worker:
    """`after` puts something into the process's turn, later; `done` takes a job that is done."""

    def __init__(
        self, world: World, after: Callable[[int, Callable[[], None]], None], done: Callable[[Job], None]
    ) -> None:
        self.world, self._after, self._done = world, after, done
        self._queue: deque[tuple[Job, Parked]] = deque()
        self._is_busy = False

    def __len__(self) -> int:
        return len(self._queue) + self._is_busy

    def put(self, job: Job, parked: Parked) -> None:
        self._queue.append((job, parked))
        self._next()

    def read(self, job: Job, parked: Parked) -> None:
        def end() -> None:
            if parked.reply is not None:
                self.world.reached["read from disk"] += 1
                job.run(lambda: None)
            self._done(job)

        self._after(disk_ms(self.world), end)

    def _next(self) -> None:
        while self._queue and not self._is_busy:
            job, parked = self._queue.popleft()
            if parked.reply is not None:
                self._is_busy = True
                self.world.reached["checked apart"] += 1
                self._go_on(job, self._duration_ms())

    def _duration_ms(self) -> int:
        draw = self.world.draw
        if self.world.is_calm or not self.world.chance(self.world.limits.slow_jobs):
            return draw(*SHORT_MS)
        return draw(*LONG_MS[draw(0, len(LONG_MS) - 1)])

    def _go_on(self, job: Job, left_ms: int) -> None:
        if left_ms > LOOK_MS and not self.world.is_calm:
            self._after(LOOK_MS, lambda: self._go_on(job, left_ms - LOOK_MS))
        else:
            self._after(min(left_ms, LOOK_MS), lambda: self._end(job))

    def _end(self, job: Job) -> None:
        job.run(lambda: None)
        self._is_busy = False
        self._done(job)
        self._next()
