"""A real Prometheus, from Debian's package: installed, or fetched once into the user's cache.

Rules: it listens on loopback, keeps its data in a temporary folder, and dies with the test run.
"""

import functools
import json
import os
import shutil
import subprocess
import tempfile
import urllib.error
import urllib.parse
import urllib.request
from pathlib import Path
from typing import Any

import pytest
from tests.support.ports import free_ports
from tests.support.processes import die_with_parent
from tests.support.waiting import wait_for

CACHE = Path(os.environ.get("XDG_CACHE_HOME", Path.home() / ".cache")) / "ottla-tests" / "prometheus"
FETCH_S = 120.0
START_S = 60.0
ASK_S = 10.0


@functools.cache
def programs() -> Path | None:
    """The folder with `prometheus` and `promtool`."""
    installed = shutil.which("prometheus")
    if installed is not None and shutil.which("promtool"):
        return Path(installed).parent
    if not (CACHE / "usr" / "bin" / "promtool").exists():
        _fetch()
    return CACHE / "usr" / "bin" if (CACHE / "usr" / "bin" / "promtool").exists() else None


def _fetch() -> None:
    if shutil.which("apt-get") is None or shutil.which("dpkg-deb") is None:
        return
    CACHE.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=CACHE.parent) as folder:
        for command in (
            ["apt-get", "download", "-qq", "prometheus"],
            ["dpkg-deb", "-x", "*.deb", "unpacked"],
        ):
            arguments = [str(path) for word in command for path in _expanded(folder, word)]
            fetched = subprocess.run(arguments, cwd=folder, capture_output=True, timeout=FETCH_S, check=False)
            if fetched.returncode:
                return
        Path(folder, "unpacked").replace(CACHE)


def _expanded(folder: str, word: str) -> list[str]:
    return [str(path) for path in Path(folder).glob(word)] if "*" in word else [word]


def required() -> Path:
    folder = programs()
    if folder is None:
        pytest.skip("Prometheus is neither installed nor to be had (Debian: apt-get install prometheus)")
    return folder


def check_rules(path: Path) -> "subprocess.CompletedProcess[str]":
    return promtool("check", "rules", str(path))


def promtool(*arguments: str) -> "subprocess.CompletedProcess[str]":
    command = [str(required() / "promtool"), *arguments]
    return subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)


class Prometheus:
    """Scrapes `targets`, by their names, every second."""

    def __init__(self, folder: Path, targets: dict[str, str], rules: str = "") -> None:
        self._folder, self._port = folder, free_ports(1)[0]
        folder.mkdir(parents=True, exist_ok=True)
        (folder / "rules.yml").write_text(rules or "groups: []\n")
        static = [{"targets": [address], "labels": {"instance": name}} for name, address in targets.items()]
        config = {
            "global": {"scrape_interval": "1s", "scrape_timeout": "1s", "evaluation_interval": "1s"},
            "rule_files": ["rules.yml"],
            "scrape_configs": [{"job_name": "ottla", "static_configs": static}],
        }
        (folder / "prometheus.yml").write_text(json.dumps(config))  # JSON is YAML
        self._process: subprocess.Popen[bytes] | None = None

    def start(self) -> None:
        command = [
            str(required() / "prometheus"),
            f"--config.file={self._folder / 'prometheus.yml'}",
            f"--storage.tsdb.path={self._folder / 'data'}",
            f"--web.listen-address=127.0.0.1:{self._port}",
            "--log.level=warn",
        ]
        with (self._folder / "log").open("wb") as log:
            self._process = subprocess.Popen(command, stdout=log, stderr=log, preexec_fn=die_with_parent)
        wait_for(self._is_ready, START_S, "Prometheus is ready")

    def _is_ready(self) -> bool:
        assert self._process is not None
        assert self._process.poll() is None, (self._folder / "log").read_text()
        try:
            with urllib.request.urlopen(f"http://127.0.0.1:{self._port}/-/ready", timeout=ASK_S):
                return True
        except OSError:
            return False

    def stop(self) -> None:
        if self._process is not None and self._process.poll() is None:
            self._process.terminate()
            try:
                self._process.wait(30)
            except subprocess.TimeoutExpired:
                self._process.kill()
                self._process.wait(30)

    def ask(self, query: str) -> list[dict[str, Any]]:
        """The series that a query gives now."""
        return self._get("query", query=query)["result"]  # type: ignore[no-any-return]

    def value(self, query: str) -> float:
        """Of the only series; NaN if there is none."""
        answer = self.ask(query)
        assert len(answer) <= 1, answer
        return float(answer[0]["value"][1]) if answer else float("nan")

    def firing(self) -> set[str]:
        """The names of the alerts that fire."""
        alerts = self._get("alerts")["alerts"]
        return {alert["labels"]["alertname"] for alert in alerts if alert["state"] == "firing"}

    def _get(self, path: str, **parameters: str) -> Any:
        address = f"http://127.0.0.1:{self._port}/api/v1/{path}?{urllib.parse.urlencode(parameters)}"
        try:
            with urllib.request.urlopen(address, timeout=ASK_S) as answer:
                return json.load(answer)["data"]
        except urllib.error.HTTPError as error:
            raise AssertionError(f"{parameters}: {error.read().decode()}") from error
