"""The log levels of this broker's process as configs of resource type BROKER_LOGGER (KIP-412).

Only the broker itself can be asked, by its id. Changes hold until it restarts. AlterConfigs does not know the
type, as in Kafka: it would reset all loggers that it does not name. The audit log cannot be changed so: it
would not even say who has silenced it.
"""

import logging
from collections.abc import Iterable
from typing import Final, Protocol

from ottla.api.call import Call
from ottla.base.errors import ApiError, ErrorCode
from ottla.base.log_fields import fields
from ottla.base.loggers import LEVELS, ROOT, levels, set_level
from ottla.broker.audit import LOGGER as AUDIT
from ottla.broker.config_entries import DYNAMIC_BROKER_LOGGER_CONFIG, Entry, Synonym

log = logging.getLogger(__name__)

SET: Final = 0
DELETE: Final = 1


class LevelChange(Protocol):
    """What IncrementalAlterConfigs says of one logger."""

    name: str
    config_operation: int
    value: str | None


def describe_loggers(call: Call, broker: str) -> list[Entry]:
    _check_broker(call, broker)
    return [
        Entry(name, (Synonym(name, level, DYNAMIC_BROKER_LOGGER_CONFIG),), read_only=False)
        for name, level in sorted(levels().items())
    ]


def change_levels(call: Call, broker: str, changes: Iterable[LevelChange], *, validate_only: bool) -> None:
    """All of them, or none and an error."""
    _check_broker(call, broker)
    for change in changes:
        _check(change)
    for change in () if validate_only else changes:
        level = change.value if change.config_operation == SET else None
        set_level(change.name, level)
        # A warning, so that a log which is silenced says so in its last line.
        log.warning(
            "the log level of %s is now %s", change.name, level or "the one it inherits",
            extra=fields(setting=change.name, client=call.client_id),
        )  # fmt: skip


def _check_broker(call: Call, name: str) -> None:
    if name != str(call.broker.id):
        raise ApiError(
            ErrorCode.INVALID_REQUEST,
            f"This is broker {call.broker.id}; the request is for the loggers of broker '{name}'.",
        )


def _check(change: LevelChange) -> None:
    if change.config_operation not in {SET, DELETE}:
        raise ApiError(
            ErrorCode.INVALID_REQUEST, f"{change.name}: a log level can be set and deleted, nothing else."
        )
    if change.name == AUDIT:
        raise ApiError(
            ErrorCode.INVALID_REQUEST,
            f"{AUDIT} is changed where the broker is started: it is about who asks.",
        )
    if change.name not in levels():
        raise ApiError(ErrorCode.INVALID_CONFIG, f"There is no logger '{change.name}'.")
    if change.config_operation == SET and change.value not in LEVELS:
        allowed = ", ".join(LEVELS)
        raise ApiError(
            ErrorCode.INVALID_CONFIG, f"{change.name}: '{change.value}' is none of the levels {allowed}."
        )
    if change.config_operation == DELETE and change.name == ROOT:
        raise ApiError(ErrorCode.INVALID_REQUEST, "The root logger must have a level: set another one.")
