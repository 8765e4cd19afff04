"""Configuration keys for what is shown of a broker: where, and how much of it."""

import re
from dataclasses import dataclass

from ottla.base.addresses import Address
from ottla.base.config import INT_MAX, at_least, between, key

LOOPBACK = "127.0.0.1"
HTTP_LISTENER = "ottla.http.listener"
_ADDRESS = re.compile(r"(?:(?:\[(?P<v6>[0-9a-fA-F:.]+)\]|(?P<host>[^:/*\[\]\s]+)):)?(?P<port>\d{1,5})\Z")


def http_address(text: str) -> Address | None:
    """Where HTTP is to be served; None: nowhere. ValueError: that is no address."""
    if not text:
        return None
    parts = _ADDRESS.match(text)
    if parts is None or int(parts["port"]) > 65_535:
        raise ValueError("must be HOST:PORT, or PORT alone for one of this host")
    return Address(parts["v6"] or parts["host"] or LOOPBACK, int(parts["port"]))


def _is_http_address(text: str) -> str | None:
    try:
        http_address(text)
    except ValueError as error:
        return str(error)
    return None


@dataclass(frozen=True, slots=True, kw_only=True)
class MetricsConfig:
    http_listener: str = key(
        HTTP_LISTENER, "",
        "HOST:PORT at which /metrics, /health/live, /health/ready and /version are served, without login and"
        " in plain text; a port alone is one of 127.0.0.1, port 0 a free one. Nothing is served by default.",
        check=_is_http_address,
    )  # fmt: skip
    partitions_enable: bool = key(
        "ottla.metrics.partitions.enable", True,
        "Whether there are metrics of single partitions, of which there may be very many.",
        dynamic=True,
    )  # fmt: skip
    topics_max: int = key(
        "ottla.metrics.topics.max", 1_000,
        "How many topics have metrics of their own; all others are summed up as the topic (others).",
        check=at_least(0), dynamic=True,
    )  # fmt: skip
    groups_max: int = key(
        "ottla.metrics.groups.max", 1_000,
        "How many groups have metrics of their own; there are none of the others.",
        check=at_least(0), dynamic=True,
    )  # fmt: skip
    lag_interval_ms: int = key(
        "ottla.metrics.lag.interval.ms", 5_000,
        "How often leaders are asked where their partitions end, for the lag of groups; only while"
        " somebody reads metrics.",
        check=between(100, INT_MAX), dynamic=True,
    )  # fmt: skip
    stall_ms: int = key(
        "ottla.stall.threshold.ms", 100,
        "What keeps everybody waiting for longer than this is counted and logged.",
        check=at_least(1), dynamic=True,
    )  # fmt: skip
