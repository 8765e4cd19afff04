"""The garbage collector stands still during loads and large requests, and only then."""

import gc
from collections.abc import Iterator

import pytest

from ottla.shell import garbage_collection as collector_module
from ottla.shell.garbage_collection import Collector, spare_survivors


@pytest.fixture(autouse=True)
def as_before() -> Iterator[None]:
    gc.enable()
    callbacks = list(gc.callbacks)
    yield
    gc.callbacks[:] = callbacks
    gc.enable()
    gc.unfreeze()


def test_nothing_is_collected_while_a_large_request_is_worked_on_and_nothing_is_frozen_after_it() -> None:
    collector, frozen = Collector(), gc.get_freeze_count()
    collector.pause(False, is_busy=True)
    assert not gc.isenabled()
    collector.pause(False, is_busy=False)
    assert gc.isenabled()
    assert gc.get_freeze_count() == frozen


def test_what_a_load_made_is_frozen_even_if_a_large_request_goes_on_after_it() -> None:
    collector, frozen = Collector(), gc.get_freeze_count()
    collector.pause(True)
    collector.pause(False, is_busy=True)
    assert not gc.isenabled()
    collector.pause(False)
    assert gc.isenabled()
    assert gc.get_freeze_count() > frozen


@pytest.mark.parametrize(
    ("generation", "long_s", "is_frozen"), [(2, 0.0, True), (2, 60.0, False), (1, 0.0, False)]
)
def test_what_has_survived_a_long_full_collection_is_not_looked_at_again(
    monkeypatch: pytest.MonkeyPatch, generation: int, long_s: float, is_frozen: bool
) -> None:
    monkeypatch.setattr(collector_module, "LONG_S", long_s)
    spare_survivors()
    gc.disable()  # no other collection comes in between
    frozen = gc.get_freeze_count()
    gc.collect(generation)
    assert (gc.get_freeze_count() > frozen) == is_frozen
