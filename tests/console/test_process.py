"""The console as a process: by itself, beside a broker, beside a test."""

import re
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from httpx2 import Client
from tests.support.ports import free_ports
from tests.support.waiting import wait_for

from ottla import Broker
from ottla.cli import main
from ottla.cli.broker.process import StartOptions, read_plainly, with_console_port

OTTLA = [sys.executable, "-m", "ottla.cli"]


@contextmanager
def log_in(url: str, **more: str) -> Iterator[Client]:
    """The link that is printed, as a browser takes it."""
    address, _, token = url.partition("/login#")
    with Client(base_url=address, follow_redirects=True, timeout=30) as browser:
        browser.post("/login", data={"secret": token} | more)
        yield browser


def test_a_console_opens_beside_a_broker_in_a_test_and_ends_with_the_block() -> None:
    with Broker() as broker:
        broker.create_topic("orders")
        with broker.console() as console:
            with log_in(console.url) as browser:
                assert "orders" in browser.get("/topics").text
            assert "orders" not in repr(console)
            assert console.url in console._repr_html_()
        assert console._process.returncode == 0


def test_a_console_beside_a_secured_broker_asks_for_its_users() -> None:
    with Broker(secure=True) as broker, broker.console(read_only=True) as console:
        assert "#" not in console.url
        security = broker._security
        assert security is not None
        with log_in(f"{console.url}/login#{security.password}", user=security.username) as browser:
            page = browser.get("/topics").text
            assert "read-only" in page
            assert "Create topic" not in page


def test_start_with_console_serves_both_and_the_console_ends_with_the_broker_however_that_ends(
    tmp_path: Path,
) -> None:
    port, console_port = free_ports(2)
    command = [
        *OTTLA,
        "start",
        "--listen",
        f"127.0.0.1:{port}",
        "--data",
        str(tmp_path),
        "--console",
        str(console_port),
    ]
    broker = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    try:
        assert broker.stdout is not None
        lines = [broker.stdout.readline(), broker.stdout.readline()]
        (url,) = re.findall(r"console is at (\S+)", "".join(lines))
        with log_in(url) as browser:
            assert f":{port}" in browser.get("/brokers").text
    finally:
        broker.kill()
        broker.wait()
    # Whoever has our pipes is still there: at the end of the output nobody is.
    assert broker.communicate(timeout=60)


def test_the_port_of_a_console_may_be_left_out() -> None:
    assert with_console_port(["--console"]) == ["--console=8080"]
    assert with_console_port(["--console", "--data", "d"]) == ["--console=8080", "--data", "d"]
    assert read_plainly(with_console_port(["--console", "9000"])) == StartOptions(console="9000")
    assert read_plainly(with_console_port(["--console", "--id", "2"])) == StartOptions(
        console="8080", node_id="2"
    )


@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        (["start", "--console", "x"], "--console takes a port, not 'x'"),
        (["console", "--origin", "console.example.com"], "--origin takes a URL"),
        (["console", "--token-file", "/no/such/file"], "cannot read /no/such/file"),
        (["console", "--log-format", "xml"], "--log-format is one of"),
    ],
)
def test_what_is_wrong_with_the_arguments_is_one_line(
    arguments: list[str], sentence: str, capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(SystemExit) as leaving:
        main(arguments)
    assert leaving.value.code != 0
    said = capsys.readouterr().err
    assert sentence in said
    assert said.count("\n") == 1


def test_a_short_token_is_refused(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "token"
    path.write_text("short\n")
    with pytest.raises(SystemExit) as leaving:
        main(["console", "--token-file", str(path)])
    assert leaving.value.code == 2
    assert "shorter than 16" in capsys.readouterr().err


def test_a_console_waits_for_nobody_and_says_that_no_broker_is_there() -> None:
    (port,) = free_ports(1)
    command = [*OTTLA, "console", "--bootstrap", f"127.0.0.1:{port}", "--port", "0", "--with-parent"]
    console = subprocess.Popen(
        command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    )
    try:
        assert console.stdout is not None
        url = console.stdout.readline().rpartition(" ")[2].strip()
        with log_in(url) as browser:
            answer = browser.get("/topics")
            assert (answer.status_code, "no broker answers" in answer.text) == (502, True)
            with Broker(port=port):
                wait_for(lambda: browser.get("/topics").status_code == 200, what="the broker that has come")
    finally:
        console.communicate(timeout=60)
    assert console.returncode == 0
