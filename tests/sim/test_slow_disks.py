"""The checkers of cold reads are checked, too: what they are there for is planted, and they find it."""

from collections.abc import Callable
from contextlib import ExitStack

import pytest
from tests.api import test_cold_reads as cold_reads
from tests.sim.disk_plants import read_where_it_was

from ottla.base.errors import ApiError


@pytest.mark.parametrize(
    "check", [cold_reads.test_of_what_was_cut_and_written_anew_meanwhile_the_new_is_given]
)
def test_a_read_that_goes_on_in_a_segment_that_was_cut_is_found(check: Callable[[], None]):
    check()
    with ExitStack() as stack:
        read_where_it_was(stack)
        with pytest.raises((AssertionError, ApiError)):  # other records, or half of a batch
            check()
