"""Answers for which a worker does some of the work: what takes long, and cannot be cut into slices.

The steps to such an answer yield a job now and then, and are told whether it was done in time.
"""

from collections.abc import Generator
from typing import Any, Protocol

from ottla.api.call import Call
from ottla.broker.effects import Job, RunJob
from ottla.broker.long_work import Steps
from ottla.broker.parked import Parked


class LargeJob(Job, Protocol):
    @property
    def held_bytes(self) -> int: ...


def with_jobs(
    call: Call,
    steps: Generator[LargeJob | None, bool, Any],
    deadline_ms: int,
    was_in_time: bool | None = None,
) -> Steps:
    """What these steps lead to, with their jobs done by a worker."""
    try:
        job = steps.send(was_in_time)  # type: ignore[arg-type]
        while job is None:
            yield
            job = next(steps)
    except StopIteration as end:
        return end.value
    parked = Parked(
        keys=(job,),
        deadline_ms=deadline_ms,
        ready=lambda _key, _now_ms: with_jobs(call, steps, deadline_ms, was_in_time=True),
        expire=lambda _now_ms: with_jobs(call, steps, deadline_ms, was_in_time=False),
        held_bytes=job.held_bytes,
    )
    call.broker.outbox.put(RunJob(job, parked))
    return parked
