"""What the tests of the wire share: every message in every version, and a full instance of each.

A test that takes `message_class` and `version` runs for all of them.
"""

import importlib
import pkgutil
from collections.abc import Callable
from typing import Any

import pytest

from ottla.wire import messages
from ottla.wire.schema import Array, Blob, Fixed, Kind, Nested, Text, fields_of


def all_messages() -> list[type]:
    found = []
    for module in sorted(each.name for each in pkgutil.iter_modules(messages.__path__)):
        names = vars(importlib.import_module(f"{messages.__name__}.{module}"))
        found += [value for value in names.values() if hasattr(value, "API_KEY")]
    return found


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    marked = [mark.args[0] for mark in metafunc.definition.iter_markers("parametrize")]
    if "message_class" in marked or not {"message_class", "version"} <= set(metafunc.fixturenames):
        return
    cases = [(cls, v) for cls in all_messages() for v in range(cls.VERSIONS[0], cls.VERSIONS[1] + 1)]
    ids = [f"{cls.__name__}-v{version}" for cls, version in cases]
    metafunc.parametrize(("message_class", "version"), cases, ids=ids)


def full_instance(cls: type, version: int) -> Any:
    """Every field of the version is set, and differs from its default."""
    return cls(**{f.name: _full_value(f.kind, version) for f in fields_of(cls) if f.is_in(version)})


def _full_value(kind: Kind, version: int) -> Any:
    match kind:
        case Fixed("?"):
            return True
        case Fixed("16s"):
            return bytes(range(16))
        case Fixed("d"):
            return 0.5
        case Fixed():
            return 3
        case Text():
            return "ab"
        case Blob():
            return b"xyz"
        case Nested(cls):
            return full_instance(cls, version)
        case Array(item):
            return [_full_value(item, version), _full_value(item, version)]


@pytest.fixture(scope="session")
def full() -> Callable[[type, int], Any]:
    return full_instance
