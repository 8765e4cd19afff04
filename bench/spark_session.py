"""A Spark session in a process of its own, pinned to one core: `python -m bench.spark_session`.

The first line in is JSON with the session's settings; it answers `{"ready": true}`. Every further line is a
task, and its answer is one line with figures, or with an `error`. It ends when its input does. Both sources
live in the same session, so they share its JVM, its memory and how warm it is.
"""

import json
import os
import statistics
import subprocess
import sys
import tempfile
import threading
import time
from typing import Any, Self

import psutil

from bench.servers import ROOT, PeerError

START_S = 180.0
TASK_S = 300.0
MICRO_S = 80.0  # two batches of a source that takes half a second a task
MICRO_BATCHES = 14
MICRO_BATCHES_COLD = 5
DIGITS = 10
VALUE_SQL = "cast(concat('{padding}', id + 1000000000) as binary)"  # `rpad` would cost more than the write


class SparkSession:
    """The side that asks. A context manager."""

    def __init__(self, settings: dict[str, str]) -> None:
        self._settings = settings

    def __enter__(self) -> Self:
        self._errors = tempfile.TemporaryFile("w+")  # closed in __exit__
        self._process = subprocess.Popen(
            [sys.executable, "-m", "bench.spark_session"],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=self._errors,
            cwd=ROOT,
            text=True,
            start_new_session=True,
        )
        try:
            self.ask(self._settings, START_S)
        except BaseException:
            self.__exit__()
            raise
        return self

    def __exit__(self, *_: object) -> None:
        for process in [*psutil.Process(self._process.pid).children(recursive=True), self._process]:
            process.kill()
        self._process.wait()
        self._errors.close()

    def ask(self, task: dict[str, Any], timeout_s: float = TASK_S) -> dict[str, Any]:
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        watchdog = threading.Timer(timeout_s, self._process.kill)
        watchdog.start()
        try:
            self._process.stdin.write(json.dumps(task) + "\n")
            self._process.stdin.flush()
            answer = json.loads(self._process.stdout.readline())
        except (OSError, ValueError) as error:
            self._errors.seek(0)
            said = self._errors.read().strip().splitlines()
            raise PeerError(f"Spark ended: {said[-1][:200] if said else 'it said nothing'}") from error
        finally:
            watchdog.cancel()
        if "error" in answer:
            raise PeerError(answer["error"])
        found: dict[str, Any] = answer
        return found


def _cpu_s() -> float:
    total = 0.0
    for process in psutil.Process().children(recursive=True):
        try:
            times = process.cpu_times()
        except psutil.NoSuchProcess:
            continue
        total += times.user + times.system + times.children_user + times.children_system
    return total


def _timed(rows: int, work: Any) -> dict[str, float]:
    cpu, started = _cpu_s(), time.perf_counter()
    work()
    seconds = time.perf_counter() - started
    cpu = _cpu_s() - cpu
    return {"rows_per_s": rows / seconds, "rows_per_cpu_s": rows / cpu, "spark_cpu_s": cpu}


def _read(spark: Any, task: dict[str, Any]) -> dict[str, float]:
    frame = spark.read.format(task["format"]).options(**task["options"]).load()
    return _timed(task["rows"], lambda: frame.write.format("noop").mode("overwrite").save())


def _write(spark: Any, task: dict[str, Any]) -> dict[str, float]:
    value = VALUE_SQL.format(padding="x" * (task["bytes"] - DIGITS))
    columns = ["cast(cast(id as string) as binary) key", f"{value} value"]
    rows = spark.range(0, task["rows"], 1, task.get("tasks", 1)).selectExpr(*columns)
    writer = rows.write.format(task["format"]).options(**task["options"])
    return _timed(task["rows"], lambda: writer.mode("append").save())


def _micro(spark: Any, task: dict[str, Any]) -> dict[str, float]:
    """The median of warm batches, each with one new record in every partition. Rows go nowhere, or to a topic
    if the task has options for a `sink`.

    A batch begins when all of its records are there. Without that a broker which takes longer to take them in
    has them in several small batches, and some were fetched with the batch before: that looks quick."""
    from confluent_kafka import Producer

    producer = Producer({"bootstrap.servers": task["options"]["kafka.bootstrap.servers"], "linger.ms": 1})
    options = {**task["options"], "minOffsetsPerTrigger": str(task["partitions"])}
    stream = spark.readStream.format(task["format"]).options(**options).load()
    batches: dict[int, dict[str, Any]] = {}
    with tempfile.TemporaryDirectory() as folder:
        sink = task.get("sink")
        rows = stream.select("key", "value") if sink else stream
        writer = rows.writeStream.format(task["format"] if sink else "noop").options(**sink or {})
        writer = writer.option("checkpointLocation", folder)
        query = writer.trigger(processingTime="0 seconds").start()
        try:
            end = time.monotonic() + MICRO_S
            while not query.recentProgress and time.monotonic() < end:
                time.sleep(0.02)  # its first batch is empty, and says that `latest` is settled
            while len(batches) < MICRO_BATCHES and time.monotonic() < end:
                for number in range(task["partitions"]):
                    producer.produce(task["options"]["subscribe"], b"x" * 100, partition=number)
                producer.flush(10)
                seen = len(batches)
                while len(batches) == seen and time.monotonic() < end:
                    if query.exception() is not None:
                        raise RuntimeError(str(query.exception())[:300])
                    time.sleep(0.02)
                    for each in query.recentProgress:
                        if each.numInputRows:
                            batches[each.batchId] = dict(each.durationMs)
        finally:
            query.stop()
    ordered = [batches[number] for number in sorted(batches)]
    warm = ordered[min(MICRO_BATCHES_COLD, len(ordered) // 2) :]  # a slow source has few of them
    if not warm:
        raise RuntimeError(f"only {len(batches)} batches in {MICRO_S:.0f} s")
    return {
        name: statistics.median(each.get(key, 0) for each in warm)
        for name, key in (
            ("batch_ms", "triggerExecution"),
            ("add_ms", "addBatch"),
            ("offset_ms", "latestOffset"),
        )
    }


def _session(settings: dict[str, str]) -> Any:
    from ottla.spark.session import linked, spark_session

    # The same folder for every session: what is measured should not pay for making one.
    os.environ["SPARK_HOME"] = linked(os.path.join(ROOT, "bench", ".cache", "spark-home"))
    os.sched_setaffinity(0, {min(os.sched_getaffinity(0))})
    return spark_session("bench", master="local[1]", settings={"spark.ui.enabled": "false", **settings})


def main() -> None:
    # Spark writes to the standard output of its own accord: the answers have one to themselves.
    answers = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)
    spark = _session(json.loads(sys.stdin.readline()))
    answers.write('{"ready": true}\n')
    answers.flush()
    kinds = {"read": _read, "write": _write, "micro": _micro}
    for line in sys.stdin:
        task = json.loads(line)
        try:
            answer: dict[str, Any] = kinds[task["kind"]](spark, task)
        except Exception as error:  # noqa: BLE001  (whatever Spark raises is the answer)
            answer = {"error": str(error).strip().replace("\n", " ")[:400]}
        answers.write(json.dumps(answer) + "\n")
        answers.flush()


if __name__ == "__main__":
    main()
