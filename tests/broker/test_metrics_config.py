"""Where HTTP is served, as the key says it."""

import pytest

from ottla.base.addresses import Address
from ottla.base.config import ConfigError, load
from ottla.broker.metrics_config import MetricsConfig, http_address


@pytest.mark.parametrize(
    ("text", "address"),
    [
        ("", None), ("9404", Address("127.0.0.1", 9404)), ("0", Address("127.0.0.1", 0)),
        ("broker.example.com:1", Address("broker.example.com", 1)), ("[::1]:9404", Address("::1", 9404)),
        ("0.0.0.0:65535", Address("0.0.0.0", 65_535)),
    ],
)  # fmt: skip
def test_an_address_is_a_port_of_this_host_or_has_a_host(text: str, address: Address | None) -> None:
    assert http_address(load(MetricsConfig, {"ottla.http.listener": text}).http_listener) == address


@pytest.mark.parametrize(
    "text", ["h", "h:", ":1", "h:65536", "h:1:2", "::1:9404", "http://h:1", "h:1/metrics", "-1"]
)
def test_what_is_no_address_is_refused(text: str) -> None:
    with pytest.raises(ConfigError, match=r"ottla\.http\.listener: must be HOST:PORT"):
        load(MetricsConfig, {"ottla.http.listener": text})
