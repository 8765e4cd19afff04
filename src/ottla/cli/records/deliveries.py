"""What became of the records that `ottla produce` has sent, and what it says about them."""

from collections.abc import Callable
from dataclasses import dataclass

from ottla.base.command_error import CommandError
from ottla.cli import output

PROBLEMS_SHOWN = 5


@dataclass(slots=True)
class Deliveries:
    acknowledged: int = 0
    acknowledged_bytes: int = 0
    failed: int = 0
    problems: int = 0
    is_told: bool = True  # why a record was not accepted; a transaction says it once

    def on_acknowledged(self, records: int, size: int) -> None:
        self.acknowledged += records
        self.acknowledged_bytes += size

    def on_refused(self, explain: Callable[[], str]) -> None:
        self.failed += 1
        self.problems += 1
        if self.is_told and self.problems <= PROBLEMS_SHOWN:
            output.say(f"ottla: {explain()}")

    @property
    def sent(self) -> str:
        count = self.acknowledged
        return f" ({output.plural(count, 'record')} before it {'was' if count == 1 else 'were'} sent)"

    def report(self, left: int, topic: str, took_s: float, *, quiet: bool) -> None:
        if not quiet:
            rate = self.acknowledged / took_s if took_s > 0 else 0.0
            output.say(
                f"{output.plural(self.acknowledged, 'record')}, "
                f"{output.plural(self.acknowledged_bytes, 'byte')} to {topic} "
                f"in {took_s:.2f} s ({rate:,.0f} records/s)"
            )
        if self.failed or left:
            raise CommandError(f"records that were not acknowledged: {self.failed + left}")
