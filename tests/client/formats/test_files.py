"""Many records as JSON Lines, CSV and Parquet, out and in again."""

import csv
import io
import json

import pyarrow.parquet as pq
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ottla.client.formats import FormatError, Message, Outgoing, csv_rows, json_lines, parquet

contents = st.none() | st.binary(max_size=40) | st.text(max_size=20).map(str.encode)
names = st.text(st.characters(codec="utf-8"), max_size=8)
messages = st.builds(
    Message,
    st.just("t"),
    st.integers(0, 5),
    st.integers(0, 1 << 40),
    st.integers(0, 1 << 40),
    contents,
    contents,
    st.lists(st.tuples(names, contents), max_size=2),
)


def as_outgoing(message: Message) -> Outgoing:
    return Outgoing(message.key, message.value, message.headers, message.partition, message.timestamp_ms)


@given(st.lists(messages, max_size=5))
def test_json_lines_come_back_as_the_same_records(records: list[Message]) -> None:
    text = b"".join(json_lines.lines(records))
    assert [json_lines.outgoing(line) for line in text.split(b"\n") if line] == [
        as_outgoing(message) for message in records
    ]


@given(st.lists(messages, max_size=5), st.booleans())
def test_csv_comes_back_as_the_same_records(records: list[Message], is_guarded: bool) -> None:
    text = b"".join(csv_rows.lines(records, is_guarded=is_guarded)).decode()
    back = [record for _, record in csv_rows.outgoing(io.StringIO(text, newline=""))]
    assert back == [as_outgoing(message) for message in records]


@pytest.mark.parametrize("value", ["=1+2", "@SUM(A1)", "+cmd|' /C calc'!A0", "-1+2", "\t=1", "\n=1", "＝1"])
def test_no_spreadsheet_takes_a_guarded_cell_for_a_formula(value: str) -> None:
    record = Message("t", 0, 0, 0, value.encode(), value.encode(), [])
    (_, row) = csv.reader(io.StringIO(b"".join(csv_rows.lines([record], is_guarded=True)).decode()))
    assert row[4:] == [f"'{value}", f"'{value}", "", "key:quoted value:quoted"]


@pytest.mark.parametrize("value", ["-1", "+1.5e-3", "a=1", "'=1", ""])
def test_other_cells_stay_as_they_are(value: str) -> None:
    record = Message("t", 0, 0, 0, b"k", value.encode(), [])
    (_, row) = csv.reader(io.StringIO(b"".join(csv_rows.lines([record], is_guarded=True)).decode()))
    assert row[4:] == ["k", value, "", ""]


@settings(max_examples=25)
@given(st.lists(messages, max_size=5))
def test_parquet_has_every_byte_of_the_records(records: list[Message]) -> None:
    rows = pq.read_table(io.BytesIO(b"".join(parquet.pieces(records)))).to_pylist()
    assert [(row["partition"], row["offset"]) for row in rows] == [
        (message.partition, message.offset) for message in records
    ]
    for row, message in zip(rows, records, strict=True):
        for field in ("key", "value"):
            text, binary = row[field], row[f"{field}_binary"]
            assert (text.encode() if text is not None else binary) == getattr(message, field)
        assert [(header["key"], header["value"]) for header in row["headers"]] == message.headers


def test_a_large_download_is_made_in_pieces() -> None:
    record = Message("t", 0, 0, 0, b"k", b"v" * 1000, [])
    many = (record._replace(offset=offset) for offset in range(2_000))
    assert len(list(json_lines.lines(many))) > 10
    groups = parquet.pieces(record._replace(offset=offset) for offset in range(parquet.GROUP_RECORDS_MAX + 1))
    assert len([piece for piece in groups if piece]) == 3  # two row groups, and the end of the file


def test_other_peoples_csv_becomes_json_objects_with_a_column_as_the_key() -> None:
    rows = csv_rows.outgoing(io.StringIO("id,name\n7,Ann\n8,\n"), key_column="id")
    assert [(line, record.key, json.loads(record.value or b"")) for line, record in rows] == [
        (2, b"7", {"id": "7", "name": "Ann"}),
        (3, b"8", {"id": "8", "name": ""}),
    ]


def test_csv_with_keys_and_values_of_other_people_takes_an_empty_key_for_none() -> None:
    rows = csv_rows.outgoing(io.StringIO("key,value\nk,v\n,w\n"))
    assert [record for _, record in rows] == [Outgoing(b"k", b"v", []), Outgoing(None, b"w", [])]


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("value,price\n1,2\n", "line 1: a file with a column 'value' has records, and 'price' is no part"),
        ("a,a\n1,2\n", "line 1: two columns have the same name"),
        ("value\n1,2\n", "line 2: 2 cells where 1 columns are named"),
        ("value,encoding\nx,value:rot13\n", "line 2: 'value:rot13' is no encoding"),
        ("value,partition\nx,-1\n", "line 2: partition is a number, not '-1'"),
        ("value,headers\nx,{\n", "line 2: headers are JSON"),
        ('value\n"x\n', "line 2: unexpected end of data"),
    ],
)
def test_csv_that_is_wrong_is_refused_with_its_line(text: str, problem: str) -> None:
    with pytest.raises(FormatError, match=problem):
        list(csv_rows.outgoing(io.StringIO(text)))
