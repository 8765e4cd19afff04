"""What is said of connections that a limit ends."""

import pytest

from ottla.shell.notices import NOTICE_MS, Notices


def test_a_thousand_in_a_moment_are_one_line_and_the_next_says_how_many_there_were(
    caplog: pytest.LogCaptureFixture,
) -> None:
    refusals = Notices("refused")
    for at in range(1_000):
        refusals.say("10.0.0.9", "there are too many", 10_000 + at % NOTICE_MS)
    refusals.say("10.0.0.9", "there are too many", 10_000 + NOTICE_MS)
    first, second = (record.getMessage() for record in caplog.records)
    assert first == "connection from 10.0.0.9 refused: there are too many"
    assert second == f"{first} (and 999 more since the last such line)"
    assert {record.levelname for record in caplog.records} == {"WARNING"}


def test_those_left_out_are_counted_though_no_other_follows(caplog: pytest.LogCaptureFixture) -> None:
    closings = Notices("closed")
    for _ in range(3):
        closings.say("10.0.0.9", "it is too much", 10_000)
    closings.sweep(10_000 + NOTICE_MS - 1)
    assert len(caplog.records) == 1
    closings.sweep(10_000 + NOTICE_MS)
    closings.sweep(10_000 + 2 * NOTICE_MS)
    assert caplog.messages[1:] == ["connections closed: 2 more since the last such line"]
