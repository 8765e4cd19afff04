"""The same metrics as OpenMetrics, and which of both a client gets."""

import pytest
from prometheus_client import exposition
from prometheus_client.openmetrics.parser import text_string_to_metric_families

from ottla.base.metrics import Histogram, counter, gauge, histogram
from ottla.shell.http.connection import Asked
from ottla.shell.http.scrapes import OPEN_METRICS, PLAIN, form_of
from ottla.shell.metrics.sources import all_metrics
from ottla.shell.metrics.text import Text

MADE = counter("things_made_total", 'Things that were "made",\nwith a back\\slash.', "color")
TIMED = counter("things_timed_count", "Things whose time was taken.")
LEFT = gauge("things_left", "Things that are left.")
TIMES = histogram("things_time_seconds", "How long things take.")


def test_open_metrics_has_the_same_samples() -> None:
    durations = Histogram()
    durations.observe(3)
    families = [
        (MADE, [((), 3), (("red",), 2)]), (TIMED, [((), 7)]), (LEFT, [((), 1.5)]), (TIMES, [((), durations)]),
    ]  # fmt: skip
    text = "".join(Text(is_open_metrics=True).pieces(families))
    read = {family.name: family for family in text_string_to_metric_families(text)}
    assert {name: family.type for name, family in read.items()} == {
        "things_made": "counter", "things_timed_count": "unknown", "things_left": "gauge",
        "things_time_seconds": "histogram",
    }  # fmt: skip
    assert read["things_made"].documentation == MADE.help
    assert [(sample.name, sample.value) for sample in read["things_made"].samples] == [
        ("things_made_total", 3), ("things_made_total", 2),
    ]  # fmt: skip
    assert read["things_timed_count"].samples[0].value == 7


def test_no_two_metrics_have_the_same_name_in_either_format() -> None:
    """In OpenMetrics a counter has no `_total`, and a histogram has parts with names of their own."""
    names = [metric.name.removesuffix("_total") for metric in all_metrics()]
    parts = [
        f"{name}{part}"
        for name in names
        for part in ("_count", "_sum", "_bucket")
        if name.endswith("_seconds")
    ]
    assert sorted({*names, *parts}) == sorted([*names, *parts])


PROMETHEUS = (
    "application/openmetrics-text;version=1.0.0;escaping=allow-utf-8;q=0.6,"
    "application/openmetrics-text;version=0.0.1;q=0.5,text/plain;version=1.0.0;q=0.4,text/plain;version=0.0.4;q=0.3,*/*;q=0.2"
)


@pytest.mark.parametrize(
    "accept",
    ["", "*/*", "text/plain", "text/html,*/*", "text/plain;version=0.0.4", "application/openmetrics-text",
     "application/openmetrics-text; version=1.0.0", PROMETHEUS],
)  # fmt: skip
def test_the_format_is_the_one_that_prometheus_client_would_choose(accept: str) -> None:
    _, wanted = exposition.choose_encoder(accept)
    ours = OPEN_METRICS if form_of(Asked("/metrics", accept, "")).is_open_metrics else PLAIN
    assert ours.partition(";")[0] == wanted.partition(";")[0]


@pytest.mark.parametrize("encoding", ["", "identity", "gzip", "deflate, gzip;q=1.0", "GZIP", "br"])
def test_it_is_compressed_for_those_for_whom_prometheus_client_would(encoding: str) -> None:
    assert form_of(Asked("/metrics", "", encoding)).is_gzip == exposition.gzip_accepted(encoding)
