"""Metrics are written as Prometheus reads them; its own parser says so."""

from prometheus_client.parser import text_string_to_metric_families

from ottla.base.metrics import Family, Histogram, counter, gauge, histogram, label_text
from ottla.shell.metrics.text import PIECE, Text

MADE = counter("things_made_total", "Things that were made,\nwith a back\\slash.", "color", "size")
LEFT = gauge("things_left", "Things that are left.")
TIMES = histogram("things_time_seconds", "How long things take.", "color")


def parsed(families: list[Family]) -> dict[tuple[str, tuple[tuple[str, str], ...]], float]:
    text = "".join(Text().pieces(families))
    return {
        (sample.name, tuple(sample.labels.items())): sample.value
        for family in text_string_to_metric_families(text)
        for sample in family.samples
    }


def test_numbers_with_and_without_labels() -> None:
    color = 'r"e\\d\n'
    assert parsed([(MADE, [((), 3), ((color, "1"), 2.5)]), (LEFT, [((), 0)])]) == {
        ("things_made_total", ()): 3.0,
        ("things_made_total", (("color", color), ("size", "1"))): 2.5,
        ("things_left", ()): 0.0,
    }


def test_a_histogram_has_a_bucket_for_each_power_of_two_that_holds_all_before_it() -> None:
    durations = Histogram()
    for duration_us in (0, 3, 1_000_000, 2**40):
        durations.observe(duration_us)
    samples = parsed([(TIMES, [(("red",), durations), ((), durations)])])
    assert samples["things_time_seconds_count", (("color", "red"),)] == 4
    assert samples["things_time_seconds_sum", ()] == (3 + 1_000_000 + 2**40) / 1e6
    buckets = {
        labels[1][1]: count
        for (name, labels), count in samples.items()
        if name.endswith("_bucket") and labels[0] == ("color", "red")
    }
    assert [buckets["1e-06"], buckets["4e-06"], buckets["1.048576"], buckets["+Inf"]] == [1, 2, 3, 4]


def test_many_samples_come_in_small_pieces() -> None:
    samples = [((f"color {number}", ""), number) for number in range(10 * PIECE)]
    pieces = list(Text().pieces([(MADE, samples)]))
    assert max(piece.count("\n") for piece in pieces) <= PIECE
    assert len(parsed([(MADE, samples)])) == len(samples)


def test_labels_that_are_written_already_are_taken_as_they_are() -> None:
    color = 'r"e\\d\n'
    labels = label_text(("color", "size"), (color, "1"))
    expected = {("things_made_total", (("color", color), ("size", "1"))): 3.0}
    assert parsed([(MADE, [(labels, 3)])]) == parsed([(MADE, [((color, "1"), 3)])]) == expected
    assert parsed([(MADE, [(labels, 2.5)])]) == {next(iter(expected)): 2.5}
    durations = Histogram()
    durations.observe(3)
    samples = parsed([(TIMES, [(label_text(("color",), ("red",)), durations)])])
    assert samples["things_time_seconds_count", (("color", "red"),)] == 1
