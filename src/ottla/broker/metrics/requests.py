"""Requests: how many, how large, with which errors, how long they took, and which wait."""

from collections import Counter
from collections.abc import Iterator

from ottla.base.errors import ErrorCode
from ottla.base.metrics import Family, Histogram, Sample, counter, gauge, histogram
from ottla.broker.long_work import Slices
from ottla.broker.parked import Waiting
from ottla.broker.request_counts import FETCH, FOLLOWER_FETCH, TITLES, ApiCounts, RequestCounts

BOTH_FETCHES = "Fetch"
# Kafka's names for what waits, by the key of the API.
OPERATIONS = {0: "Produce", 1: "Fetch", 11: "Rebalance", 21: "DeleteRecords", 43: "ElectLeader"}
CODES = {code.value: code.name for code in ErrorCode}


class RequestMetrics:
    REQUESTS = counter(
        "kafka_network_requestmetrics_requests_total",
        "Requests that were handled, by API and version. Fetches count as Fetch, and as FetchConsumer or"
        " FetchFollower.",
        "request", "version",
    )  # fmt: skip
    ERRORS = counter(
        "kafka_network_requestmetrics_errors_total",
        "Errors that clients were told, each time that one stands in an answer: for each partition, group or"
        " topic that it is about. Unlike in Kafka, what went well (NONE) is not counted.",
        "request", "error",
    )  # fmt: skip
    REQUEST_BYTES = counter("ottla_request_bytes_total", "Bytes of requests that were handled.", "request")
    ANSWER_BYTES = counter("ottla_response_bytes_total", "Bytes of answers that were made.", "request")
    TOTAL = histogram(
        "ottla_request_seconds",
        "From a request to the end of its answer. What a client sends before it has the answer to another"
        " request begins when that is sent.",
        "request",
    )  # fmt: skip
    QUEUE = histogram(
        "ottla_request_queue_seconds", "How long requests waited before they were worked on.", "request"
    )
    LOCAL = histogram(
        "ottla_request_local_seconds",
        "How long requests were worked on, with the time in which long ones were interrupted for others, and"
        " with the call that hands an answer to the operating system.",
        "request",
    )  # fmt: skip
    REMOTE = histogram(
        "ottla_request_remote_seconds",
        "How long requests waited for others: for replicas, for members of a group, for something to fetch.",
        "request",
    )  # fmt: skip
    SEND = histogram(
        "ottla_request_send_seconds",
        "How long answers that were made waited: for their turn, or for their client, which had not read what"
        " was sent before.",
        "request",
    )  # fmt: skip
    THROTTLE = histogram(
        "ottla_request_throttle_seconds",
        "For how long clients were made to wait after requests with which they were over a quota.",
        "request",
    )  # fmt: skip
    UNSERVED = counter(
        "ottla_unserved_requests_total",
        "Requests for an API, or a version of one, that is not served. Beyond 100 kinds they count as"
        " (others).",
        "request", "version",
    )  # fmt: skip
    PURGATORY = gauge(
        "kafka_server_delayedoperationpurgatory_purgatorysize",
        "Requests whose answers wait, by Kafka's name for that or by their API.",
        "delayedOperation",
    )  # fmt: skip
    QUEUED = gauge(
        "kafka_network_requestchannel_requestqueuesize",
        "Requests that are large, or came when much was to be done, and wait for their turn.",
    )

    def __init__(self, requests: RequestCounts, waiting: Waiting, slices: Slices) -> None:
        self._requests = requests
        self._waiting = waiting
        self._slices = slices

    def read(self, now_ms: int) -> Iterator[Family]:  # noqa: ARG002 - as every source
        apis = self._apis()
        yield (
            self.REQUESTS,
            (
                ((api.title, str(version)), count)
                for api in apis
                for version, count in enumerate(api.versions)
                if count
            ),
        )
        yield self.ERRORS, self._errors()
        yield self.REQUEST_BYTES, [((api.title,), api.request_bytes) for api in apis]
        yield self.ANSWER_BYTES, [((api.title,), api.answer_bytes) for api in apis]
        yield self.TOTAL, [((api.title,), _sum(api.total, api.at_once)) for api in apis]
        yield self.LOCAL, [((api.title,), _sum(api.local, api.at_once)) for api in apis]
        yield self.QUEUE, [((api.title,), _sum(api.queue, _zeros(api.at_once))) for api in apis]
        yield self.REMOTE, [((api.title,), _sum(api.remote, _zeros(api.at_once))) for api in apis]
        yield self.SEND, [((api.title,), _sum(api.send, _zeros(api.at_once))) for api in apis]
        yield self.THROTTLE, [((api.title,), api.throttle) for api in apis]
        yield self.UNSERVED, list(self._requests.unserved.counts.items())
        yield self.PURGATORY, self._waiting_requests()
        yield self.QUEUED, [((), self._slices.waiting)]

    def _apis(self) -> list[ApiCounts]:
        """Also all fetches together."""
        apis = self._requests.by_key
        fetches = [apis[key] for key in (FETCH, FOLLOWER_FETCH) if key in apis]
        return [*apis.values(), *([_together(fetches)] if fetches else [])]

    def _errors(self) -> Iterator[Sample]:
        for api in self._apis():
            if api.title in TITLES.values():
                continue  # as in Kafka, they count as those of all fetches
            for code, count in list(api.errors.items()):
                yield (api.title, CODES.get(code, str(code))), count

    def _waiting_requests(self) -> list[Sample]:
        waiting = Counter(parked.operation for parked in self._waiting)
        titles = {key: api.title for key, api in self._requests.by_key.items()} | OPERATIONS
        return [((titles[key],), waiting[key]) for key in titles if key in waiting or key in OPERATIONS]


def _sum(*parts: Histogram) -> Histogram:
    counts = [sum(bucket) for bucket in zip(*(part.counts for part in parts), strict=True)]
    return Histogram(counts, sum(part.total_us for part in parts))


def _zeros(at_once: Histogram) -> Histogram:
    """Those which did not wait at all."""
    return Histogram([sum(at_once.counts), *[0] * (len(at_once.counts) - 1)])


def _together(apis: list[ApiCounts]) -> ApiCounts:
    versions = [sum(counts) for counts in zip(*(api.versions for api in apis), strict=True)]
    together = ApiCounts(BOTH_FETCHES, versions)
    for api in apis:
        together.add_errors(api.errors)
        together.request_bytes += api.request_bytes
        together.answer_bytes += api.answer_bytes
    for name in ("at_once", "queue", "local", "remote", "send", "total", "throttle"):
        setattr(together, name, _sum(*(getattr(api, name) for api in apis)))
    return together
