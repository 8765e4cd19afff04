"""How a person says where a cluster is and how to get in: options, files, the environment, profiles."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import typer
from tests.cli.commands import Run

from ottla.base.command_error import CommandError
from ottla.cli.app import app
from ottla.client.properties import ClientProperties

JAAS = (
    'org.apache.kafka.common.security.plain.PlainLoginModule required username="{}" password="pass-secret";'
)
SECURE = {
    "bootstrap.servers": "file.example.com:9093",
    "security.protocol": "SASL_SSL",
    "sasl.mechanism": "PLAIN",
    "sasl.jaas.config": JAAS.format("file"),
}
# Their addresses go into a folder, and into the file of profiles.
WITHOUT_CONNECTING = {"ottla pipeline init", "ottla profile add"}


def commands(group: Any, prefix: str = "ottla") -> Iterator[tuple[str, set[str]]]:
    """Every command with the names of its options."""
    for name, command in group.commands.items():
        if hasattr(command, "commands"):
            yield from commands(command, f"{prefix} {name}")
        else:
            options = {opt for parameter in command.params for opt in parameter.opts}
            yield f"{prefix} {name}", options


def test_every_command_that_connects_takes_client_settings() -> None:
    connecting = {
        name: options
        for name, options in commands(typer.main.get_command(app))
        if "--bootstrap" in options and name not in WITHOUT_CONNECTING
    }
    assert len(connecting) >= 25
    for name, options in connecting.items():
        assert {"--client-config", "-X", "--profile", "-b"} <= options, name


def test_whatever_lists_or_describes_has_json() -> None:
    showing = ("list", "describe", "status", "find-hanging", "top", "verify")
    found = [
        (name, options)
        for name, options in commands(typer.main.get_command(app))
        if name.split()[-1] in showing
    ]
    assert len(found) >= 14
    assert [name for name, options in found if "--json" not in options] == []


@pytest.fixture
def asked(monkeypatch: pytest.MonkeyPatch) -> list[ClientProperties]:
    """Where commands want to connect to; they get no further."""
    where: list[ClientProperties] = []

    def admin(given: ClientProperties) -> None:
        where.append(given)
        raise CommandError("no further")

    monkeypatch.setattr("ottla.client.librdkafka.connections.admin", admin)
    monkeypatch.setattr("ottla.cli.topics.commands.connected", admin)
    return where


def write(path: Path, properties: dict[str, str]) -> str:
    path.write_text("".join(f"{name}={value}\n" for name, value in properties.items()))
    return str(path)


def profiles(path: Path, text: str, monkeypatch: pytest.MonkeyPatch) -> None:
    (path / "ottla").mkdir()
    (path / "ottla" / "config.toml").write_text(text)
    monkeypatch.setenv("XDG_CONFIG_HOME", str(path))


def user(where: ClientProperties) -> str:
    assert where.security.sasl is not None
    return where.security.sasl.username


def test_the_nearest_to_the_keyboard_wins(
    run: Run, asked: list[ClientProperties], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    secret = JAAS.format("profile").replace('"', '\\"')
    profiles(
        tmp_path,
        '[profiles.default]\nbootstrap.servers = "profile.example.com:1"\nsecurity.protocol = "SASL_SSL"\n'
        f'sasl.mechanism = "PLAIN"\nsasl.jaas.config = "{secret}"\n',
        monkeypatch,
    )
    run("topics", "list")
    monkeypatch.setenv("OTTLA_CONFIG", write(tmp_path / "env", {"sasl.jaas.config": JAAS.format("env")}))
    monkeypatch.setenv("OTTLA_BOOTSTRAP", "env.example.com:2")
    run("topics", "list")
    file = ("--client-config", write(tmp_path / "file", SECURE))
    run("topics", "list", *file)
    typed = ("-X", f"sasl.jaas.config={JAAS.format('typed')}", "-X", "bootstrap.servers=typed.example.com:3")
    run("topics", "list", *file, *typed)
    run("topics", "list", *file, *typed, "-b", "option.example.com:4")
    assert [(where.bootstrap, user(where)) for where in asked] == [
        ("profile.example.com:1", "profile"),
        ("env.example.com:2", "env"),
        ("file.example.com:9093", "file"),
        ("typed.example.com:3", "typed"),
        ("option.example.com:4", "typed"),
    ]


def test_without_anything_it_is_the_broker_here(run: Run, asked: list[ClientProperties]) -> None:
    run("topics", "list")
    assert asked == [ClientProperties("127.0.0.1:9092")]


def test_another_protocol_is_enough_to_leave_a_profile_of_security(
    run: Run, asked: list[ClientProperties], tmp_path: Path
) -> None:
    file = ("--client-config", write(tmp_path / "file", SECURE))
    run("topics", "list", *file, "-X", "security.protocol=PLAINTEXT", "-b", "here:1")
    assert (asked[0].bootstrap, asked[0].security.protocol) == ("here:1", "PLAINTEXT")


def test_a_profile_is_chosen_by_name_or_not_at_all(
    run: Run, asked: list[ClientProperties], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    text = '[profiles.default]\n"bootstrap.servers" = "d:1"\n[profiles.other]\nbootstrap.servers = "o:1"\n'
    profiles(tmp_path, text, monkeypatch)
    run("topics", "list")
    run("topics", "list", "--profile", "other")
    run("topics", "list", "--profile", "")
    monkeypatch.setenv("OTTLA_PROFILE", "other")
    run("topics", "list")
    assert [where.bootstrap for where in asked] == ["d:1", "o:1", "127.0.0.1:9092", "o:1"]
    outcome = run("topics", "list", "--profile", "thrid")
    assert outcome.code == 2
    assert "there is no profile 'thrid' in" in outcome.err
    assert "it has default, other" in outcome.err


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("[profiles.default", "is not TOML"),
        ("profiles = 3", "a profile is a table"),
        ("[profiles.default]\nacks = [1]", "acks is neither text nor a number"),
    ],
)
def test_a_file_of_profiles_that_is_wrong_is_told(
    run: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, text: str, said: str
) -> None:
    profiles(tmp_path, text, monkeypatch)
    outcome = run("topics", "list")
    assert (outcome.code, said in outcome.err) == (2, True), outcome.err


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["-X", "ssl.truststor.location=x"], "did you mean ssl.truststore.location"),
        (["-X", "security.protocol=SASL_SSL"], "sasl.mechanism is not given"),
        (["-X", "sasl.password"], "-X takes KEY=VALUE"),
        (["--client-config", "/nowhere"], "cannot read the config file /nowhere"),
    ],
)
@pytest.mark.parametrize("command", [["topics", "list"], ["transactions", "list"], ["consume", "t"]])
def test_a_wrong_setting_is_one_line(run: Run, command: list[str], arguments: list[str], said: str) -> None:
    outcome = run(*command, *arguments)
    assert outcome.code == 2
    assert outcome.err.count("\n") == 1
    assert said in outcome.err


@pytest.mark.parametrize("command", [["topics", "list"], ["transactions", "list"]])
def test_a_property_that_nobody_has_is_refused_by_every_command(ottla: Run, command: list[str]) -> None:
    outcome = ottla(*command, "-X", "no.such.thing=1")
    assert (outcome.code, outcome.err) == (2, 'ottla: No such configuration property: "no.such.thing"\n')
    assert ottla(*command, "-X", "linger.ms=7").code == 0


def test_properties_of_java_alone_are_passed_over_with_a_remark(ottla: Run, tmp_path: Path) -> None:
    file = write(tmp_path / "file", {"key.deserializer": "a.b.C", "group.id": "app"})
    outcome = ottla("topics", "list", "--client-config", file)
    assert outcome.code == 0
    assert "only Java's clients have key.deserializer; without effect here" in outcome.err


def test_a_group_in_a_file_commits_nothing_behind_its_back(
    ottla: Run, ottla_topic: str, tmp_path: Path
) -> None:
    ottla("produce", ottla_topic, stdin=b"a\n")
    file = write(tmp_path / "file", {"group.id": "app", "enable.auto.commit": "true"})
    outcome = ottla("consume", ottla_topic, "--client-config", file)
    assert (outcome.code, outcome.out) == (0, "a\n")
    assert "the command itself says what enable.auto.commit, group.id is" in outcome.err
    assert "app" not in ottla("groups", "list").out


def test_an_option_of_its_own_is_above_properties(
    ottla: Run, ottla_topic: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    made: list[dict[str, Any]] = []
    monkeypatch.setattr("confluent_kafka.Producer", lambda settings, **_: made.append(settings) or _stop())
    ottla(
        "produce",
        ottla_topic,
        "-X",
        "acks=0",
        "--acks",
        "1",
        "-X",
        "compression.type=zstd",
        "-X",
        "linger.ms=0",
    )
    assert (made[0]["acks"], made[0]["compression.type"]) == ("1", "zstd")


def _stop() -> None:
    raise CommandError("no further")
