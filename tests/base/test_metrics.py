"""A histogram counts durations by powers of two; metrics are declared in the classes that are read."""

from collections.abc import Iterator

import pytest

from ottla.base.metrics import Family, Histogram, Kind, counter, gauge, histogram, metrics_of


class Things:
    MADE = counter("things_made_total", "Things that were made.", "color")
    LEFT = gauge("things_left", "Things that are left.")

    def read(self, now_ms: int) -> Iterator[Family]:
        yield self.MADE, [(("red",), 1)]
        yield self.LEFT, [((), 2)]


def test_a_source_declares_its_metrics_as_attributes_of_its_class() -> None:
    assert [metric.name for metric in metrics_of(Things)] == ["things_made_total", "things_left"]
    assert Things.MADE.kind is Kind.COUNTER
    assert Things.MADE.labels == ("color",)


def test_the_name_of_a_counter_and_of_a_histogram_says_what_it_is() -> None:
    with pytest.raises(AssertionError, match="things_made"):
        counter("things_made", "Things that were made.")
    with pytest.raises(AssertionError, match="things_time"):
        histogram("things_time", "How long things take.")


@pytest.mark.parametrize(
    ("duration_us", "place"), [(0, 0), (1, 1), (2, 2), (3, 2), (4, 3), (1023, 10), (1024, 11), (2**40, 27)]
)
def test_a_duration_is_counted_below_the_next_power_of_two(duration_us: int, place: int) -> None:
    durations = Histogram()
    durations.observe(duration_us)
    assert [at for at, count in enumerate(durations.counts) if count] == [place]
    assert durations.total_us == duration_us
