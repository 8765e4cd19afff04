"""Clients in Go: tests/compat/go, with the versions of its go.mod."""

import re
from pathlib import Path
from typing import ClassVar

import pytest
from tests.compat import card, toolchains
from tests.compat.card import Program
from tests.compat.client_contract import ClientContract
from tests.compat.guest import Guest

SOURCE = Path(__file__).parents[1] / "go"


def program(name: str, module: str) -> Program:
    (version,) = re.findall(rf"^\t{re.escape(module)} v(\S+)$", (SOURCE / "go.mod").read_text(), re.MULTILINE)
    return Program(name, version, card.CLIENTS, f"Go: {module}")


@pytest.fixture(scope="module")
def programs() -> Path:
    """The folder with the programs."""
    toolchains.need("go")
    folder = toolchains.copied(SOURCE)
    toolchains.run(["go", "build", "-o", "bin/", "./..."], folder)
    return folder / "bin"


class TestFranzGo(ClientContract):
    PROGRAM = program("franz-go", "github.com/twmb/franz-go")

    @pytest.fixture
    def guest(self, programs: Path, tmp_path: Path) -> Guest:
        return Guest([str(programs / "franz")], tmp_path)


class TestSarama(ClientContract):
    PROGRAM = program("sarama", "github.com/IBM/sarama")

    @pytest.fixture
    def guest(self, programs: Path, tmp_path: Path) -> Guest:
        return Guest([str(programs / "sarama")], tmp_path)


class TestKafkaGo(ClientContract):
    PROGRAM = program("kafka-go", "github.com/segmentio/kafka-go")
    IS_IDEMPOTENT = False
    LACKS: ClassVar = {
        "test_transactions": "the library has no transactional producer",
        "test_copy": "the library has no transactional producer",
    }

    @pytest.fixture
    def guest(self, programs: Path, tmp_path: Path) -> Guest:
        return Guest([str(programs / "kafkago")], tmp_path)
