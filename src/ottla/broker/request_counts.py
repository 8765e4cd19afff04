"""What is counted of requests, by API: how many were handled, how large they and their answers were, which
errors clients were told, and how long it took.

A request counts when it has been understood and its handler begins, its times when its answer has left. The
fetches of followers are counted apart from those of consumers, as Kafka shows both. What is not served
counts elsewhere (`unserved_requests`): a client may ask for anything.

The core has no clock: `clock_ns` is the shell's, and without one everything takes no time at all.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

from ottla.base.metrics import Histogram
from ottla.broker.unserved_requests import UnservedRequests
from ottla.wire.messages import VERSIONS

FETCH, FOLLOWER_FETCH = 1, -1
TITLES = {FETCH: "FetchConsumer", FOLLOWER_FETCH: "FetchFollower"}  # Kafka's, where it has two for one API


@dataclass(slots=True, eq=False)
class ApiCounts:
    """`versions`: requests, by their version. `errors`: by code, as often as it was said, without NONE.
    `at_once`: how long it took where a request was worked on all the time. Of the others every part of it is
    counted. `throttle`: of those that were over a quota."""

    title: str
    versions: list[int]
    errors: dict[int, int] = field(default_factory=dict)
    request_bytes: int = 0
    answer_bytes: int = 0
    at_once: Histogram = field(default_factory=Histogram)
    queue: Histogram = field(default_factory=Histogram)
    local: Histogram = field(default_factory=Histogram)
    remote: Histogram = field(default_factory=Histogram)
    send: Histogram = field(default_factory=Histogram)
    total: Histogram = field(default_factory=Histogram)
    throttle: Histogram = field(default_factory=Histogram)

    def add_errors(self, errors: Mapping[int, int]) -> None:
        for code, count in errors.items():
            self.errors[code] = self.errors.get(code, 0) + count


@dataclass(slots=True, eq=False)
class RequestCounts:
    clock_ns: Callable[[], int] = lambda: 0
    by_key: dict[int, ApiCounts] = field(default_factory=dict)
    unserved: UnservedRequests = field(default_factory=UnservedRequests)

    def of(self, key: int, title: str) -> ApiCounts:
        """The counts of an API, also if it was never asked for until now."""
        counts = self.by_key.get(key)
        if counts is None:
            last = VERSIONS[FETCH if key == FOLLOWER_FETCH else key][1]
            counts = self.by_key[key] = ApiCounts(TITLES.get(key, title), [0] * (last + 1))
        return counts
