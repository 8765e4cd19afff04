"""What the logs need done and what may block: syncs and copies in threads, compactions in processes; and the
jobs of requests that would keep all others waiting (`shell/jobs`), or wait for the disk.
"""

import asyncio
import logging
import time
from collections.abc import Callable
from typing import TYPE_CHECKING

from ottla.base.files import Syncable, is_shortage
from ottla.base.log_fields import fields
from ottla.broker import effects
from ottla.broker.parked import Parked
from ottla.log.chores import Chore
from ottla.log.cold import ReadAhead
from ottla.log.compaction.task import CleanOutcome, CleanTask
from ottla.log.directories import LogDirectoryError
from ottla.log.directory_moves import CopySlice, Move
from ottla.log.durability import Sync
from ottla.log.log import Log
from ottla.shell.core import Carriers, Core
from ottla.shell.jobs import Jobs
from ottla.shell.worker import Worker

if TYPE_CHECKING:
    from ottla.shell.cleaner import Cleaners

log = logging.getLogger(__name__)

SYNC_THREADS = 4
READ_THREADS = 4
READS_MAX_AHEAD = 2 * READ_THREADS  # more than that, and nothing is read ahead


class Chores:
    def __init__(self, core: Core, loop: asyncio.AbstractEventLoop) -> None:
        self._core = core
        self._loop = loop
        self._worker = Worker(loop, "sync", SYNC_THREADS, core.worker_times["sync"])
        self._cleaners: Cleaners | None = None
        self._jobs: Jobs | None = None
        self._readers: Worker | None = None

    def close(self) -> None:
        if self._readers is not None:
            self._readers.close()
        if self._jobs is not None:
            self._jobs.close()
        if self._cleaners is not None:
            self._cleaners.close()
        self._worker.close()

    def carriers(self) -> Carriers:
        return {
            effects.SyncLog: lambda effect: self.sync(effect.log, effect.sync),
            effects.CleanLog: lambda effect: self.clean(effect.log, effect.task),
            effects.SyncFolder: lambda effect: self.sync_folder(effect.log, effect.folder),
            effects.DoChore: lambda effect: self.do(effect.chore),
            effects.CopyLog: lambda effect: self.copy(effect.move, effect.slice),
            effects.RunJob: lambda effect: self.run_job(effect.job, effect.parked),
        }

    def run_job(self, job: effects.Job, parked: Parked) -> None:
        assert parked.keys == (job,), "who waits for a job waits for nothing else"
        if job.waits_for_disk:
            self._read(job, parked)
            return
        if self._jobs is None:
            self._jobs = Jobs(Worker(self._loop, "job", 1, self._core.worker_times["job"]), self._on_job_done)
        self._jobs.put(parked)

    def _read(self, job: effects.Job, parked: Parked) -> None:
        def run() -> None:
            if parked.reply is not None and not self._core.is_ending:  # else nobody waits for it any more
                job.run(lambda: None)

        self._reading.submit(run, lambda _, error: self._on_job_done(job, error))

    @property
    def _reading(self) -> Worker:
        if self._readers is None:
            self._readers = Worker(self._loop, "read", READ_THREADS, self._core.worker_times["read"])
        return self._readers

    def _on_job_done(self, job: effects.Job, error: BaseException | None) -> None:
        if self._core.is_ending:
            return
        if error is not None:
            self._core.halt(f"bug: {error!r}")
            return
        self._core.input(lambda: self._core.broker.waiting.wake(job, self._core.now_ms()), "job results")

    def sync(self, synced: Log, sync: Sync) -> None:
        timed = _TimedSync(sync)
        self._run(timed.run, lambda error: self._on_synced(synced, sync, timed.took_us, error))

    def do(self, chore: Chore) -> None:
        """What no request waits for: files removed, checkpoints synced, records read ahead. The last is left
        out while many reads are under way, as requests wait for some of those."""
        if not isinstance(chore, ReadAhead):
            self._run(chore.run, lambda error: self._on_chore_done(chore, error))
        elif self._reading.times.jobs < READS_MAX_AHEAD:

            def run() -> None:
                if not self._core.is_ending:
                    chore.run()

            self._reading.submit(run, lambda _, error: self._on_chore_done(chore, error))

    def _on_chore_done(self, chore: Chore, error: BaseException | None) -> None:
        if self._core.is_ending:
            return
        if error is not None and not isinstance(error, OSError):
            self._core.halt(f"bug: {error!r}")
            return
        self._core.input(lambda: chore.done(error), "chore results")

    def sync_folder(self, synced: Log, folder: Syncable) -> None:
        self._run(folder.sync, lambda error: self._on_folder_synced(synced, error))

    def _run(self, job: Callable[[], None], done: Callable[[BaseException | None], None]) -> None:
        """Run `job` in a worker until it has found the descriptors it needs."""

        def finished(_result: object, error: BaseException | None) -> None:
            if is_shortage(error):
                self._core.on_shortage(error, lambda: self._run(job, done))
            else:
                done(error)

        self._worker.submit(job, finished)

    def _on_synced(self, synced: Log, sync: Sync, took_us: int, error: BaseException | None) -> None:
        if isinstance(error, LogDirectoryError):
            self._core.broker.storage.on_sync_failed(synced, error)
            self._core.carry_out()
            return
        if error is not None:
            self._core.halt(f"cannot sync the log of {synced.topic_partition}: {error}")
            return
        self._core.input(
            lambda: self._core.broker.partitions.on_synced(synced, sync, self._core.now_ms(), took_us),
            "sync results",
            is_repeated=True,
        )

    def clean(self, cleaned: Log, task: CleanTask) -> None:
        if self._cleaners is None:
            from ottla.shell.cleaner import Cleaners  # a broker that compacts nothing need not pay for it

            self._cleaners = Cleaners(self._loop, self._core.worker_times["clean"])
        topic, partition = cleaned.topic_partition
        size = sum(source.size for source in task.sources)
        log.info(
            "compaction of %s begins: %d bytes", task.name, size,
            extra=fields(topic=topic, partition=partition, bytes=size),
        )  # fmt: skip
        self._cleaners.submit(task, lambda outcome: self._on_cleaned(cleaned, outcome))

    def _on_cleaned(self, cleaned: Log, outcome: CleanOutcome) -> None:
        if self._core.is_stopping:
            return
        self._core.input(
            lambda: self._core.broker.storage.on_cleaned(cleaned, outcome, self._core.now_ms()),
            "compaction results",
        )

    def _on_folder_synced(self, synced: Log, error: BaseException | None) -> None:
        if isinstance(error, LogDirectoryError):
            self._core.broker.storage.failed(error)
            self._core.carry_out()
        elif error is not None:
            self._core.halt(f"cannot sync the folder of {synced.topic_partition}: {error}")
        elif not self._core.is_stopping:
            self._core.input(
                lambda: self._core.broker.storage.on_folder_synced(synced, self._core.now_ms()),
                "sync results",
            )

    def copy(self, move: Move, part: CopySlice) -> None:
        """A slice of a log that moves to another directory."""
        self._run(part.run, lambda error: self._on_copied(move, error))

    def _on_copied(self, move: Move, error: BaseException | None) -> None:
        if not self._core.is_stopping:
            self._core.input(
                lambda: self._core.broker.moves.on_copied(move, error, self._core.now_ms()), "copy results"
            )


class _TimedSync:
    """A sync, and how long it took in its thread."""

    def __init__(self, sync: Sync) -> None:
        self._files = sync.files
        self.took_us = 0

    def run(self) -> None:
        begun_ns = time.monotonic_ns()
        for file in self._files:
            file.sync()
        self.took_us = (time.monotonic_ns() - begun_ns) // 1_000
