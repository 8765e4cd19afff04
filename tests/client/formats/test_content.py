"""Bytes as people see them, without a schema, and what they type as bytes."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ottla.client.formats import Decoder, Encoder, FormatError, Shown, show
from ottla.client.formats.content import escaped

CONTROLS = {chr(code) for code in (*range(9), 11, 12, *range(14, 32), *range(127, 160))}


@pytest.mark.parametrize(
    ("content", "shown"),
    [
        (None, Shown("null", "null")),
        (b"", Shown("text", "")),
        (b"plain", Shown("text", "plain")),
        ("Žižkov\t1\n".encode(), Shown("text", "Žižkov\t1\n")),
        (b"\x1b[31mred\x1b[0m", Shown("text", "\\x1b[31mred\\x1b[0m")),
        (b' {"a": [1, 2]} ', Shown("json", ' {"a": [1, 2]} ')),
        (b"{not json}", Shown("text", "{not json}")),
        (b"12", Shown("text", "12")),
        (b"\x00\x00\x00\x01", Shown("hex", "00000001")),
        (b"\xff\xfe", Shown("hex", "fffe")),
        ("\u202eevil".encode(), Shown("text", "\\u202eevil")),
    ],
)
def test_what_bytes_are_is_guessed_for_each_record(content: bytes | None, shown: Shown) -> None:
    assert show(content) == shown


@given(st.binary())
def test_nothing_that_a_terminal_or_a_page_could_act_upon_is_shown(content: bytes) -> None:
    for form in ("auto", "text", "json", "hex", "base64"):
        assert not CONTROLS & set(show(content, form).text)


@given(st.binary())
def test_hex_and_base64_come_back_as_the_same_bytes(content: bytes) -> None:
    for form in ("hex", "base64"):
        assert Encoder("value", form)("t", show(content, form).text) == content


def test_what_is_not_in_the_format_is_shown_as_hex_with_the_reason() -> None:
    assert show(b"\xff", "text") == Shown("hex", "ff", problem="not UTF-8: byte 0 is 0xff")
    shown = show(b"{", "json")
    assert (shown.format, shown.text) == ("hex", "7b")
    assert shown.problem is not None
    assert shown.problem.startswith("this is not JSON: ")


def test_json_that_is_nested_beyond_reason_is_still_shown() -> None:
    deep = b"[" * 100_000 + b"]" * 100_000
    assert show(deep).format == "text"
    assert show(deep, "json").problem == "this is not JSON: it is nested too deeply"


@pytest.mark.parametrize(
    ("form", "typed", "problem"),
    [("hex", "0g", "bad hex"), ("base64", "a", "bad base64"), ("json", "{", "this is not JSON")],
)
def test_what_was_typed_wrongly_is_refused_with_the_reason(form: str, typed: str, problem: str) -> None:
    with pytest.raises(FormatError, match=problem):
        Encoder("value", form)("t", typed)


def test_a_format_that_needs_a_registry_says_so_at_once() -> None:
    with pytest.raises(FormatError, match="avro needs a schema registry: name its URL"):
        Decoder("value", "avro")
    with pytest.raises(FormatError, match="'xml' is no format; there are auto, text"):
        Decoder("value", "xml")


def test_nothing_is_lost_when_text_is_safe_already() -> None:
    assert escaped("tab\tand\nlines") == "tab\tand\nlines"
