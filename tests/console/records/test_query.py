"""What is looked for in records."""

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ottla.base.command_error import CommandError
from ottla.client.formats import PLAIN, Message
from ottla.console.records.query import condition_of, query
from ottla.records.builder import encode_record


def message(
    value: bytes | None = b"", key: bytes | None = None, *headers: tuple[str, bytes | None]
) -> Message:
    return Message("t", 0, 0, 1_000, key, value, list(headers))


@pytest.mark.parametrize(
    ("where", "text", "is_found"),
    [
        ("anywhere", "ann", True),
        ("anywhere", "ANN", True),
        ("anywhere", "trace-9", True),
        ("anywhere", "x-trace", True),
        ("anywhere", "order-7", True),
        ("anywhere", "bob", False),
        ("value", "ann", True),
        ("value", "order-7", False),
        ("header", "x-trace", True),
        ("header", "X-Trace=TRACE", True),
        ("header", "x-trace=nope", False),
        ("header", "x-other", False),
        ("field", "user.name = Ann", True),
        ("field", "user.name = ann", False),
        ("field", "user.name ~ an", True),
        ("field", "$.user.name=Ann", True),
        ("field", "items[1].price >= 3", True),
        ("field", "items[1].price > 3.5", False),
        ("field", "items[2].price", False),
        ("field", "items[0]", True),
        ("field", "id = 12345678", True),
        ("field", "id != 12345678", False),
        ("field", "text_id = 7", True),
        ("field", "nothing = null", True),
        ("field", "missing = null", False),
        ("field", "is_new = true", True),
        ("field", "user.name > 5", False),
    ],
)
def test_a_record_is_found_by_what_is_in_it(where: str, text: str, is_found: bool) -> None:
    value = {
        "id": 12345678, "text_id": "7", "user": {"name": "Ann"}, "items": [{"price": 1}, {"price": 3.5}],
        "nothing": None, "is_new": True,
    }  # fmt: skip
    record = message(json.dumps(value).encode(), b"order-7", ("x-trace", b"trace-9"))
    looked_for = query(where, text)
    assert looked_for.matches(record, PLAIN) is is_found
    if is_found:
        body = encode_record(0, 0, record.key, record.value, tuple(record.headers))
        assert all(
            needle in (body.lower() if looked_for.is_folded else body) for needle in looked_for.needles
        )
        assert looked_for.may_match(record.key, record.value)


@pytest.mark.parametrize("written", [b"12300000", b"1.23E7", b"1.23e+07", b"12300000.0"])
def test_a_number_is_found_however_it_was_written(written: bytes) -> None:
    looked_for = query("field", "n = 12300000")
    record = message(b'{"n": ' + written + b"}")
    assert looked_for.matches(record, PLAIN)
    assert looked_for.may_match(record.key, record.value)


@given(st.text(min_size=1, max_size=12), st.text(max_size=12), st.booleans())
def test_what_matches_always_has_the_bytes_that_batches_are_passed_over_for(
    text: str, around: str, is_case_sensitive: bool
) -> None:
    looked_for = query("anywhere", text, is_case_sensitive=is_case_sensitive)
    record = message((around + text.swapcase() + around).encode())
    if looked_for.matches(record, PLAIN):
        body = record.value or b""
        body = body.lower() if looked_for.is_folded else body
        # Letters outside ASCII whose lower case is ASCII (the Kelvin sign) are the exception.
        if text.isascii():
            assert all(needle in body for needle in looked_for.needles)


def test_a_key_is_found_byte_for_byte_and_times_include_both_ends() -> None:
    looked_for = query("key", "", key=b"\x00k", since_ms=1_000, until_ms=1_000)
    assert looked_for.matches(message(None, b"\x00k"), PLAIN)
    assert not looked_for.matches(message(None, b"\x00K"), PLAIN)
    assert not query("key", "", key=b"\x00k", since_ms=1_001).matches(message(None, b"\x00k"), PLAIN)
    assert not query("key", "", key=b"\x00k", until_ms=999).matches(message(None, b"\x00k"), PLAIN)


@pytest.mark.parametrize("text", ["= 7", "a..b = 1", "a[x] = 1", "", "a] = 1"])
def test_what_is_no_condition_is_refused(text: str) -> None:
    with pytest.raises(CommandError, match="is no condition: write"):
        condition_of(text)


def test_nothing_is_not_looked_for() -> None:
    with pytest.raises(CommandError, match="there is nothing to look for"):
        query("anywhere", "")
    with pytest.raises(CommandError, match="is no place to look in"):
        query("elsewhere", "x")
