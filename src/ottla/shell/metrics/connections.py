"""Connections of clients, and the memory that they hold."""

from collections import Counter
from collections.abc import Iterator

from ottla.base.metrics import Family, Sample, counter, gauge
from ottla.broker.broker import Broker
from ottla.shell.connection_counts import Cause, ConnectionCounts

CAUSES = list(Cause)


class ConnectionMetrics:
    OPEN = gauge("ottla_connections", "Connections of clients and of other brokers.", "listener")
    MADE = counter("ottla_connections_made_total", "Connections that were taken in.", "listener")
    REFUSED = counter(
        "ottla_connections_refused_total", "Connections that were refused, because of a limit.", "listener"
    )
    CLOSED = counter(
        "ottla_connections_closed_total",
        "Connections that ended: by their client, because of a request that could not be answered, sent away"
        " with their last answer, because of a limit, idle, or as the broker stopped.",
        "listener", "reason",
    )  # fmt: skip
    AUTHENTICATED = counter(
        "kafka_server_socket_server_metrics_successful_authentication_total",
        "Connections that authenticated with SASL.",
        "listener",
    )  # fmt: skip
    NOT_AUTHENTICATED = counter(
        "kafka_server_socket_server_metrics_failed_authentication_total",
        "Connections that failed to authenticate, with SASL or in a handshake of TLS.",
        "listener",
    )  # fmt: skip
    HELD = gauge("ottla_request_memory_bytes", "Memory that is held by requests which are not answered yet.")
    HELD_MAX = gauge(
        "ottla_request_memory_limit_bytes",
        "How much they may hold (queued.max.request.bytes): beyond it connections are closed. -1: no limit.",
    )
    UNSENT = gauge(
        "ottla_response_memory_bytes", "Memory that is held by answers which clients have not read yet."
    )
    UNSENT_MAX = gauge(
        "ottla_response_memory_limit_bytes",
        "How much they may hold (ottla.unsent.max.bytes): beyond it connections are closed.",
    )

    def __init__(self, counts: ConnectionCounts, broker: Broker) -> None:
        self._counts = counts
        self._broker = broker

    def read(self, now_ms: int) -> Iterator[Family]:  # noqa: ARG002 - as every source
        counts, broker = self._counts, self._broker
        listeners = broker.listeners.bound
        names = [listener.name for listener in listeners]
        yield self.OPEN, _by_listener(names, self._open())
        yield self.MADE, _by_listener(names, counts.made)
        yield self.REFUSED, _by_listener(names, counts.refused)
        yield (
            self.CLOSED,
            [((name, cause.value), counts.closed[name, cause]) for name in names for cause in CAUSES],
        )
        succeeded, failed = Counter[str](), Counter[str](counts.failed_handshakes)
        if any(listener.has_sasl for listener in listeners):  # or nobody would have asked for it
            succeeded = broker.authentication.succeeded
            failed.update(broker.authentication.failed)
        yield self.AUTHENTICATED, _by_listener(names, succeeded)
        yield self.NOT_AUTHENTICATED, _by_listener(names, failed)
        yield self.HELD, [((), broker.allowance.held_bytes)]
        yield self.HELD_MAX, [((), broker.config.queued_request_bytes_max)]
        yield self.UNSENT, [((), broker.allowance.unsent_bytes)]
        yield self.UNSENT_MAX, [((), broker.config.unsent_bytes_max)]

    def _open(self) -> Counter[str]:
        remaining = Counter(self._counts.made)
        for (listener, _), count in self._counts.closed.items():
            remaining[listener] -= count
        return remaining


def _by_listener(names: list[str], counts: Counter[str]) -> list[Sample]:
    return [((name,), counts[name]) for name in names]
