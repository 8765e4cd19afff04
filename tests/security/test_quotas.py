"""Quotas: which holds for whom, and how rates are measured. The clock is moved by hand."""

import random
from itertools import product

import pytest

from ottla.base.errors import ApiError, ErrorCode
from ottla.security.quotas import (
    Limit,
    Named,
    Rate,
    TokenBucket,
    Window,
    address_text,
    check_quota,
    find_limit,
    quota_text,
    quotas_in,
)

NOW = 1_700_000_000_000

# Kafka's order, each with those whose use is counted together.
LEVELS: list[tuple[Named, tuple[str, str]]] = [
    (("alice", "app", None), ("alice", "app")),
    (("alice", "", None), ("alice", "app")),
    (("alice", None, None), ("alice", "")),
    (("", "app", None), ("alice", "app")),
    (("", "", None), ("alice", "app")),
    (("", None, None), ("alice", "")),
    ((None, "app", None), ("", "app")),
    ((None, "", None), ("", "app")),
]


@pytest.mark.parametrize("first", range(len(LEVELS)))
def test_the_most_specific_of_eight_levels_wins(first: int) -> None:
    limits = {named: float(rank) for rank, (named, _) in enumerate(LEVELS) if rank >= first}
    assert find_limit(limits, "alice", "app") == Limit(*LEVELS[first][1], float(first))


def test_a_level_counts_alone_as_it_does_among_others() -> None:
    for present in product([False, True], repeat=len(LEVELS)):
        limits = {named: 1.0 for (named, _), is_set in zip(LEVELS, present, strict=True) if is_set}
        expected = next((shared for (_, shared), is_set in zip(LEVELS, present, strict=True) if is_set), None)
        limit = find_limit(limits, "alice", "app")
        assert (limit and limit[:2]) == expected


def test_quotas_of_others_do_not_count() -> None:
    limits: dict[Named, float] = {
        ("bob", None, None): 1.0,
        ("alice", "other", None): 1.0,
        (None, "x", None): 1.0,
    }
    assert find_limit(limits, "alice", "app") is None


def test_a_client_without_an_id_has_only_what_is_for_users() -> None:
    of_clients: dict[Named, float] = {(None, "", None): 1.0, ("alice", "", None): 2.0, ("", "", None): 3.0}
    assert find_limit(of_clients, "alice", "") is None
    assert find_limit({**of_clients, ("", None, None): 4.0}, "alice", "") == Limit("alice", "", 4.0)


# -- rates --


def test_what_a_client_has_saved_in_silence_is_the_window_less_one_sample() -> None:
    rate = Rate(Window(11, 1_000), limit=1_000.0)
    rate.record(10_000, NOW)
    assert rate.throttle_ms(NOW) == 0
    rate.record(1, NOW)
    assert rate.throttle_ms(NOW) == 1


def test_the_throttle_is_the_time_in_which_the_average_comes_down_to_the_limit() -> None:
    """(observed - limit) / limit * window. A window that is not full yet counts as if it were, so that a
    first burst waits until it is forgotten, as in Kafka."""
    rate = Rate(Window(11, 1_000), limit=1_000.0)
    rate.record(15_000, NOW)
    assert [rate.throttle_ms(NOW + ms) for ms in (0, 500, 5_000, 10_500)] == [5_000, 4_500, 5_000, 4_500]
    steady = Rate(Window(11, 1_000), limit=1_000.0)
    for second in range(11):
        steady.record(1_000, NOW + second * 1_000)
    steady.record(1_500, NOW + 10_500)
    assert steady.throttle_ms(NOW + 10_500) == 2_000
    assert steady.throttle_ms(NOW + 10_900) == 1_600


def test_old_samples_are_forgotten_with_the_window() -> None:
    rate = Rate(Window(11, 1_000), limit=1_000.0)
    rate.record(1_000_000, NOW)
    assert rate.throttle_ms(NOW + 10_999) > 0
    assert rate.throttle_ms(NOW + 11_000) == 0
    assert not rate.samples


def test_a_sample_that_reaches_into_the_window_counts_with_all_its_length() -> None:
    rate = Rate(Window(2, 1_000), limit=1.0)
    rate.record(1, NOW)
    rate.record(1, NOW + 999)
    assert rate._elapsed_ms(NOW + 2_500) == 2_500
    assert rate.throttle_ms(NOW + 2_500) == 0


def test_what_is_taken_back_counts_as_if_it_had_never_been() -> None:
    rate = Rate(Window(11, 1_000), limit=100.0)
    rate.record(700, NOW)
    rate.record(5_000, NOW + 1_500)
    rate.record(-5_000, NOW + 1_500)
    assert rate.throttle_ms(NOW + 1_500) == 0
    assert rate.total == 700


@pytest.mark.parametrize("seed", range(5))
def test_a_client_that_sends_whenever_it_may_gets_its_rate(seed: int) -> None:
    randomly, limit = random.Random(seed), 50_000.0
    rate, now_ms, sent = Rate(Window(), limit), NOW, 0
    while now_ms < NOW + 120_000:
        size = randomly.randint(1, 40_000)
        rate.record(size, now_ms)
        sent += size
        now_ms += max(rate.throttle_ms(now_ms), randomly.randint(0, 20))
        assert len(rate.samples) <= 12
    assert sent / (now_ms - NOW) * 1_000 == pytest.approx(limit, rel=0.15)


def test_a_bucket_begins_full_and_may_be_overdrawn() -> None:
    bucket = TokenBucket(Window(11, 1_000), limit=2.0, used_ms=NOW)
    bucket.record(22, NOW)
    assert bucket.throttle_ms(NOW) == 0
    bucket.record(10, NOW)
    assert bucket.throttle_ms(NOW) == 5_000
    assert bucket.throttle_ms(NOW + 4_000) == 1_000
    assert bucket.throttle_ms(NOW + 5_000) == 0
    assert bucket.throttle_ms(NOW + 3_600_000) == 0
    assert bucket.tokens == 22


# -- values --


@pytest.mark.parametrize(
    ("entity", "name", "value", "problem"),
    [
        (("a", None, None), "connection_creation_rate", 1.0, "Invalid configuration key"),
        ((None, None, ""), "producer_byte_rate", 1.0, "Invalid configuration key"),
        (("a", None, None), "nonsense", 1.0, "Invalid configuration key"),
        (("a", None, None), "producer_byte_rate", 0.0, "greater than 0"),
        (("a", None, None), "producer_byte_rate", -1.0, "greater than 0"),
        (("a", None, None), "request_percentage", float("nan"), "greater than 0"),
        (("a", None, None), "producer_byte_rate", 10.5, "cannot be a fractional value"),
        (("a", None, None), "consumer_byte_rate", 1e19, "too large for a LONG"),
        ((None, None, "10.0.0.1"), "connection_creation_rate", 2.0**31, "too large for an INT"),
    ],
)
def test_a_quota_that_cannot_be_is_refused(entity: Named, name: str, value: float, problem: str) -> None:
    with pytest.raises(ApiError, match=problem) as refused:
        check_quota(entity, name, value)
    assert refused.value.code == ErrorCode.INVALID_REQUEST


def test_values_are_stored_as_kafka_stores_them() -> None:
    assert quota_text("producer_byte_rate", 1_024.0) == "1024"
    assert quota_text("request_percentage", 12.5) == "12.5"
    assert quota_text("controller_mutation_rate", 10.0) == "10.0"
    assert quota_text("consumer_byte_rate", 2.0**63) == str(2**63 - 1)


def test_of_what_is_stored_only_limits_count() -> None:
    stored = {
        "producer_byte_rate": "1024", "consumer_byte_rate": "much", "request_percentage": "0",
        "SCRAM-SHA-256": "salt=...", "controller_mutation_rate": "nan",
    }  # fmt: skip
    assert quotas_in(("a", None, None), stored) == {"producer_byte_rate": 1_024.0}


def test_addresses_are_compared_as_sockets_write_them() -> None:
    assert address_text("2001:DB8:0::1") == "2001:db8::1"
    assert address_text("::ffff:10.0.0.1") == "10.0.0.1"
    assert address_text("somewhere") is None
