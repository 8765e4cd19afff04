"""Records to text and back."""

import json
from typing import Any

import pytest

from ottla.base.command_error import CommandError
from ottla.base.times import parse_duration_ms, parse_ms, show_duration, show_ms
from ottla.cli.records.filters import filter_of
from ottla.cli.records.formats import Part, delimiter_bytes, format_of, kcat_format, unescape
from ottla.cli.records.input_records import Layout
from ottla.client.formats import Message, Outgoing
from ottla.client.formats.json_lines import outgoing as from_json


def formatter(name: str, separator: str, null: str) -> Part:
    return format_of(name, separator=separator, null=null, delimiter=b"").write


LETTER = Message("letters", 2, 7, 1_700_000_000_123, b"k", b"v", [("h", b"1"), ("h", None)])


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("value", b"v"),
        ("key-value", b"k=v"),
        ("%k %v %o", b"k v 7"),
        ("%t/%p@%T [%h] %s%%", b"letters/2@1700000000123 [h=1,h=NULL] v%"),
        ("%k\\t%v\\n", b"k\tv\n"),
        ("é%v", "év".encode()),
    ],
)
def test_a_record_is_written_in_the_format_asked_for(name: str, text: bytes) -> None:
    assert formatter(name, "=", "NULL")(LETTER) == text


def test_null_is_written_as_asked_and_bytes_as_they_are() -> None:
    bare = LETTER._replace(key=None, value=b"\xff\x00")
    assert formatter("key-value", "\\t", "none")(bare) == b"none\t\xff\x00"


@pytest.mark.parametrize("name", ["valeu", "%q", "%v %", "%"])
def test_a_format_that_is_none_is_refused(name: str) -> None:
    with pytest.raises(ValueError, match=r"neither|unknown"):
        formatter(name, "\t", "")


def test_what_json_writes_json_reads() -> None:
    odd = LETTER._replace(
        key=None, value=b"\xff\x00", headers=[("a", b"\xfe"), ("b", None), ("a", "é".encode())]
    )
    line = formatter("json", "", "")(odd)
    assert json.loads(line)["value"] == {"base64": "/wA="}
    assert from_json(line) == Outgoing(None, b"\xff\x00", odd.headers, 2, 1_700_000_000_123)


def test_the_name_of_a_header_that_is_not_utf8_is_written_as_it_came() -> None:
    odd = LETTER._replace(headers=[(b"\xff-h".decode("utf-8", "surrogateescape"), b"1")])
    assert formatter("%h", "", "")(odd) == b"\xff-h=1"
    line = formatter("json", "", "")(odd)
    assert json.loads(line)["headers"] == [[{"base64": "/y1o"}, "1"]]
    with pytest.raises(ValueError, match="is not UTF-8, and cannot be sent"):
        from_json(line)


def test_json_takes_objects_as_values_and_as_headers() -> None:
    record = from_json(b'{"key": 5, "value": {"a": [1, null]}, "headers": {"x": "y"}}')
    assert record == Outgoing(b"5", b'{"a":[1,null]}', [("x", b"y")])


@pytest.mark.parametrize(
    ("line", "complaint"),
    [
        (b"{", "not JSON"),
        (b"[1]", "a record is an object"),
        (b'{"headers": [1]}', "headers are"),
        (b'{"partition": "x"}', "partition is a number"),
        (b'{"timestamp": -1}', "timestamp is a number"),
        (b'{"value": {"base64": "*"}}', "bad base64"),
    ],
)
def test_json_that_is_no_record_is_explained(line: bytes, complaint: str) -> None:
    with pytest.raises(ValueError, match=complaint):
        from_json(line)


def test_a_line_is_a_value_or_a_key_and_a_value() -> None:
    assert Layout("t").record(b"a:b:c") == Outgoing(None, b"a:b:c", [])
    assert Layout("t", separator=b":").record(b"a:b:c") == Outgoing(b"a", b"b:c", [])
    assert Layout("t", separator=b":", null=b"NULL").record(b"NULL:NULL") == Outgoing(None, None, [])
    assert Layout("t").record(b"") == Outgoing(None, b"", [])
    assert Layout("t", null=b"", key=b"k").record(b"") == Outgoing(b"k", None, [])
    with pytest.raises(ValueError, match="no ':' between key and value"):
        Layout("t", separator=b":").record(b"abc")


@pytest.mark.parametrize(
    ("template", "written"),
    [
        ("%t [%p] %o %T: %k=%s\\n", b"letters [2] 7 1700000000123: k=v\n"),
        ("%K %S %h%%", b"1 1 h=1,h=NULL%"),
        ("%R|", b"\x00\x00\x00\x01|"),
        ("\\x41\\t\\r\\q\\\\%s", b"A\t\rq\\v"),
        ("\\xff%s", b"\xffv"),
    ],
)
def test_a_template_of_kcat_is_written_as_kcat_does(template: str, written: bytes) -> None:
    assert kcat_format(template).write(LETTER) == written


def test_null_in_a_template_of_kcat_is_nothing_or_the_word_and_has_no_length() -> None:
    bare = LETTER._replace(key=None, value=b"")
    assert kcat_format("%k|%K|%s|%S").write(bare) == b"|-1||0"
    assert kcat_format("%k|%K|%s|%S", shows_null=True).write(bare) == b"NULL|-1|NULL|0"
    with pytest.raises(ValueError, match="%v is unknown"):
        kcat_format("%v")


def test_a_terminal_gets_no_bytes_that_would_confuse_it() -> None:
    odd = LETTER._replace(key=b"\x00\xff", value=b"red \x1b[31m text")
    assert format_of("key-value", separator=" ", is_terminal=True).write(odd) == b"00ff red \\x1b[31m text\n"
    assert kcat_format("%k %s", is_terminal=True).write(odd) == b"00ff red \\x1b[31m text"


def test_rows_of_csv_have_their_names_once() -> None:
    write = format_of("csv").write
    assert write(LETTER).count(b"\r\n") == 2
    assert write(LETTER).startswith(b"letters,2,7,1700000000123,k,v,")


def test_a_delimiter_is_any_bytes_but_none() -> None:
    assert [delimiter_bytes(given) for given in (None, ";", "\\x00", "\\t--")] == [
        b"\n",
        b";",
        b"\x00",
        b"\t--",
    ]
    with pytest.raises(CommandError, match="must not be empty"):
        delimiter_bytes("")


@pytest.mark.parametrize(
    ("expression", "is_chosen"),
    [
        ("key=k", True), ("key!=k", False), ("key~^K", False), ("key~.", True),
        ("header.h=1", True), ("header.h=2", False), ("header.none!=1", True), ("header.none~.", False),
        ('value~"id": ?7', True), ("value.id=7", True), ("value.id=8", False), ("value.id!=8", True),
        ("value.who.city=Prag", True), ("value.list.1=b", True), ("value.list.9=b", False),
        ("value.gone=null", False), ("value.nothing=null", True), ("value.who.city~^P", True),
    ],
)  # fmt: skip
def test_records_are_chosen_by_key_header_and_field(expression: str, is_chosen: bool) -> None:
    value = b'{"id": 7, "who": {"city": "Prag"}, "list": ["a", "b"], "nothing": null}'
    chosen = filter_of([expression], None)
    assert chosen is not None
    assert chosen(LETTER._replace(value=value)) is is_chosen


def test_all_filters_must_hold_and_what_is_none_is_refused() -> None:
    chosen = filter_of(["key=k", "value=v"], None)
    assert chosen is not None
    assert chosen(LETTER)
    assert not chosen(LETTER._replace(key=b"other"))
    assert not chosen(LETTER._replace(value=None))
    assert filter_of([], None) is None
    for wrong in ("topic=x", "key", "key~(", "value.=x"):
        with pytest.raises(CommandError, match="--filter"):
            filter_of([wrong], None)


def test_escapes_of_the_shell_are_understood() -> None:
    assert unescape("\\t|\\n") == "\t|\n"
    assert unescape("é\\té") == "é\té"


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("10m", 1_000_000_000_000 - 600_000),
        ("1.5h", 1_000_000_000_000 - 5_400_000),
        ("2d", 1_000_000_000_000 - 172_800_000),
        ("250ms", 1_000_000_000_000 - 250),
        ("1700000000123", 1_700_000_000_123),
        ("2023-11-14T22:13:20Z", 1_700_000_000_000),
        ("2023-11-14T22:13:20.123+00:00", 1_700_000_000_123),
    ],
)
def test_a_time_may_be_relative_iso_or_milliseconds(text: str, expected: int) -> None:
    assert parse_ms(text, 1_000_000_000_000) == expected


@pytest.mark.parametrize("text", ["", "yesterday", "10", "10x", "-5m"])
def test_what_is_no_time_is_explained(text: str) -> None:
    with pytest.raises(ValueError, match="is no time: write"):
        parse_ms(text, 0)


def test_times_are_shown_in_utc() -> None:
    assert show_ms(1_700_000_000_123) == "2023-11-14T22:13:20.123Z"
    assert show_ms(-1) == "-"
    assert show_ms(1 << 62) == str(1 << 62)


@pytest.mark.parametrize(
    ("text", "expected"), [("250ms", 250), ("30s", 30_000), (" 1.5 h ", 5_400_000), ("1d", 86_400_000)]
)
def test_a_length_of_time_has_a_unit(text: str, expected: int) -> None:
    assert parse_duration_ms(text, "--longer-than") == expected


@pytest.mark.parametrize("text", ["15", "", "m", "-5m", "5 years"])
def test_a_length_of_time_without_one_is_refused_with_what_to_write(text: str) -> None:
    with pytest.raises(CommandError, match="--longer-than takes a time with its unit, such as 30s, 15m"):
        parse_duration_ms(text, "--longer-than")


@pytest.mark.parametrize(
    ("duration_ms", "expected"),
    [
        (-5, "0 s"), (999, "0 s"), (41_000, "41 s"), (60_000, "1 min"), (7_500_000, "2 h 5 min"),
        (7_241_000, "2 h"), (90_000_000, "1 d 1 h"),
    ],
)  # fmt: skip
def test_a_length_of_time_is_shown_in_its_two_largest_units(duration_ms: int, expected: str) -> None:
    assert show_duration(duration_ms) == expected


def test_csv_has_lines_and_takes_no_other_delimiter(ottla: Any, ottla_topic: str) -> None:
    for command in (["produce", ottla_topic, "--csv"], ["consume", ottla_topic, "--format", "csv"]):
        refused = ottla(*command, "--delimiter", ";", stdin=b"value\na\n")
        assert refused.code == 2
        assert "leave out --delimiter" in refused.err
