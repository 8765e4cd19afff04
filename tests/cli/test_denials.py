"""What somebody sees who is let in and may do little: one line, and what to do."""

from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.cli.commands import Run

from ottla.testing.embedded import Broker

NOT_ALLOWED = "you are not allowed to"
ADVICE = "an administrator can allow it with `ottla acls add`\n"


@pytest.fixture(scope="module")
def files(tmp_path_factory: pytest.TempPathFactory) -> Iterator[dict[str, str]]:
    """Client files of the administrator, and of alice, who may read the topic `letters` alone."""
    folder = tmp_path_factory.mktemp("denials")
    with Broker(secure=True) as broker:
        admin = folder / "admin.properties"
        admin.write_text("".join(f"{name}={value}\n" for name, value in broker.client_config.items()))
        broker.create_topic("letters")
        broker.create_topic("diaries")
        yield {"admin": str(admin), "alice": str(folder / "alice.properties")}


@pytest.fixture
def alice(run: Run, files: dict[str, str], monkeypatch: pytest.MonkeyPatch) -> Run:
    """`ottla`, run by alice."""
    monkeypatch.setenv("OTTLA_CONFIG", files["admin"])
    added = run("users", "add", "alice", "--generate")
    assert added.code == 0, added.err
    allowed = run("acls", "add", "--principal", "alice", "--operation", "Read", "--topic", "letters")
    assert allowed.code == 0, allowed.err
    with open(files["admin"]) as admin, open(files["alice"], "w") as own:
        for line in admin:
            name = line.partition("=")[0]
            values = {"sasl.username": "alice", "sasl.password": added.out.strip()}
            own.write(f"{name}={values[name]}\n" if name in values else line)
    assert run("produce", "letters", stdin=b"hello\n").code == 0
    monkeypatch.setenv("OTTLA_CONFIG", files["alice"])
    return run


def test_who_may_read_a_topic_needs_no_right_on_any_group(alice: Run) -> None:
    outcome = alice("consume", "letters", "--max", "1")
    assert (outcome.code, outcome.out) == (0, "hello\n"), outcome.err


def test_a_producer_that_may_write_nowhere_is_told_in_one_line(alice: Run, tmp_path: Path) -> None:
    refusal = f"ottla: topic letters: {NOT_ALLOWED} write; {ADVICE}"
    for lines in (b"one\n", b"many\n" * 5000):
        outcome = alice("produce", "letters", stdin=lines)
        assert (outcome.code, outcome.err) == (
            1,
            f"ottla: topic letters: {NOT_ALLOWED} write; {ADVICE}",
        )
    log = tmp_path / "app.log"
    log.write_text("first\nsecond\n")
    state = str(tmp_path / "state.json")
    outcome = alice("ship", str(log), "--topic", "letters", "--once", "--state", state)
    assert (outcome.code, outcome.err) == (1, refusal)


@pytest.mark.parametrize(
    ("command", "line"),
    [
        (("topics", "create", "essays"), f"topic essays: {NOT_ALLOWED} do that with this topic; "),
        (("topics", "delete", "letters", "--yes"), f"topic letters: {NOT_ALLOWED} do that with this topic; "),
        (("consume", "letters", "--group", "readers"), f"{NOT_ALLOWED} do that with this group; "),
        (("groups", "describe", "readers"), f"group readers: {NOT_ALLOWED} do that with this group; "),
        (("configs", "describe", "--broker", "1"), f"broker 1: {NOT_ALLOWED} do that in this cluster; "),
    ],
)  # fmt: skip
def test_what_is_denied_is_one_line_with_the_remedy(alice: Run, command: tuple[str, ...], line: str) -> None:
    outcome = alice(*command)
    assert (outcome.code, outcome.err) == (1, f"ottla: {line}{ADVICE}")


def test_administration_that_is_denied_says_where_the_right_is_written(alice: Run) -> None:
    for command in (("users", "list"), ("acls", "list"), ("quotas", "list")):
        outcome = alice(*command)
        assert outcome.code == 1
        assert "it takes a super user, or an ACL that allows it on the cluster" in outcome.err


def test_a_topic_that_may_not_be_seen_is_not_there(alice: Run) -> None:
    assert alice("topics", "list").out.split()[-3:] == ["letters", "1", "1"]
    assert alice("topics", "describe", "diaries").err == "ottla: there is no topic 'diaries'\n"


def test_a_client_without_sasl_is_told_at_once_that_the_port_has_it(alice: Run) -> None:
    outcome = alice("topics", "list", "-X", "security.protocol=SSL")
    assert outcome.code == 1
    assert outcome.err.startswith("ottla: broker 127.0.0.1:")
    assert "is it a port with SASL" in outcome.err
