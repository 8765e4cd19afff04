"""`ottla pipeline graph`: a picture of the flows."""

import shutil
import sys
from typing import Annotated

import typer

from ottla.base.command_error import CommandError
from ottla.cli import output
from ottla.cli.interrupts import INTERRUPTED, stopping
from ottla.cli.options import Json
from ottla.cli.pipelines.run_display import display
from ottla.pipelines import picture, spark_environment
from ottla.pipelines.dataflow import Dataflow
from ottla.pipelines.folder import PipelineFolder
from ottla.pipelines.progress import STOPPED
from ottla.pipelines.run import PipelineRun, RunOptions, known_dataflow

LOOK = RunOptions(dry=True, master="local[1]", looks=True)


def graph(
    folder: Annotated[str, typer.Argument(metavar="DIR", help="The folder of the pipeline.")] = ".",
    svg: Annotated[
        str | None, typer.Option("--svg", metavar="FILE", help="Write the picture there, as SVG.")
    ] = None,
    json: Json = False,
) -> None:
    """Draw what a pipeline reads and writes: topics, flows, tables.

    What the last run found is drawn at once. If the files have changed since, Spark is asked, which takes its
    time to start; no record is read, and no broker is needed.

    \b
    Examples:
      ottla pipeline graph my-logs
      ottla pipeline graph my-logs --svg flows.svg
    """
    pipeline_folder = PipelineFolder(folder)
    flowing = _dataflow(pipeline_folder)
    if json:
        output.show_json(flowing.as_json())
        return
    if svg is not None:
        try:
            with open(svg, "w", encoding="utf-8") as file:
                file.write(picture.svg(flowing, f"pipeline {pipeline_folder.name}"))
        except OSError as error:
            raise CommandError(f"cannot write {svg}: {error.strerror}") from None
        output.say(f"wrote {svg}")
        return
    is_full = (sys.stdout.encoding or "").lower().replace("-", "") == "utf8"
    width = shutil.get_terminal_size().columns if sys.stdout.isatty() else None
    print(picture.text(flowing, width, is_plain=not is_full))


def _dataflow(folder: PipelineFolder) -> Dataflow:
    """As the last run found it, or by a dry run if the files have changed since."""
    flowing = known_dataflow(folder)
    if flowing is not None:
        return flowing
    spark_environment.check()
    with stopping() as stopped, display() as show:
        progress = PipelineRun(folder, LOOK, output.say).supervise(stopped, show)
    if progress.state == STOPPED:
        raise typer.Exit(INTERRUPTED)
    flowing = known_dataflow(folder)
    if flowing is None:
        raise CommandError(f"the files of {folder.path} have changed while they were read; try again")
    return flowing
