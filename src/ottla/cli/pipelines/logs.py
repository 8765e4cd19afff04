"""`ottla pipeline logs`: what Spark and the pipeline have written in the last runs."""

from typing import Annotated

import typer

from ottla.base.command_error import USAGE, CommandError
from ottla.cli import output
from ottla.cli.interrupts import stopping
from ottla.pipelines import run_logs
from ottla.pipelines.folder import PipelineFolder

LOOK_S = 0.25


def logs(
    folder: Annotated[str, typer.Argument(metavar="DIR", help="The folder of the pipeline.")] = ".",
    lines: Annotated[
        int | None, typer.Option("--lines", "-n", metavar="N", min=0, help="Only the last lines. (all)")
    ] = None,
    back: Annotated[
        int,
        typer.Option(
            "--back", "-b", metavar="N", min=0, help="Of a run before: 1 is the one before the last."
        ),
    ] = 0,
    follow: Annotated[bool, typer.Option("--follow", "-f", help="Go on until Ctrl-C.")] = False,
) -> None:
    """Show the log of the last run of a pipeline, or of one before it.

    \b
    Examples:
      ottla pipeline logs my-logs -n 50
      ottla pipeline logs my-logs --follow
      ottla pipeline logs my-logs --back 1
    """
    if follow and back:
        raise CommandError("--follow shows the log that is being written: leave out --back", USAGE)
    pipeline_folder = PipelineFolder(folder)
    if follow:
        with stopping() as stopped:
            for line in run_logs.followed(pipeline_folder, lines, lambda: stopped.wait(LOOK_S)):
                print(line, flush=True)
        return
    paths = run_logs.paths(pipeline_folder)
    if not paths:
        raise CommandError(f"{folder} has not been run yet; `ottla pipeline run {folder}` does it")
    if back >= len(paths):
        raise CommandError(
            f"{folder} keeps {output.plural(len(paths), 'log')}; --back {back} is not among them"
        )
    for line in run_logs.last_lines(paths[back], lines):
        print(line)
