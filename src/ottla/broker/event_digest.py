"""Log lines about what happens to many partitions or topics at once: one line for all to which the same
happens for the same reason, with how many they are and the first few names.

    orders-0, orders-3, payments-1 and 297 more: broker 1 leads now, as broker 2 is gone

A line is said when nothing was added for the time between two ticks, or after TICKS_MAX of them: what one
event leads to may take many writes and seconds. What an operator must know does not wait (`say` with a
level). At DEBUG each of them has a line of its own, at once.
"""

import itertools
import logging
from dataclasses import dataclass
from typing import Any, Final

from ottla.base.ids import TopicPartition
from ottla.base.log_fields import fields

NAMES_MAX: Final = 3
TICKS_MAX: Final = 10


@dataclass(slots=True)
class _Line:
    named: dict[str, Any]
    counted: str
    names: dict[object, None]  # in their order; what happens twice to one of them counts once

    @property
    def about(self) -> dict[str, Any]:
        """Fields that say how many, and of a single one which."""
        name, count = next(iter(self.names)), {self.counted: len(self.names)}
        if len(self.names) > 1:
            return count
        if isinstance(name, TopicPartition):
            return {"topic": name.topic, "partition": name.partition, **count}
        return {"topic": name, **count} if self.counted == "topics" else count


class EventDigest:
    def __init__(self) -> None:
        self._lines: dict[tuple[logging.Logger, int, str, tuple[object, ...]], _Line] = {}
        self._is_growing = False
        self._ticks = 0

    def add(
        self,
        log: logging.Logger,
        level: int,
        template: str,
        name: object,
        *arguments: object,
        counted: str = "partitions",
        **named: Any,
    ) -> None:
        """The first %s of the template is for the names, the arguments are for what follows. `named` are
        fields of the line, to which the number of names is added as `counted`."""
        self._is_growing = True
        line = self._lines.get((log, level, template, arguments))
        if line is None:
            line = self._lines[log, level, template, arguments] = _Line(named, counted, {})
        line.names[name] = None
        log.debug(template, name, *arguments, extra=fields(**named))

    def on_tick(self) -> None:
        self._ticks += 1
        if not self._is_growing or self._ticks >= TICKS_MAX:
            self.say()
        self._is_growing = False

    def say(self, level_min: int = logging.NOTSET) -> None:
        """All that was collected, or what is of that level at least."""
        self._ticks = 0
        for key in [key for key in self._lines if key[1] >= level_min]:
            log, level, template, arguments = key
            line = self._lines.pop(key)
            first = [str(name) for name in itertools.islice(line.names, NAMES_MAX)]
            extra = fields(**line.named | line.about)
            log.log(level, template, names_of(first, len(line.names)), *arguments, extra=extra)


def names_of(first: list[str], count: int) -> str:
    """The first few of so many."""
    more = f" and {count - len(first)} more" if count > len(first) else ""
    return ", ".join(first) + more
