"""A client for Rust: tests/compat/rust, with the versions of its Cargo.lock."""

import tomllib
from pathlib import Path

import pytest
from tests.compat import card, toolchains
from tests.compat.card import Program
from tests.compat.client_contract import ClientContract
from tests.compat.guest import Guest

pytestmark = pytest.mark.timeout(1_800)  # the first of them compiles librdkafka
SOURCE = Path(__file__).parents[1] / "rust"
DEPENDENCIES = tomllib.loads((SOURCE / "Cargo.toml").read_text())["dependencies"]


@pytest.fixture(scope="module")
def built() -> Path:
    """It compiles librdkafka, which takes minutes the first time."""
    toolchains.need("cargo", "cc", "make")
    folder = toolchains.copied(SOURCE)
    toolchains.run(["cargo", "build", "--quiet", "--locked"], folder)
    return folder / "target" / "debug" / "compat"


class TestRdKafka(ClientContract):
    version = DEPENDENCIES["rdkafka"]["version"].removeprefix("=")
    PROGRAM = Program("rust-rdkafka", version, card.CLIENTS, "crates.io: rdkafka")

    @pytest.fixture
    def guest(self, built: Path, tmp_path: Path) -> Guest:
        return Guest([str(built)], tmp_path)
