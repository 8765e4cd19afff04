"""What people type, or put into an address, is taken, or refused in a sentence, and never breaks a page."""

import pytest
from tests.console.visitor import Visitor

from ottla import Broker
from ottla.base.command_error import CommandError
from ottla.console.records.query import TEXT_MAX, condition_of, query
from ottla.console.typed import time_of, whole_number

LONG = "9" * 5000
NOON_MS = 1_893_499_200_000


def test_a_whole_number_has_no_more_digits_than_an_offset() -> None:
    assert [whole_number(text) for text in ("0", "007", "9" * 18)] == [0, 7, 10**18 - 1]
    for text in ("", "-1", "1.0", "x", "٣", "²", "9" * 19, LONG):
        assert whole_number(text) is None


def test_a_time_without_a_zone_is_utc() -> None:
    assert time_of("2030-01-01T12:00") == time_of("2030-01-01T12:00Z") == time_of(str(NOON_MS)) == NOON_MS
    assert time_of("2030-01-01T12:00+02:00") == NOON_MS - 2 * 3_600_000
    assert time_of("  ") is None


@pytest.mark.parametrize("text", ["soon", "9" * 16, LONG, LONG + "d", "²²²²", "2030-99-99"])
def test_what_is_no_time_is_said_in_few_words(text: str) -> None:
    with pytest.raises(CommandError, match="is no time") as error:
        time_of(text)
    assert len(str(error.value)) < 250


@pytest.mark.parametrize("text", ["0001-01-01", "0001-01-01T00:00+14:00", "999999999999d", "1950-01-01T00Z"])
def test_all_that_was_before_1970_begins_there(text: str) -> None:
    assert time_of(text) == 0


def test_a_condition_is_read_in_one_go_however_long_its_blanks_are() -> None:
    assert condition_of("  a.b   !=   7 ") == condition_of("a.b!=7")
    with pytest.raises(CommandError, match="is no condition"):
        condition_of(" " * 100_000 + "!")  # took hours
    assert condition_of("a = " + "[" * 5000).value == "[" * 5000
    with pytest.raises(CommandError, match="at most"):
        query("anywhere", "x" * (TEXT_MAX + 1))


@pytest.mark.parametrize(
    ("path", "status"),
    [
        (f"records?count=000000001{LONG}", 400),
        ("records?count=0000000019999999", 400),
        (f"records?older={LONG}:1", 400),
        ("records?newer=0:9999999999999999999", 400),
        (f"records?at={'9' * 30}", 400),
        (f"records?at={'9' * 400}d", 400),
        ("records?at=0001-01-01", 200),
        (f"records?in=field&q=a+%3D+{'%5B' * 1000}", 200),
        ("records/0/9999999999999999999", 400),
        (f"records/{LONG}/0", 404),
        ("records/7/0", 404),
        ("records/new?from=7:0", 404),
        (f"records/file?limit={LONG}", 400),
    ],
)
def test_no_address_breaks_a_page(
    visitor: Visitor, broker: Broker, fresh: str, path: str, status: int
) -> None:
    broker.create_topic(fresh)
    visitor.open(f"/topics/{fresh}/{path}", status)


def test_a_broker_whose_number_nobody_can_have_is_not_there(visitor: Visitor) -> None:
    for number in (LONG, "²", "01x"):
        visitor.open(f"/brokers/{number}", status=404)
