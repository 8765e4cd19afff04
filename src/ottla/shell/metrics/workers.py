"""The threads that do what would block the loop: syncs, jobs of large requests, compactions."""

from collections.abc import Iterator, Mapping

from ottla.base.metrics import Family, gauge, histogram
from ottla.shell.worker import WorkerTimes


class WorkerMetrics:
    JOBS = gauge("ottla_worker_jobs", "Jobs of threads that wait or are being done.", "worker")
    DURATIONS = histogram(
        "ottla_worker_job_seconds",
        "How long jobs take in their thread: sync (of files to disk), read (of old records),"
        " job (of large requests), clean (compaction), keys (of tokens).",
        "worker",
    )

    def __init__(self, times: Mapping[str, WorkerTimes]) -> None:
        self._times = times

    def read(self, now_ms: int) -> Iterator[Family]:  # noqa: ARG002 - as every source
        times = list(self._times.items())
        yield self.JOBS, [((worker,), of_worker.jobs + len(of_worker.queue)) for worker, of_worker in times]
        yield self.DURATIONS, [((worker,), of_worker.durations) for worker, of_worker in times]
