"""The loggers of this process and their levels, under Kafka's names for levels (KIP-412).

Levels belong to the process: brokers that share one share them, and a restart forgets what was changed.
"""

import logging
from typing import Final

ROOT: Final = "root"
LEVELS: Final = {
    "TRACE": 5, "DEBUG": logging.DEBUG, "INFO": logging.INFO, "WARN": logging.WARNING,
    "ERROR": logging.ERROR, "FATAL": logging.CRITICAL,
}  # fmt: skip


def levels() -> dict[str, str]:
    """Every logger, also those that only stand above others, with the level it has or inherits."""
    named = [logging.getLogger(name) for name in list(logging.root.manager.loggerDict)]
    return {ROOT: _name(logging.root)} | {logger.name: _name(logger) for logger in named}


def set_level(logger: str, level: str | None) -> None:
    """Give a logger a level of its own, or have it inherit one."""
    number = logging.NOTSET if level is None else LEVELS[level]
    (logging.root if logger == ROOT else logging.getLogger(logger)).setLevel(number)


def _name(logger: logging.Logger) -> str:
    number = logger.getEffectiveLevel()
    return next((name for name, least in reversed(LEVELS.items()) if number >= least), "TRACE")
