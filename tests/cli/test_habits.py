"""The words and habits of those who come from kcat and from Kafka's own consumer and producer."""

import os
import pty
import re
import select
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import confluent_kafka
import pytest
from confluent_kafka.admin import AdminClient
from tests.cli.commands import Run, on_a_terminal
from tests.support.schema_registry import schema_registry

from ottla import Broker
from ottla.cli.records.formats import format_of
from ottla.cli.records.partition_reader import PartitionReader
from ottla.client import Client, TopicPartition

WITHIN_S = 30.0


def lines(outcome: Any) -> list[str]:
    assert outcome.code == 0, outcome.err
    return list(outcome.out.splitlines())


class Terminal:
    """A command that has one for everything."""

    def __init__(self, process: subprocess.Popen[bytes], ours: int) -> None:
        self.process = process
        self._ours = ours
        self.shown = ""

    def type(self, keys: str) -> None:
        os.write(self._ours, keys.encode())

    def until(self, text: str) -> None:
        self.wait_for(lambda: text in self.shown, f"{text!r} in {self.shown!r}")

    def wait_for(self, is_reached: Callable[[], bool], what: str) -> None:
        deadline = time.monotonic() + WITHIN_S
        while not is_reached():
            assert time.monotonic() < deadline, f"no {what}"
            self.read(0.05)

    def read(self, within_s: float) -> bool:
        if not select.select([self._ours], [], [], within_s)[0]:
            return True
        try:
            self.shown += os.read(self._ours, 65536).decode(errors="replace")
        except OSError:  # the other side is gone
            return False
        return True

    def ended(self) -> int:
        deadline = time.monotonic() + WITHIN_S
        while self.read(0.05):
            assert time.monotonic() < deadline, "it does not end"
        return self.process.wait(WITHIN_S)


@contextmanager
def terminal(*arguments: str) -> Iterator[Terminal]:
    ours, theirs = pty.openpty()
    process = subprocess.Popen(
        [sys.executable, "-m", "ottla.cli", *arguments],
        stdin=theirs, stdout=theirs, stderr=theirs, start_new_session=True,
        env={**os.environ, "TERM": "xterm", "COLUMNS": "150"},
    )  # fmt: skip
    os.close(theirs)
    try:
        yield Terminal(process, ours)
    finally:
        process.kill()
        process.wait()
        os.close(ours)


def end_of(broker: Broker, topic: str) -> int:
    with Client(broker.bootstrap_servers) as client:
        return client.ends([TopicPartition(topic, 0)])[TopicPartition(topic, 0)]


@pytest.mark.parametrize("options", [(), ("-X", "linger.ms=0")])
def test_ctrl_c_in_produce_says_how_many_records_were_acknowledged(
    ottla_broker: Broker, ottla_topic: str, options: tuple[str, ...]
) -> None:
    with terminal("produce", ottla_topic, "-b", ottla_broker.bootstrap_servers, *options) as window:
        window.type("one\n")
        window.type("two\n")
        window.wait_for(lambda: end_of(ottla_broker, ottla_topic) == 2, "two records")
        window.process.send_signal(signal.SIGINT)
        assert window.ended() == 130
    assert "interrupted: 2 records acknowledged" in window.shown
    assert "Traceback" not in window.shown


def test_the_end_of_the_input_on_a_terminal_ends_produce(ottla_broker: Broker, ottla_topic: str) -> None:
    with terminal("produce", ottla_topic, "-b", ottla_broker.bootstrap_servers) as window:
        window.type("one\n\x04")
        assert window.ended() == 0
    assert f"1 record, 3 bytes to {ottla_topic}" in window.shown


def test_binary_never_goes_raw_to_a_terminal(ottla: Run, ottla_broker: Broker, ottla_topic: str) -> None:
    ottla("produce", ottla_topic, "-K", ":", "-H", "h=\x1b[3J", stdin=b"\xff\x01:\x1b[2Jclear\n")
    for options, shown in (
        ((), "\\x1b[2Jclear"),
        (("-K", "="), "ff01=\\x1b[2Jclear"),
        (("-f", "%k %s\\n"), "ff01 \\x1b[2Jclear"),
        (("--value-format", "hex"), b"\x1b[2Jclear".hex()),
        (("--format", "%h"), "h=\\x1b[3J"),
        (("-f", "%h\\n"), "h=\\x1b[3J"),
    ):
        arguments = ["consume", ottla_topic, *options, "-b", ottla_broker.bootstrap_servers]
        assert on_a_terminal(*arguments).rstrip() == shown
    for options in (("--json",), ("--format", "csv")):
        arguments = ["consume", ottla_topic, *options, "-b", ottla_broker.bootstrap_servers]
        assert "\x1b" not in on_a_terminal(*arguments)
    assert ottla("consume", ottla_topic, "-K", ":").raw == b"\xff\x01:\x1b[2Jclear\n"


TEMPLATES = (
    "%t [%p] at %o: key %k (%K) value %s (%S) headers %h%%\\n",
    "%k\\t%s\\x41\\n",
    "%R%s",
    "%T|",
)


def test_a_template_of_kcat_gives_what_kcat_gives(
    ottla: Run, ottla_broker: Broker, ottla_topic: str, tmp_path: Path
) -> None:
    given = (
        b'{"key": "k", "value": "v", "headers": [["a", "1"], ["b", null]]}\n{"value": null}\n{"key": ""}\n'
    )
    assert ottla("produce", ottla_topic, "--json", stdin=given).code == 0
    assert ottla("consume", ottla_topic, "-f", "%k(%K)=%s(%S) %h;").raw == (
        b"k(1)=v(1) a=1,b=NULL;(-1)=(-1) ;(0)=(-1) ;"
    )
    kcat = shutil.which("kcat")
    for template in TEMPLATES if kcat else ():
        for options in ((), ("-Z",)):
            command = [str(kcat), "-C", "-b", ottla_broker.bootstrap_servers, "-t", ottla_topic, "-e", "-q"]
            theirs = subprocess.run(
                [*command, "-f", template, *options], capture_output=True, timeout=WITHIN_S
            )
            assert ottla("consume", ottla_topic, "-f", template, *options).raw == theirs.stdout


def test_offsets_times_and_counts_are_said_as_kcat_says_them(ottla: Run, ottla_topic: str) -> None:
    records = "".join(f'{{"value": "v{n}", "timestamp": {1_700_000_000_000 + n * 1000}}}\n' for n in range(6))
    assert ottla("produce", ottla_topic, "--json", stdin=records.encode()).code == 0
    for options, expected in (
        (("-o", "beginning", "-c", "2"), ["v0", "v1"]),
        (("-o", "end"), []),
        (("-o", "-2", "-e"), ["v4", "v5"]),
        (("-o", "s@1700000002000", "-o", "e@1700000004000"), ["v2", "v3"]),
        (("-o", "3", "-o", "e@1700000005000"), ["v3", "v4"]),
        (("--until", "2023-11-14T22:13:22Z"), ["v0", "v1"]),
        (("--last", "2"), ["v4", "v5"]),
        (("-o", "s@1700000009000"), []),
    ):
        assert lines(ottla("consume", ottla_topic, *options)) == expected, options


def test_the_last_records_are_counted_per_partition_or_over_all(
    ottla: Run, ottla_broker: Broker, fresh: str
) -> None:
    topic = ottla_broker.create_topic(fresh, partitions=2)
    records = "".join(
        f'{{"value": "{n}", "partition": {n % 2}, "timestamp": {1_700_000_000_000 + n}}}\n' for n in range(8)
    )
    assert ottla("produce", topic, "--json", stdin=records.encode()).code == 0
    assert lines(ottla("consume", topic, "-o", "-1")) == ["6", "7"]
    assert lines(ottla("consume", topic, "--last", "3")) == ["5", "6", "7"]
    ottla_broker.delete_topic(topic)


def test_the_last_records_are_found_behind_markers_aborted_records_and_what_a_filter_leaves_out(
    ottla: Run, ottla_topic: str
) -> None:
    given = "".join(f"{number}\n" for number in range(40)).encode()
    in_transactions = ("--transactional-id", ottla_topic, "--records-per-transaction", "1")
    assert ottla("produce", ottla_topic, *in_transactions, "-c", "6", stdin=given).code == 0
    assert lines(ottla("consume", ottla_topic, "--last", "3")) == ["3", "4", "5"]
    aborted = ottla("produce", ottla_topic, "-K", ":", "--transactional-id", "t", stdin=b"k:a\nwrong\n")
    assert aborted.code == 2
    assert lines(ottla("consume", ottla_topic, "--last", "1")) == ["5"]
    assert ottla("produce", ottla_topic, stdin=given).code == 0
    assert lines(ottla("consume", ottla_topic, "--last", "2", "--filter", "value~^[12]$")) == ["1", "2"]
    assert lines(ottla("consume", ottla_topic, "--last", "99", "--filter", "value=7")) == ["7"]
    assert ottla("consume", ottla_topic, "--last", "2", "--max", "1").code == 2


def test_the_last_records_of_a_partition_stay_in_its_order_and_end_at_a_time(
    ottla: Run, ottla_topic: str
) -> None:
    records = "".join(
        f'{{"value": "{number}", "timestamp": {1_700_000_000_000 + at_s * 1000}}}\n'
        for number, at_s in enumerate((1, 3, 2, 9, 8))
    )
    assert ottla("produce", ottla_topic, "--json", stdin=records.encode()).code == 0
    assert lines(ottla("consume", ottla_topic, "--last", "3")) == ["2", "3", "4"]
    assert lines(ottla("consume", ottla_topic, "--last", "2", "-o", "e@1700000005000")) == ["1", "2"]


def test_what_is_deleted_while_a_topic_is_read_is_told_and_the_rest_is_shown(
    ottla: Run, ottla_broker: Broker, ottla_topic: str, capfdbinary: pytest.CaptureFixture[bytes]
) -> None:
    place = TopicPartition(ottla_topic, 0)
    for number in range(5):
        assert ottla("produce", ottla_topic, stdin=b"%d\n" % number).code == 0
    admin = AdminClient({"bootstrap.servers": ottla_broker.bootstrap_servers})
    upto = confluent_kafka.TopicPartition(ottla_topic, 0, 3)
    for future in admin.delete_records([upto]).values():
        future.result(WITHIN_S)
    with Client(ottla_broker.bootstrap_servers) as client:
        reader = PartitionReader(client, ottla_topic, read_committed=True)
        reader.print({0: (0, 5)}, format_of("value"), None, None)
    shown = capfdbinary.readouterr()
    assert shown.out == b"3\n4\n"
    assert shown.err.decode() == f"{place}: offsets 0 to 2 were deleted meanwhile\n"


def test_delimiters_keys_and_nulls_go_both_ways(ottla: Run, ottla_topic: str) -> None:
    sent = ottla("produce", ottla_topic, "-K", "=", "-D", ";", "-Z", "-c", "3", stdin=b"a=1;b=;=3;d=4")
    assert sent.code == 0
    assert ottla("consume", ottla_topic, "-K", "=", "-D", ";", "-Z").raw == b"a=1;b=NULL;NULL=3;"
    assert ottla("produce", ottla_topic, "-k", "fixed", stdin=b"x\n").code == 0
    assert ottla("consume", ottla_topic, "-o", "-1", "-f", "%k:%s").raw == b"fixed:x"


def test_records_are_filtered_by_key_header_and_field(ottla: Run, ottla_topic: str) -> None:
    for number in range(4):
        value = f'{{"id": {number}, "city": "{"Prag" if number % 2 else "Wien"}"}}\n'
        ottla("produce", ottla_topic, "-k", f"k{number}", "-H", f"n={number}", stdin=value.encode())
    ids = ("-f", "%k ")
    assert ottla("consume", ottla_topic, *ids, "--filter", "value.city=Prag").out == "k1 k3 "
    assert ottla("consume", ottla_topic, *ids, "--filter", "header.n=2").out == "k2 "
    misspelt = ottla("consume", ottla_topic, *ids, "--filter", "value.ctiy=Prag")
    assert (misspelt.code, misspelt.out) == (0, "")
    assert misspelt.err.startswith("--filter left out all of ")
    assert ottla("consume", ottla_topic, *ids, "--filter", "key~[01]", "--filter", "value.id!=0").out == "k1 "
    assert ottla("consume", ottla_topic, *ids, "-c", "1", "--filter", "value.city=Prag").out == "k1 "
    by_librdkafka = ("-X", "fetch.min.bytes=1")
    assert ottla("consume", ottla_topic, *ids, "--filter", "value.city=Prag", *by_librdkafka).out == "k1 k3 "


def test_hex_base64_csv_and_json_lines_go_both_ways(ottla: Run, ottla_topic: str) -> None:
    assert ottla("produce", ottla_topic, "--value-format", "hex", "-k", "k", stdin=b"00ff\n").code == 0
    assert ottla("produce", ottla_topic, "--value-format", "base64", stdin=b"AP8=\n").code == 0
    assert lines(ottla("consume", ottla_topic, "--value-format", "hex")) == ["00ff", "00ff"]
    assert lines(ottla("consume", ottla_topic, "--value-format", "base64")) == ["AP8=", "AP8="]
    rows = ottla("consume", ottla_topic, "--format", "csv")
    assert lines(rows)[0].startswith("topic,partition,offset,")
    assert ottla("produce", ottla_topic, "--csv", stdin=rows.raw).code == 0
    assert ottla("consume", ottla_topic, "--json", "-o", "-2").out.count('{"base64": "AP8="}') == 2
    assert ottla("produce", ottla_topic, "--csv", "--key-column", "id", stdin=b"id,name\n7,Ottla\n").code == 0
    assert lines(ottla("consume", ottla_topic, "-o", "-1", "-K", " ")) == ['7 {"id":"7","name":"Ottla"}']
    nothing = "(0 records before it were sent)"
    column = ottla("produce", ottla_topic, "--csv", "--key", "id", stdin=b"id,name\n7,Ottla\n")
    hint = "'id' is a column: --key-column id makes keys of its cells"
    assert (column.code, column.err) == (2, f"ottla: line 1: {hint} {nothing}\n")
    wrong = ottla("produce", ottla_topic, "--csv", stdin=b"id,name\n7\n")
    assert (wrong.code, wrong.err) == (2, f"ottla: line 2: 1 cells where 2 columns are named {nothing}\n")


def test_rows_of_csv_before_one_that_is_wrong_are_sent(ottla: Run, ottla_topic: str) -> None:
    rows = "".join(f"{number},x\n" for number in range(1500))
    wrong = ottla("produce", ottla_topic, "--csv", stdin=f"id,name\n{rows}7\n".encode())
    assert wrong.code == 2
    assert wrong.err == (
        "ottla: line 1502: 1 cells where 2 columns are named (1500 records before it were sent)\n"
    )
    assert len(lines(ottla("consume", ottla_topic))) == 1500
    late = ottla("produce", ottla_topic, "--csv", stdin=f"value,timestamp\na,5\nb,{1 << 63}\n".encode())
    assert late.err.startswith(f"ottla: line 3: {1 << 63} is no time")
    assert lines(ottla("consume", ottla_topic, "-o", "-1")) == ["a"]


def test_records_that_a_broker_refuses_are_named_by_line_and_the_others_are_stored(
    ottla: Run, ottla_broker: Broker, fresh: str
) -> None:
    topic = ottla_broker.create_topic(fresh, config={"max.message.bytes": 2000})
    given = b"".join(b"%d\n" % number for number in range(500)) + b"x" * 5000 + b"\nlast\n"
    outcome = ottla("produce", topic, stdin=given)
    assert outcome.code == 1
    assert re.search(
        rf"line 501: the record takes 50\d\d bytes, and topic {topic} takes 2000 at most", outcome.err
    )
    assert outcome.err.endswith("ottla: records that were not acknowledged: 1\n")
    assert lines(ottla("consume", topic)) == [*map(str, range(500)), "last"]
    ottla_broker.delete_topic(topic)


def test_a_record_without_a_key_in_a_compacted_topic_is_named_by_its_line(
    ottla: Run, ottla_broker: Broker, fresh: str
) -> None:
    topic = ottla_broker.create_topic(fresh, config={"cleanup.policy": "compact"})
    given = b'{"key": "a", "value": "1"}\n{"value": "2"}\n{"key": "b", "value": "3"}\n'
    outcome = ottla("produce", topic, "--json", stdin=given)
    assert outcome.code == 1
    assert "ottla: line 2: " in outcome.err
    assert lines(ottla("consume", topic, "-K", ":")) == ["a:1", "b:3"]
    ottla_broker.delete_topic(topic)


def test_however_many_records_are_refused_the_others_are_stored(
    ottla: Run, ottla_broker: Broker, fresh: str
) -> None:
    topic = ottla_broker.create_topic(fresh, config={"cleanup.policy": "compact"})
    given = b"".join(
        b'{"key": %s, "value": "%d"}\n' % (b'"%d"' % number if number % 2 else b"null", number)
        for number in range(3000)
    )
    outcome = ottla("produce", topic, "--json", stdin=given)
    assert outcome.code == 1
    assert outcome.err.count("INVALID_RECORD") == 5
    assert outcome.err.endswith("ottla: records that were not acknowledged: 1500\n")
    assert lines(ottla("consume", topic)) == [str(number) for number in range(1, 3000, 2)]
    ottla_broker.delete_topic(topic)


def test_what_is_so_large_that_a_broker_would_hang_up_is_refused_before_it_is_sent(
    ottla: Run, ottla_topic: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    sizes: list[int] = []
    produce = Client.produce

    def noted(client: Client, batches: dict[TopicPartition, bytes], **options: Any) -> Any:
        sizes.extend(map(len, batches.values()))
        return produce(client, batches, **options)

    monkeypatch.setattr(Client, "produce", noted)
    monkeypatch.setattr("ottla.cli.records.batch_sender.ASKED_BYTES", 2_000_000)
    outcome = ottla("produce", ottla_topic, stdin=b"first\n" + b"x" * 3_000_000 + b"\nlast\n")
    assert outcome.code == 1
    assert f"and topic {ottla_topic} takes 1048588 at most (max.message.bytes)" in outcome.err
    assert max(sizes) < 1000
    assert lines(ottla("consume", ottla_topic)) == ["first", "last"]


def test_batches_that_no_segment_holds_are_cut_until_one_does(
    ottla: Run, ottla_broker: Broker, fresh: str
) -> None:
    topic = ottla_broker.create_topic(fresh, config={"segment.bytes": 2000})
    given = [str(number) for number in range(1000)]
    assert ottla("produce", topic, stdin="\n".join(given).encode()).code == 0
    assert lines(ottla("consume", topic)) == given
    ottla_broker.delete_topic(topic)


def test_a_topic_is_created_for_a_record_and_never_silently(
    ottla: Run, ottla_broker: Broker, fresh: str
) -> None:
    wrong = ottla("produce", fresh, "-K", ":", stdin=b"no key\n")
    assert (wrong.code, fresh in ottla("topics", "list").out) == (2, False)
    assert ottla("produce", fresh, stdin=b"").code == 0
    assert fresh not in ottla("topics", "list").out
    refused = ottla("produce", fresh, stdin=b"x" * 3_000_000)
    assert refused.code == 1
    assert refused.err.startswith(f"topic {fresh} was not there, and was created\nottla: line 1: ")
    ottla_broker.delete_topic(fresh)


def test_keys_go_where_librdkafka_puts_them(ottla: Run, ottla_broker: Broker, fresh: str) -> None:
    topic = ottla_broker.create_topic(fresh, partitions=5)
    given = b"".join(b"key-%d:%d\n" % (number % 40, number) for number in range(200))
    places = ("-f", "%k@%p\n")
    assert ottla("produce", topic, "-K", ":", stdin=given).code == 0
    ours = set(ottla("consume", topic, *places).out.split())
    assert ottla("produce", topic, "-K", ":", "-X", "linger.ms=0", stdin=given).code == 0
    assert set(ottla("consume", topic, *places).out.split()) == ours
    ottla_broker.delete_topic(topic)


def test_lists_that_are_watched_are_shown_again_with_rates_until_ctrl_c(
    ottla: Run, ottla_broker: Broker, ottla_topic: str
) -> None:
    there = ("-b", ottla_broker.bootstrap_servers, "--every", "0.2")
    ottla("produce", ottla_topic, stdin=b"a\nb\n")
    ottla("consume", ottla_topic, "--group", f"{ottla_topic}-g")
    for command, text in (
        (("topics", "list", "--watch"), "records/s"),
        (("groups", "describe", f"{ottla_topic}-g", "--watch"), "lag/s"),
        (("cluster", "status", "--watch"), "under-replicated partitions"),
        (("top",), "records/s"),
    ):
        with terminal(*command, *there) as window:
            window.until(text)
            seen = len(window.shown)
            window.wait_for(lambda: window.shown.count(text) > 1 and len(window.shown) > seen, "second look")  # noqa: B023
            window.process.send_signal(signal.SIGINT)
            assert window.ended() == 0
        assert "Traceback" not in window.shown


ORDER = '{"type": "record", "name": "Order", "fields": [{"name": "id", "type": "long"}]}'


def test_records_with_a_schema_of_a_registry_go_both_ways(
    ottla: Run, ottla_topic: str, tmp_path: Path
) -> None:
    schema = tmp_path / "order.avsc"
    schema.write_text(ORDER)
    with schema_registry() as remote:
        by = ("--registry", remote.url)
        written = ("--value-format", "avro", "--schema", str(schema))
        unnamed = ottla("produce", ottla_topic, "--value-format", "avro", stdin=b"{}\n").err
        assert unnamed == "ottla: avro needs a schema registry: --registry http://HOST:8081\n"
        unknown = ottla("produce", ottla_topic, *by, "--value-format", "avro", stdin=b"{}\n").err
        assert unknown.endswith(" says Subject not found; --schema FILE registers one\n")
        assert ottla("produce", ottla_topic, *by, *written, stdin=b'{"id": 7}\n{"id": 8}\n').code == 0
        assert lines(ottla("consume", ottla_topic, *by)) == ['{"id":7}', '{"id":8}']
        assert '"value": {"id": 7}' in ottla("consume", ottla_topic, *by, "--json").out
        assert lines(ottla("consume", ottla_topic, *by, "--filter", "value.id=8")) == ['{"id":8}']
        wrong = ottla("produce", ottla_topic, *by, *written, stdin=b'{"id": 9}\n{"id": "nine"}\n')
        assert wrong.code == 2
        assert wrong.err.startswith("ottla: line 2: ")
    assert ottla("consume", ottla_topic, "-c", "1").raw[:5] == b"\x00\x00\x00\x00\x01"
    down = ottla("consume", ottla_topic, *by, "--value-format", "avro")
    assert lines(down) == ["000000000" + end for end in ("10e", "110", "112")]  # and why, once
    assert re.fullmatch(
        r"ottla: a value is not .*: schema 1: the registry at .* does not answer: .*\n", down.err
    )


def test_a_partition_that_the_topic_does_not_have_is_named_with_its_line(
    ottla: Run, ottla_topic: str
) -> None:
    wrong = ottla("produce", ottla_topic, "--json", stdin=b'{"value": "a"}\n{"value": "b", "partition": 4}\n')
    assert wrong.code == 2
    assert wrong.err == (
        f"ottla: line 2: topic {ottla_topic} has no partition 4, only 0 to 0; give it more, or leave "
        "`partition` out of the line (1 record before it was sent)\n"
    )
    assert lines(ottla("consume", ottla_topic)) == ["a"]
