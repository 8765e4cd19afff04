"""`ottla start --http`: where it listens, and what can be wrong with that."""

import re
import signal
import socket
import subprocess
import sys
from pathlib import Path

import pytest
from tests.cli.test_start import DEADLINE_S, command, refused
from tests.support.http import get
from tests.support.ports import free_ports
from tests.support.processes import die_with_parent

from ottla.cli.broker.process import read_plainly
from ottla.shell.http.pages import PATHS

ROOT = Path(__file__).parents[2]
READY = re.compile(r"Ottla \S+ is ready at .* · cluster \S{22} · http://(\S+) · \d+ ms\n")


@pytest.mark.parametrize("given", ["{}", "127.0.0.1:{}"])
def test_a_port_alone_is_one_of_this_host_and_the_ready_line_has_the_address(
    tmp_path: Path, given: str
) -> None:
    (port,) = free_ports(1)
    quietly = ("--listen", "127.0.0.1:0", "--data", str(tmp_path), "--log-level", "warning")
    start = command(*quietly, "--http", given.format(port))
    with subprocess.Popen(
        start, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, preexec_fn=die_with_parent
    ) as process:
        try:
            assert process.stdout
            assert process.stderr
            line = process.stdout.readline()
            ready = READY.fullmatch(line)
            assert ready, (line, process.stderr.read())
            assert ready[1] == f"127.0.0.1:{port}"
            assert get(ready[1], "/health/ready").json["ready"] is True
            process.send_signal(signal.SIGTERM)
            assert process.wait(DEADLINE_S) == 0
            assert process.stderr.read() == ""
        finally:
            process.kill()


def test_the_readme_shows_the_options_and_a_path_that_there_are() -> None:
    section = (ROOT / "README.md").read_text().partition("\n## Seeing it\n")[2].partition("\n## ")[0]
    start, curl = section.partition("```bash\n")[2].partition("```")[0].splitlines()
    options = read_plainly(start.partition("#")[0].split()[2:])
    assert options is not None
    assert curl == f"curl http://127.0.0.1:{options.http}/health/ready"
    assert "/health/ready" in PATHS


@pytest.mark.parametrize("given", ["here", "127.0.0.1", "127.0.0.1:99999", ":9404", "http://127.0.0.1:1"])
def test_what_is_no_address_is_refused_with_a_line(tmp_path: Path, given: str) -> None:
    done = refused("--data", str(tmp_path), "--http", given)
    assert done.returncode == 2
    assert (
        f"ottla.http.listener: must be HOST:PORT, or PORT alone for one of this host, got {given!r}"
        in done.stderr
    )


def test_a_port_in_use_is_refused_with_a_line(tmp_path: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        address = f"127.0.0.1:{taken.getsockname()[1]}"
        done = refused("--listen", "127.0.0.1:0", "--data", str(tmp_path), "--http", address)
    assert done.returncode == 1
    assert f"cannot listen on {address}: " in done.stderr
    assert done.stderr.endswith("; choose another with --http\n")


def test_a_broker_on_whose_port_another_began_to_listen_meanwhile_does_not_say_that_it_is_ready(
    tmp_path: Path,
) -> None:
    """A port is taken before logs are recovered, and listened on afterwards. Here HTTP comes in between."""
    address = f"127.0.0.1:{free_ports(1)[0]}"
    done = refused("--listen", address, "--data", str(tmp_path), "--http", address)
    assert done.returncode == 1
    assert (
        done.stderr.splitlines()[-1]
        == f"ottla: cannot listen on {address}: Address already in use; choose another with --listen"
    )


def test_a_host_that_has_no_address_is_refused_with_a_line(tmp_path: Path) -> None:
    done = refused("--listen", "127.0.0.1:0", "--data", str(tmp_path), "--http", "host.invalid:1")
    assert "cannot listen on host.invalid:1: " in done.stderr
    assert "Unknown error" not in done.stderr


def test_without_the_package_it_takes_the_line_says_what_to_install(tmp_path: Path) -> None:
    without = "import sys; sys.modules['h11'] = None; from ottla.cli import main; main()"
    start = ["start", "--listen", "127.0.0.1:0", "--data", str(tmp_path), "--http", "0"]
    done = subprocess.run(
        [sys.executable, "-c", without, *start], capture_output=True, text=True, timeout=DEADLINE_S
    )
    assert (done.returncode, done.stdout) == (1, "")
    assert done.stderr == "ottla: --http (ottla.http.listener) needs h11: pip install 'ottla[metrics]'\n"
