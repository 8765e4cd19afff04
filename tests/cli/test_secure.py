"""`ottla secure init`: what it makes, and that the commands it prints work as they stand."""

import json
import os
import shlex
import ssl
import stat
import subprocess
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from cryptography import x509
from tests.cli.commands import Run
from tests.support.ports import free_ports

from ottla.base.properties import read_file
from ottla.log.folders import KEEPER_DB
from ottla.shell import secure_folder
from ottla.shell.keeper_embedded import EmbeddedKeeper

FILES = ["broker.pem", "broker.properties", "ca.key", "ca.pem", "client.pem", "client.properties", "data"]


def made(run: Run, folder: Path, *options: str) -> dict[str, str]:
    done = run("secure", "init", str(folder), "--json", *options)
    assert done.code == 0, done.err
    return json.loads(done.out)


def test_it_makes_everything_for_its_owner_alone(run: Run, tmp_path: Path) -> None:
    folder = tmp_path / "secured"
    folder.mkdir(0o755)
    made(run, folder)
    assert sorted(os.listdir(folder)) == FILES
    for path in [folder, *folder.rglob("*")]:
        mode = stat.S_IMODE(path.stat().st_mode)
        assert mode == (0o700 if path.is_dir() else 0o600), path


def test_the_certificate_of_the_broker_is_for_this_host_and_those_that_were_named(
    run: Run, tmp_path: Path
) -> None:
    made(run, tmp_path / "secured", "--host", "broker.example.com", "--host", "10.1.2.3")
    certificate = x509.load_pem_x509_certificate((tmp_path / "secured" / "broker.pem").read_bytes())
    names = certificate.extensions.get_extension_for_class(x509.SubjectAlternativeName).value
    assert {str(name.value) for name in names} >= {
        "broker.example.com", "10.1.2.3", "localhost", "127.0.0.1", "::1", os.uname().nodename
    }  # fmt: skip
    context = ssl.create_default_context(cafile=str(tmp_path / "secured" / "ca.pem"))
    context.verify_flags |= ssl.VERIFY_X509_STRICT
    for name in ("broker", "client"):
        context.load_cert_chain(tmp_path / "secured" / f"{name}.pem")


def test_passwords_are_new_every_time_and_only_salted_in_the_data_folder(run: Run, tmp_path: Path) -> None:
    passwords = set()
    for name in ("first", "second"):
        folder = tmp_path / name
        made(run, folder)
        client = read_file(str(folder / "client.properties"))
        password = client["sasl.jaas.config"].split('password="')[1].split('"')[0]
        assert len(password) >= 32
        passwords.add(password)
        stored = (folder / "data" / KEEPER_DB).read_bytes()
        assert b"SCRAM-SHA-512" in stored
        assert password.encode() not in stored
    assert len(passwords) == 2


def test_no_password_is_shown(run: Run, tmp_path: Path) -> None:
    shown = run("secure", "init", str(tmp_path / "a")).out + str(made(run, tmp_path / "b"))
    for name in ("a", "b"):
        for file in ("broker", "client"):
            for value in read_file(str(tmp_path / name / f"{file}.properties")).values():
                if 'password="' in value:
                    assert value.split('password="')[1].split('"')[0] not in shown


def test_nothing_that_is_there_is_overwritten(run: Run, tmp_path: Path) -> None:
    made(run, tmp_path / "secured")
    before = {path: path.read_bytes() for path in (tmp_path / "secured").glob("*.*")}
    again = run("secure", "init", str(tmp_path / "secured"))
    assert again.code == 1
    assert "nothing in it is overwritten: remove it or name another" in again.err
    assert {path: path.read_bytes() for path in (tmp_path / "secured").glob("*.*")} == before
    (tmp_path / "file").write_text("mine")
    assert run("secure", "init", str(tmp_path / "file")).code == 1
    assert (tmp_path / "file").read_text() == "mine"


def test_if_something_fails_nothing_is_left_behind(
    run: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def full(path: str, hosts: object) -> None:
        Path(path, "ca.pem").write_text("half")
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(secure_folder, "certify", full)
    (tmp_path / "there").mkdir()
    for name in ("new", "there"):
        done = run("secure", "init", str(tmp_path / name))
        assert done.code == 1
        assert "No space left on device" in done.err
    assert sorted(os.listdir(tmp_path)) == ["there"]
    assert os.listdir(tmp_path / "there") == []


@pytest.mark.parametrize(
    ("options", "words"),
    [
        (["--listen", "9092"], "is not HOST:PORT"),
        (["--listen", "localhost:x"], "is not HOST:PORT"),
        (["--listen", "localhost:0"], "is not HOST:PORT"),
        (["--listen", "0.0.0.0:9092"], "--host"),
        (["--host", "no host"], "is neither"),
        (["--host", "a/b"], "is neither"),
    ],
)
def test_what_cannot_be_is_refused_and_nothing_is_made(
    run: Run, tmp_path: Path, options: list[str], words: str
) -> None:
    done = run("secure", "init", str(tmp_path / "secured"), *options)
    assert done.code == 2
    assert words in done.err
    assert os.listdir(tmp_path) == []


def test_paths_with_unusual_characters_arrive_in_the_files(run: Run, tmp_path: Path) -> None:
    folder = tmp_path / "grün \\ & 'co'"
    report = made(run, folder)
    broker = read_file(str(folder / "broker.properties"))
    assert broker["log.dirs"] == str(folder / "data")
    assert shlex.split(report["start"])[-1] == str(folder / "broker.properties")
    assert (folder / "broker.properties").read_bytes().isascii()


def test_the_users_are_nodes_of_the_keeper(run: Run, tmp_path: Path) -> None:
    made(run, tmp_path / "secured")
    keeper = EmbeddedKeeper(str(tmp_path / "secured" / "data" / KEEPER_DB))
    try:
        assert [node.path for node in keeper.load()] == ["/config/users/admin", "/config/users/broker"]
    finally:
        keeper.close()


@contextmanager
def shell(command: str, folder: Path) -> Iterator[subprocess.Popen[str]]:
    """A command line as somebody would paste it, in a folder, with `ottla` of this tree on the path."""
    tools = folder / "bin"
    tools.mkdir(exist_ok=True)
    script = tools / "ottla"
    script.write_text(f'#!/bin/sh\nexec {shlex.quote(sys.executable)} -m ottla.cli "$@"\n')
    script.chmod(0o755)
    environment = {name: value for name, value in os.environ.items() if not name.startswith("OTTLA_")}
    environment["PATH"] = f"{tools}:{environment['PATH']}"
    process = subprocess.Popen(
        ["/bin/sh", "-c", f"exec {command}"], cwd=folder, env=environment,
        stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
    )  # fmt: skip
    watchdog = threading.Timer(90, process.kill)
    watchdog.start()
    try:
        yield process
    finally:
        watchdog.cancel()
        process.kill()
        process.communicate()


def output_of(command: str, folder: Path) -> str:
    with shell(command, folder) as process:
        out, err = process.communicate()
        assert process.returncode == 0, err
        return out


def test_the_commands_that_are_printed_work_as_they_stand(tmp_path: Path) -> None:
    (port,) = free_ports(1)
    shown = output_of(f"ottla secure init 'my broker' --listen 127.0.0.1:{port}", tmp_path)
    start, use = [line.strip() for line in shown.splitlines() if line.startswith("  ottla ")]
    with shell(start, tmp_path) as broker:
        assert broker.stdout is not None
        assert "ready" in broker.stdout.readline()
        output_of(use.replace("list", "create letters"), tmp_path)
        assert "letters" in output_of(use, tmp_path)
        client = use.partition("--client-config ")[2]
        output_of(f"ottla produce letters --client-config {client} <<'END'\nhello\nEND", tmp_path)
        with shell(f"ottla topics list --bootstrap 127.0.0.1:{port}", tmp_path) as stranger:
            stranger.communicate()
            assert stranger.returncode == 1
        broker.terminate()
        assert broker.wait(60) == 0


@pytest.mark.parametrize("page", ["README.md", "docs/security.md"])
def test_the_pages_have_the_commands_as_they_are_printed(
    run: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, page: str
) -> None:
    monkeypatch.chdir(tmp_path)
    shown = run("secure", "init", "secured").out
    start, use = [line.strip() for line in shown.splitlines() if line.startswith("  ottla ")]
    text = (Path(__file__).parents[2] / page).read_text()
    commands = [line.partition("  #")[0].strip() for line in text.splitlines() if line.startswith("ottla ")]
    first = commands.index("ottla secure init secured")
    assert commands[first + 1 : first + 3] == [start, use]
