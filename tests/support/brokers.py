"""What tests look at in a broker: its epoch, and the jobs that take several slices."""

from ottla.broker.broker import Broker
from ottla.broker.long_work import Job, Slices


def epoch_of(broker: Broker) -> int:
    """The epoch of its registration, -1 while it is not registered."""
    return broker.image.epoch_of(broker.id)


def jobs_under_way(slices: Slices) -> list[Job]:
    return [*slices.brokers.turns, *slices.clients.turns]


def jobs_waiting(slices: Slices) -> list[Job]:
    """Those that are not begun yet, or wait for room."""
    lanes = (slices.brokers, slices.clients)
    return [job for lane in lanes for line in (lane.line, lane.large) for job in line.waiting]
