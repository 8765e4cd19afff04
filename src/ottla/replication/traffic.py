"""What went in and out of the partitions of a topic on this broker, since it started."""

from dataclasses import dataclass, fields


@dataclass(slots=True)
class TopicTraffic:
    """All partitions of a topic that are here count in the same one. Requests are counted once for each
    partition that they name, as in Kafka."""

    messages_in: int = 0  # written as leader: producers', coordinators' and the ends of transactions
    bytes_in: int = 0
    bytes_out: int = 0  # given to consumers
    bytes_rejected: int = 0  # in batches that are too large
    produce_requests: int = 0
    fetch_requests: int = 0
    failed_produce_requests: int = 0
    failed_fetch_requests: int = 0

    def add(self, other: "TopicTraffic") -> None:
        for name in COUNTERS:
            setattr(self, name, getattr(self, name) + getattr(other, name))


COUNTERS = tuple(counter.name for counter in fields(TopicTraffic))
