"""`ottla pipeline test`: the pipeline on small data, in a broker of its own."""

import os
from typing import Annotated

import typer

from ottla.base.command_error import CommandError
from ottla.cli import output
from ottla.cli.interrupts import INTERRUPTED, stopping
from ottla.cli.pipelines.run_display import display
from ottla.cli.properties import parse_settings
from ottla.pipelines import spark_environment
from ottla.pipelines.folder import PipelineFolder
from ottla.pipelines.trial import Outcome, run_on
from ottla.pipelines.trial_cases import Case, Difference, cases, differences

SHOWN_MAX = 10


def trial(
    folder: Annotated[str, typer.Argument(metavar="DIR", help="The folder of the pipeline.")] = ".",
    names: Annotated[
        list[str] | None, typer.Argument(metavar="TEST...", help="Only these. (all)", show_default=False)
    ] = None,
    update: Annotated[bool, typer.Option("--update", help="Write what came as what is expected.")] = False,
    settings: Annotated[
        list[str] | None,
        typer.Option("--set", metavar="KEY=VALUE", help="A property of Spark; may be repeated."),
    ] = None,
) -> None:
    """Test a pipeline on small data, in a broker of its own.

    It is run once on each test's records, and what comes is compared with what is expected.

    \b
    tests/NAME/input/TOPIC.jsonl             a record a line: a value, or {"key": ..., "value": ...}
    tests/NAME/expected/tables/TABLE.jsonl   a row a line, with the columns that matter
    tests/NAME/expected/topics/TOPIC.jsonl   a value a line

    The pipeline's own tables and checkpoints are not touched. Exits with 1 if something differs.

    \b
    Examples:
      ottla pipeline test my-logs
      ottla pipeline test my-logs syslog --update
    """
    pipeline_folder = PipelineFolder(folder)
    chosen = cases(pipeline_folder.path, names or [])
    spark_environment.check()
    properties = parse_settings(settings or [], "--set")
    failed = []
    for case in chosen:
        outcome = _run(pipeline_folder, case, properties)
        if update:
            written = case.write(outcome)
            print(
                f"{case.name}: wrote {output.plural(len(written), 'file')} below {os.path.relpath(case.path)}"
            )
            continue
        seen = differences(case, outcome)
        print(f"{case.name}: {'differs' if seen else 'as expected'}", flush=True)
        for difference in seen:
            _show(difference)
        failed += [case.name] if seen else []
    if failed:
        raise CommandError(
            f"{output.plural(len(failed), 'test')} of {len(chosen)} not as expected: {', '.join(failed)}"
        )


def _run(folder: PipelineFolder, case: Case, settings: dict[str, str]) -> Outcome:
    with stopping() as stopped, display() as show:
        outcome = run_on(folder.path, case.records(), settings, show, stopped)
    if outcome is None:
        raise typer.Exit(INTERRUPTED)
    return outcome


def _show(difference: Difference) -> None:
    print(f"  {difference.kind} {difference.name}")
    for mark, what, values in (
        ("-", "missing", difference.missing),
        ("+", "unexpected", difference.unexpected),
    ):
        for value in values[:SHOWN_MAX]:
            print(f"    {mark} {value}")
        if len(values) > SHOWN_MAX:
            print(f"    {mark} and {len(values) - SHOWN_MAX} more {what}")
