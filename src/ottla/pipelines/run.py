"""A run of a pipeline: what Spark is told, the topics it needs, and the note of it that the folder keeps."""

import contextlib
import os
import threading
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from ottla.base.command_error import CommandError
from ottla.base.errors import ErrorCode
from ottla.client.librdkafka import cluster, connections
from ottla.client.librdkafka.errors import REQUEST_S, errors_explained
from ottla.client.properties import ClientProperties
from ottla.pipelines import client_file, dataflow, mistakes
from ottla.pipelines.dataflow import Dataflow
from ottla.pipelines.driver_process import DriverProcess, Show, follow
from ottla.pipelines.folder import SERVERS, TOPICS, WAREHOUSE, PipelineFolder
from ottla.pipelines.mistakes import Mistake
from ottla.pipelines.pauses import GrowingPauses
from ottla.pipelines.progress import FAILED, Progress
from ottla.pipelines.report import Report, Reporter
from ottla.pipelines.run_logs import LOG

if TYPE_CHECKING:
    from confluent_kafka.admin import AdminClient

NOWHERE = ClientProperties("")
DATAFLOW = "dataflow.json"
JAVA_OPTIONS = "spark.driver.extraJavaOptions"
# What a run sets unless the pipeline says otherwise. Unix sockets save a third of a small batch's time.
DEFAULTS = {
    "spark.ui.enabled": "false",
    "spark.ui.showConsoleProgress": "false",
    "spark.python.unix.domain.socket.enabled": "true",
    # Spark gives a Python worker ten seconds to start, so not all of them may start at once.
    "spark.sql.pipelines.execution.maxConcurrentFlows": str(max(2, os.cpu_count() or 2)),
}


@dataclass(frozen=True, slots=True)
class RunOptions:
    """`settings` are properties of Spark, over those of the folder.

    continuous    a run that fails is tried again, with growing pauses
    dry           nothing is processed, no topic is created, and no broker is needed
    full_refresh  what was made is thrown away in the first run, and made again from the topics
    tables        the only ones that are wanted, in all runs; none means all
    looks         a dry run only to see what flows where: it is not noted
    """

    once: bool = False
    dry: bool = False
    master: str = "local[*]"
    every_s: float = 10.0
    settings: Mapping[str, str] = field(default_factory=dict)
    where: ClientProperties = NOWHERE
    continuous: bool = False
    full_refresh: bool = False
    tables: tuple[str, ...] = ()
    looks: bool = False


class PipelineRun:
    """Once it is made, the topics that the pipeline names are there. `supervise` does the rest."""

    def __init__(self, folder: PipelineFolder, options: RunOptions, say: Callable[[str], None]) -> None:
        self.folder = folder
        self.options = options
        declared = folder.read()
        files = folder.sources()
        if wrong := mistakes.of_files(files):
            raise CommandError(failure(folder, "", wrong))
        conf = {**DEFAULTS, **folder.defaults(), **options.settings}
        said = {**declared.get("configuration", {}), **options.settings}
        servers = options.settings.get(SERVERS) or options.where.bootstrap or said.get(SERVERS)
        named = said.get(client_file.CONFIG)
        is_remote = options.master.startswith(client_file.REMOTE)
        client_file.check_master(options.master, options.where, named)
        self._properties = client_file.properties_of(folder, options.where, None if is_remote else named)
        self._client: AdminClient | None = None
        topics = str(said.get(TOPICS, ""))
        if servers:
            conf[SERVERS] = servers
        if servers and not options.dry:
            where = client_file.checked(self._properties | {"bootstrap.servers": servers})
            self._client = connections.admin(where)
            _create_topics(self._client, topics, say)
        if self._properties and not is_remote:
            conf[client_file.CONFIG] = folder.own(client_file.NAME)
        derby_log = folder.own("derby.log")
        conf[JAVA_OPTIONS] = f"{conf.get(JAVA_OPTIONS, '')} -Dderby.stream.error.file={derby_log}"
        self.tables = conf.get(WAREHOUSE)
        self._topics = [word.partition(":")[0] for word in topics.split()]
        self._arguments = ["--interval", str(options.every_s)]
        self._arguments += [f"--set={name}={value}" for name, value in conf.items()]
        self._arguments += ["--once"] * options.once + ["--dry"] * options.dry
        self.report: Report | None = None
        self._note: dict[str, Any] = {
            "started_ms": time.time_ns() // 1_000_000,
            "master": options.master,
            "bootstrap": servers,
            "client_config": named,
            "storage": declared.get("storage"),
            "tables": self.tables,
        }

    def supervise(self, stopped: threading.Event, show: Show) -> Progress:
        """Run the driver until it ends or is to be stopped, and again if it is to go on after a failure.
        Otherwise a run that fails is a `CommandError`."""
        progress, pauses = Progress(), GrowingPauses()
        is_anew = self.options.full_refresh
        refresh = self._selected("full-refresh" if is_anew else "refresh") or ["--full-refresh-all"] * is_anew
        with self.folder.locked():
            reporter = self._reporter()
            while True:
                self._write_note(progress)
                with client_file.written(self.folder, self._properties):
                    self._drive(progress, [*self._arguments, *refresh], reporter, stopped, show)
                if progress.state != FAILED:
                    return progress
                if not self.options.continuous:
                    raise CommandError(failure(self.folder, progress.reason, progress.mistakes))
                if progress.rounds > progress.rounds_before:
                    pauses.on_success()
                    refresh = self._selected("refresh")
                pause_s = pauses.after_failure()
                show(
                    "",
                    f"{failure(self.folder, progress.reason, progress.mistakes)}\nagain in {pause_s:.0f} s",
                )
                show(f"waiting for {pause_s:.0f} s after a run that failed", None)
                if stopped.wait(pause_s):
                    return progress
                progress = Progress(rounds_before=progress.rounds, rounds=progress.rounds)

    def _selected(self, option: str) -> list[str]:
        return [f"--{option}={table}" for table in self.options.tables]

    def _reporter(self) -> Reporter | None:
        if self.options.dry:
            return None
        reporter = Reporter(self.tables, self._note["storage"], self._topics, self._client)
        if self.options.full_refresh:
            reporter.forget(self.options.tables)
        return reporter

    def _drive(
        self,
        progress: Progress,
        arguments: list[str],
        reporter: Reporter | None,
        stopped: threading.Event,
        show: Show,
    ) -> None:
        specified = dataflow.fingerprint([self.folder.specification])
        driver = DriverProcess(self.folder, self.options.master, arguments)
        rounds, of = progress.rounds, ""
        try:
            for event in follow(driver, progress, stopped, show):
                if event["kind"] == "round":
                    with contextlib.suppress(CommandError):  # a file is gone; Spark will say so
                        of = specified + dataflow.fingerprint(self.folder.sources())
                if event["kind"] == "dataflow":
                    dataflow.store(self.folder.own(DATAFLOW), dataflow.from_json(event), of)
                if progress.rounds > rounds and reporter is not None:
                    rounds = progress.rounds
                    self.report = reporter.look()
                    show(progress.doing(), f"run {rounds}: {self.report.sentence()}")
                self._write_note(progress)
        finally:
            driver.stop()
            driver.end()
            self._write_note(progress)

    def _write_note(self, progress: Progress) -> None:
        state: dict[str, Any] = {
            "state": progress.state,
            "rounds": progress.rounds,
            "ended_ms": time.time_ns() // 1_000_000,
            "flows": progress.flows,
            "reason": one_line(self.folder, progress.reason, progress.mistakes),
        }
        if not self.options.looks:
            self.folder.note({**self._note, **state})


def known_dataflow(folder: PipelineFolder) -> Dataflow | None:
    """As the last run found it, if the files are still the same."""
    of = dataflow.fingerprint([folder.specification]) + dataflow.fingerprint(folder.sources())
    return dataflow.stored(folder.own(DATAFLOW), of)


def failure(folder: PipelineFolder, reason: str, found_mistakes: list[Mistake]) -> str:
    """Why a run failed: for mistakes in its files a block with file, line and reason, else one line."""
    more = f"more in {folder.own(LOG)}"
    if not found_mistakes or not any(mistake.file for mistake in found_mistakes):
        words = " ".join([*reason.split(), *mistakes.advice(reason)])
        return f"the pipeline failed: {words} ({more})"
    is_of_spark = bool(reason)
    shown = f"the pipeline failed\n{mistakes.block(found_mistakes, folder.path)}"
    return f"{shown}\n({more})" if is_of_spark else shown


def one_line(folder: PipelineFolder, reason: str, found_mistakes: list[Mistake]) -> str:
    """For a note, and for a table."""
    if not found_mistakes:
        return reason
    head, *rest = found_mistakes[0].lines(folder.path)
    return f"{head}: {found_mistakes[0].reason}" if rest else head.strip()


def _create_topics(client: "AdminClient", wanted: str, say: Callable[[str], None]) -> None:
    """Those that the pipeline names and that are not there; NAME:compact is a table of keys. Whoever writes
    to one may create it at the same moment."""
    from confluent_kafka.admin import NewTopic  # type: ignore[attr-defined]

    there = cluster.metadata(client).topics
    for word in wanted.split():
        name, _, policy = word.partition(":")
        if name in there:
            continue
        config = {"cleanup.policy": policy} if policy else {}
        try:
            with errors_explained(f"topic {name}"):
                client.create_topics([NewTopic(name, -1, -1, config=config)])[name].result(REQUEST_S)
        except CommandError as error:
            if error.kafka_error != ErrorCode.TOPIC_ALREADY_EXISTS.name:
                raise
        else:
            say(f"created topic {name}")
