"""Clients for Node.js: tests/compat/node, with the versions of its package-lock.json."""

import json
import subprocess
from pathlib import Path

import pytest
from tests.compat import card, toolchains
from tests.compat.card import Program
from tests.compat.client_contract import ClientContract
from tests.compat.guest import Guest

SOURCE = Path(__file__).parents[1] / "node"
CONFLUENT = "@confluentinc/kafka-javascript"
QUIETLY = ["--no-audit", "--no-fund", "--loglevel=error"]


@pytest.fixture(scope="module")
def installed() -> Path:
    toolchains.need("node", "npm")
    folder = toolchains.copied(SOURCE)
    toolchains.run(["npm", "ci", *QUIETLY], folder)
    return folder


class TestKafkaJs(ClientContract):
    PROGRAM = Program(
        "kafkajs",
        json.loads((SOURCE / "package.json").read_text())["dependencies"]["kafkajs"],
        card.CLIENTS,
        "npm: kafkajs",
    )

    @pytest.fixture
    def guest(self, installed: Path, tmp_path: Path) -> Guest:
        return Guest(["node", "kafkajs.js"], tmp_path, installed)


class TestConfluentJavaScript:
    PROGRAM = Program(CONFLUENT, "1.10.1", card.CLIENTS, f"npm: {CONFLUENT}")

    def test_it_installs(self, tmp_path: Path) -> None:
        """Installed from npm (it is librdkafka for Node; see confluent-kafka for what that does)."""
        toolchains.need("node", "npm")
        command = ["npm", "install", *QUIETLY, f"{CONFLUENT}@{self.PROGRAM.version}"]
        done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, timeout=toolchains.RUN_S)
        if "ENOTFOUND" in done.stderr:
            pytest.skip("its binary is on GitHub and its sources fetch others; npm alone does not have it")
        assert done.returncode, "it can be installed now: give it the contract of the other clients"
        pytest.fail(done.stderr[-2000:])
