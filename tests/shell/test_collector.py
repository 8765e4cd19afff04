"""The garbage collector stands still during loads and large requests, and only then."""

import gc
from collections.abc import Iterator

import pytest

from ottla.shell.collector import Collector


@pytest.fixture(autouse=True)
def as_before() -> Iterator[None]:
    gc.enable()
    yield
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
