"""`ottla pipeline`: make, run and look at data pipelines on Spark."""

import os
import sys
from dataclasses import replace
from typing import TYPE_CHECKING, Annotated, Any

import typer

from ottla.base.command_error import USAGE, CommandError
from ottla.base.times import parse_duration_ms, show_ms
from ottla.cli import output
from ottla.cli.options import NOWHERE, Json, bootstrap_option, connects
from ottla.cli.pipelines.graph import graph
from ottla.cli.pipelines.logs import logs
from ottla.cli.pipelines.run_display import confirm_refresh, run_in, show_sources
from ottla.cli.pipelines.trial import trial
from ottla.cli.properties import parse_settings
from ottla.client.librdkafka import connections
from ottla.client.properties import ClientProperties
from ottla.pipelines import client_file, spark_environment
from ottla.pipelines import status as pipeline_status
from ottla.pipelines.dataflow import TABLE, check_tables
from ottla.pipelines.folder import TEMPLATES, PipelineFolder, create_folder
from ottla.pipelines.progress import RUNNING
from ottla.pipelines.run import RunOptions, known_dataflow

if TYPE_CHECKING:
    from confluent_kafka.admin import AdminClient

app = typer.Typer(
    name="pipeline", help="Make, run and look at data pipelines on Spark.", no_args_is_help=True
)

Folder = Annotated[str, typer.Argument(metavar="DIR", help="The folder of the pipeline.", show_default=False)]
_BROKER = bootstrap_option("A broker, or several with commas. (as in spark-pipeline.yml)")
Broker = Annotated[str | None, _BROKER]
WhereOrFolder = Annotated[ClientProperties, _BROKER]


@app.command()
def init(
    folder: Folder,
    template: Annotated[
        str,
        typer.Option(
            "--template", "-t", metavar="NAME", help=f"{', '.join(TEMPLATES)}. (needed)", show_default=False
        ),
    ] = "",
    bootstrap: Broker = None,
) -> None:
    """Make the folder of a pipeline out of a template: yours to change.

    \b
    metrics  windows and alerts of what `ottla metrics` measures
    logs     parse, count, route and keep what `ottla ship` sends
    stream   orders joined to customers, each once, and sessions

    For a pipeline of your own begin with stream: a table is a function in transformations/*.py or a
    statement in transformations/*.sql, and spark-pipeline.yml names the topics.

    \b
    Examples:
      ottla pipeline init --template logs my-logs
    """
    if not template:
        raise CommandError(f"say what to begin with: --template {', '.join(TEMPLATES)}", USAGE)
    create_folder(folder, template, bootstrap)
    output.say(f"made {folder}; read {os.path.join(folder, 'README.md')}, then `ottla pipeline run {folder}`")


@app.command()
@connects("-X")
def run(
    folder: Folder,
    tables: Annotated[
        list[str] | None,
        typer.Argument(metavar="TABLE...", help="Only these tables. (all)", show_default=False),
    ] = None,
    once: Annotated[bool, typer.Option("--once", help="Process what is there, and exit.")] = False,
    continuous: Annotated[
        bool,
        typer.Option("--continuous", help="After a run that failed try again, with growing pauses."),
    ] = False,
    every: Annotated[
        str,
        typer.Option(
            "--every", "--interval", "-i", metavar="TIME", help="From one run to the next: 30s, 5m, 1h."
        ),
    ] = "10s",
    full_refresh: Annotated[
        bool,
        typer.Option("--full-refresh", help="Throw away what was made, and make it again from the topics."),
    ] = False,
    yes: Annotated[bool, typer.Option("--yes", "-y", help="Do not ask before a full refresh.")] = False,
    master: Annotated[
        str,
        typer.Option(
            "--master", "-m", metavar="URL", help="local[N], spark://HOST:PORT, yarn, k8s://..., sc://..."
        ),
    ] = "local[*]",
    settings: Annotated[
        list[str] | None,
        typer.Option("--set", metavar="KEY=VALUE", help="A property of Spark; may be repeated."),
    ] = None,
    dry: Annotated[bool, typer.Option("--dry-run", help="Check the pipeline, and process nothing.")] = False,
    verbose: Annotated[
        bool, typer.Option("--verbose", "-v", help="Show Spark's log after a failure.")
    ] = False,
    where: WhereOrFolder = NOWHERE,
) -> None:
    """Run a pipeline again and again until Ctrl-C, or once.

    A run processes what has come since the last one. It can be interrupted at any time, and the next one
    goes on where it was. Needs Java 17 and PySpark, which comes with the extra `spark` of ottla; no jar,
    no Spark installation.

    \b
    Examples:
      ottla pipeline run my-logs
      ottla pipeline run my-logs --once --bootstrap broker:9092
      ottla pipeline run my-logs --continuous --every 5m
      ottla pipeline run my-logs --once --full-refresh errors
      ottla pipeline run my-logs --master spark://host:7077 --set spark.executor.memory=2g
    """
    if continuous and (once or dry):
        raise CommandError("--continuous goes on until Ctrl-C: leave out --once and --dry-run", USAGE)
    pipeline_folder = PipelineFolder(folder)
    spark_environment.check()
    where, spark = _apart(where)
    properties = {**spark, **parse_settings(settings or [], "--set")}
    every_s = (
        parse_duration_ms(f"{every}s" if every.replace(".", "", 1).isdigit() else every, "--every") / 1000
    )
    chosen = tuple(tables or ())
    _check_tables(pipeline_folder, chosen)
    if full_refresh and not dry:
        confirm_refresh(pipeline_folder, chosen, yes=yes)
    options = RunOptions(once, dry, master, every_s, properties, where, continuous, full_refresh, chosen)
    run_in(pipeline_folder, options, verbose=verbose)


def _check_tables(folder: PipelineFolder, named: tuple[str, ...]) -> None:
    """As far as it is known without Spark which tables there are."""
    flowing = known_dataflow(folder) if named else None
    if flowing is not None:
        try:
            check_tables(list(named), flowing.names(TABLE))
        except ValueError as error:
            raise CommandError(str(error), USAGE) from None


def _apart(where: ClientProperties) -> tuple[ClientProperties, dict[str, str]]:
    """A property that begins with `spark.` is Spark's, however it is given."""
    spark = {name: value for name, value in where.given if name.startswith("spark.")}
    client = tuple((name, value) for name, value in where.given if name not in spark)
    return replace(where, given=client), spark


@app.command()
@connects("-X")
def status(
    folder: Annotated[str, typer.Argument(metavar="DIR", help="The folder of the pipeline.")] = ".",
    json: Json = False,
    where: WhereOrFolder = NOWHERE,
) -> None:
    """Show the last run of a pipeline, its tables, and how far behind its sources it is.

    \b
    Examples:
      ottla pipeline status my-logs
      ottla pipeline status my-logs --json | jq '.sources[] | .lag'
    """
    pipeline_folder = PipelineFolder(folder)
    last = pipeline_folder.last_run()
    if last is None:
        raise CommandError(f"{folder} has not been run yet; `ottla pipeline run {folder}` does it")
    if last["state"] == RUNNING and not pipeline_folder.is_running():
        last["state"] = "killed"
    tables = pipeline_status.tables(last["tables"] or "")
    sources = pipeline_status.sources(last["storage"] or "", _client(pipeline_folder, where, last))
    if json:
        shown = [{**source._asdict(), "lag": source.lag} for source in sources]
        output.show_json({**last, "tables": [source._asdict() for source in tables], "sources": shown})
        return
    print(f"pipeline {pipeline_folder.path}")
    print(
        f"last run: {last['state']}, {output.plural(last['rounds'], 'round')}, on {last['master']}, "
        f"{show_ms(last['started_ms'])} to {show_ms(last['ended_ms'])}"
    )
    if last["reason"]:
        print(f"reason: {' '.join(last['reason'].split())}")
    if tables:
        output.show_table(("table", "rows", "bytes", "files"), tables)
    if sources:
        show_sources(sources)


app.command("logs")(logs)
app.command("graph")(graph)
app.command("test")(trial)


def _client(folder: PipelineFolder, where: ClientProperties, last: dict[str, Any]) -> "AdminClient | None":
    """Without the broker the rest can be shown all the same."""
    bootstrap = where.bootstrap or last["bootstrap"]
    if not bootstrap:
        return None
    try:
        properties = client_file.properties_of(folder, where, last.get("client_config"))
        return connections.admin(client_file.checked(properties, bootstrap))
    except CommandError as error:
        print(f"ottla: {error}", file=sys.stderr)
        return None
