"""What the books of a soak say of records that are lost, doubled, changed, disordered or deleted too soon."""

from tests.soak.ledger import Ledger

RETENTION_MS = 1_000
NOW = 50_000


def written(count: int) -> Ledger:
    ledger = Ledger(RETENTION_MS)
    for number in range(count):
        acknowledge(ledger, number)
    return ledger


def acknowledge(ledger: Ledger, number: int) -> None:
    ledger.on_acknowledged((0, number), f"w:{number}", NOW + number, NOW + number)


def test_all_is_well_when_everything_was_read_whoever_tells_first() -> None:
    ledger = written(3)
    for number in range(4):
        ledger.on_read((0, number), f"w:{number}")
    assert not ledger.is_settled
    acknowledge(ledger, 3)
    assert (ledger.is_settled, ledger.close()) == (True, [])
    assert (ledger.acknowledged, ledger.read) == (4, 4)


def test_a_record_that_is_not_read_is_lost() -> None:
    ledger = written(2)
    ledger.on_read((0, 0), "w:0")
    assert not ledger.is_settled
    assert ledger.close() == ["w:1 was acknowledged at (0, 1), and never read"]


def test_an_offset_that_is_passed_over_is_told() -> None:
    ledger = written(3)
    ledger.on_read((0, 0), "w:0")
    ledger.on_read((0, 2), "w:2")
    assert ledger.close() == [
        "partition 0 goes from 1 to 2",
        "w:1 was acknowledged at (0, 1), and never read",
    ]


def test_a_record_that_is_read_again_counts_once_and_one_that_is_stored_twice_is_wrong() -> None:
    ledger = written(2)
    for _ in range(2):
        ledger.on_read((0, 0), "w:0")
        ledger.on_read((0, 1), "w:1")
    assert (ledger.repeated, ledger.close()) == (2, [])
    ledger.on_read((0, 2), "w:1")
    assert ledger.close()[0] == "w:1 at (0, 2) stands behind a later one, or is there twice"


def test_another_value_where_one_was_acknowledged_is_wrong() -> None:
    ledger = written(1)
    ledger.on_read((0, 0), "v:0")
    assert ledger.close() == ["w:0 and v:0 were acknowledged and read at (0, 0)"]


def test_a_record_that_was_refused_is_wrong() -> None:
    ledger = written(0)
    ledger.on_refused("w:9", "timed out")
    assert ledger.close() == ["w:9 was refused: timed out"]


def test_a_reader_that_is_overtaken_by_retention_has_lost_nothing() -> None:
    ledger = written(3)
    ledger.on_deleted(0, 1, NOW + 5 * RETENTION_MS)
    ledger.on_read((0, 1), "w:1")
    assert (ledger.expired, ledger.is_settled) == (1, False)
    ledger.on_read((0, 2), "w:2")
    assert (ledger.expired, ledger.is_settled, ledger.close()) == (1, True, [])


def test_a_reader_that_hears_of_a_deletion_first_waits_for_the_word_of_the_log() -> None:
    ledger = written(3)
    ledger.on_read((0, 2), "w:2")
    assert not ledger.is_settled
    ledger.on_deleted(0, 2, NOW + 5 * RETENTION_MS)
    assert (ledger.expired, ledger.is_settled, ledger.close()) == (2, True, [])


def test_a_record_that_was_on_its_way_to_the_reader_when_it_was_deleted_is_read() -> None:
    ledger = written(1)
    ledger.on_deleted(0, 1, NOW + RETENTION_MS)
    ledger.on_read((0, 0), "w:0")
    assert (ledger.expired, ledger.read, ledger.close()) == (0, 1, [])


def test_a_record_whose_acknowledgement_is_heard_after_it_was_deleted_is_no_loss() -> None:
    ledger = written(0)
    ledger.on_deleted(0, 1, NOW + RETENTION_MS)
    ledger.on_acknowledged((0, 0), "w:0", NOW, NOW + RETENTION_MS)
    assert (ledger.expired, ledger.close()) == (1, [])


def test_a_record_that_is_deleted_before_its_time_is_wrong() -> None:
    ledger = written(1)
    ledger.on_deleted(0, 1, NOW + RETENTION_MS - 1)
    assert ledger.close() == ["w:0 at (0, 0) was deleted after 999 ms"]
