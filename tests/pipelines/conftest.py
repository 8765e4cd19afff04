"""Pipelines on a real Spark: the command in a process of its own, a broker in this one.

Whatever a test starts is ended with it; that nothing of a pipeline is left running is a test by itself.
"""

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka import Consumer, KafkaError, Producer, TopicPartition
from tests.cli.commands import run  # noqa: F401
from tests.support.processes import die_with_parent

from ottla import Broker
from ottla.pipelines import spark_environment, status
from ottla.pipelines.driver_process import session_members as members_of_session

# Two cores are shared with much else: a minute alone can be many.
WAIT_S = 400.0
# Most of a short run is Java compiling itself, and Spark's code for a handful of rows.
QUICK_JAVA = "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC"
QUICK_SPARK = {
    "spark.sql.codegen.wholeStage": "false",
    "spark.sql.codegen.factoryMode": "NO_CODEGEN",
    "spark.sql.shuffle.partitions": "1",
}
QUICK = tuple(part for name, value in QUICK_SPARK.items() for part in ("--set", f"{name}={value}"))


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    for item in items:
        if "/tests/pipelines/" in str(item.path) and item.get_closest_marker("timeout") is None:
            item.add_marker(pytest.mark.timeout(600))


@pytest.fixture(scope="session")
def spark_is_there() -> None:
    problem = spark_environment.missing()
    if problem is not None:
        pytest.skip(problem)


@pytest.fixture(scope="module")
def broker() -> Iterator[Broker]:
    """The names of topics are in the templates, so each file has a broker of its own."""
    with Broker({"log.retention.ms": "-1"}) as running:
        yield running


def quick() -> dict[str, str]:
    """An environment in which every Java starts as quickly as it can."""
    return {**os.environ, "JDK_JAVA_OPTIONS": QUICK_JAVA}


class Pipeline:
    """A pipeline in a folder, and the command to run it."""

    def __init__(self, folder: Path, broker: Broker) -> None:
        self.folder, self.broker = folder, broker
        self.started: list[subprocess.Popen[str]] = []

    def ottla(self, *arguments: str) -> subprocess.Popen[str]:
        command = [sys.executable, "-m", "ottla.cli", *arguments]
        environment = {**quick(), "OTTLA_BOOTSTRAP": self.broker.bootstrap_servers, "COLUMNS": "160"}
        process = subprocess.Popen(
            command,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            env=environment,
            preexec_fn=die_with_parent,
        )
        self.started.append(process)
        return process

    def done(self, *arguments: str, code: int = 0) -> tuple[str, str]:
        process = self.ottla(*arguments)
        out, errors = process.communicate(timeout=WAIT_S)
        assert process.returncode == code, f"{out}\n{errors}\n{self.log()}"
        assert "Traceback" not in errors
        return out, errors

    def init(self, template: str) -> None:
        self.done("pipeline", "init", "--template", template, str(self.folder))

    def run(self, *arguments: str, code: int = 0) -> tuple[str, str]:
        return self.done("pipeline", "run", str(self.folder), *QUICK, *arguments, code=code)

    def start(self, *arguments: str) -> subprocess.Popen[str]:
        return self.ottla("pipeline", "run", str(self.folder), *QUICK, *arguments)

    def log(self) -> str:
        path = self.folder / ".ottla" / "driver.log"
        lines = path.read_text(errors="replace").splitlines() if path.exists() else []
        return "\n".join([line for line in lines if not line.startswith("\tat ")][-60:])

    def rounds(self) -> int:
        try:
            return int(json.loads((self.folder / ".ottla" / "run.json").read_text())["rounds"])
        except (OSError, ValueError):
            return 0

    def wait_for_rounds(self, count: int) -> None:
        def is_reached() -> bool:
            assert self.started[-1].poll() is None, f"it has ended\n{self.log()}"
            return self.rounds() >= count

        self.wait(is_reached)

    def wait(self, is_reached: Callable[[], bool]) -> None:
        deadline = time.monotonic() + WAIT_S
        while not is_reached():
            assert time.monotonic() < deadline, f"not reached in time\n{self.log()}"
            time.sleep(0.1)

    def table(self, name: str, columns: Sequence[str]) -> list[tuple[Any, ...]]:
        """The rows of a table in order, without Spark."""
        from pyarrow import parquet

        rows: list[tuple[Any, ...]] = []
        for path in status.files(str(self.folder / "tables" / name)):
            found = parquet.ParquetFile(path).read(columns=list(columns)).to_pylist()
            rows += [tuple(row[column] for column in columns) for row in found]
        return sorted(rows, key=repr)

    def wait_for_view(self, name: str, columns: Sequence[str], rows: list[tuple[Any, ...]]) -> None:
        """Every round empties a materialized view and writes it anew: wait for one that is whole."""
        from pyarrow import ArrowException

        def is_there() -> bool:
            try:
                return self.table(name, columns) == rows
            except (OSError, ArrowException):  # replaced while we look
                return False

        self.wait(is_there)

    def end(self) -> None:
        for process in self.started:
            if process.poll() is None:
                process.send_signal(signal.SIGKILL)
            process.wait()
            for stream in (process.stdout, process.stderr):
                if stream is not None:
                    stream.close()


@pytest.fixture
def pipeline(spark_is_there: None, tmp_path: Path, broker: Broker) -> Iterator[Pipeline]:
    made = Pipeline(tmp_path / "pipeline", broker)
    yield made
    made.end()


@pytest.fixture
def send(broker: Broker) -> Callable[..., None]:
    def send(topic: str, *values: Any, key: str | None = None, timestamp: int = 0) -> None:
        producer = Producer({"bootstrap.servers": broker.bootstrap_servers})
        for value in values:
            content = value if value is None or isinstance(value, str | bytes) else json.dumps(value)
            producer.produce(topic, content, key, timestamp=timestamp)
        assert producer.flush(30) == 0

    return send


@pytest.fixture
def received(broker: Broker) -> Callable[[str], list[Any]]:
    def received(topic: str) -> list[Any]:
        """The JSON values of a topic with one partition, from its beginning."""
        settings = {
            "bootstrap.servers": broker.bootstrap_servers,
            "group.id": "test",
            "enable.auto.commit": False,
            "enable.partition.eof": True,
            "fetch.wait.max.ms": 10,
        }
        client, found = Consumer(settings), []
        client.assign([TopicPartition(topic, 0, 0)])
        try:
            while True:
                message = client.poll(30)
                assert message is not None
                if (error := message.error()) is not None:
                    assert error.code() == KafkaError._PARTITION_EOF, error
                    return found
                found.append(json.loads(message.value() or b"null"))
        finally:
            client.close()

    return received


def processes_of(pid: int) -> list[int]:
    """The driver of a run leads a session; what is in the sessions of a process's children."""
    found = []
    for name in os.listdir("/proc"):
        if name.isdigit():
            try:
                parent = int(Path(f"/proc/{name}/stat").read_text().rsplit(")", 1)[1].split()[1])
            except OSError:
                continue
            if parent == pid:
                found += members_of_session(int(name))
    return found
