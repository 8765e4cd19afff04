"""Processes of one client library that copy a topic in transactions: started, killed, started again."""

import json
import signal
import subprocess
import sys
from dataclasses import dataclass, field
from pathlib import Path
from typing import IO, Any

from bench import apache
from bench.servers import ROOT, clean_environment
from tests.compat.apache import QUICK_JVM
from tests.support.processes import die_with_parent

CLIENTS = ("confluent", "aiokafka", "java")
_JAVA_COPIER = "org.apache.kafka.tools.TransactionalMessageCopier"
SMALL_JVM = {"JAVA_TOOL_OPTIONS": f"{QUICK_JVM['JAVA_TOOL_OPTIONS']} -Xms32m -Xmx256m"}


@dataclass
class Task:
    """What a client library is to copy. `copiers` processes share the partitions."""

    client: str
    bootstrap: str
    input_topic: str
    output_topic: str
    group: str
    partitions: int
    copiers: int
    transaction_size: int
    transaction_timeout_ms: int
    seed: int
    abort_share: float = 0.1


@dataclass
class Copier:
    """One of the processes. Its transactional id stays the same when it is started again."""

    task: Task
    number: int
    log_path: Path
    starts: int = 0
    kills: int = 0
    process: "subprocess.Popen[bytes] | None" = field(default=None, repr=False)

    @property
    def is_over(self) -> bool:
        return self.process is None or self.process.poll() is not None

    @property
    def has_finished(self) -> bool:
        """Kafka's own ends when it has copied what was there when it was started."""
        return self.process is not None and self.process.poll() == 0

    @property
    def log(self) -> str:
        return self.log_path.read_text(errors="replace") if self.log_path.exists() else ""

    def start(self) -> None:
        self.starts += 1
        with self.log_path.open("ab") as log:
            self.process = self._spawn(log)

    def kill(self) -> None:
        if self.process is not None:
            self.process.send_signal(signal.SIGKILL)
            self.process.wait()

    def _spawn(self, log: IO[bytes]) -> "subprocess.Popen[bytes]":
        return subprocess.Popen(
            self._command(),
            stdin=subprocess.DEVNULL,
            stdout=log,
            stderr=log,
            cwd=ROOT,
            env=clean_environment() | SMALL_JVM,
            preexec_fn=die_with_parent,
        )

    def _command(self) -> list[str]:
        task = self.task
        transactional_id = f"{task.group}-{self.number}"
        if task.client == "java":
            return apache.java(
                _JAVA_COPIER,
                "--broker-list", task.bootstrap,
                "--input-topic", task.input_topic,
                "--input-partition", str(self.number),
                "--output-topic", task.output_topic,
                "--consumer-group", task.group,
                "--transactional-id", transactional_id,
                "--transaction-size", str(task.transaction_size),
                "--transaction-timeout", str(task.transaction_timeout_ms),
                "--enable-random-aborts",
                "--use-group-metadata",
            )  # fmt: skip
        spec: dict[str, Any] = {
            "bootstrap": task.bootstrap,
            "input": task.input_topic,
            "output": task.output_topic,
            "group": task.group,
            "transactional_id": transactional_id,
            "partitions": list(range(self.number, task.partitions, task.copiers)),
            "transaction_size": task.transaction_size,
            "transaction_timeout_ms": task.transaction_timeout_ms,
            "abort_share": task.abort_share,
            "seed": f"{task.seed}-{self.number}-{self.starts}",
        }
        return [sys.executable, "-m", f"tests.transactions.{task.client}_copier", json.dumps(spec)]
