"""What a run of a pipeline shows while it lasts, and when it is over."""

import contextlib
import sys
import time
from collections.abc import Iterator

import typer

from ottla.base.command_error import CommandError
from ottla.cli import output
from ottla.cli.interrupts import INTERRUPTED, stopping
from ottla.pipelines import dataflow, run_logs
from ottla.pipelines import status as pipeline_status
from ottla.pipelines.dataflow import TABLE, TOPIC, Dataflow, Node
from ottla.pipelines.driver_process import Show
from ottla.pipelines.folder import WAREHOUSE, PipelineFolder
from ottla.pipelines.progress import STOPPED
from ottla.pipelines.report import Report
from ottla.pipelines.run import DATAFLOW, PipelineRun, RunOptions
from ottla.pipelines.status import Source

PLAIN_EVERY_S = 10.0


def run_in(folder: PipelineFolder, options: RunOptions, *, verbose: bool = False) -> None:
    """Run a pipeline, show what it does, and at the end of a single run what it has made."""
    pipeline = PipelineRun(folder, options, output.say)
    try:
        with stopping() as stopped, display() as show:
            progress = pipeline.supervise(stopped, show)
    except CommandError:
        if verbose:
            for path in run_logs.paths(folder)[:1]:
                output.say("\n".join(run_logs.last_lines(path, None)))
        raise
    if not (options.once or options.dry):
        return
    if progress.state == STOPPED:
        raise typer.Exit(INTERRUPTED)
    if pipeline.report is not None:
        show_report(pipeline.report)


def show_report(report: Report) -> None:
    if report.tables:
        rows = [(*table[:2], report.new.get(table.name, 0), *table[2:]) for table in report.tables]
        output.show_table(("table", "rows", "new", "bytes", "files"), rows)
    if report.rejected:
        refused = [(*item, report.new_rejected.get(item.name)) for item in report.rejected]
        output.show_table(("rejected in", "name", "records", "new"), refused)
    if report.sources:
        show_sources(report.sources)


def show_sources(sources: list[Source]) -> None:
    rows = [(source.flow, source.topic, source.position, source.end, source.lag) for source in sources]
    output.show_table(("flow", "topic", "position", "end", "lag"), rows)


@contextlib.contextmanager
def display() -> Iterator[Show]:
    """On a terminal a line that is rewritten; else sentences, and now and then what is being done."""
    if not sys.stderr.isatty():
        yield _plain()
        return
    from rich.console import Console
    from rich.progress import Progress, SpinnerColumn, TextColumn, TimeElapsedColumn

    console = Console(stderr=True)
    columns = (SpinnerColumn(), TextColumn("{task.description}", markup=False), TimeElapsedColumn())
    with Progress(*columns, console=console, transient=True) as line:
        task = line.add_task("")

        def show(doing: str, sentence: str | None) -> None:
            if sentence:
                console.print(sentence, markup=False, highlight=False, soft_wrap=True)
            if doing:
                line.update(task, description=doing, refresh=True)

        yield show


def _plain() -> Show:
    last, said_s = "", time.monotonic()

    def show(doing: str, sentence: str | None) -> None:
        nonlocal last, said_s
        if sentence:
            output.say(sentence)
        elif doing and doing != last and time.monotonic() - said_s > PLAIN_EVERY_S:
            output.say(doing)
        else:
            return
        last, said_s = doing, time.monotonic()

    return show


def confirm_refresh(folder: PipelineFolder, tables: tuple[str, ...], *, yes: bool) -> None:
    """Say what a full refresh removes, and what it reads and writes again; then ask."""
    flowing = dataflow.stored(folder.own(DATAFLOW)) or Dataflow()
    made = {table.name: table.rows for table in pipeline_status.tables(folder.defaults()[WAREHOUSE])}
    for sentence in refresh_sentences(flowing, made, tables):
        output.say(sentence)
    output.confirm("go on?", yes=yes)


def refresh_sentences(flowing: Dataflow, made: dict[str, int], tables: tuple[str, ...]) -> list[str]:
    """What a full refresh of these tables means; of all, if none is named."""
    wanted = list(tables) or sorted({*made, *flowing.names(TABLE)})
    rows = ", ".join(f"{name} ({output.plural(made[name], 'row', ',d')})" for name in wanted if name in made)
    said = [f"a full refresh removes what is in {rows}" if rows else "nothing has been made yet"]
    if tables:
        topics = flowing.topics_read_for(wanted)
    else:
        topics = sorted({node.name for flow in flowing.flows for node in flow.reads if node.kind == TOPIC})
    if topics:
        said.append(
            f"read again from the beginning: {output.plural(len(topics), 'topic')} {', '.join(topics)}"
        )
    written = sorted({flow.writes.name for flow in flowing.flows if flow.writes.kind == TOPIC})
    if written and not tables:
        said.append(f"gets every record once more: topic {', '.join(written)}")
    for name in tables:
        said += [
            f"flow {flow.name} reads {name}: if it is a stream, it takes its rows for new ones"
            for flow in flowing.readers(Node(TABLE, name))
            if flow.writes.kind != TABLE or flow.writes.name not in wanted
        ]
    return said
