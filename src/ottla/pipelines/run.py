"""A run of a pipeline: what Spark is told, the topics it needs, and the note of it that the folder keeps."""

import os
import threading
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from ottla.base.command_error import CommandError
from ottla.client.librdkafka import cluster, connections
from ottla.client.librdkafka.errors import REQUEST_S, errors_explained
from ottla.client.properties import ClientProperties
from ottla.pipelines import client_file
from ottla.pipelines.driver_process import LOG, DriverProcess, Show, follow
from ottla.pipelines.folder import SERVERS, TOPICS, WAREHOUSE, PipelineFolder
from ottla.pipelines.progress import FAILED, Progress

if TYPE_CHECKING:
    from confluent_kafka.admin import AdminClient

NOWHERE = ClientProperties("")
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
    """`settings` are properties of Spark, over those of the folder."""

    once: bool = False
    dry: bool = False
    master: str = "local[*]"
    interval_s: float = 10.0
    settings: Mapping[str, str] = field(default_factory=dict)
    where: ClientProperties = NOWHERE


class PipelineRun:
    """Once it is made, the topics that the pipeline names are there. `supervise` does the rest."""

    def __init__(self, folder: PipelineFolder, options: RunOptions, say: Callable[[str], None]) -> None:
        self.folder = folder
        declared = folder.read()
        conf = {**DEFAULTS, **folder.defaults(), **options.settings}
        said = {**declared.get("configuration", {}), **options.settings}
        servers = options.settings.get(SERVERS) or options.where.bootstrap or said.get(SERVERS)
        named = said.get(client_file.CONFIG)
        is_remote = options.master.startswith(client_file.REMOTE)
        client_file.check_master(options.master, options.where, named)
        self._properties = client_file.properties_of(folder, options.where, None if is_remote else named)
        if servers:
            conf[SERVERS] = servers
            where = client_file.checked(self._properties | {"bootstrap.servers": servers})
            _create_topics(connections.admin(where), str(said.get(TOPICS, "")), say)
        if self._properties and not is_remote:
            conf[client_file.CONFIG] = folder.own(client_file.NAME)
        derby_log = folder.own("derby.log")
        conf[JAVA_OPTIONS] = f"{conf.get(JAVA_OPTIONS, '')} -Dderby.stream.error.file={derby_log}"
        self.tables = conf.get(WAREHOUSE)
        self._arguments = ["--master", options.master, "--interval", str(options.interval_s)]
        self._arguments += [f"--set={name}={value}" for name, value in conf.items()]
        self._arguments += ["--once"] * options.once + ["--dry"] * options.dry
        self._note = {
            "started_ms": time.time_ns() // 1_000_000,
            "master": options.master,
            "bootstrap": servers,
            "client_config": named,
            "storage": declared.get("storage"),
            "tables": self.tables,
        }

    def supervise(self, stopped: threading.Event, show: Show) -> Progress:
        """Run the driver until it ends or is to be stopped. A run that fails is a `CommandError`."""
        progress = Progress()
        with self.folder.locked():
            self._write_note(progress)
            with client_file.written(self.folder, self._properties):
                self._drive(progress, stopped, show)
        if progress.state == FAILED:
            reason = " ".join(progress.reason.split())
            raise CommandError(f"the pipeline failed: {reason} (more in {self.folder.own(LOG)})")
        return progress

    def _drive(self, progress: Progress, stopped: threading.Event, show: Show) -> None:
        driver = DriverProcess(self.folder, self._arguments)
        try:
            for _ in follow(driver, progress, stopped, show):
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
            "reason": progress.reason,
        }
        self.folder.note({**self._note, **state})


def _create_topics(client: "AdminClient", wanted: str, say: Callable[[str], None]) -> None:
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
        say(f"created topic {name}")
