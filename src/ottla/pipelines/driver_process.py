"""A run of a pipeline, seen from outside: a process that tells what it does, and ends with all it has begun.

Spark is many processes: the driver, its Java, Python workers in groups of their own. All of them are in the
session that the driver leads, so what is left at the end is found by its session, and ended.
"""

import contextlib
import json
import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from typing import Any, TypeAlias

from ottla.pipelines import spark_environment
from ottla.pipelines.folder import PipelineFolder
from ottla.pipelines.progress import COMPLETED, FAILED, RUNNING, STOPPED, Progress
from ottla.pipelines.run_logs import RunLog, last_lines
from ottla.spark.session import linked

STOP_S = 30.0
GONE_S = 10.0
STOP_LOOK_S = 1.0
STOPPING = "stopping Spark"

# Told what is being done now, and a sentence that is worth keeping, if there is one.
Show: TypeAlias = Callable[[str, str | None], None]


class DriverProcess:
    """The driver, and all that it starts, for as long as the context lasts."""

    def __init__(self, folder: PipelineFolder, master: str, arguments: list[str]) -> None:
        self.log = RunLog(folder)
        environment = spark_environment.environment(linked(folder.own("spark")), master)
        reading, writing = os.pipe()
        command = [sys.executable, "-m", "ottla.pipelines.driver", "--spec", folder.specification]
        command += ["--master", master]
        said, saying = os.pipe()
        self.process = subprocess.Popen(  # noqa: S603  # our own module
            [*command, "--events", str(writing), *arguments],
            stdin=subprocess.PIPE, stdout=saying, stderr=saying, pass_fds=(writing,),
            env=environment, cwd=folder.path, start_new_session=True,
        )  # fmt: skip
        os.close(writing)
        os.close(saying)
        self._logging = threading.Thread(target=self.log.take, args=(said,), daemon=True)
        self._logging.start()
        self._events = os.fdopen(reading, encoding="utf-8")

    def events(self) -> Iterator[dict[str, Any]]:
        """Until the driver has ended."""
        for line in self._events:
            with contextlib.suppress(ValueError):
                yield json.loads(line)

    def stop(self) -> None:
        """The polite way: the driver stops its queries and its session."""
        with contextlib.suppress(ProcessLookupError):
            self.process.terminate()

    def end(self) -> int:
        """Wait for the driver, then see to it that nothing of its session is left."""
        try:
            code = self.process.wait(STOP_S)
        except subprocess.TimeoutExpired:
            self.process.kill()
            code = self.process.wait()
        self._events.close()
        if self.process.stdin is not None:
            self.process.stdin.close()
        deadline_s = time.monotonic() + GONE_S
        while members := session_members(self.process.pid):
            if time.monotonic() > deadline_s:
                for member in members:
                    with contextlib.suppress(ProcessLookupError):
                        os.kill(member, signal.SIGKILL)
            time.sleep(0.05)
        self._logging.join(GONE_S)
        return code


def session_members(session: int) -> list[int]:
    """The living processes of a session."""
    members = []
    for name in os.listdir("/proc"):
        if not name.isdigit():
            continue
        try:
            with open(f"/proc/{name}/stat", encoding="utf-8", errors="replace") as file:
                state, _parent, _group, own, *_ = file.read().rsplit(")", 1)[1].split()
        except OSError:
            continue
        if int(own) == session and state not in "ZX":
            members.append(int(name))
    return members


def follow(
    driver: DriverProcess, progress: Progress, stopped: threading.Event, show: Show
) -> Iterator[dict[str, Any]]:
    """Show what happens until the driver has ended; yields each event when it is shown."""
    threading.Thread(target=_stop_when, args=(driver, stopped, show), daemon=True).start()
    show(progress.doing(), None)
    for event in driver.events():
        sentence = progress.take(event)
        show(STOPPING if stopped.is_set() else progress.doing(), sentence)
        yield event
    code = driver.end()
    if progress.state == RUNNING:
        progress.state = COMPLETED if code == 0 else STOPPED if stopped.is_set() else FAILED
    if progress.state == FAILED and not progress.reason:
        progress.reason = f"the driver ended with {code}: {_last_line(driver.log.path)}"


def _stop_when(driver: DriverProcess, stopped: threading.Event, show: Show) -> None:
    while not stopped.wait(STOP_LOOK_S):
        if driver.process.returncode is not None:
            return
    show(STOPPING, None)  # Spark may take a while for it
    driver.stop()
    try:
        driver.process.wait(STOP_S)
    except subprocess.TimeoutExpired:  # its events would never end
        driver.process.kill()


def _last_line(path: str) -> str:
    lines = [line.strip() for line in last_lines(path, None) if line.strip()]
    return lines[-1] if lines else "it said nothing"
