"""What commands show: tables for people, plain columns for pipes, JSON for scripts.

rich is loaded only to draw on a terminal.
"""

import errno
import json
import sys
from collections.abc import Iterable, Sequence
from typing import Any, TypeAlias

from ottla.base.command_error import USAGE, CommandError

Cell: TypeAlias = str | int | float | bool | None
Rows: TypeAlias = Sequence[Sequence[Cell]]


_OF_WRITING = {errno.EPIPE, errno.ENOSPC, errno.EDQUOT, errno.EFBIG}


def show_json(value: Any) -> None:
    print(json_text(value, indent=2))


def json_text(value: Any, indent: int | None = None) -> str:
    """JSON for stdout, with escapes where its encoding has not every character."""
    is_full = (getattr(sys.stdout, "encoding", None) or "").lower().replace("-", "") == "utf8"
    return json.dumps(value, indent=indent, ensure_ascii=not is_full)


def is_of_writing(error: OSError) -> bool:
    """Whether this error comes from what we write, not from a file that we read."""
    return error.errno in _OF_WRITING


def show_table(columns: Sequence[str], rows: Rows, title: str = "") -> None:
    if sys.stdout.isatty():
        _draw(columns, rows, title)
    else:
        for line in plain_lines(columns, rows, title):
            print(line)


def plain_lines(columns: Sequence[str], rows: Rows, title: str = "") -> Iterable[str]:
    """The table as text: columns two spaces apart, numbers to the right, a header in capitals."""
    table = [[name.upper() for name in columns], *([text(cell) for cell in row] for row in rows)]
    widths = [max(map(len, column)) for column in zip(*table, strict=True)]
    right = _numeric(columns, rows)
    if title:
        yield title
    for line in table:
        cells = zip(line, widths, right, strict=True)
        yield "  ".join(
            cell.rjust(width) if is_right else cell.ljust(width) for cell, width, is_right in cells
        ).rstrip()


def text(cell: Cell) -> str:
    if cell is None:
        return "-"
    if isinstance(cell, bool):
        return "yes" if cell else "no"
    return str(cell)


def say(message: str) -> None:
    """A remark for the person, which a pipe does not want."""
    print(message, file=sys.stderr)


def plural(count: int, name: str, form: str = "d") -> str:
    ending = "" if count == 1 else "es" if name.endswith("ch") else "s"
    return f"{count:{form}} {name}{ending}"


def size_text(size: int | None) -> str:
    """In the largest unit that leaves a number above one."""
    if size is None:
        return "-"
    amount = float(size)
    for unit in ("B", "kB", "MB", "GB"):
        if amount < 1000:
            return f"{amount:.0f} {unit}" if unit == "B" else f"{amount:.1f} {unit}"
        amount /= 1000
    return f"{amount:.1f} TB"


def confirm(question: str, *, yes: bool) -> None:
    """Ask before something is lost. Without a terminal nobody can be asked, so --yes must say it."""
    if yes:
        return
    if not sys.stdin.isatty():
        raise CommandError("nothing was done: without a terminal to ask at, this takes --yes", USAGE)
    import typer

    if not typer.confirm(question):
        raise CommandError("nothing was done")


def _numeric(columns: Sequence[str], rows: Rows) -> list[bool]:
    """Which columns hold numbers; some of them may be missing."""
    columns_of = [[row[at] for row in rows if row[at] is not None] for at in range(len(columns))]
    return [bool(cells) and all(map(_is_number, cells)) for cells in columns_of]


def _is_number(cell: Cell) -> bool:
    return isinstance(cell, int | float) and not isinstance(cell, bool)


def _draw(columns: Sequence[str], rows: Rows, title: str) -> None:
    from rich import box
    from rich.console import Console
    from rich.table import Table
    from rich.text import Text

    table = Table(title=title or None, title_justify="left", box=box.SIMPLE_HEAD, header_style="bold")
    for name, is_right in zip(columns, _numeric(columns, rows), strict=True):
        table.add_column(name, justify="right" if is_right else "left", overflow="fold")
    for row in rows:
        table.add_row(*(Text(text(cell)) for cell in row))
    Console().print(table)
