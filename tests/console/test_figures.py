"""Figures, pictures and kept answers: what pages are made of."""

import threading

import pytest
from markupsafe import Markup

from ottla.console import charts, figures
from ottla.console.charts import Line, chart, nice_top, partition_map, spark
from ottla.console.cluster.history import Point
from ottla.console.cluster.kept import Kept
from ottla.console.cluster.snapshot import NOBODY, BrokerNode, Partition, Snapshot, Topic


@pytest.mark.parametrize(
    ("shown", "text"),
    [
        (figures.count(1234567), "1,234,567"),
        (figures.count(None), "–"),
        (figures.short(999), "999"),
        (figures.short(12_345), "12.3k"),
        (figures.short(999_999), "1M"),
        (figures.size(0), "0 B"),
        (figures.size(1500), "1.5 kB"),
        (figures.size_rate(123_456_789), "123 MB/s"),
        (figures.rate(0.25), "0.2/s"),
        (figures.duration(90_061_000), "1 d 1 h"),
        (figures.time(0), "1970-01-01 00:00:00"),
        (figures.time(-1), "–"),
        (figures.plural(1, "partition"), "1 partition"),
        (figures.plural(2000, "batch"), "2,000 batches"),
        (figures.in_words("retention.ms", "604800000"), "7 d"),
        (figures.in_words("segment.bytes", "1073741824"), "1.1 GB"),
        (figures.in_words("flush.ms", str(2**63 - 1)), ""),
        (figures.ids(()), "–"),
    ],
)
def test_a_figure_is_what_people_read(shown: str, text: str) -> None:
    assert shown == text


def test_a_chart_begins_at_zero_ends_at_a_round_number_and_breaks_where_nothing_was_measured() -> None:
    assert [nice_top(value) for value in (0, 0.3, 7, 12, 4999)] == pytest.approx(
        [1.0, 0.3, 8.0, 20.0, 6000.0]
    )
    points = [Point(0.0, 1.0), Point(5.0, 2.0), Point(500.0, 3.0), Point(505.0, None), Point(510.0, 4.0)]
    picture = chart([Line("in", points)], figures.rate, "Through <put>")
    assert picture.count("<polyline") == 3
    assert "Through &lt;put&gt;: in 4/s now" in picture
    assert " style=" not in picture
    assert "Measuring" in chart([Line("in", points[:1])], figures.rate, "x")
    assert spark(points[:1], "x") == Markup("")


def test_the_map_shows_who_leads_follows_is_late_and_gone() -> None:
    brokers = {number: BrokerNode(number, "h", 1) for number in (1, 2, 3)}
    partitions = (Partition(0, 1, (1, 2, 4), (1, 2)), Partition(1, NOBODY, (3,), ()))
    picture = partition_map(Snapshot("c", 1, brokers, {"<b>": Topic("<b>", partitions)}))
    for words in ("broker 1 leads", "broker 2 follows", "broker 4 is not there", "broker 3 is not in sync"):
        assert f"&lt;b&gt; {0 if '3' not in words else 1}: {words}" in picture
    assert charts.partition_map(Snapshot("c", 1, brokers, {})) == Markup("")


def test_an_answer_is_kept_for_a_moment_and_asked_for_once_however_many_wait() -> None:
    now = [0.0]
    kept, asked, let_go = Kept(lambda: now[0]), list[int](), threading.Event()

    def ask() -> int:
        asked.append(1)
        assert let_go.wait(30)
        return len(asked)

    answers: list[int] = []
    people = [threading.Thread(target=lambda: answers.append(kept.get("x", 5.0, ask))) for _ in range(5)]
    for person in people:
        person.start()
    let_go.set()
    for person in people:
        person.join(30)
    assert answers == [1] * 5
    now[0] = 4.9
    assert kept.get("x", 5.0, ask) == 1
    now[0] = 5.1
    assert kept.get("x", 5.0, ask) == 2
    kept.forget()
    assert kept.get("x", 5.0, ask) == 3


def test_an_answer_that_was_asked_for_before_a_change_is_not_kept_after_it() -> None:
    kept = Kept(lambda: 0.0)

    def ask() -> str:
        kept.forget()
        return "old"

    assert kept.get("x", 5.0, ask) == "old"
    assert kept.get("x", 5.0, lambda: "new") == "new"


def test_an_error_is_for_those_who_asked_and_for_nobody_later() -> None:
    kept = Kept(lambda: 0.0)

    def fail() -> int:
        raise ValueError("no")

    with pytest.raises(ValueError, match="no"):
        kept.get("x", 5.0, fail)
    assert kept.get("x", 5.0, lambda: 1) == 1
