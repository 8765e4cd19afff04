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
from ottla.pipelines.driver_process import DriverProcess, Show, follow
from ottla.pipelines.folder import SERVERS, TOPICS, WAREHOUSE, PipelineFolder
from ottla.pipelines.progress import FAILED, Progress

if TYPE_CHECKING:
    from confluent_kafka.admin import AdminClient

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
    bootstrap: str | None = None


class PipelineRun:
    """Once it is made, the topics that the pipeline names are there. `supervise` does the rest."""

    def __init__(self, folder: PipelineFolder, options: RunOptions, say: Callable[[str], None]) -> None:
        self.folder = folder
        declared = folder.read()
        conf = {**DEFAULTS, **folder.defaults(), **options.settings}
        said = {**declared.get("configuration", {}), **options.settings}
        servers = options.settings.get(SERVERS) or options.bootstrap or said.get(SERVERS)
        if servers:
            conf[SERVERS] = servers
            _create_topics(connections.admin(servers), str(said.get(TOPICS, "")), say)
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
            "storage": declared.get("storage"),
            "tables": self.tables,
        }

    def supervise(self, stopped: threading.Event, show: Show) -> Progress:
        """Run the driver until it ends or is to be stopped. A run that fails is a `CommandError`."""
        progress = Progress()
        with self.folder.locked():
            self._write_note(progress)
            driver = DriverProcess(self.folder, self._arguments)
            try:
                for _ in follow(driver, progress, stopped, show):
                    self._write_note(progress)
            finally:
                driver.stop()
                driver.end()
                self._write_note(progress)
        if progress.state == FAILED:
            reason = " ".join(progress.reason.split())
            raise CommandError(f"the pipeline failed: {reason} (more in {driver.log})")
        return progress

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
