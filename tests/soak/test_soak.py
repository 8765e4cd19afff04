"""A soak of seconds: that it runs, restarts a broker, goes through retention and closes its books. What grows
cannot be told in so short a time (`make soak`)."""

import os
from pathlib import Path

import pytest
from tests.soak.run import ALONE, Plan, Report, save, show, soak
from tests.soak.samples import MEASURES, holdings


@pytest.fixture(scope="module")
def report(tmp_path_factory: pytest.TempPathFactory) -> Report:
    plan = Plan(seconds=9, rate=50, cycles=1, restarts_at=(2,), with_cluster=False)
    return soak(plan, tmp_path_factory.mktemp("soak"))


@pytest.mark.timeout(300)
def test_every_acknowledged_record_of_a_short_soak_is_accounted_for(report: Report) -> None:
    assert report.wrong == []
    [traffic] = report.traffics
    assert traffic.cycles >= 1
    ledger = traffic.ledger
    assert ledger.read + ledger.expired == ledger.acknowledged > 0
    assert traffic.visits > 0


def test_all_that_a_process_holds_is_sampled_in_each_of_its_lives(report: Report) -> None:
    assert {measure for name, measure in report.series if name == ALONE} == set(MEASURES)
    assert len({sample.life for sample in report.series[ALONE, "memory_mb"]}) == 2


def test_a_short_soak_says_that_it_cannot_tell_and_keeps_its_samples(
    report: Report, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert report.status == 2
    show(report)
    assert capsys.readouterr().out.rstrip().endswith("too short to tell")
    save(report, tmp_path / "soak.json")
    assert f'"{ALONE}/memory_mb"' in (tmp_path / "soak.json").read_text()


def test_what_a_process_holds_grows_with_what_it_opens(tmp_path: Path) -> None:
    before = holdings(os.getpid())
    with (tmp_path / "a").open("w"), (tmp_path / "b").open("w"):
        assert holdings(os.getpid())["descriptors"] == before["descriptors"] + 2
    assert before["memory_mb"] > 1
    assert before["threads"] >= 1
