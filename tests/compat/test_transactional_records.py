"""`ottla produce --transactional-id` and `ottla consume --isolation` against brokers with transactions."""

import json
import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from tests.cli.commands import Run
from tests.compat.traffic import FLUSH_S, read
from tests.compat.transactional import Server, begun
from tests.kafka_clients.harness import wait_for

from ottla.client import Client, TopicPartition

GONE_S = 60.0


@pytest.fixture
def topic(transactional_topic: str) -> str:
    return transactional_topic


@pytest.fixture
def ottla(transactional_ottla: Run) -> Run:
    return transactional_ottla


def values(server: Server, topic: str, isolation: str) -> list[bytes | None]:
    return [seen.sent.value for seen in read(server.bootstrap, topic, isolation_level=isolation)]


def committed(server: Server, topic: str) -> list[bytes | None]:
    """What a reader of committed records sees of partition 0, once every transaction has ended."""
    place = TopicPartition(topic, 0)
    with Client(server.bootstrap) as client:
        wait_for(
            lambda: client.ends([place], read_committed=True) == client.ends([place]), what="the last marker"
        )
    return values(server, topic, "read_committed")


def state(ottla: Run, transactional_id: str) -> str:
    listed = json.loads(ottla("transactions", "list", "--pattern", transactional_id, "--json").out)
    return str(listed[0]["state"]) if listed else ""


def partition_0(topic: str) -> tuple[str, ...]:
    return ("produce", topic, "--partition", "0", "--transactional-id", topic)


@contextmanager
def producing(server: Server, *arguments: str) -> Iterator[subprocess.Popen[bytes]]:
    """`ottla` in a process of its own, whose input the test writes."""
    process = subprocess.Popen(
        [sys.executable, "-m", "ottla.cli", *arguments, "--bootstrap", server.bootstrap],
        stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE,
    )  # fmt: skip
    try:
        yield process
    finally:
        process.kill()
        process.communicate()


def say(process: subprocess.Popen[bytes], line: bytes) -> None:
    assert process.stdin is not None
    process.stdin.write(line)
    process.stdin.flush()


# -- produce --------------------


def test_a_file_is_one_transaction(ottla: Run, transactional: Server, topic: str, tmp_path: Path) -> None:
    (tmp_path / "lines").write_text("".join(f"line {number}\n" for number in range(500)))
    outcome = ottla(*partition_0(topic), str(tmp_path / "lines"))
    assert (outcome.code, outcome.out) == (0, ""), outcome.err
    assert outcome.err.startswith("500 records, ")
    assert committed(transactional, topic) == [b"line %d" % number for number in range(500)]
    with Client(transactional.bootstrap) as client:
        place = TopicPartition(topic, 0)
        assert client.ends([place])[place] == 501, "500 records and one marker"


def test_so_many_records_are_one_transaction(ottla: Run, transactional: Server, topic: str) -> None:
    lines = b"".join(b"%d\n" % number for number in range(25))
    outcome = ottla(*partition_0(topic), "--records-per-transaction", "10", stdin=lines)
    assert outcome.code == 0, outcome.err
    assert committed(transactional, topic) == [b"%d" % number for number in range(25)]
    with Client(transactional.bootstrap) as client:
        place = TopicPartition(topic, 0)
        assert client.ends([place])[place] == 28, "25 records and three markers"
    nothing = ottla(*partition_0(topic), stdin=b"")
    assert (nothing.code, nothing.err[:10]) == (0, "0 records,")


def test_a_line_that_cannot_be_read_aborts_the_transaction_and_says_where_to_go_on(
    ottla: Run, transactional: Server, topic: str
) -> None:
    lines = b'{"value": "a"}\n{"value": "b"}\n{"value": "c"}\nnonsense\n{"value": "e"}\n'
    whole = ottla(*partition_0(topic), "--json", stdin=lines)
    assert (whole.code, whole.out) == (2, "")
    assert whole.err.startswith("ottla: line 4: ")
    assert whole.err.endswith("; the transaction was aborted; no earlier one is committed\n")
    assert whole.err.count("\n") == 1
    assert committed(transactional, topic) == []
    by_two = ottla(*partition_0(topic), "--json", "--records-per-transaction", "2", stdin=lines)
    assert by_two.code == 2
    assert by_two.err.endswith(
        "; the transaction was aborted; lines 1 to 2 are committed (1 transaction), go on with line 3\n"
    )
    assert committed(transactional, topic) == [b"a", b"b"]


def test_a_record_that_the_broker_does_not_take_aborts_the_transaction(
    ottla: Run, transactional: Server, topic: str
) -> None:
    lines = b"small\n" + b"x" * 3_000_000 + b"\n" + b"more\n" * 20_000
    outcome = ottla(*partition_0(topic), stdin=lines)
    assert (outcome.code, outcome.out) == (1, "")
    assert outcome.err == (
        f"ottla: transactional id '{topic}': Message size too large; the transaction was aborted; "
        "no earlier one is committed\n"
    )
    assert committed(transactional, topic) == []


def test_a_partition_that_is_not_there_aborts_the_transaction(
    ottla: Run, transactional: Server, topic: str
) -> None:
    outcome = ottla("produce", topic, "-p", "7", "--transactional-id", topic, stdin=b"nowhere\n")
    assert outcome.code == 1
    assert outcome.err.endswith("; the transaction was aborted; no earlier one is committed\n")


def test_an_interrupt_aborts_the_transaction(ottla: Run, transactional: Server, topic: str) -> None:
    with producing(transactional, *partition_0(topic)) as process:
        say(process, b"begun\n")
        wait_for(lambda: state(ottla, topic) == "Ongoing", what="the transaction")
        process.send_signal(signal.SIGINT)
        _, errors = process.communicate(timeout=GONE_S)
    assert process.returncode == 130
    assert errors.decode().splitlines() == ["the transaction was aborted; no earlier one is committed"]
    assert state(ottla, topic) in {"PrepareAbort", "CompleteAbort"}
    assert committed(transactional, topic) == []


def test_a_transaction_that_is_open_for_too_long_is_told_so(
    ottla: Run, transactional: Server, topic: str
) -> None:
    with producing(transactional, *partition_0(topic), "-X", "transaction.timeout.ms=1000") as process:
        say(process, b"begun\n")
        wait_for(lambda: state(ottla, topic) == "CompleteAbort", what="the broker to abort it")
        _, errors = process.communicate(b"too late\n", timeout=GONE_S)
    assert process.returncode == 1
    assert errors.decode().splitlines()[-1] == (
        f"ottla: transactional id '{topic}': the transaction was open for longer than transaction.timeout.ms "
        "(1 s): allow more, or send fewer records in one; the transaction was aborted; no earlier one is "
        "committed"
    )
    assert committed(transactional, topic) == []


def test_a_second_producer_with_the_same_id_ends_the_first(
    ottla: Run, transactional: Server, topic: str
) -> None:
    with producing(transactional, *partition_0(topic)) as process:
        say(process, b"first\n")
        wait_for(lambda: state(ottla, topic) == "Ongoing", what="the transaction")
        assert ottla(*partition_0(topic), stdin=b"second\n").code == 0
        _, errors = process.communicate(b"first again\n", timeout=GONE_S)
    assert process.returncode == 1
    assert f"ottla: transactional id '{topic}': another producer has begun to use it; " in errors.decode()
    assert committed(transactional, topic) == [b"second"]


def test_what_a_killed_run_left_open_is_aborted_by_the_next_with_the_same_id(
    ottla: Run, transactional: Server, topic: str
) -> None:
    with producing(transactional, *partition_0(topic)) as process:
        say(process, b"lost\n")
        wait_for(lambda: state(ottla, topic) == "Ongoing", what="the transaction")
        os.kill(process.pid, signal.SIGKILL)
        process.wait(GONE_S)
    assert state(ottla, topic) == "Ongoing"
    again = ottla(*partition_0(topic), stdin=b"kept\n")
    assert again.code == 0, again.err
    assert committed(transactional, topic) == [b"kept"]


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (("--records-per-transaction", "5"), "--records-per-transaction needs --transactional-id"),
        (("--transactional-id", ""), "--transactional-id must not be empty"),
        (("--transactional-id", "t", "--acks", "1"), "a transaction takes --acks all"),
    ],
)
def test_options_that_do_not_go_together_are_one_line(
    run: Run, arguments: tuple[str, ...], said: str
) -> None:
    outcome = run("produce", "orders", *arguments, stdin=b"x\n")
    assert (outcome.code, outcome.out, outcome.err) == (2, "", f"ottla: {said}\n")


def test_a_timeout_that_the_broker_does_not_allow_is_one_line(ottla: Run, topic: str) -> None:
    outcome = ottla(*partition_0(topic), "-X", "transaction.timeout.ms=99999999", stdin=b"x\n")
    assert outcome.code == 1
    assert outcome.err == (
        f"ottla: transactional id '{topic}': transaction.timeout.ms is larger than "
        "transaction.max.timeout.ms of the brokers\n"
    )


# -- consume --------------------


@pytest.fixture
def mixed(ottla: Run, transactional: Server, topic: str) -> Iterator[str]:
    """Committed, aborted, committed, and behind them one that is open."""
    ottla(*partition_0(topic), stdin=b"1\n2\n")
    begun(transactional, topic, f"{topic}-aborted").abort_transaction(FLUSH_S)
    ottla(*partition_0(topic), stdin=b"4\n")
    assert committed(transactional, topic) == [b"1", b"2", b"4"]
    producer = begun(transactional, topic, f"{topic}-open")
    yield topic
    producer.abort_transaction(FLUSH_S)


def test_aborted_and_open_transactions_are_seen_only_by_those_who_want_them(ottla: Run, mixed: str) -> None:
    usual = ottla("consume", mixed)
    assert (usual.code, usual.out.split(), usual.err) == (0, ["1", "2", "4"], "")
    assert ottla("consume", mixed, "--isolation", "read_committed").out == usual.out
    everything = ottla("consume", mixed, "--isolation", "read_uncommitted")
    assert (everything.code, everything.out.split()) == (0, ["1", "2", "open", "4", "open"])
    wrong = ottla("consume", mixed, "--isolation", "serializable")
    assert (wrong.code, wrong.out) == (2, "")
    assert wrong.err == "ottla: --isolation is read_committed or read_uncommitted, not 'serializable'\n"


@pytest.mark.parametrize("protocol", ["classic", "consumer"])
def test_a_group_reads_what_is_committed_and_is_not_behind_at_the_end(
    ottla: Run, mixed: str, protocol: str
) -> None:
    member = ("consume", mixed, "--group-protocol", protocol)
    usual = ottla(*member, "--group", f"{mixed}-{protocol}")
    assert (usual.code, usual.out.split(), usual.err) == (0, ["1", "2", "4"], "")
    (described,) = json.loads(ottla("groups", "describe", f"{mixed}-{protocol}", "--json").out)
    ends: dict[int, Any] = {row["partition"]: row["committed"] for row in described["partitions"]}
    assert ends[0] == 7, "behind the last marker, before the open transaction"
    everything = ottla(*member, "--group", f"{mixed}-all-{protocol}", "--isolation", "read_uncommitted")
    assert everything.out.split() == ["1", "2", "open", "4", "open"]


def test_following_shows_a_transaction_once_it_is_committed(
    ottla: Run, transactional: Server, topic: str
) -> None:
    ottla(*partition_0(topic), stdin=b"before\n")
    producer = begun(transactional, topic, f"{topic}-open")
    with producing(transactional, "consume", topic, "--follow", "--from-beginning", "-n", "3") as reader:
        assert reader.stdout is not None
        assert reader.stdout.readline() == b"before\n"
        producer.produce(topic, "more", partition=0)
        producer.commit_transaction(FLUSH_S)
        shown, errors = reader.communicate(timeout=GONE_S)
    assert (reader.returncode, shown.split(), errors) == (0, [b"open", b"more"], b"")
