"""Compaction in a process of its own: one per cleaning, so that its memory goes when it is done.

The parent (`Cleaners`) has a thread wait for each child: it sends a task through the child's standard input
and reads the outcome from its standard output. The child (`main`) runs at a low priority, keeps to the rate
of the task, and ends when its input does; Linux kills it as soon as its parent dies. A broker that dies must
take its cleaners with it: they would write among the files of the next one. A thread in it waits for the disk
(`BackgroundSyncs`); it needs the interpreter a few times per segment only.

Not obvious: this is a plain child and not one of `multiprocessing`, which would import the program's main
module again; that may be anybody's script with an embedded broker in it.
"""

import asyncio
import contextlib
import os
import pickle
import select
import signal
import subprocess
import sys
import time
from collections import deque
from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor
from typing import BinaryIO

from ottla.base.files import OsFiles, Syncable
from ottla.log.compaction.rewrite import CleaningError, clean
from ottla.log.compaction.task import CleanFailed, CleanOutcome, CleanTask
from ottla.shell.worker import Worker, WorkerTimes

NICENESS = 5
SYNCS_MAX = 16  # that are begun and not done: each may keep a file open
THREADS_MAX = 16  # log.cleaner.threads says how many may be at work
_WAIT_S_MAX = 0.2
_BURST_S = 1.0
_PR_SET_PDEATHSIG = 1
_COMMAND = "from ottla.shell.cleaner import main; main()"


class Cleaners:
    """The children that are at work."""

    def __init__(self, loop: asyncio.AbstractEventLoop, times: WorkerTimes | None = None) -> None:
        self._worker = Worker(loop, "clean", THREADS_MAX, times)
        self._running: set[subprocess.Popen[bytes]] = set()
        self._is_closed = False

    def submit(self, task: CleanTask, done: Callable[[CleanOutcome], None]) -> None:
        """Clean in a child; `done` is called on the loop."""
        self._worker.submit(
            lambda: self.run(task), lambda outcome, error: done(outcome or CleanFailed(reason=str(error)))
        )

    def run(self, task: CleanTask) -> CleanOutcome:
        environment = {**os.environ, "PYTHONPATH": os.pathsep.join(filter(None, sys.path))}
        child = subprocess.Popen(  # noqa: S603 - ourselves
            [sys.executable, "-c", _COMMAND],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            env=environment,
            start_new_session=True,
        )
        self._running.add(child)
        if self._is_closed:
            child.kill()
        answer = b""
        try:
            with child:
                assert child.stdin is not None
                assert child.stdout is not None
                child.stdin.write(pickle.dumps(task))
                child.stdin.flush()
                answer = child.stdout.read()
        except BrokenPipeError:
            pass  # it is gone, and its exit code says more
        finally:
            self._running.discard(child)
        if child.returncode or not answer:
            return CleanFailed(reason=f"the cleaner's process ended with {child.returncode}")
        outcome: CleanOutcome = pickle.loads(answer)  # noqa: S301 - our own child wrote it
        return outcome

    def close(self) -> None:
        """Stop what is running; its files are thrown away when the logs are opened again."""
        self._is_closed = True
        for child in list(self._running):
            child.kill()
        self._worker.close()


class Throttle:
    """Keeps to a rate by waiting, and watches whether the parent is still there."""

    def __init__(
        self,
        bytes_per_second: float,
        is_orphaned: Callable[[], bool],
        clock: Callable[[], float] = time.monotonic,
        sleep: Callable[[float], None] = time.sleep,
    ) -> None:
        self._rate = bytes_per_second
        self._is_orphaned = is_orphaned
        self._clock = clock
        self._sleep = sleep
        self._due_s = clock()

    def __call__(self, count: int) -> None:
        self._due_s = max(self._due_s, self._clock() - _BURST_S) + count / self._rate
        while not self._is_orphaned():
            left = self._due_s - self._clock()
            if left <= 0:
                return
            self._sleep(min(left, _WAIT_S_MAX))
        raise SystemExit(1)


class BackgroundSyncs:
    """Syncs in a thread, one after the other, while the next records are cleaned."""

    def __init__(self) -> None:
        self._pool = ThreadPoolExecutor(1, thread_name_prefix="ottla-sync")
        self._left: deque[Future[None]] = deque()

    def begin(self, file: Syncable) -> None:
        while self._left and (self._left[0].done() or len(self._left) >= SYNCS_MAX):
            self._left.popleft().result()
        self._left.append(self._pool.submit(file.sync))

    def finish(self) -> None:
        while self._left:
            self._left.popleft().result()

    def close(self) -> None:
        """What has not begun is given up."""
        self._pool.shutdown(cancel_futures=True)


def main() -> None:
    """What the child does."""
    with contextlib.suppress(ImportError, AttributeError, OSError):  # then it notices by its input alone
        import ctypes  # the parent, which is to start quickly, has no use for it

        ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)
    os.nice(NICENESS)
    source = sys.stdin.buffer
    try:
        task: CleanTask = pickle.load(source)  # noqa: S301 - our own parent wrote it
    except EOFError:
        return  # who is gone already
    answer = memoryview(pickle.dumps(outcome_of(task, source)))
    with contextlib.suppress(BrokenPipeError):  # the parent died meanwhile
        while answer:
            answer = answer[os.write(sys.stdout.fileno(), answer) :]


def outcome_of(task: CleanTask, source: BinaryIO) -> CleanOutcome:
    def is_orphaned() -> bool:
        # Nothing more is ever sent: if there is something to read, it is the end.
        return bool(select.select([source], [], [], 0)[0])

    try:
        with contextlib.closing(BackgroundSyncs()) as syncs:
            return clean(OsFiles(), task, Throttle(task.bytes_per_second, is_orphaned), syncs)
    except CleaningError as damage:
        return CleanFailed(reason=str(damage), damaged=True)
    except OSError as error:
        return CleanFailed(reason=str(error), errno=error.errno or 0)
