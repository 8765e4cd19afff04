"""What brokers measure of themselves (`ottla start --http`), for clients.

Where a broker serves it is one of its configs, which any client can ask for that may describe them. A broker
also says in it who it is: 127.0.0.1 is every host's own, and there may be another broker behind it.

Left out: buckets of histograms, and series of single partitions, of which there may be very many.
"""

import ipaddress
import math
import re
from collections import defaultdict
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING, Final, NamedTuple
from urllib.parse import urlsplit

from ottla.base.addresses import Address
from ottla.base.command_error import USAGE, CommandError
from ottla.broker.metrics_config import HTTP_LISTENER, http_address
from ottla.client.admin.configs import Resource, describe
from ottla.client.librdkafka import cluster

if TYPE_CHECKING:
    from confluent_kafka.admin import AdminClient

READ_S: Final = 10.0
BYTES_MAX: Final = 256 << 20
READERS: Final = 8
IDENTITY: Final = "ottla_build_info"
LEFT_OUT: Final = {"le", "partition"}

_SAMPLE = re.compile(r"(?P<name>[^\s{]+)(?:\{(?P<labels>.*)\})?\s+(?P<value>\S+)(?:\s+-?\d+)?")
_LABEL = re.compile(r'([^\s,="]+)="((?:[^"\\]|\\.)*)"')
_ESCAPED = re.compile(r"\\(.)")


class Measurement(NamedTuple):
    metric: str
    value: float
    labels: dict[str, str] = {}  # noqa: RUF012  # nobody changes it


class Target(NamedTuple):
    """Where to read. `broker` is who should be there, if that is known."""

    url: str
    broker: str = ""

    def __str__(self) -> str:
        return f"broker {self.broker}" if self.broker else self.url


class UnreadableError(Exception):
    """Why there are no metrics of a broker."""


class BrokerMetrics:
    """`urls`: where to read, instead of where brokers say. What cannot be read, `say` is told once."""

    def __init__(self, client: "AdminClient", urls: Sequence[str], say: Callable[[str], None]) -> None:
        self._client = client
        self._urls = [_whole_url(url) for url in urls]
        self._say_why = say
        self._said: dict[Target, str] = {}

    def read(self) -> list[Measurement]:
        measurements, reasons = list[Measurement](), dict[Target, str]()
        targets = [Target(url) for url in self._urls] or list(self._brokers(reasons))
        with ThreadPoolExecutor(READERS) as pool:
            for target, outcome in zip(targets, pool.map(_outcome, targets), strict=True):
                if isinstance(outcome, str):
                    reasons[target] = outcome
                else:
                    measurements += outcome
        self._say(reasons)
        return measurements

    def _brokers(self, reasons: dict[Target, str]) -> Iterator[Target]:
        for broker, there in cluster.metadata(self._client).brokers.items():
            target = Target("", str(broker))
            try:
                address = self._address(target.broker, str(there.host))
            except CommandError as error:
                reasons[target] = str(error)
                continue
            if address is None:
                reasons[target] = "it serves none (ottla start --http)"
            else:
                yield target._replace(url=f"http://{address}/metrics")

    def _address(self, broker: str, host: str) -> Address | None:
        settings = describe(self._client, Resource("broker", broker))
        listener = next((setting.value for setting in settings if setting.name == HTTP_LISTENER), None)
        address = http_address(listener or "")
        if address is not None and _is_everywhere(address.host):
            return address._replace(host=host)
        return address

    def _say(self, reasons: dict[Target, str]) -> None:
        news = defaultdict[str, list[Target]](list)
        for target, reason in reasons.items():
            if self._said.get(target) != reason:
                news[reason].append(target)
        self._said = reasons
        for reason, targets in news.items():
            self._say_why(f"no metrics of {', '.join(map(str, targets))}: {reason}")


def _whole_url(url: str) -> str:
    """HOST:PORT is enough."""
    whole = url if "://" in url else f"http://{url}"
    parts = urlsplit(whole)
    if parts.scheme not in ("http", "https") or not parts.hostname:
        raise CommandError(f"--url {url}: must be an address such as http://127.0.0.1:9404/metrics", USAGE)
    return whole if parts.path.strip("/") else f"{whole.rstrip('/')}/metrics"


def _is_everywhere(host: str) -> bool:
    try:
        return ipaddress.ip_address(host).is_unspecified
    except ValueError:
        return False


def _outcome(target: Target) -> list[Measurement] | str:
    """What is measured there, or why that cannot be told."""
    from http.client import HTTPException  # late: few commands need it

    try:
        measurements = list(parsed(_text(target.url)))
    except (OSError, HTTPException, ValueError) as error:
        return f"{target.url} cannot be read: {getattr(error, 'reason', None) or error}"
    identity = next((sample for sample in measurements if sample.metric == IDENTITY), None)
    broker = identity.labels.get("broker", "") if identity is not None else ""
    if target.broker and broker != target.broker:
        return f"{target.url} is of {f'broker {broker}' if broker else 'somebody else'}; give another --url"
    named = {"broker": broker or urlsplit(target.url).netloc}
    return [
        Measurement(metric, value, labels | named)
        for metric, value, labels in measurements
        if not labels.keys() & LEFT_OUT and math.isfinite(value)
    ]


def _text(url: str) -> str:
    import urllib.request

    opener = urllib.request.build_opener(urllib.request.ProxyHandler({}))
    with opener.open(url, timeout=READ_S) as answer:
        page: bytes = answer.read(BYTES_MAX)
    return page.decode()


def parsed(text: str) -> Iterator[Measurement]:
    """Prometheus's text format. ValueError: that is something else."""
    for line in text.split("\n"):  # and nothing else ends a line: groups may have any name
        if not line or line.startswith("#"):
            continue
        sample = _SAMPLE.fullmatch(line)
        if sample is None:
            raise ValueError("that is not Prometheus's text format")
        labels = {
            name: _ESCAPED.sub(_unescaped, value) for name, value in _LABEL.findall(sample["labels"] or "")
        }
        yield Measurement(sample["name"], float(sample["value"]), labels)


def _unescaped(escape: re.Match[str]) -> str:
    return "\n" if escape[1] == "n" else escape[1]
