"""Every kind of command, and `ottla ship`, over TLS and SASL, told how by a file."""

from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.cli.commands import Run
from tests.support.secured import SECRET, SecuredOttla, secured_ottla


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SecuredOttla]:
    with secured_ottla(tmp_path_factory.mktemp("secured")) as made:
        yield made


@pytest.fixture(params=["SASL_SSL", "SASL_PLAINTEXT", "SSL"])
def secured(
    request: pytest.FixtureRequest, server: SecuredOttla, run: Run, monkeypatch: pytest.MonkeyPatch
) -> Run:
    """`ottla` with a file that says how to get in."""
    mechanism = "" if request.param == "SSL" else "SCRAM-SHA-256"
    monkeypatch.setenv("OTTLA_CONFIG", server.client_file(request.param, request.param, mechanism))
    return run


def test_every_kind_of_command_gets_in(secured: Run, request: pytest.FixtureRequest, tmp_path: Path) -> None:
    topic = request.node.callspec.params["secured"].lower()
    lines = tmp_path / "app.log"
    lines.write_text("first\nsecond\n")
    for command in (
        ("topics", "create", topic, "-p", "2"),
        ("topics", "list", "--under-replicated"),
        ("topics", "describe", topic),
        ("configs", "describe", "--topic", topic, "--all"),
        ("ship", str(lines), "--topic", topic, "--once", "--state", str(tmp_path / "state.json")),
        ("consume", topic, "--group", f"{topic}-readers"),
        ("groups", "describe", f"{topic}-readers"),
        ("groups", "list"),
        ("groups", "delete", f"{topic}-readers", "--topic", topic, "--yes"),
        ("transactions", "list"),
        ("transactions", "find-hanging", "--topic", topic),
        ("cluster", "rebalance", "--dry-run"),
        ("metrics", "--once", "--topic", f"{topic}-metrics"),
    ):
        outcome = secured(*command)
        assert outcome.code == 0, (command, outcome.err)
        assert SECRET not in outcome.out + outcome.err
    assert sorted(secured("consume", topic).out.splitlines()) == ["first", "second"]
    assert secured("produce", topic, stdin=b"third\n").code == 0
    wrong = secured("groups", "delete", "nobody", "--yes")
    assert (wrong.code, wrong.err.count("\n")) == (1, 1)


@pytest.mark.parametrize("mechanism", SecuredOttla.mechanisms)
def test_every_mechanism_gets_in(run: Run, server: SecuredOttla, mechanism: str) -> None:
    file = server.client_file(mechanism, "SASL_SSL", mechanism)
    for command in (("topics", "list"), ("transactions", "list"), ("cluster", "status", "-b")):
        extra = (server.addresses["BOTH"],) if command[-1] == "-b" else ()
        outcome = run(*command, *extra, "--client-config", file)
        assert outcome.code == 0, outcome.err


@pytest.mark.parametrize("command", [("topics", "list"), ("transactions", "list"), ("metrics", "--once")])
def test_a_wrong_password_is_one_line_at_once(
    run: Run, server: SecuredOttla, command: tuple[str, ...]
) -> None:
    properties = server.over("SASL_SSL") | server.credentials("PLAIN", "not-her-secret")
    settings = [part for name, value in properties.items() for part in ("-X", f"{name}={value}")]
    outcome = run(*command, *settings, "-b", server.addresses["BOTH"])
    assert outcome.code == 1
    assert "does not accept user 'alice' by SASL PLAIN" in outcome.err
    assert outcome.err.count("\n") == 1
    assert "not-her-secret" not in outcome.err
