"""The levels of a broker's loggers, as configs of the resource type BROKER_LOGGER (KIP-412)."""

import logging
from collections.abc import Iterator

import pytest
from tests.api.harness import Client, Machine
from tests.api.test_alter_configs import APPEND, BROKER_LOGGER, DELETE, SET, SUBTRACT, change
from tests.api.test_describe_configs import describe

from ottla.base.errors import ErrorCode
from ottla.base.loggers import LEVELS
from ottla.broker.config_entries import DYNAMIC_BROKER_LOGGER_CONFIG

NAME = "ottla.test.logger"


@pytest.fixture(autouse=True)
def logger() -> Iterator[logging.Logger]:
    """A logger of our own below ottla's; every level that a test changes is as before in the end."""
    mine, above = logging.getLogger(NAME), logging.getLogger("ottla")
    before = {one: one.level for one in (mine, above, logging.root)}
    above.setLevel(logging.INFO)
    yield mine
    for one, level in before.items():
        one.setLevel(level)


@pytest.fixture
def client() -> Client:
    return Machine().client()


def level(client: Client, name: str = NAME) -> str | None:
    (one,) = describe(client, BROKER_LOGGER, "1", name).configs
    assert (one.config_source, one.synonyms) == (DYNAMIC_BROKER_LOGGER_CONFIG, [])
    assert (one.read_only, one.is_sensitive) == (False, False)
    return one.value


def test_every_logger_is_shown_with_the_level_it_has_or_inherits(client: Client) -> None:
    logging.root.setLevel(logging.WARNING)
    shown = {one.name: one.value for one in describe(client, BROKER_LOGGER, "1").configs}
    assert shown["root"] == "WARN"
    assert shown[NAME] == shown["ottla"] == "INFO"
    assert {"ottla.broker", "ottla.broker.groups"} <= set(shown)


@pytest.mark.parametrize("name", LEVELS)
def test_a_level_is_set_at_once_and_unset_again(client: Client, logger: logging.Logger, name: str) -> None:
    assert change(client, BROKER_LOGGER, "1", (NAME, SET, name)) == ErrorCode.NONE
    assert (logger.level, level(client)) == (LEVELS[name], name)
    assert change(client, BROKER_LOGGER, "1", (NAME, DELETE, None)) == ErrorCode.NONE
    assert (logger.level, level(client)) == (logging.NOTSET, "INFO")


def test_the_root_logger_can_be_set_and_not_unset(client: Client) -> None:
    assert change(client, BROKER_LOGGER, "1", ("root", SET, "ERROR")) == ErrorCode.NONE
    assert logging.root.level == logging.ERROR
    assert change(client, BROKER_LOGGER, "1", ("root", DELETE, None)) == ErrorCode.INVALID_REQUEST
    assert level(client, "root") == "ERROR"


@pytest.mark.parametrize(
    ("broker", "wrong", "code"),
    [
        ("1", (NAME, APPEND, "DEBUG"), ErrorCode.INVALID_REQUEST),
        ("1", (NAME, SUBTRACT, "DEBUG"), ErrorCode.INVALID_REQUEST),
        ("1", (NAME, 9, "DEBUG"), ErrorCode.INVALID_REQUEST),
        ("1", (NAME, SET, None), ErrorCode.INVALID_REQUEST),
        ("1", (NAME, SET, "LOUD"), ErrorCode.INVALID_CONFIG),
        ("1", (NAME, SET, "debug"), ErrorCode.INVALID_CONFIG),
        ("1", ("no.such.logger", SET, "DEBUG"), ErrorCode.INVALID_CONFIG),
        ("1", ("no.such.logger", DELETE, None), ErrorCode.INVALID_CONFIG),
        ("", (NAME, SET, "DEBUG"), ErrorCode.INVALID_REQUEST),
        ("2", (NAME, SET, "DEBUG"), ErrorCode.INVALID_REQUEST),
    ],
)
def test_what_makes_no_sense_changes_no_logger(
    client: Client, broker: str, wrong: tuple[str, int, str | None], code: ErrorCode
) -> None:
    assert change(client, BROKER_LOGGER, broker, ("ottla", SET, "ERROR"), wrong) == code
    assert (level(client), level(client, "ottla")) == ("INFO", "INFO")


def test_a_change_of_levels_can_be_tried_and_is_kept_nowhere(client: Client) -> None:
    nodes = dict(client.machine.keeper.nodes)
    assert change(client, BROKER_LOGGER, "1", (NAME, SET, "DEBUG"), validate_only=True) == ErrorCode.NONE
    assert level(client) == "INFO"
    assert change(client, BROKER_LOGGER, "1", (NAME, SET, "DEBUG")) == ErrorCode.NONE
    assert client.machine.keeper.nodes == nodes


@pytest.mark.parametrize("operation", [SET, DELETE])
def test_the_audit_log_is_not_silenced_by_whom_it_is_about(client: Client, operation: int) -> None:
    audit = logging.getLogger("ottla.audit")
    before = audit.level
    assert change(client, BROKER_LOGGER, "1", (audit.name, operation, "FATAL")) == ErrorCode.INVALID_REQUEST
    assert audit.level == before
