"""Profiles, completion and the commands that are named as Kafka's."""

import json
import os
import signal
import stat
import subprocess
import sys
from pathlib import Path

import pytest
from tests.cli.commands import Run

from ottla import Broker
from ottla.base.command_error import CommandError
from ottla.cli import client_settings
from ottla.cli.shells import kafka_flags
from ottla.cli.shells.candidates import candidates
from ottla.cli.shells.completion import SCRIPTS
from ottla.cli.shells.shims import TOOLS
from ottla.cli.watch import watched
from ottla.client.errors import ClientError
from ottla.client.librdkafka.errors import request_s

WITHIN_S = 60.0


@pytest.fixture
def home(run: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Run:
    """A user with a configuration folder of their own."""
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path))
    return run


# -- profiles --------------------


def names(home: Run) -> dict[str, bool]:
    return {row["name"]: row["is_used"] for row in json.loads(home("profile", "list", "--json").out)}


def test_the_first_profile_is_used_until_another_is_chosen(home: Run, tmp_path: Path) -> None:
    assert "there are no profiles" in home("profile", "list").err
    assert home("profile", "add", "here", "-b", "127.0.0.1:1").err == (
        "saved profile here\nprofile here is used\n"
    )
    assert home("profile", "add", "shop.eu", "-b", "shop:9092").err == (
        "saved profile shop.eu\nprofile here is used\n"
        "`ottla profile use shop.eu`, or --profile shop.eu with a command, uses this one\n"
    )
    assert names(home) == {"here": True, "shop.eu": False}
    assert home("profile", "use", "shop.eu").code == 0
    assert names(home) == {"here": False, "shop.eu": True}
    assert client_settings.resolve(client_settings.Typed(), "x:1").bootstrap == "shop:9092"
    assert home("profile", "remove", "shop.eu").err == "no profile is used\n"
    assert names(home) == {"here": False}
    assert home("profile", "remove", "gone").code == 2
    assert stat.S_IMODE((tmp_path / "ottla" / "config.toml").stat().st_mode) == 0o600


def test_a_profile_reaches_a_cluster_and_everything_else_is_above_it(
    home: Run, ottla_broker: Broker, monkeypatch: pytest.MonkeyPatch
) -> None:
    home("profile", "add", "good", "-b", ottla_broker.bootstrap_servers, "-X", "client.id=profiled")
    assert home("topics", "list").code == 0
    monkeypatch.setenv("OTTLA_BOOTSTRAP", "127.0.0.1:1")
    assert home("topics", "list").code == 1
    assert home("topics", "list", "-X", f"bootstrap.servers={ottla_broker.bootstrap_servers}").code == 0
    assert home("cluster", "status").code == 1
    monkeypatch.setenv("OTTLA_BOOTSTRAP", ottla_broker.bootstrap_servers)
    assert home("cluster", "status").code == 0


def test_what_else_is_in_the_file_of_profiles_stays_and_what_is_wrong_is_refused(
    home: Run, tmp_path: Path
) -> None:
    path = tmp_path / "ottla" / "config.toml"
    path.parent.mkdir()
    path.write_text('colour = "blue"\nlist = [1, 2]\n[other]\nkey = true\n')
    properties = tmp_path / "client.properties"
    properties.write_text("security.protocol=SASL_SSL\nsasl.mechanism=PLAIN\nsasl.username=ann\n")
    refused = home("profile", "add", "bad", "-b", "h:1", "--client-config", str(properties))
    assert (refused.code, refused.err.count("\n")) == (2, 1)
    assert home("profile", "add", "a b", "-b", "h:1", "-X", 'client.id=with "quotes"').code == 0
    content = client_settings.file_content()
    assert (content["colour"], content["list"], content["other"]) == ("blue", [1, 2], {"key": True})
    assert client_settings.profiles()["a b"] == {"bootstrap.servers": "h:1", "client.id": 'with "quotes"'}


# -- completion --------------------


def words(*line: str) -> list[str]:
    return [word for word, _ in candidates(list(line))]


def test_commands_options_and_values_are_completed(home: Run) -> None:
    assert words("to") == ["topics", "top"]
    assert words("topics", "de") == ["describe", "delete"]
    assert {"--format", "--filter", "--follow", "--from-beginning"} == set(words("consume", "t", "--f"))
    assert words("produce", "t", "--compression", "g") == ["gzip"]
    assert words("completion", "") == ["bash", "zsh", "fish"]
    assert words("nonsense", "") == []
    assert words("topics", "nonsense", "") == []
    home("profile", "add", "here", "-b", "127.0.0.1:1")
    assert words("topics", "list", "--profile", "") == ["here"]
    assert words("consume", "") == []  # nobody answers there


def test_topics_and_groups_of_the_cluster_that_the_line_names_are_completed(
    ottla: Run, ottla_broker: Broker, ottla_topic: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    ottla("produce", ottla_topic, stdin=b"a\n")
    ottla("consume", ottla_topic, "--group", f"{ottla_topic}-group")
    monkeypatch.delenv("OTTLA_BOOTSTRAP")
    there = ("-b", ottla_broker.bootstrap_servers)
    assert words("consume", *there, ottla_topic[:-2]) == [ottla_topic]
    assert words("produce", *there, ottla_topic, "") == []  # a file comes there
    assert words("topics", "describe", *there, "other", ottla_topic) == [ottla_topic]
    assert words("groups", "describe", *there, ottla_topic) == [f"{ottla_topic}-group"]
    assert words("consume", *there, ottla_topic, "--group", ottla_topic) == [f"{ottla_topic}-group"]


def test_bash_completes_with_the_script(ottla: Run, tmp_path: Path) -> None:
    own = tmp_path / "ottla"
    own.write_text(f'#!/bin/sh\nexec "{sys.executable}" -m ottla.cli "$@"\n')
    own.chmod(0o755)
    script = ottla("completion", "bash").out
    asked = "COMP_WORDS=(ottla topics l); COMP_CWORD=2; _ottla; echo ${COMPREPLY[@]}"
    done = subprocess.run(
        ["bash", "-c", f"{script}\n{asked}"],
        capture_output=True, text=True, timeout=WITHIN_S,
        env={**os.environ, "PATH": f"{tmp_path}:{os.environ['PATH']}"},
    )  # fmt: skip
    assert (done.stdout, done.stderr) == ("list\n", "")
    for shell in SCRIPTS:
        assert "__complete" in ottla("completion", shell).out


# -- what is watched --------------------


def test_a_cluster_that_goes_away_while_it_is_watched_is_told_and_looked_for_again(
    capsys: pytest.CaptureFixture[str],
) -> None:
    looks: list[str] = []

    def show() -> None:
        looks.append("look")
        if len(looks) == 2:
            raise ClientError("nobody answers")
        if len(looks) == 3:
            raise CommandError("still nobody")
        if len(looks) == 4:
            os.kill(os.getpid(), signal.SIGINT)

    watched(show, 0.1)
    assert len(looks) == 4
    assert capsys.readouterr().err == "ottla: nobody answers\nottla: still nobody\n"
    looks[:] = ["look"]
    with pytest.raises(ClientError):
        watched(show, 0.1)


# -- commands of Kafka's --------------------


@pytest.fixture
def kafka(ottla: Run, ottla_broker: Broker) -> Run:
    """A command of Kafka's with its flags."""

    def kafka(tool: str, *arguments: str, stdin: bytes = b"") -> object:
        there = ("--bootstrap-server", ottla_broker.bootstrap_servers)
        return ottla("__kafka", tool, *there, *arguments, stdin=stdin)

    return kafka


def test_shims_are_written_where_they_are_wanted_and_over_nothing(ottla: Run, tmp_path: Path) -> None:
    folder = tmp_path / "bin"
    assert ottla("shims", str(folder)).code == 0
    assert {path.name for path in folder.iterdir()} == {f"{t}{end}" for t in TOOLS for end in ("", ".sh")}
    assert ottla("shims", str(folder)).code == 2
    assert ottla("shims", str(folder), "--force").code == 0
    done = subprocess.run(
        [folder / "kafka-topics.sh", "--list", "--create"], capture_output=True, text=True, timeout=WITHIN_S
    )
    assert done.returncode == 1
    assert "exactly one of --list, --create, --describe, --alter, --delete is needed" in done.stderr


def test_topics_are_made_listed_described_and_deleted_with_kafkas_flags(kafka: Run, fresh: str) -> None:
    made = kafka(
        "kafka-topics", "--create", "--topic", fresh, "--partitions", "2", "--config", "retention.ms=9"
    )
    assert (made.code, made.out) == (0, f"Created topic {fresh}.\n")
    assert fresh in kafka("kafka-topics", "--list", "--exclude-internal").out.splitlines()
    first, *rest = kafka("kafka-topics", "--describe", "--topic", fresh).out.splitlines()
    fields = dict(field.split(": ", 1) for field in first.split("\t"))
    assert len(fields.pop("TopicId")) == 22
    assert "retention.ms=9" in fields.pop("Configs").split(",")
    assert fields == {"Topic": fresh, "PartitionCount": "2", "ReplicationFactor": "1"}
    assert rest == [
        f"\tTopic: {fresh}\tPartition: {n}\tLeader: 1\tReplicas: 1\tIsr: 1\tElr: \tLastKnownElr: "
        for n in (0, 1)
    ]
    assert kafka("kafka-topics", "--alter", "--topic", fresh, "--partitions", "3").code == 0
    assert kafka("kafka-topics", "--delete", "--topic", fresh).code == 0
    gone = kafka("kafka-topics", "--delete", "--topic", fresh)
    assert (gone.code, gone.err) == (1, f"ottla: Topic '{fresh}' does not exist as expected\n")
    assert kafka("kafka-topics", "--delete", "--topic", fresh, "--if-exists").code == 0
    assert kafka("kafka-topics", "--list", "--zookeeper", "z:1").code == 1


def test_a_topic_that_is_there_is_not_said_to_be_created(kafka: Run, fresh: str) -> None:
    create = ("kafka-topics", "--create", "--topic", fresh, "--if-not-exists")
    assert kafka(*create).out == f"Created topic {fresh}.\n"
    again = kafka(*create)
    assert (again.code, again.out, again.err) == (0, "", "")
    alter = ("kafka-topics", "--alter", "--partitions", "2", "--if-exists", "--topic")
    gone = kafka(*alter, f"{fresh}-gone")
    assert (gone.code, gone.out) == (0, "")
    assert kafka(*alter, fresh).code == 0
    assert kafka("kafka-topics", "--describe", "--if-exists", "--topic", f"{fresh}-gone").code == 0


@pytest.mark.parametrize(
    ("command", "flag"),
    [
        ("kafka-topics --list --partitions 3", "--partitions"),
        ("kafka-topics --create --topic t --under-replicated-partitions", "--under-replicated-partitions"),
        ("kafka-topics --delete --topic t --if-not-exists", "--if-not-exists"),
        ("kafka-consumer-groups --list --state", "--state"),
        ("kafka-consumer-groups --delete --group g --topic t", "--topic"),
        ("kafka-consumer-groups --describe --group g --execute", "--execute"),
        ("kafka-consumer-groups --list --timeout 0", "--timeout"),
        ("kafka-consumer-groups --reset-offsets --group g --to-latest --dry-run --execute", "--dry-run"),
        ("kafka-configs --describe --topic t --add-config a=b", "--add-config"),
        ("kafka-console-producer --topic t --max-block-ms 5", "--max-block-ms"),
        ("kafka-console-consumer --topic t --enable-systest-events", "--enable-systest-events"),
    ],
)
def test_a_flag_that_would_have_no_effect_is_refused(kafka: Run, command: str, flag: str) -> None:
    refused = kafka(*command.split())
    assert (refused.code, refused.out) == (1, "")
    assert flag in refused.err


def test_a_request_about_groups_may_take_as_long_as_its_timeout_says(monkeypatch: pytest.MonkeyPatch) -> None:
    allowed: list[float] = []

    def no_groups(*_: object) -> list[str]:
        allowed.append(request_s())
        return []

    monkeypatch.setattr(kafka_flags, "_group_names", no_groups)
    kafka_flags.groups(["--list", "--timeout", "250"])
    kafka_flags.groups(["--list", "--timeout", "100000"])
    kafka_flags.groups(["--list"])
    assert allowed == [0.25, 100.0, 15.0]


def test_how_the_console_producer_makes_batches_reaches_librdkafka(kafka: Run, ottla_topic: str) -> None:
    command = ("kafka-console-producer", "--topic", ottla_topic, "--sync", "--timeout", "10")
    assert kafka(*command, "--batch-size", "1000", stdin=b"a\n").code == 0
    wrong = kafka(*command, "--batch-size", "many", stdin=b"a\n")
    assert wrong.code != 0
    assert "batch.size" in wrong.err


def test_what_kafkas_tools_need_is_asked_for_and_nothing_is_done_without_it(
    kafka: Run, ottla: Run, ottla_topic: str
) -> None:
    group = f"{ottla_topic}-g"
    assert ottla("produce", ottla_topic, stdin=b"a\n").code == 0
    assert ottla("consume", ottla_topic, "--group", group).code == 0
    for tool, arguments, missing in (
        ("kafka-topics", ("--delete",), "--topic is missing"),
        ("kafka-topics", ("--create",), "--topic is missing"),
        ("kafka-topics", ("--alter", "--topic", ottla_topic), "--partitions is missing"),
        (
            "kafka-topics",
            ("--alter", "--topic", ottla_topic, "--config", "a=b"),
            "--config goes with --create",
        ),
        ("kafka-consumer-groups", ("--delete-offsets", "--group", group), "--topic is missing"),
        ("kafka-configs", ("--alter", "--topic", ottla_topic), "--alter needs --add-config"),
        (
            "kafka-console-consumer",
            ("--topic", ottla_topic, "--max-messages", "x"),
            "--max-messages: invalid",
        ),
        (
            "kafka-console-producer",
            ("--topic", ottla_topic, "--property", "parse.headers=true"),
            "parse.headers",
        ),
    ):
        refused = kafka(tool, *arguments, stdin=b"h:1\tvalue\n")
        assert (refused.code, refused.out) == (1, ""), (tool, arguments)
        assert missing in refused.err
    assert ottla("consume", ottla_topic).out == "a\n"
    assert group in kafka("kafka-consumer-groups", "--list").out.splitlines()


def test_consoles_and_groups_work_with_kafkas_flags(kafka: Run, ottla_topic: str) -> None:
    keyed = ("--property", "parse.key=true", "--property", "key.separator=:")
    assert kafka("kafka-console-producer", "--topic", ottla_topic, *keyed, stdin=b"a:1\nb:2\n").code == 0
    wanted = ("--topic", ottla_topic, "--from-beginning", "--timeout-ms", "5000")
    shown = kafka(
        "kafka-console-consumer", *wanted, "--property", "print.key=true", "--property", "print.headers=true"
    )
    assert shown.out == "NO_HEADERS\ta\t1\nNO_HEADERS\tb\t2\n"
    assert shown.err == "Processed a total of 2 messages\n"
    group = f"{ottla_topic}-g"
    assert kafka("kafka-console-consumer", *wanted, "--group", group, "--max-messages", "2").out == "1\n2\n"
    assert group in kafka("kafka-consumer-groups", "--list").out.splitlines()
    described = kafka("kafka-consumer-groups", "--describe", "--group", group, "--timeout", "20000")
    assert described.err == f"\nConsumer group '{group}' has no active members.\n"
    header, row = (line.split() for line in described.out.splitlines() if line)
    assert header[:6] == ["GROUP", "TOPIC", "PARTITION", "CURRENT-OFFSET", "LOG-END-OFFSET", "LAG"]
    assert row[:6] == [group, ottla_topic, "0", "2", "2", "0"]
    back = ("--group", group, "--reset-offsets", "--all-topics", "--to-earliest")
    for doing in ("--dry-run", "--execute"):
        moved = kafka("kafka-consumer-groups", *back, doing)
        header, row = (line.split() for line in moved.out.splitlines() if line)
        assert (header, row) == (
            ["GROUP", "TOPIC", "PARTITION", "NEW-OFFSET"],
            [group, ottla_topic, "0", "0"],
        )
    assert kafka("kafka-console-consumer", *wanted, "--group", group, "--max-messages", "1").out == "1\n"
    deleted = kafka("kafka-consumer-groups", "--delete", "--group", group)
    assert deleted.out == f"Deletion of requested consumer groups ('{group}') was successful.\n"


def test_configs_are_changed_and_described_with_kafkas_flags(kafka: Run, ottla_topic: str) -> None:
    whose = ("--entity-type", "topics", "--entity-name", ottla_topic)
    added = "cleanup.policy=[compact,delete],max.message.bytes=2000"
    altered = kafka("kafka-configs", *whose, "--alter", "--add-config", added)
    assert altered.out == f"Completed updating config for topic {ottla_topic}.\n"
    shown = kafka("kafka-configs", *whose, "--describe").out.splitlines()
    assert shown[0] == f"Dynamic configs for topic {ottla_topic} are:"
    assert {"  cleanup.policy=compact,delete", "  max.message.bytes=2000"} <= set(shown)
    assert kafka("kafka-configs", *whose, "--alter", "--delete-config", "max.message.bytes").code == 0
    assert "max.message.bytes" not in kafka("kafka-configs", *whose, "--describe").out
    assert kafka("kafka-configs", "--entity-type", "users", "--describe").code == 1
