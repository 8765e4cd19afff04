"""`ottla verify`: whether a data directory is sound, and what exactly is not.

Reads only, and needs a directory that no broker uses. On a terminal it shows how far it has come.
"""

import contextlib
import os
import shutil
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Callable, Iterator
from itertools import chain
from typing import Annotated, Any

import typer

from ottla.base.command_error import FAILED, USAGE, CommandError
from ottla.cli.output import is_of_writing, json_text, plural
from ottla.cli.storage.group_records import GroupRecords
from ottla.cli.storage.read_only_files import ReadOnlyFiles, user_of
from ottla.log.folders import META, parse_folder
from ottla.log.verify.directory import verify as check
from ottla.log.verify.findings import Finding, Severity, Totals, Work

STYLES = {Severity.ERROR: "bold red", Severity.WARNING: "yellow", Severity.NOTE: "dim"}
SHOW_PROGRESS_BYTES = 64 << 20


def verify(
    directories: Annotated[
        list[str], typer.Argument(metavar="DIR...", help="A broker's data directory.", show_default=False)
    ],
    quick: Annotated[
        bool, typer.Option("--quick", help="Read only headers: no checksums, no records.")
    ] = False,
    json: Annotated[bool, typer.Option("--json", help="One JSON object per line.")] = False,
) -> None:
    """Check a data directory while no broker uses it, and say exactly what is wrong.

    Looks at every file: batches with their checksums and records, what the records of consumer groups
    say, indexes against the log, producer snapshots, leader epochs, checkpoints, leftovers. Changes
    nothing. Each finding says what a broker would do about it when it starts.

    \b
    error    something is lost, or would be misread, or would not be noticed
    warning  damage that a broker finds and repairs by itself
    note     nothing is wrong

    Exits with 0 if there is no error, with 1 if there is, with 2 if the directory cannot be checked.

    \b
    Examples:
      ottla verify data
      ottla verify --quick /disk1/data /disk2/data
      ottla verify --json data | jq 'select(.severity == "error")'
    """
    for directory in directories:
        _check_directory(directory)
    began, counts, totals = time.monotonic(), Counter[Severity](), Totals()
    show = _json_line if json else _line
    with _progress(directories) as on_read:
        work = Work(
            files=ReadOnlyFiles(), quick=quick, on_read=on_read, totals=totals, meanings=GroupRecords.of
        )
        try:
            for finding in chain(check(work, directories), *map(_keeper_findings, directories)):
                counts[finding.severity] += 1
                show(finding)
        except OSError as error:
            if is_of_writing(error):
                raise
            raise CommandError(f"cannot read {error.filename or 'a file'}: {error.strerror}") from None
    took_s = time.monotonic() - began
    if json:
        _print_json({"summary": {str(severity): counts[severity] for severity in Severity}} | _totals(totals))
    else:
        print(_summary(counts, totals, took_s))
    if counts[Severity.ERROR]:
        raise typer.Exit(FAILED)


def _check_directory(directory: str) -> None:
    if not os.path.isdir(directory):
        raise CommandError(f"{directory} is not a directory", USAGE)
    try:
        names = os.listdir(directory)
    except OSError as error:
        raise CommandError(f"cannot read {directory}: {error.strerror}", USAGE) from None
    is_partition = parse_folder(os.path.basename(os.path.abspath(directory))) is not None
    if is_partition and any(name.endswith(".log") for name in names):
        above = os.path.dirname(os.path.abspath(directory))
        raise CommandError(f"{directory} is one partition's folder; verify the whole {above}", USAGE)
    if META not in names and not any(map(parse_folder, names)):
        raise CommandError(
            f"{directory} does not look like a data directory: no {META}, no partitions", USAGE
        )
    user = user_of(directory)
    if user is not None:
        raise CommandError(
            f"{directory} is in use (process {user}); stop that broker, or verify a copy", USAGE
        )


def _keeper_findings(directory: str) -> Iterator[Finding]:
    """Whether a broker could read keeper.db: a copy of it is tried, so that nothing is changed."""
    from ottla.controller.image import Image, NodeError
    from ottla.log.folders import KEEPER_DB
    from ottla.shell.keeper_embedded import EmbeddedKeeper
    from ottla.shell.lock import StartError

    path = os.path.join(directory, KEEPER_DB)
    files = [name for name in (path, f"{path}-wal") if os.path.isfile(name) and not os.path.islink(name)]
    if path not in files:
        return
    with tempfile.TemporaryDirectory() as scratch:
        for name in files:
            shutil.copy(name, scratch)
        try:
            keeper, image = EmbeddedKeeper(os.path.join(scratch, KEEPER_DB)), Image()
            with contextlib.closing(keeper):
                for node in keeper.load():
                    image.apply(node)
        except (StartError, NodeError) as error:
            problem = str(error).removeprefix(f"cannot read {scratch}/{KEEPER_DB}: ").partition("; ")[0]
            fate = f"the broker does not start until it and {KEEPER_DB}-wal are moved away"
            yield Finding(Severity.ERROR, path, problem, fate)


# -- what is shown --------------------


def _line(finding: Finding) -> None:
    location = [finding.path]
    if finding.position is not None:
        location.append(f"at byte {finding.position}")
    if finding.offset is not None:
        location.append(f"offset {finding.offset}")
    text = f"{', '.join(location)}: {finding.problem}. At start: {finding.at_start}."
    if sys.stdout.isatty():
        from rich.console import Console
        from rich.text import Text

        Console(soft_wrap=True).print(Text(finding.severity, STYLES[finding.severity]), Text(text))
    else:
        print(f"{finding.severity}: {text}")


def _json_line(finding: Finding) -> None:
    shown = {name: value for name, value in finding._asdict().items() if value is not None}
    _print_json(shown | {"severity": str(finding.severity)})


def _print_json(value: Any) -> None:
    sys.stdout.write(json_text(value) + "\n")


def _totals(totals: Totals) -> dict[str, int]:
    return {name: getattr(totals, name) for name in totals.__slots__}


def _summary(counts: Counter[Severity], totals: Totals, took_s: float) -> str:
    findings = (
        ", ".join(plural(counts[severity], severity, ",") for severity in Severity if counts[severity])
        or "nothing to report"
    )
    seen = ", ".join(
        plural(count, name, ",")
        for count, name in (
            (totals.partitions, "partition"),
            (totals.segments, "segment"),
            (totals.batches, "batch"),
            (totals.records, "record"),
            (totals.bytes, "byte"),
        )
    )
    return f"{findings}: {seen} · {took_s:.1f} s"


@contextlib.contextmanager
def _progress(directories: list[str]) -> Iterator[Callable[[int], None]]:
    """Tell how far we are, on a terminal and if there is much to read."""
    total = sum(_log_bytes(directory) for directory in directories) if sys.stderr.isatty() else 0
    if total < SHOW_PROGRESS_BYTES:
        yield lambda _count: None
        return
    from rich.console import Console
    from rich.progress import BarColumn, DownloadColumn, Progress, TimeRemainingColumn, TransferSpeedColumn

    columns = (BarColumn(), DownloadColumn(), TransferSpeedColumn(), TimeRemainingColumn())
    with Progress(*columns, console=Console(stderr=True), transient=True) as progress:
        task = progress.add_task("", total=total)
        pending = 0

        def on_read(count: int) -> None:
            nonlocal pending
            pending += count
            if pending >= 1 << 20:
                progress.advance(task, pending)
                pending = 0

        yield on_read


def _log_bytes(directory: str) -> int:
    total = 0
    for folder, _, names in os.walk(directory):
        total += sum(os.lstat(os.path.join(folder, name)).st_size for name in names if name.endswith(".log"))
    return total
