"""`ottla produce --transactional-id`: lines of an input in transactions, and which of them are committed."""

from collections.abc import Callable, Iterator
from itertools import chain, islice

from ottla.base.command_error import CommandError
from ottla.cli import output
from ottla.client.formats import Outgoing
from ottla.client.librdkafka.transactions import Transactions

Lines = Iterator[tuple[int, Outgoing]]


def in_transactions(
    transactions: Transactions, lines: Lines, most: int | None, send: Callable[[Lines], None]
) -> None:
    """Send `most` lines in a transaction, or all in one. It begins when its first line is there."""
    committed = 0
    while (first := next(lines, None)) is not None:
        numbered = _Counted(chain([first], islice(lines, None if most is None else most - 1)))
        try:
            with transactions.transaction():
                send(numbered)
        except CommandError as error:
            raise CommandError(f"{error}; {_outcome(transactions, committed)}", error.code) from None
        except BaseException:
            output.say(_outcome(transactions, committed))
            raise
        committed = numbered.last


class _Counted(Lines):
    """Lines, and the number of the last that was taken."""

    def __init__(self, lines: Lines) -> None:
        self._lines = lines
        self.last = 0

    def __next__(self) -> tuple[int, Outgoing]:
        line = next(self._lines)
        self.last = line[0]
        return line


def _outcome(transactions: Transactions, committed: int) -> str:
    if not committed:
        return f"{transactions.fate}; no earlier one is committed"
    count = output.plural(transactions.committed, "transaction")
    before = f"lines 1 to {committed} are committed ({count})"
    return f"{transactions.fate}; {before}, go on with line {committed + 1}"
