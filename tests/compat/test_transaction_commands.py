"""`ottla transactions` against brokers with transactions, hanging ones too."""

import json
import subprocess
import time
from collections.abc import Iterator
from typing import Any

import pytest
from bench import apache
from bench.servers import clean_environment
from tests.cli.commands import Run
from tests.compat.apache import QUICK_JVM
from tests.compat.traffic import FLUSH_S, read, send_transactions
from tests.compat.transactional import HOUR_MS, Server, begun, leave_hanging
from tests.kafka_clients.harness import wait_for

from ottla.client import Client, TopicPartition

TOOL_S = 120.0


@pytest.fixture
def topic(transactional_topic: str) -> str:
    return transactional_topic


@pytest.fixture
def ottla(transactional_ottla: Run) -> Run:
    return transactional_ottla


def shown(ottla: Run, *arguments: str) -> list[dict[str, Any]]:
    outcome = ottla("transactions", *arguments, "--json")
    assert outcome.code == 0, outcome.err
    return list(json.loads(outcome.out))


def ids(ottla: Run, *arguments: str) -> set[str]:
    return {transaction["transactional_id"] for transaction in shown(ottla, "list", *arguments)}


@pytest.fixture
def ongoing(transactional: Server, topic: str) -> Iterator[Any]:
    producer = begun(transactional, topic, f"{topic}-ongoing", age_ms=2 * HOUR_MS)
    yield producer
    producer.abort_transaction(FLUSH_S)


def test_transactions_are_listed_by_state_producer_duration_and_pattern(
    ottla: Run, transactional: Server, topic: str, ongoing: Any
) -> None:
    done = f"{topic}-done"
    send_transactions(transactional.bootstrap, topic, done)
    wait_for(lambda: done in ids(ottla, "--state", "complete-commit"), what="the last marker")
    listed = {transaction["transactional_id"]: transaction for transaction in shown(ottla, "list")}
    open_one = listed[f"{topic}-ongoing"]
    assert open_one == {
        "transactional_id": f"{topic}-ongoing",
        "coordinator": 1,
        "producer_id": open_one["producer_id"],
        "state": "Ongoing",
    }
    assert listed[done]["state"] == "CompleteCommit"
    ours = {done, f"{topic}-ongoing"}
    assert ids(ottla, "--pattern", f"{topic}.*") == ours
    assert ids(ottla, "--pattern", topic) == set()
    assert ids(ottla, "--state", "ongoing") & ours == {f"{topic}-ongoing"}
    assert ids(ottla, "--state", "ONGOING", "--state", "complete_commit") >= ours
    assert ids(ottla, "--producer-id", str(open_one["producer_id"])) == {f"{topic}-ongoing"}
    assert ids(ottla, "--longer-than", "0s", "--pattern", f"{topic}.*") == {f"{topic}-ongoing"}
    assert ids(ottla, "--longer-than", "1d") == set()
    nothing = ottla("transactions", "list", "--pattern", topic)
    assert (nothing.code, nothing.out, nothing.err) == (0, "", "there are no transactions like that\n")
    table = ottla("transactions", "list", "--pattern", f"{topic}-done").out.splitlines()
    assert table[0].split() == ["TRANSACTIONAL", "ID", "COORDINATOR", "PRODUCER", "ID", "STATE"]
    assert table[1].split() == [done, "1", str(listed[done]["producer_id"]), "CompleteCommit"]


def test_a_filter_that_makes_no_sense_is_one_line(ottla: Run) -> None:
    pattern = ottla("transactions", "list", "--pattern", "(")
    assert (pattern.code, pattern.out) == (2, "")
    assert pattern.err == "ottla: --pattern '(' is not a regular expression of RE2\n"
    state = ottla("transactions", "list", "--state", "stuck")
    assert (state.code, state.err[:26]) == (2, "ottla: --state is one of E")
    duration = ottla("transactions", "list", "--longer-than", "15")
    assert duration.code == 2
    assert duration.err == (
        "ottla: --longer-than takes a time with its unit, such as 30s, 15m or 2h, not '15'\n"
    )


def test_a_transaction_is_described_with_its_coordinator_times_and_partitions(
    ottla: Run, transactional: Server, topic: str, ongoing: Any
) -> None:
    before_ms = int(time.time() * 1000)
    name = f"{topic}-ongoing"
    (described,) = shown(ottla, "describe", name, name)
    assert described["partitions"] == [{"topic": topic, "partition": 0}]
    assert (described["state"], described["coordinator"]) == ("Ongoing", 1)
    assert (described["timeout_ms"], described["producer_epoch"] >= 0) == (60_000, True)
    assert described["started_ms"] <= before_ms
    assert described["started_ms"] + described["open_ms"] >= before_ms
    (listed,) = shown(ottla, "list", "--pattern", name)
    assert listed["producer_id"] == described["producer_id"]
    done = f"{topic}-done"
    send_transactions(transactional.bootstrap, topic, done)
    wait_for(lambda: done in ids(ottla, "--state", "complete-commit"), what="the last marker")
    (ended,) = shown(ottla, "describe", done)
    assert (ended["state"], ended["open_ms"], ended["partitions"]) == ("CompleteCommit", None, [])
    assert ended["started_ms"] >= before_ms
    table = ottla("transactions", "describe", name, done).out.splitlines()
    assert [line.split()[0] for line in table[1:]] == [name, done]
    assert f"{topic}:0" in table[1]
    assert " 1 min " in table[1]


def test_a_transactional_id_that_is_not_there_is_answered_with_the_nearest(
    ottla: Run, topic: str, ongoing: Any
) -> None:
    outcome = ottla("transactions", "describe", f"{topic}-ongoin")
    assert (outcome.code, outcome.out) == (1, "")
    assert outcome.err == (
        f"ottla: there is no transactional id '{topic}-ongoin'; did you mean '{topic}-ongoing'?\n"
    )


def committed(server: Server, topic: str) -> list[bytes | None]:
    return [seen.sent.value for seen in read(server.bootstrap, topic, isolation_level="read_committed")]


def hanging_in(ottla: Run, *arguments: str) -> list[dict[str, Any]]:
    """What is found, without how long it has hung, which is checked."""
    rows = shown(ottla, "find-hanging", *arguments)
    for row in rows:
        assert HOUR_MS <= row.pop("idle_ms") <= HOUR_MS + 600_000
    return rows


def test_a_hanging_transaction_is_found_and_aborted_and_readers_go_on(
    ottla: Run, transactional: Server, topic: str, ongoing: Any
) -> None:
    """One whose id is known, and whose producer has none; beside them one that its coordinator has."""
    known = leave_hanging(transactional, topic, f"{topic}-zombie")
    unknown = leave_hanging(transactional, topic, None)
    send_transactions(transactional.bootstrap, topic, f"{topic}-later")
    hanging = hanging_in(ottla, "--topic", topic)
    assert [(row["producer_id"], row["producer_epoch"], row["start_offset"]) for row in hanging] == [
        known, unknown,
    ]  # fmt: skip
    assert {(row["topic"], row["partition"], row["coordinator_epoch"]) for row in hanging} == {(topic, 0, -1)}
    assert hanging_in(ottla, "--broker", "1", "--topic", topic) == hanging
    assert [row for row in hanging_in(ottla, "--broker", "1") if row["topic"] == topic] == hanging
    assert hanging_in(ottla, "--topic", topic, "--partition", "1") == []
    assert hanging_in(ottla, "--topic", topic, "--max-transaction-timeout", "3h") == []
    table = ottla("transactions", "find-hanging", "--topic", topic).out.splitlines()
    assert table[1].split()[:6] == [topic, "0", *map(str, known[:2]), "-1", str(known.start_offset)]
    assert committed(transactional, topic) == []

    ongoing.abort_transaction(FLUSH_S)
    place = ("--topic", topic, "--partition", "0")
    refused = ottla("transactions", "abort", *place, "--start-offset", str(known.start_offset))
    assert (refused.code, refused.err) == (
        2, "ottla: nothing was done: without a terminal to ask at, this takes --yes\n",
    )  # fmt: skip
    first = ottla("transactions", "abort", *place, "--start-offset", str(known.start_offset), "--yes")
    assert (first.code, first.out) == (0, ""), first.err
    assert first.err == f"aborted the transaction of producer {known.producer_id} in {topic}-0\n"
    assert [row["producer_id"] for row in hanging_in(ottla, "--topic", topic)] == [unknown.producer_id]
    second = ottla(
        "transactions", "abort", *place, "--producer-id", str(unknown.producer_id),
        "--producer-epoch", str(unknown.producer_epoch), "--coordinator-epoch", "-1", "--yes",
    )  # fmt: skip
    assert second.code == 0, second.err
    nothing = ottla("transactions", "find-hanging", "--topic", topic)
    assert (nothing.code, nothing.out, nothing.err) == (0, "", "no transaction hangs in 2 partitions\n")
    assert len(wait_for(lambda: committed(transactional, topic), what="committed records")) == 10
    begun(transactional, topic, f"{topic}-ongoing").commit_transaction(FLUSH_S)
    ongoing.begin_transaction()


def test_a_transaction_that_its_coordinator_has_is_aborted_only_by_force(
    ottla: Run, transactional: Server, topic: str
) -> None:
    producer = begun(transactional, topic, f"{topic}-live")
    (described,) = shown(ottla, "describe", f"{topic}-live")
    place = ("--topic", topic, "--partition", "0", "--start-offset", "0", "--yes")
    refused = ottla("transactions", "abort", *place)
    number = described["producer_id"]
    assert (refused.code, refused.out) == (1, "")
    assert refused.err == (
        f"ottla: the transaction of producer {number} in {topic}-0 does not hang: its coordinator has it and "
        f"ends it at its timeout (`ottla transactions list --producer-id {number}`); only --force aborts it\n"
    )
    forced = ottla("transactions", "abort", *place, "--force")
    assert forced.code == 0, forced.err
    again = ottla("transactions", "abort", *place, "--force")
    assert again.code == 1
    assert again.err == (f"ottla: no open transaction begins at offset 0 of {topic}-0: none is open there\n")
    producer.abort_transaction(FLUSH_S)


def test_the_transaction_to_abort_must_be_named_rightly(
    ottla: Run, transactional: Server, topic: str
) -> None:
    left = leave_hanging(transactional, topic, None)
    place = ("transactions", "abort", "--topic", topic, "--partition", "0", "--yes")
    elsewhere = ottla(*place, "--start-offset", "77")
    assert elsewhere.code == 1
    assert elsewhere.err == (
        f"ottla: no open transaction begins at offset 77 of {topic}-0: those that are open begin at 0\n"
    )
    unnamed = ottla(*place, "--producer-id", "7")
    assert unnamed.code == 2
    assert unnamed.err == (
        "ottla: say which transaction: --start-offset, or --producer-id with --producer-epoch and "
        "--coordinator-epoch\n"
    )
    both = ottla(*place, "--producer-id", "7", "--start-offset", "0")
    assert (both.code, both.err[:33]) == (2, "ottla: --start-offset says it all")
    number = str(left.producer_id)
    stale = ottla(*place, "--producer-id", number, "--producer-epoch", "5", "--coordinator-epoch", "0")
    assert stale.code == 0, stale.err  # a newer epoch fences the producer, as Kafka has it
    stale = ottla(*place, "--producer-id", number, "--producer-epoch", "0", "--coordinator-epoch", "0")
    assert (stale.code, stale.out) == (1, "")
    assert stale.err == (
        f"ottla: producer {number} has a newer epoch than 0 in {topic}-0; look again with "
        f"`ottla transactions find-hanging --topic {topic}`\n"
    )


@pytest.mark.parametrize(
    ("arguments", "code", "said"),
    [
        (("find-hanging",), 2, "say where to search: --topic, --broker or both"),
        (("find-hanging", "--broker", "1", "--partition", "0"), 2, "--partition needs --topic"),
        (("find-hanging", "--broker", "9"), 1, "there is no broker 9, only 1"),
        (("find-hanging", "-t", "nowhere-at-all"), 1, "there is no topic 'nowhere-at-all'"),
        (("find-hanging", "-t", "TOPIC", "-p", "2"), 1, "topic TOPIC has no partition 2, only 0 to 1"),
        (("abort", "-t", "TOPIC", "-p", "2", "--start-offset", "0"), 1,
         "topic TOPIC has no partition 2, only 0 to 1"),
    ],
)  # fmt: skip
def test_a_search_that_cannot_be_is_one_line(
    ottla: Run, topic: str, arguments: tuple[str, ...], code: int, said: str
) -> None:
    outcome = ottla("transactions", *(word.replace("TOPIC", topic) for word in arguments))
    assert (outcome.code, outcome.out, outcome.err) == (code, "", f"ottla: {said.replace('TOPIC', topic)}\n")


def test_nobody_at_the_address_is_told_at_once(run: Run) -> None:
    outcome = run("transactions", "list", "--bootstrap", "127.0.0.1:1")
    assert (outcome.code, outcome.out) == (1, "")
    assert outcome.err.startswith("ottla: no broker answers at 127.0.0.1:1 (")


def test_an_aborted_transaction_no_longer_holds_back_the_last_stable_offset(
    ottla: Run, transactional: Server, topic: str
) -> None:
    with Client(transactional.bootstrap) as client:
        place = TopicPartition(topic, 0)
        leave_hanging(transactional, topic, None)
        assert client.ends([place], read_committed=True)[place] == 0
        aborted = ottla("transactions", "abort", "-t", topic, "-p", "0", "--start-offset", "0", "-y")
        assert aborted.code == 0, aborted.err
        assert client.ends([place], read_committed=True)[place] == 2


# -- side by side --------------------


def kafkas(server: Server, *arguments: str) -> list[dict[str, str]]:
    """What Apache Kafka's own tool shows: a table with tabs between padded columns."""
    name = "org.apache.kafka.tools.TransactionsCommand"
    command = apache.java(name, "--bootstrap-server", server.bootstrap, *arguments)
    done = subprocess.run(
        command, capture_output=True, text=True, timeout=TOOL_S, env=clean_environment() | QUICK_JVM
    )
    assert done.returncode == 0, done.stdout + done.stderr[-2000:]
    lines = [[cell.strip() for cell in line.split("\t")] for line in done.stdout.splitlines() if line.strip()]
    return [dict(zip(lines[0], row, strict=True)) for row in lines[1:]]


def test_kafkas_own_tool_shows_and_aborts_the_same(
    ottla: Run, transactional: Server, topic: str, ongoing: Any, kafka_jars: str
) -> None:
    left = leave_hanging(transactional, topic, f"{topic}-zombie")
    theirs = {row["TransactionalId"]: row for row in kafkas(transactional, "list")}
    for ours in shown(ottla, "list", "--pattern", f"{topic}.*"):
        row = theirs[ours["transactional_id"]]
        assert (row["Coordinator"], row["ProducerId"], row["TransactionState"]) == (
            str(ours["coordinator"]), str(ours["producer_id"]), ours["state"],
        )  # fmt: skip
    (row,) = kafkas(transactional, "describe", "--transactional-id", f"{topic}-ongoing")
    (described,) = shown(ottla, "describe", f"{topic}-ongoing")
    assert (row["ProducerEpoch"], row["TransactionTimeoutMs"], row["CurrentTransactionStartTimeMs"]) == (
        str(described["producer_epoch"]), str(described["timeout_ms"]), str(described["started_ms"]),
    )  # fmt: skip
    assert row["TopicPartitions"] == f"{topic}-0"
    (row,) = kafkas(transactional, "find-hanging", "--topic", topic)
    (ours,) = hanging_in(ottla, "--topic", topic)
    assert (row["ProducerId"], row["StartOffset"], row["LastTimestamp"]) == (
        str(ours["producer_id"]), str(ours["start_offset"]), str(ours["last_timestamp_ms"]),
    )  # fmt: skip
    place = ("--topic", topic, "--partition", "0", "--start-offset", str(left.start_offset))
    assert kafkas(transactional, "abort", *place) == []
    assert hanging_in(ottla, "--topic", topic) == []
