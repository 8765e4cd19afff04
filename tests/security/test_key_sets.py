"""When the keys of tokens are read."""

import pytest

from ottla.base.config import ConfigError
from ottla.security.key_sets import MISSING_MS, KeySet
from ottla.security.oauth_config import URL_KEY, OAuthConfig


def key_set(**changes):
    return KeySet(OAuthConfig(url="https://issuer.example/keys", **changes))


def read(keys, now_ms):
    assert keys.is_due(now_ms)
    keys.on_read((), now_ms)
    return keys


def test_keys_are_read_at_once_and_then_after_every_interval():
    keys = read(key_set(refresh_ms=60_000), 1_000)
    assert not keys.is_due(60_999)
    assert keys.is_due(61_000)


def test_they_are_not_asked_for_twice_at_the_same_time():
    keys = key_set()
    assert keys.is_due(0)
    assert not keys.is_due(10**9)


def test_an_unknown_key_id_has_them_read_once_within_a_time_however_many_there_are():
    keys = read(key_set(), 0)
    reads = []
    for now_ms in range(0, 60_000, 100):
        keys.on_missing()
        if keys.is_due(now_ms):
            keys.on_read((), now_ms)
            reads.append(now_ms)
    assert reads == [MISSING_MS * number for number in range(1, 6)]


def test_what_cannot_be_read_is_tried_again_after_ever_longer_times():
    keys = read(key_set(retry_backoff_ms=100, retry_backoff_max_ms=1_000, refresh_ms=5_000), 0)
    keys.keys = good = ("a key",)
    now_ms, waits = 5_000, []
    for _ in range(6):
        assert keys.is_due(now_ms)
        keys.on_failed(now_ms)
        keys.on_missing()
        began = now_ms
        while not KeySet.is_due(keys, now_ms + 1):
            now_ms += 1
        keys._is_being_read = False
        waits.append(now_ms + 1 - began)
        now_ms += 1
    assert waits == [100, 200, 400, 800, 1_000, 1_000]
    assert keys.keys is good


def test_a_listener_with_oauthbearer_needs_keys():
    with pytest.raises(ConfigError, match=URL_KEY):
        OAuthConfig.of_listener({})


def test_the_settings_of_the_mechanism_go_before_those_of_the_listener():
    config = OAuthConfig.of_listener({
        URL_KEY: "https://a.example/keys",
        f"oauthbearer.{URL_KEY}": "https://b.example/keys",
    })  # fmt: skip
    assert config.url == "https://b.example/keys"


@pytest.mark.parametrize(
    "url",
    [
        "http://issuer.example/keys", "ftp://issuer.example/keys", "https://", "https:///keys",
        "issuer.example/keys",
        "file://other.example/keys", "file:", "jar:file:/x", "https://user:secret@issuer.example/", "http://[::1",
        "ldap://issuer.example/x", "data:,x", "http://127.0.0.1.evil.example/",
    ],
)  # fmt: skip
def test_keys_are_not_read_from_just_any_address_cve_2025_27817_cve_2025_27818(url):
    with pytest.raises(ConfigError, match=URL_KEY) as refusal:
        OAuthConfig.of_listener({URL_KEY: url})
    assert "secret" not in str(refusal.value)


@pytest.mark.parametrize(
    "url",
    [
        "https://issuer.example:8443/keys",
        "file:/etc/keys.json",
        "file:///etc/keys.json",
        "http://127.0.0.1:8080/k",
    ],
)
def test_keys_are_read_from_https_a_file_or_this_host(url):
    assert OAuthConfig.of_listener({URL_KEY: url}).url == url
