"""The messages on disk are what the generator writes, and the generator refuses what it cannot express."""

import importlib.util
from dataclasses import dataclass, field
from pathlib import Path
from types import ModuleType

import pytest
from kio.static.primitive import i32

ROOT = Path(__file__).parent.parent.parent


@pytest.fixture(scope="module")
def generator() -> ModuleType:
    spec = importlib.util.spec_from_file_location(
        "generate_messages", ROOT / "tools" / "generate_messages.py"
    )
    assert spec
    assert spec.loader
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_the_messages_on_disk_are_those_that_the_generator_writes(generator: ModuleType) -> None:
    on_disk = {path.name: path.read_text() for path in generator.TARGET.glob("*.py")}
    assert generator.render(generator.APIS) == on_disk


def test_fields_that_change_their_order_between_versions_are_refused(generator: ModuleType) -> None:
    assert generator.merged_order("M", {0: ["a", "c"], 1: ["a", "b"], 2: ["b", "d"]}) == ["a", "c", "b", "d"]
    with pytest.raises(ValueError, match="M v0 come in another order"):
        generator.merged_order("M", {0: ["b", "a"], 1: ["a", "b"]})


def test_a_field_that_changes_its_default_between_versions_is_refused(generator: ModuleType) -> None:
    @dataclass
    class Old:
        a: i32 = field(metadata={"kafka_type": "int32"}, default=i32(1))

    @dataclass
    class New:
        a: i32 = field(metadata={"kafka_type": "int32"}, default=i32(2))

    with pytest.raises(ValueError, match=r"M\.a changes between versions"):
        generator.render_fields("M", {0: Old, 1: New}, {})
    assert generator.render_fields("M", {0: Old, 1: Old}, {}) == ["    a: i32 = 1\n"]
