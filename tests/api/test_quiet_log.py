"""A broker without trouble says nothing: neither per request nor per tick."""

import logging

import pytest
from tests.api.asking import batch, fetch, produce
from tests.api.groups import broker, stable
from tests.support.groups import beating, committing

MINUTE_MS = 60_000


def test_an_hour_of_work_has_no_lines(caplog: pytest.LogCaptureFixture) -> None:
    """Records are written and read, a group beats, clients come and go, and every task has its turn."""
    machine, client, _ = broker()
    member = stable(machine, client)
    machine.pass_time(MINUTE_MS // 10)
    with caplog.at_level(logging.INFO, "ottla"):
        for round_number in range(600):
            visitor = machine.client()
            assert not produce(visitor, "t", batch("v", at=machine.now_ms)).error_code
            assert not fetch(visitor, "t", round_number).error_code
            visitor.close()
            assert not client.send(beating(member, 1)).error_code
            client.send(committing(round_number, member=member, epoch=1), 5)
            machine.pass_time(MINUTE_MS // 10)
    assert caplog.messages == []


def test_writing_and_reading_records_does_not_even_ask_for_the_level(monkeypatch: pytest.MonkeyPatch) -> None:
    """So no level, and no number of lines elsewhere, costs the fast paths anything."""
    machine, client, _ = broker()
    produce(client, "t", batch("first"))
    asked: list[str] = []
    monkeypatch.setattr(logging.Logger, "isEnabledFor", lambda logger, _level: asked.append(logger.name))
    for offset in range(100):
        assert not produce(client, "t", batch("v", at=machine.now_ms)).error_code
        assert not fetch(client, "t", offset).error_code
    assert asked == []
    logging.getLogger("ottla").info("x")
    assert asked == ["ottla"], "whoever logs asks"
