"""`ottla pipeline`: make, run and look at data pipelines on Spark."""

import importlib.resources
import os
import sys
import time
from importlib.resources.abc import Traversable
from typing import TYPE_CHECKING, Annotated, Any

import typer

from ottla.cli import cluster, output, pipeline_run, pipeline_spark, pipeline_status
from ottla.cli.cluster import REQUEST_S, Json, errors_explained
from ottla.cli.errors import USAGE, CommandError
from ottla.cli.pipeline_folder import SERVERS, TOPICS, WAREHOUSE, PipelineFolder
from ottla.cli.pipeline_run import FAILED, RUNNING, STOPPED, DriverProcess, Progress
from ottla.cli.properties import parse_settings
from ottla.cli.ship import INTERRUPTED, stopping
from ottla.cli.times import show_ms

if TYPE_CHECKING:
    from confluent_kafka.admin import AdminClient

app = typer.Typer(
    name="pipeline", help="Make, run and look at data pipelines on Spark.", no_args_is_help=True
)
JAVA_OPTIONS = "spark.driver.extraJavaOptions"
TEMPLATES = ("metrics", "logs", "stream")
# What a run sets unless the pipeline says otherwise. Unix sockets save a third of a small batch's time.
DEFAULTS = {
    "spark.ui.enabled": "false",
    "spark.ui.showConsoleProgress": "false",
    "spark.python.unix.domain.socket.enabled": "true",
    # Spark gives a Python worker ten seconds to start, so not all of them may start at once.
    "spark.sql.pipelines.execution.maxConcurrentFlows": str(max(2, os.cpu_count() or 2)),
}

Folder = Annotated[str, typer.Argument(metavar="DIR", help="The folder of the pipeline.", show_default=False)]
Broker = Annotated[
    str | None,
    typer.Option(
        "--bootstrap", "-b", metavar="HOST:PORT", envvar="OTTLA_BOOTSTRAP",
        help="A broker, or several with commas. (as in spark-pipeline.yml)",
    ),
]  # fmt: skip


@app.command()
def init(
    folder: Folder,
    template: Annotated[
        str, typer.Option("--template", "-t", metavar="NAME", help=f"{', '.join(TEMPLATES)}.")
    ],
    bootstrap: Broker = None,
) -> None:
    """Make the folder of a pipeline out of a template: yours to change.

    \b
    metrics  windows and alerts of what `ottla metrics` measures
    logs     parse, count, route and keep what `ottla ship` sends
    stream   orders joined to customers, each once, and sessions

    \b
    Examples:
      ottla pipeline init --template logs my-logs
    """
    make(folder, template, bootstrap)
    output.say(f"made {folder}; read {os.path.join(folder, 'README.md')}, then `ottla pipeline run {folder}`")


def make(folder: str, template: str, bootstrap: str | None) -> None:
    if template not in TEMPLATES:
        raise CommandError(f"--template is one of {', '.join(TEMPLATES)}, not {template!r}", USAGE)
    if os.path.isdir(folder) and os.listdir(folder):
        raise CommandError(f"{folder} is not empty", USAGE)
    path = os.path.abspath(folder)
    words = {"name": os.path.basename(path), "folder": f"file://{path}", "path": path}
    try:
        _copy(importlib.resources.files("ottla") / "spark" / "templates" / template, path, words, bootstrap)
    except OSError as error:
        raise CommandError(f"cannot write {folder}: {error.strerror}") from None


def _copy(source: Traversable, target: str, words: dict[str, str], bootstrap: str | None) -> None:
    os.makedirs(target, exist_ok=True)
    for entry in source.iterdir():
        path = os.path.join(target, entry.name)
        if entry.is_dir() and entry.name != "__pycache__":
            _copy(entry, path, words, bootstrap)
        elif entry.name.endswith((".py", ".sql", ".yml", ".conf", ".md")):
            text = entry.read_text(encoding="utf-8")
            if entry.name.endswith((".yml", ".conf")):
                for name, value in words.items():
                    text = text.replace("{{ " + name + " }}", value)
                if bootstrap:
                    text = text.replace(cluster.DEFAULT_BOOTSTRAP, bootstrap)
            with open(path, "w", encoding="utf-8") as file:
                file.write(text)


@app.command()
def run(
    folder: Folder,
    once: Annotated[bool, typer.Option("--once", help="Process what is there, and leave.")] = False,
    master: Annotated[
        str,
        typer.Option(
            "--master", "-m", metavar="URL", help="local[N], spark://HOST:PORT, yarn, k8s://..., sc://..."
        ),
    ] = "local[*]",
    interval: Annotated[
        float,
        typer.Option(
            "--interval", "-i", metavar="SECONDS", min=0, help="From one run to the next, without --once."
        ),
    ] = 10.0,
    settings: Annotated[
        list[str] | None,
        typer.Option("--set", "-X", metavar="KEY=VALUE", help="A property of Spark; may be repeated."),
    ] = None,
    dry: Annotated[bool, typer.Option("--dry-run", help="Check the pipeline, and process nothing.")] = False,
    bootstrap: Broker = None,
) -> None:
    """Run a pipeline again and again until Ctrl-C, or once.

    A run processes what has come since the last one. It can be interrupted at any time, and the next one
    goes on where it was. Needs Java 17 and PySpark, which comes with the extra `spark` of ottla; no jar,
    no Spark installation.

    \b
    Examples:
      ottla pipeline run my-logs
      ottla pipeline run my-logs --once --bootstrap broker:9092
      ottla pipeline run my-logs --master spark://host:7077 --set spark.executor.memory=2g
    """
    place = PipelineFolder(folder)
    pipeline_spark.check()
    own = parse_settings(settings or [], "--set")
    declared = place.read()
    conf = {**DEFAULTS, **place.defaults(), **own}
    said = {**declared.get("configuration", {}), **own}
    servers = own.get(SERVERS) or bootstrap or said.get(SERVERS)
    if servers:
        conf[SERVERS] = servers
        _create_topics(cluster.admin(servers), str(said.get(TOPICS, "")))
    conf[JAVA_OPTIONS] = f"{conf.get(JAVA_OPTIONS, '')} -Dderby.stream.error.file={place.own('derby.log')}"
    arguments = ["--master", master, "--interval", str(interval)]
    arguments += [f"--set={name}={value}" for name, value in conf.items()]
    arguments += ["--once"] * once + ["--dry"] * dry
    note = {
        "started_ms": time.time_ns() // 1_000_000,
        "master": master,
        "bootstrap": servers,
        "storage": declared.get("storage"),
        "tables": conf.get(WAREHOUSE),
    }
    with place.locked():
        _supervise(place, arguments, note, once=once or dry)


def _supervise(place: PipelineFolder, arguments: list[str], note: dict[str, Any], *, once: bool) -> None:
    progress = Progress()

    def keep() -> None:
        now_ms = time.time_ns() // 1_000_000
        place.note(
            {**note, "state": progress.state, "rounds": progress.rounds, "ended_ms": now_ms,
             "flows": progress.flows, "reason": progress.reason}
        )  # fmt: skip

    keep()
    with stopping() as stopped:
        driver = DriverProcess(place, arguments)
        try:
            for _ in pipeline_run.follow(driver, progress, stopped):
                keep()
        finally:
            driver.stop()
            driver.end()
            keep()
    if progress.state == FAILED:
        raise pipeline_run.failure(progress, driver.log)
    if once and progress.state != STOPPED:
        _show_tables(str(note["tables"] or ""))
    elif once:
        raise typer.Exit(INTERRUPTED)


def _create_topics(client: "AdminClient", wanted: str) -> None:
    """Those that the pipeline names and that are not there; NAME:compact is a table of keys."""
    from confluent_kafka.admin import NewTopic  # type: ignore[attr-defined]

    there = cluster.metadata(client).topics
    for word in wanted.split():
        name, _, policy = word.partition(":")
        if name in there:
            continue
        config = {"cleanup.policy": policy} if policy else {}
        with errors_explained(f"topic {name}"):
            client.create_topics([NewTopic(name, -1, -1, config=config)])[name].result(REQUEST_S)
        output.say(f"created topic {name}")


def _show_tables(warehouse: str) -> None:
    found = pipeline_status.tables(warehouse)
    if found:
        output.show_table(("table", "rows", "bytes", "files"), found)


@app.command()
def status(
    folder: Annotated[str, typer.Argument(metavar="DIR", help="The folder of the pipeline.")] = ".",
    json: Json = False,
    bootstrap: Broker = None,
) -> None:
    """Show the last run of a pipeline, its tables, and how far behind its sources it is.

    \b
    Examples:
      ottla pipeline status my-logs
      ottla pipeline status my-logs --json | jq '.sources[] | .lag'
    """
    place = PipelineFolder(folder)
    last = place.last_run()
    if last is None:
        raise CommandError(f"{folder} has not been run yet; `ottla pipeline run {folder}` does it")
    if last["state"] == RUNNING and not place.is_running():
        last["state"] = "killed"
    tables = pipeline_status.tables(last["tables"] or "")
    sources = pipeline_status.sources(last["storage"] or "", _client(bootstrap or last["bootstrap"]))
    if json:
        shown = [{**one._asdict(), "lag": one.lag} for one in sources]
        output.show_json({**last, "tables": [one._asdict() for one in tables], "sources": shown})
        return
    print(f"pipeline {place.path}")
    print(
        f"last run: {last['state']}, {output.plural(last['rounds'], 'round')}, on {last['master']}, "
        f"{show_ms(last['started_ms'])} to {show_ms(last['ended_ms'])}"
    )
    if last["reason"]:
        print(f"reason: {' '.join(last['reason'].split())}")
    if tables:
        output.show_table(("table", "rows", "bytes", "files"), tables)
    if sources:
        rows = [(one.flow, one.topic, one.position, one.end, one.lag) for one in sources]
        output.show_table(("flow", "topic", "position", "end", "lag"), rows)


def _client(bootstrap: str | None) -> "AdminClient | None":
    """Without the broker the rest can be shown all the same."""
    if not bootstrap:
        return None
    try:
        return cluster.admin(bootstrap)
    except CommandError as error:
        print(f"ottla: {error}", file=sys.stderr)
        return None
