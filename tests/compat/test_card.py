"""The compatibility card keeps what a run of some rows saw, and says so on its page."""

from pathlib import Path

from tests.compat.card import CLIENTS, DOES_NOT, PROCESSORS, WORKS, Card, Program, Step, unserved
from tools.generate_card import README, in_readme, is_working, page

STORM = Program("Storm", "2.8", PROCESSORS, "Maven")
CLIENT = Program("client", "1.0", CLIENTS, "PyPI")


def works(done: str) -> Step:
    return Step(done, WORKS, "", "2026-01-02")


def test_a_run_of_some_rows_leaves_the_others_as_they_are(tmp_path: Path) -> None:
    card = Card()
    card.record(STORM, "test_counts", works("Counts words"))
    card.write(tmp_path / "card.json")
    again = Card.read(tmp_path / "card.json")
    again.record(CLIENT, "test_sends", works("Sends"))
    assert set(again.rows) == {"Storm", "client"}
    assert again.rows["Storm"] == card.rows["Storm"]


def test_another_version_begins_with_nothing() -> None:
    card = Card()
    card.record(CLIENT, "test_sends", works("Sends"))
    card.record(Program("client", "2.0", CLIENTS, "PyPI"), "test_reads", works("Reads"))
    assert set(card.rows["client"]["steps"]) == {"test_reads"}


def test_tests_that_are_gone_are_forgotten_and_the_others_keep_the_order_of_the_file() -> None:
    card = Card()
    for name in ("test_c", "test_b", "test_a"):
        card.record(CLIENT, name, works(name))
    card.keep_only("client", ["test_a", "test_c", "test_new"])
    assert list(card.rows["client"]["steps"]) == ["test_a", "test_c"]


def test_what_does_not_work_is_on_the_page_with_its_reason() -> None:
    card = Card()
    card.record(STORM, "test_counts", works("Counts words"))
    card.record(CLIENT, "test_sends", works("Sends"))
    card.record(CLIENT, "test_mirrors", Step("Mirrors", DOES_NOT, "no | mirror", "2026-01-01"))
    text = page(card)
    assert "1 programs of 2 do all that was tried" in text
    assert "works, but for:<br>*Mirrors* does not work: no \\| mirror | 2026-01-01 |" in text
    assert is_working(card.rows["Storm"])


def test_what_was_done_on_one_broker_and_on_three_is_one_line() -> None:
    card = Card()
    for variant in ("one broker", "three brokers-exactly_once"):
        card.record(CLIENT, f"test_copies[{variant}]", works(f"Copies, a broker killed (-9) ({variant})"))
    card.record(CLIENT, "test_kills", works("The broker killed (-9)"))
    expected = (
        "Copies, a broker killed (-9) (one broker; three brokers, exactly_once)<br>The broker killed (-9) |"
    )
    assert expected in page(card)


def test_the_readme_has_the_figures_of_the_card() -> None:
    text = README.read_text()
    assert "](docs/compatibility.md)" in text
    assert in_readme(text, Card.read()) == text, "run `make reference`"
    assert in_readme("so 7 programs of 9, as", Card()) == "so 0 programs of 0, as"


def test_requests_that_were_not_served_are_read_from_a_brokers_log() -> None:
    line = "INFO client 'sarama' at 127.0.0.1:5 asked for DescribeCluster v9, which is not served (docs/...)"
    assert unserved(f"{line}\n{line}\nother") == {"DescribeCluster v9"}
    card = Card()
    card.record(CLIENT, "test_sends", works("Sends"))
    card.record_unserved("client", unserved(line))
    assert "| client 1.0 | DescribeCluster v9 |" in page(card)
    card.record_unserved("client", {"Fetch v99"})
    assert card.rows["client"]["unserved"] == ["DescribeCluster v9", "Fetch v99"]
    card.record_unserved("client", {"Fetch v99"}, is_all=True)
    assert card.rows["client"]["unserved"] == ["Fetch v99"]
