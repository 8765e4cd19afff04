"""The keeper, as this broker sees it: ZooKeeper, or one of the broker's own."""

import time
from collections.abc import Iterator

from ottla.base.metrics import Family, Histogram, counter, gauge, histogram
from ottla.shell.keeper import Session
from ottla.shell.keeper_counts import KeeperCounts


class KeeperMetrics:
    CONNECTED = gauge("ottla_keeper_connected", "1 while the broker reaches its keeper.")
    HEARD = gauge("ottla_keeper_heard_seconds", "How long ago the keeper was last heard, pings included.")
    DISCONNECTS = counter(
        "kafka_server_sessionexpirelistener_zookeeperdisconnects_total", "How often the keeper was lost."
    )
    CONNECTS = counter(
        "kafka_server_sessionexpirelistener_zookeepersyncconnects_total",
        "How often the keeper was reached: at the start, and each time after it was lost.",
    )
    EXPIRATIONS = counter(
        "kafka_server_sessionexpirelistener_zookeeperexpires_total",
        "How often the session with the keeper was over: to all others this broker was gone.",
    )
    WRITES = counter(
        "ottla_keeper_writes_total",
        "What this broker wrote to the keeper: written, refused (somebody was faster), or unknown (the answer"
        " was lost).",
        "outcome",
    )
    WRITE_TIMES = histogram(
        "ottla_keeper_write_seconds", "How long writes took, with what they waited for the keeper to be back."
    )
    REQUEST_TIMES = histogram("ottla_keeper_request_seconds", "How long ZooKeeper took to answer requests.")
    REQUESTS = counter(
        "kafka_server_zookeeperclientmetrics_zookeeperrequestlatencyms_count",
        "Requests that ZooKeeper answered.",
    )

    def __init__(self, counts: KeeperCounts) -> None:
        self._counts = counts

    def read(self, now_ms: int) -> Iterator[Family]:  # noqa: ARG002 - as every source
        counts = self._counts
        keeper, sessions = counts.keeper, counts.sessions
        yield self.CONNECTED, [((), int(counts.is_connected))]
        heard_s = None if keeper is None else keeper.heard_s
        yield self.HEARD, [] if heard_s is None else [((), max(time.monotonic() - heard_s, 0.0))]
        yield self.DISCONNECTS, [((), sessions[Session.SUSPENDED])]
        yield self.CONNECTS, [((), counts.connects)]
        yield self.EXPIRATIONS, [((), sessions[Session.EXPIRED])]
        yield self.WRITES, [((outcome,), count) for outcome, count in counts.writes.items()]
        yield self.WRITE_TIMES, [((), counts.write_durations)]
        durations = Histogram() if keeper is None else keeper.request_durations
        yield self.REQUEST_TIMES, [((), durations)]
        yield self.REQUESTS, [((), sum(durations.counts))]
