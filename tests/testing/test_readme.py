"""What README.md and docs/tour.md promise is run as it stands there."""

import json
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest
import typer

from ottla import Broker
from ottla.api.table import TABLE
from ottla.base.config import load
from ottla.base.properties import parse
from ottla.broker.config_classes import CONFIG_CLASSES
from ottla.cli.app import app
from ottla.cli.properties import without_effect
from ottla.group.config import GroupConfig

ROOT = Path(__file__).parents[2]
README = (ROOT / "README.md").read_text()
TOUR = (ROOT / "docs" / "tour.md").read_text()
MAKEFILE = (ROOT / "Makefile").read_text()
EXAMPLE_LINES_MAX = 20


def blocks(language: str, page: str = README) -> list[str]:
    fenced = re.findall(r"^```(\w*)\n(.*?)^```$", page, re.DOTALL | re.MULTILINE)
    return [block for named, block in fenced if named == language]


def commands(topic: str, page: str = TOUR) -> list[str]:
    """The block of a page that begins with creating that topic."""
    (block,) = [block for block in blocks("bash", page) if block.startswith(f"ottla topics create {topic} ")]
    return block.splitlines()


def run_all(commands: list[str], folder: Path, config: dict[str, str] | None = None) -> dict[str, str]:
    """What each of the commands wrote to stdout; all must succeed."""
    with Broker(config) as broker:
        shown = {command: run(command, folder, broker.bootstrap_servers) for command in commands}
    assert list(folder.iterdir()) == []
    return shown


def run(command: str, folder: Path, bootstrap: str = "") -> str:
    environment = {
        **os.environ,
        "OTTLA_BOOTSTRAP": bootstrap,
        "PATH": f"{Path(sys.executable).parent}:{os.environ['PATH']}",
    }
    done = subprocess.run(
        ["bash", "-o", "pipefail", "-c", command],
        capture_output=True, text=True, timeout=60, cwd=folder, env=environment,
    )  # fmt: skip
    assert done.returncode == 0, (command, done.stderr)
    return done.stdout


def test_the_readme_opens_with_what_ottla_is_and_the_two_commands() -> None:
    assert README.startswith("# Ottla\n\nOttla is a Kafka-compatible log broker")
    first = blocks("bash")[0]
    targets = re.findall(r"^make (\w+)", first, re.MULTILINE)
    assert targets == ["demo", "test"]
    for target in targets:
        assert re.search(rf"^{target}:", MAKEFILE, re.MULTILINE)


def test_the_example_is_short_and_prints_what_the_readme_says(tmp_path: Path) -> None:
    example, expected = blocks("python")[0], blocks("")[0]
    assert len(example.splitlines()) <= EXAMPLE_LINES_MAX
    done = run_example(example, tmp_path)
    assert (done.returncode, done.stderr, done.stdout) == (0, "", expected)


def test_the_example_of_exactly_once_prints_what_the_readme_says(tmp_path: Path) -> None:
    section = README.partition("\n## Exactly once\n")[2].partition("\n## ")[0]
    (example,), (expected,) = blocks("python", section), blocks("", section)
    assert "abort_transaction" in example
    done = run_example(example, tmp_path)
    # librdkafka may write that the coordinator is still loading, and that it tries again.
    assert (done.returncode, done.stdout) == (0, expected), done.stderr


def run_example(example: str, folder: Path) -> "subprocess.CompletedProcess[str]":
    return subprocess.run(
        [sys.executable, "-W", "error", "-c", example],
        capture_output=True,
        text=True,
        timeout=60,
        cwd=folder,
    )


@pytest.mark.parametrize("number", [1, 2])
def test_the_pytest_examples_pass(tmp_path: Path, number: int) -> None:
    (tmp_path / "test_example.py").write_text(blocks("python")[number])
    # A broker that is killed inside a process may leave a socket for the garbage collector.
    killed = ["-W", "ignore::pytest.PytestUnraisableExceptionWarning"] if number == 2 else []
    arguments = [
        "-p",
        "no:cacheprovider",
        "-W",
        "error",
        *killed,
        "-q",
        "--rootdir",
        str(tmp_path),
        str(tmp_path),
    ]
    done = subprocess.run(
        [sys.executable, "-m", "pytest", *arguments], capture_output=True, text=True, timeout=60, cwd=tmp_path
    )
    assert done.returncode == 0, done.stdout + done.stderr


def test_the_first_three_commands_of_the_readme_send_a_record_and_show_it(tmp_path: Path) -> None:
    shown = run_all(commands("greetings", README), tmp_path)
    assert shown["ottla consume greetings"] == "hello\n"


def test_the_commands_of_the_tour_work_and_the_files_they_leave_are_dumped_and_verified(
    tmp_path: Path,
) -> None:
    (block,) = [block for block in blocks("", TOUR) if block.startswith("ottla dump ")]
    dump, verify = block.splitlines()
    with Broker(data=tmp_path / "data") as broker:
        shown = {command: run(command, tmp_path, broker.bootstrap_servers) for command in commands("orders")}
        assert "value '1 apple'" in run(dump, tmp_path)
    assert sorted(shown["ottla consume orders"].splitlines()) == ["1 apple", "2 pears", '{"plums":3}']
    assert "cleanup.policy" in shown["ottla configs describe --topic orders"]
    assert " error" not in run(verify, tmp_path)
    assert [path.name for path in tmp_path.iterdir()] == ["data"]


def test_the_commands_of_the_tour_of_groups_work_one_after_the_other(tmp_path: Path) -> None:
    shown = run_all(commands("parcels"), tmp_path, {"group.initial.rebalance.delay.ms": "0"})
    assert len(shown["ottla consume parcels --group billing --max 4"].splitlines()) == 4
    everything = shown["ottla consume parcels --group shipping --group-protocol consumer"]
    assert sorted(map(int, everything.split())) == list(range(1, 11))
    rows = [line.split() for line in shown["ottla groups list"].splitlines()[1:]]
    assert [row[:3] for row in rows] == [["billing", "Empty", "classic"], ["shipping", "Empty", "consumer"]]
    billing, shipping = (int(row[-1]) for row in rows)
    assert 0 <= billing <= 6  # a partition of which nothing was committed has no lag
    assert shipping == 0
    assert "LAG" in shown["ottla groups describe billing"]
    plan = "ottla groups reset billing --topic parcels --to-earliest"
    assert shown[plan] == shown[f"{plan} --execute"], "the dry run had changed something"
    (group,) = json.loads(shown["ottla groups describe shipping --members --json"])
    assert (group["group"], group["members"], group["lag"]) == ("shipping", [], 0)


def test_the_commands_of_the_tour_of_transactions_work_one_after_the_other(tmp_path: Path) -> None:
    shown = run_all(commands("invoices"), tmp_path)
    for command in ("ottla consume invoices", "ottla consume invoices --isolation read_uncommitted"):
        assert sorted(map(int, shown[command].split())) == list(range(1, 10))
    (row,) = shown["ottla transactions list"].splitlines()[1:]
    assert row.split()[0] == "load-invoices"
    assert row.split()[-1] == "CompleteCommit"
    assert "CompleteCommit" in shown["ottla transactions describe load-invoices"]


def test_the_commands_of_the_tour_of_security_let_alice_in(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with Broker(secure=True) as broker:
        file = tmp_path / "client.properties"
        file.write_text("".join(f"{name}={value}\n" for name, value in broker.client_config.items()))
        monkeypatch.setenv("OTTLA_CONFIG", str(file))
        shown = {command: run(command, tmp_path, broker.bootstrap_servers) for command in commands("diaries")}
    rows = [line.split() for line in shown["ottla acls list --principal alice"].splitlines()[1:]]
    assert sorted((row[2], row[4], row[5]) for row in rows) == [
        ("Describe", "Topic", "diaries"),
        ("Read", "Group", "readers"),
        ("Read", "Topic", "diaries"),
    ]


def test_committed_offsets_survive_a_restart(tmp_path: Path) -> None:
    from confluent_kafka import Consumer, TopicPartition

    for is_restarted in (False, True):
        with Broker(data=tmp_path) as broker:
            consumer = Consumer({"bootstrap.servers": broker.bootstrap_servers, "group.id": "readers"})
            if not is_restarted:
                broker.create_topic("letters")
                consumer.commit(offsets=[TopicPartition("letters", 0, 7)], asynchronous=False)
            (found,) = consumer.committed([TopicPartition("letters", 0)], timeout=20)
            consumer.close()
            assert found.offset == 7


def test_offsets_of_a_group_without_members_are_kept_for_a_week() -> None:
    assert "are deleted after a week (`offsets.retention.minutes`)" in TOUR
    assert GroupConfig().offsets_retention_minutes == 7 * 24 * 60


def test_every_command_is_in_the_readme_or_in_the_tour() -> None:
    names = set(typer.main.get_command(app).commands)  # type: ignore[attr-defined]
    assert len(names) > 12
    for name in names:
        assert f"ottla {name}" in README + TOUR or f"make {name}" in README, name


def test_the_config_example_is_made_of_keys_that_exist() -> None:
    properties = parse(blocks("properties", TOUR)[0])
    assert len(properties) == 5
    assert list(without_effect(properties)) == []
    for config in CONFIG_CLASSES:
        load(config, properties)


def test_what_the_readme_says_is_left_out_is_not_advertised() -> None:
    left_out = README.partition("## What it does not do\n")[2].partition("\n## ")[0]
    keys = {"delegation tokens": 38, "KRaft": 62, "share groups": 76, "Streams": 88}
    for word, key in keys.items():
        assert word in left_out
        assert key not in TABLE, word


def test_a_replication_factor_above_1_is_refused(ottla_broker: Broker) -> None:
    from confluent_kafka import KafkaException
    from confluent_kafka.admin import AdminClient, NewTopic

    client = AdminClient({"bootstrap.servers": ottla_broker.bootstrap_servers})
    asked = client.create_topics([NewTopic("letters", 1, replication_factor=2)])
    with pytest.raises(KafkaException, match="INVALID_REPLICATION_FACTOR"):
        asked["letters"].result(20)
