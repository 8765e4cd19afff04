"""The Records page of a topic, as somebody at a browser without JavaScript sees it, and its streams."""

import csv
import io
import json
import re
import time
from html import unescape
from typing import Any

import pyarrow.parquet as pq
import pytest
from confluent_kafka import Consumer, TopicPartition
from tests.console.visitor import TOKEN, Visitor, settings_for
from tests.support.schema_registry import schema_registry

from ottla import Broker
from ottla.client.formats import Encoder, Registry

NOW_MS = int(time.time() * 1000)


def orders(count: int, partitions: int = 1) -> list[dict[str, Any]]:
    return [
        {
            "value": json.dumps({"id": number, "city": "Brno" if number % 40 == 7 else "Praha"}),
            "key": f"customer-{number}",
            "partition": number % partitions,
            "timestamp": NOW_MS - 100_000 + number,
            "headers": [("trace", b"%d" % number)],
        }
        for number in range(count)
    ]


def ids(page: str) -> list[int]:
    return [int(number) for number in re.findall(r"&#34;id&#34;: (\d+)", page.partition("<tbody>")[2])]


def link(page: str, name: str) -> str:
    (address,) = re.findall(rf'rel="{name}" href="([^"]+)"', page)
    return address.replace("&amp;", "&")


def stored(broker: Broker, topic: str, partition: int, offset: int) -> Any:
    consumer = Consumer(broker.client_config | {"group.id": "none"})
    consumer.assign([TopicPartition(topic, partition, offset)])
    (message,) = consumer.consume(1, 30)
    consumer.close()
    return message


def test_the_page_goes_from_the_newest_records_to_older_ones_and_back(visitor: Visitor, fill: Any) -> None:
    path = f"/topics/{fill(orders(120, 3), 3)}/records"
    first = visitor.open(path).html
    assert ids(first) == list(range(119, 69, -1))
    second = visitor.open(path + link(first, "next")).html
    assert ids(second) == list(range(69, 19, -1))
    assert ids(visitor.open(path + link(second, "prev")).html) == list(range(119, 69, -1))


def test_records_are_found_by_partition_offset_and_time(visitor: Visitor, fill: Any) -> None:
    path = f"/topics/{fill(orders(30, 3), 3)}/records"
    assert ids(visitor.open(f"{path}?partition=1&at=8").html) == [28, 25]
    assert ids(visitor.open(f"{path}?at={NOW_MS - 100_000 + 27}").html) == [29, 28, 27]
    assert "There are no records from there on." in visitor.open(f"{path}?at=2100-01-01")
    assert ids(visitor.open(f"{path}?partition=1&count=20").html) == list(range(28, 0, -3))


@pytest.mark.parametrize(
    "query",
    ["partition=9", "partition=x", "at=yesterday", "older=1", "value_format=xml", "value_format=avro",
     "count=900", "q=a.b.&in=field", "q=x&at=soon", "q=x&in=nowhere"],
)  # fmt: skip
def test_what_is_not_understood_is_refused_with_a_sentence(visitor: Visitor, fill: Any, query: str) -> None:
    answer = visitor.browser.get(f"/topics/{fill([])}/records?{query}")
    assert answer.status_code == 400
    assert 'class="notice' in answer.text or "<h1" in answer.text


def test_a_record_alone_shows_all_of_it_and_its_neighbours(visitor: Visitor, fill: Any) -> None:
    topic = fill([{"value": b"before"}, *orders(2), {"value": None, "key": b"\x00\x01"}])
    page = visitor.open(f"/topics/{topic}/records/0/1")
    for words in ('"city": "Praha"', "customer-0", "trace", "json"):
        assert words in page
    assert {link(page.html, "prev"), link(page.html, "next")} == {
        f"/topics/{topic}/records/0/2", f"/topics/{topic}/records/0/0",
    }  # fmt: skip
    tombstone = visitor.open(f"/topics/{topic}/records/0/3")
    assert "null: a tombstone" in tombstone
    assert "00000000 0001 .." in tombstone
    assert "6265 666f 7265" in visitor.open(f"/topics/{topic}/records/0/0?value_format=hex")
    assert "begins at 0 and ends before 4" in visitor.open(f"/topics/{topic}/records/0/4", status=404)
    visitor.open(f"/topics/{topic}/records/7/0", status=404)


def test_nothing_in_a_record_becomes_part_of_the_page(visitor: Visitor, fill: Any) -> None:
    evil = b"<script>alert(1)</script><img src=x onerror=alert(1)>\x1b[31m"
    topic = fill([{"value": evil, "key": evil, "headers": [(evil[:40].decode(), evil)]}])
    for path in (f"/topics/{topic}/records", f"/topics/{topic}/records/0/0"):
        page = visitor.open(path).html
        assert "<script>alert" not in page
        assert "<img src=x" not in page
        assert "\x1b" not in page


# -- searches ------------------------------------------------------------------------------------------------


def events(text: str) -> list[tuple[str, Any]]:
    blocks = [block.split("\n") for block in text.strip().split("\n\n")]
    return [(name.removeprefix("event: "), json.loads(data.removeprefix("data: "))) for name, data in blocks]


def test_a_search_streams_rows_and_progress_and_says_how_it_ended(visitor: Visitor, fill: Any) -> None:
    topic = fill(orders(400, 2), 2)
    page = visitor.open(f"/topics/{topic}/records?q=brno")
    assert 'data-stream="records/search?q=brno"' in page.html
    came = events(visitor.browser.get(f"/topics/{topic}/records/search?q=brno").text)
    rows = "".join(data["html"] for name, data in came if name == "rows")
    assert [int(number) for number in re.findall(r"&#34;id&#34;: (\d+)", rows)] == list(range(367, 0, -40))
    assert came[-1][0] == "over"
    assert came[-1][1] | {"seconds": 0, "rate": 0, "bytes": 0} == {
        "share": 1.0, "records": 400, "bytes": 0, "found": 10, "seconds": 0, "rate": 0, "reason": "all",
        "problems": [],
    }  # fmt: skip


def test_without_javascript_a_search_is_a_page_that_takes_a_while(visitor: Visitor, fill: Any) -> None:
    topic = fill(orders(90))
    assert ids(visitor.open(f"/topics/{topic}/records?q=city+%3D+Brno&in=field&plain=1").html) == [87, 47, 7]
    assert ids(visitor.open(f"/topics/{topic}/records?q=brno&plain=1&limit=1&order=oldest").html) == [7]
    assert ids(visitor.open(f"/topics/{topic}/records?q=brno&plain=1&at=47").html) == [87, 47]
    assert ids(visitor.open(f"/topics/{topic}/records?q=brno&plain=1&at={NOW_MS - 100_000 + 48}").html) == [
        87
    ]


def test_a_key_is_looked_for_where_its_hash_leads_and_everywhere_if_asked(
    visitor: Visitor, fill: Any
) -> None:
    records = [{"value": b'{"id": 1}', "key": b"k", "partition": number} for number in range(12)]
    path = f"/topics/{fill(records, 12)}/records?in=key&q=k&plain=1"
    page = visitor.open(path)
    assert "where clients put this key by its hash" in page
    assert len(ids(page.html)) in (1, 2)
    assert len(ids(visitor.open(f"{path}&all=1").html)) == 12


# -- files ---------------------------------------------------------------------------------------------------


def test_a_topic_is_downloaded_in_three_kinds_of_files(visitor: Visitor, fill: Any) -> None:
    topic = fill([*orders(20), {"value": b"\xff"}])
    path = f"/topics/{topic}/records/file"
    answer = visitor.browser.get(f"{path}?format=jsonl")
    assert answer.headers["content-disposition"] == f"attachment; filename*=UTF-8''{topic}.jsonl"
    lines = [json.loads(line) for line in answer.text.splitlines()]
    assert [line["offset"] for line in lines] == list(range(21))
    assert lines[20]["value"] == {"base64": "/w=="}
    rows = list(csv.DictReader(io.StringIO(visitor.browser.get(f"{path}?format=csv&limit=3").text)))
    assert [row["key"] for row in rows] == ["customer-0", "customer-1", "customer-2"]
    parquet = visitor.browser.get(f"{path}?format=parquet&since={NOW_MS - 100_000 + 15}").content
    assert pq.read_table(io.BytesIO(parquet)).num_rows == 6
    assert visitor.browser.get(f"{path}?format=xls").status_code == 400
    assert visitor.browser.get(f"{path}?limit=many").status_code == 400


# -- sending -------------------------------------------------------------------------------------------------


def test_a_record_is_written_sent_and_shown(broker: Broker, visitor: Visitor, fill: Any) -> None:
    topic = fill([], 2)
    fields = {"topic": topic, "partition": "1", "key": "k", "value": '{"a":\r\n 1}', "value_form": "json"}
    page = visitor.send_and_follow(f"/topics/{topic}/records/new", **fields, headers='{"h": "1"}')
    assert f"Sent to partition 1 of {topic}, at offset 0." in page
    message = stored(broker, topic, 1, 0)
    assert (message.key(), message.value(), message.headers()) == (b"k", b'{"a":\n 1}', [("h", b"1")])
    visitor.send_and_follow(
        f"/topics/{topic}/records/new", topic=topic, partition="1", key="k", value_null="1"
    )
    assert stored(broker, topic, 1, 1).value() is None
    as_it_comes = {
        "key": "typed",
        "key_null": "1",
        "value": "",
    }  # the box is ticked until a module unticks it
    visitor.send_and_follow(f"/topics/{topic}/records/new", topic=topic, partition="1", **as_it_comes)
    assert stored(broker, topic, 1, 2).key() == b"typed"


def test_a_record_is_sent_again_to_another_topic_byte_for_byte(
    broker: Broker, visitor: Visitor, fill: Any
) -> None:
    values = [b"a\r\nb\x1b[0m", b"\x00\xff\x01", b'{"z": 1,   "a": [1]}', b"x" * 300_000, b"", None]
    source = fill([{"value": value, "key": b"k", "headers": [("h", b"\xff")]} for value in values])
    target = fill([])
    for offset, value in enumerate(values):
        form = visitor.open(f"/topics/{source}/records/new?from=0:{offset}").html
        fields = _fields(form) | {"topic": target, "partition": "0"}
        visitor.send_and_follow(f"/topics/{source}/records/new", **fields)
        message = stored(broker, target, 0, offset)
        assert (message.key(), message.value(), message.headers()) == (b"k", value, [("h", b"\xff")])


def _fields(form: str) -> dict[str, str]:
    """What a browser would send of the form, with its ends of lines."""
    fields = {}
    for name, text in re.findall(r'<textarea id="\w+" name="(\w+)"[^>]*>\n(.*?)</textarea>', form, re.DOTALL):
        fields[name] = unescape(text).replace("\r\n", "\n").replace("\n", "\r\n")
    for name, options in re.findall(r'<select name="(\w+_form)">(.*?)</select>', form, re.DOTALL):
        chosen = re.search(r"<option selected>([\w-]+)<", options)
        fields[name] = chosen[1] if chosen else "text"
    for name in re.findall(r'name="(\w+_null)" value="1" checked', form):
        fields[name] = "1"
    fields |= dict(re.findall(r'type="hidden" name="(from)" value="([^"]+)"', form))
    return fields


@pytest.mark.parametrize(
    ("fields", "problem"),
    [
        ({"value": "{", "value_form": "json"}, "the value: this is not JSON"),
        ({"value": "xy", "value_form": "hex"}, "the value: bad hex"),
        ({"key": "a", "key_form": "base64"}, "the key: bad base64"),
        ({"value_null": "1"}, "the value has text, and is marked as none"),
        ({"partition": "9"}, "has no partition 9; it has 0 to 0"),
        ({"partition": "x"}, "is no partition"),
        ({"headers": "{"}, "this is not JSON"),
        ({"headers": "[1]"}, "headers are an object or a list"),
        ({"topic": "no-such-topic"}, "there is no topic"),
    ],
)
def test_what_cannot_be_sent_comes_back_with_the_reason_and_nothing_is_lost(
    visitor: Visitor, fill: Any, fields: dict[str, str], problem: str
) -> None:
    topic = fill([])
    answer = visitor.send(f"/topics/{topic}/records/new", **{"topic": topic, "value": "kept"} | fields)
    assert answer.status_code == 400
    assert problem in answer.text.replace("&#39;", "'")
    assert fields.get("value", "kept") in answer.text


def test_a_read_only_console_sends_nothing(broker: Broker, fill: Any) -> None:
    topic = fill(orders(1))
    with Visitor.of(settings_for(broker, is_read_only=True)) as visitor:
        visitor.log_in(TOKEN)
        page = visitor.open(f"/topics/{topic}/records").html
        assert "New record" not in page
        assert "Send again" not in visitor.open(f"/topics/{topic}/records/0/0").html
        assert visitor.send(f"/topics/{topic}/records/new", value="x").status_code == 403
        assert ids(page) == [0]


def test_records_with_a_schema_are_shown_searched_and_sent_through_the_registry(
    broker: Broker, fill: Any
) -> None:
    schema = {
        "type": "record", "name": "Order",
        "fields": [{"name": "id", "type": "long"},
                   {"name": "state", "type": {"type": "enum", "name": "State", "symbols": ["NEW", "PAID"]}}],
    }  # fmt: skip
    with schema_registry() as remote:
        topic = fill([])
        remote.add(f"{topic}-value", json.dumps(schema))
        encode = Encoder("value", "avro", Registry.of(remote.url))
        with Visitor.of(settings_for(broker, registry=remote.url)) as visitor:
            visitor.log_in(TOKEN)
            for number in range(3):
                value = json.dumps({"id": number, "state": "PAID" if number == 1 else "NEW"})
                fields = {"topic": topic, "value": value, "value_form": "avro", "key_null": "1"}
                visitor.send_and_follow(f"/topics/{topic}/records/new", **fields)
            assert stored(broker, topic, 0, 1).value() == encode(topic, {"id": 1, "state": "PAID"})
            assert "avro, schema 1" in visitor.open(f"/topics/{topic}/records/0/1")
            path = f"/topics/{topic}/records?plain=1"
            assert ids_of_avro(visitor.open(f"{path}&q=paid").html) == [1]
            assert ids_of_avro(visitor.open(f"{path}&in=field&q=id+%3E+0").html) == [2, 1]
            answer = visitor.send(f"/topics/{topic}/records/new", topic=topic, value="{}", value_form="avro")
            assert "the value: the record lacks the field" in answer.text


def ids_of_avro(page: str) -> list[int]:
    return [int(number) for number in re.findall(r"&#34;id&#34;:(\d+)", page.partition("<tbody>")[2])]
