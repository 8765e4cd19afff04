"""Where a broker is in its life, by Kafka's numbers. All of it may be read while another thread opens it."""

from collections.abc import Iterator
from typing import Final

from ottla.base.metrics import Family, gauge
from ottla.broker.departure import Departure
from ottla.broker.readiness import Readiness

STARTING: Final = 1
RECOVERY: Final = 2
RUNNING: Final = 3
PENDING_CONTROLLED_SHUTDOWN: Final = 6
SHUTTING_DOWN: Final = 7


class BrokerStateMetrics:
    STATE = gauge(
        "kafka_server_kafkaserver_brokerstate",
        "1: it starts, 2: logs are recovered, 3: it runs, 6: it hands leadership over, 7: it stops.",
    )

    def __init__(self, readiness: Readiness, departure: Departure) -> None:
        self._readiness = readiness
        self._departure = departure

    def read(self, now_ms: int) -> Iterator[Family]:  # noqa: ARG002 - as every source
        yield self.STATE, [((), self._state())]

    def _state(self) -> int:
        readiness, departure = self._readiness, self._departure
        if readiness.is_stopping:
            is_handing_over = readiness.is_open and departure.is_stopping and not departure.is_drained
            return PENDING_CONTROLLED_SHUTDOWN if is_handing_over else SHUTTING_DOWN
        if readiness.is_open:
            return RUNNING
        return RECOVERY if any(dict(readiness.progress.remaining).values()) else STARTING
