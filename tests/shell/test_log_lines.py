"""Lines of a broker's log: one an event, whatever a client put into it."""

import io
import json
import logging
import sys
import time
from collections.abc import Iterator
from datetime import datetime
from typing import Any

import pytest

from ottla.base.log_fields import FIELDS, fields
from ottla.broker.audit import LOGGER as AUDIT
from ottla.broker.audit import Asker, Audit
from ottla.security.principals import Principal
from ottla.security.resources import Operation, ResourceType
from ottla.shell.log_limit import LimitedHandler
from ottla.shell.log_lines import RESERVED, JsonLines, TextLines, local_time, utc_time

HOSTILE = "cli\n2026-11-17T00:00:00.000+00:00 ERROR ottla: forged\r\x1b[2J\u2028\u202e\x85\ud800"


def record(message: str, *args: Any, extra: dict[str, Any] | None = None, exc_info: Any = None) -> Any:
    logger = logging.getLogger("ottla.test")
    return logger.makeRecord("ottla.test", logging.INFO, "", 0, message, args, exc_info, extra=extra)


def failure() -> Any:
    try:
        raise ValueError(HOSTILE)
    except ValueError:
        return sys.exc_info()


def test_a_line_of_text_has_time_with_zone_level_logger_and_sentence() -> None:
    line = TextLines(is_terminal=False).format(
        record("%s is deleted", "orders", extra=fields(topic="orders"))
    )
    at, level, logger, sentence = line.split(maxsplit=3)
    assert datetime.fromisoformat(at).utcoffset() is not None
    assert (level, logger, sentence) == ("INFO", "ottla.test:", "orders is deleted")


@pytest.mark.parametrize("is_terminal", [False, True])
def test_a_client_cannot_end_a_line_of_text_nor_command_the_terminal(is_terminal: bool) -> None:
    line = TextLines(is_terminal=is_terminal).format(record("client %s failed", HOSTILE))
    assert line.isprintable()
    assert r"cli\n2026" in line
    assert r"\r\x1b[2J\u2028\u202e\x85\ud800" in line


def test_a_traceback_is_part_of_the_line_in_a_pipe_and_has_indented_lines_on_a_terminal() -> None:
    piped = TextLines(is_terminal=False).format(record("bug", exc_info=failure()))
    assert piped.isprintable()
    assert " bug | Traceback (most recent call last): | File " in piped
    assert "ValueError: cli" in piped
    shown = TextLines(is_terminal=True).format(record("bug", exc_info=failure())).split("\n")
    assert len(shown) > 3
    assert all(line.startswith("    ") and line.isprintable() for line in shown[1:])


def test_a_line_of_json_has_what_machines_look_for() -> None:
    lines = JsonLines()
    lines.broker_id = 7
    extra = fields(topic="orders", partition=0, reason=None)
    line = lines.format(record("%s is deleted", "orders", extra=extra, exc_info=failure()))
    assert line.isprintable()
    said = json.loads(line)
    assert datetime.fromisoformat(said.pop("time")).utcoffset() is not None
    trace = said.pop("exception")
    assert trace.startswith("Traceback (most recent call last):\n")
    assert "ValueError: cli" in trace
    assert said == {
        "level": "INFO", "logger": "ottla.test", "message": "orders is deleted", "broker": 7,
        "topic": "orders", "partition": 0,
    }  # fmt: skip


def test_json_brings_back_what_a_client_sent_and_no_field_hides_another() -> None:
    forged = {"fields": {"client": HOSTILE, "level": "DEBUG", "message": "forged", "time": "never"}}
    line = JsonLines().format(record("client %s failed", HOSTILE, extra=forged))
    assert line.isascii()
    assert line.isprintable()
    said = json.loads(line)
    assert (said["client"], said["level"], said["message"]) == (HOSTILE, "INFO", f"client {HOSTILE} failed")
    assert not FIELDS.keys() & set(RESERVED)


def test_what_is_no_json_is_shown_as_text() -> None:
    assert json.loads(JsonLines().format(record("x", extra=fields(isr={1}))))["isr"] == "{1}"


@pytest.fixture
def _in_india(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    monkeypatch.setenv("TZ", "Asia/Kolkata")
    time.tzset()
    yield
    monkeypatch.undo()
    time.tzset()


@pytest.mark.usefixtures("_in_india")
def test_times_say_their_zone() -> None:
    assert local_time(1_600_000_000.0625) == "2020-09-13T17:56:40.062+05:30"
    assert utc_time(1_600_000_000.0625) == "2020-09-13T12:26:40.062Z"


def test_the_audit_log_is_json_in_text_and_fields_in_json(caplog: pytest.LogCaptureFixture) -> None:
    asker = Asker(Principal("User", "alice"), "10.0.0.1", "CLIENTS", HOSTILE, "CreateTopics")
    with caplog.at_level(logging.INFO, AUDIT):
        Audit().on_administration(
            asker, {"topics.name": ["orders"]}, [(Operation.CREATE, ResourceType.TOPIC, "orders", False)]
        )
    text = TextLines(is_terminal=False).format(caplog.records[0])
    in_text = json.loads(text[text.index("{") :])
    in_json = json.loads(JsonLines().format(caplog.records[0]))
    assert in_json["message"] == "User:alice asked for CreateTopics, which is not allowed"
    assert in_json["logger"] == AUDIT
    assert in_text["client"] == HOSTILE
    assert in_text.items() <= in_json.items()
    assert in_text.keys() <= FIELDS.keys()
    assert vars(caplog.records[0])["is_unlimited"], "it has a limit of its own"


def test_a_stream_that_is_gone_costs_nobody_anything(capsys: pytest.CaptureFixture[str]) -> None:
    class Gone(io.StringIO):
        def write(self, _text: str) -> int:
            raise BrokenPipeError

    LimitedHandler(Gone()).handle(record("x"))
    assert capsys.readouterr().err == ""
