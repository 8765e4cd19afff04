"""Apache Kafka for the tests of this folder: a broker whose folder stays, and its dump tool.

The jars are those that bench/ fetches, in the same cache. Where they cannot be had, or there is no java, the
tests skip and say why.
"""

import os
import re
import signal
import subprocess
import zipfile
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

from bench import apache
from bench.servers import clean_environment
from tests.support.processes import die_with_parent

STOP_S = 30.0
DUMP_S = 120.0
# A JVM that lives for seconds does not need its second compiler.
QUICK_JVM = {"JAVA_TOOL_OPTIONS": "-XX:TieredStopAtLevel=1"}
_DUMP = ("org/apache/kafka/tools/DumpLogSegments", "kafka/tools/DumpLogSegments")
# It says of every segment but the first that offset -1 is followed by the first one in it.
_COMPLAINTS = re.compile(
    r"mismatch|out of order|^ *\d+ is followed by|corrupt|exception|error|isvalid: false", re.IGNORECASE
)
_CHATTER = ("SLF4J", "Picked up ")
_PAIR = re.compile(r"(\w+): (\S+)")
_RECORD = re.compile(
    r"\| offset: (\d+) (CreateTime|LogAppendTime): (-?\d+) keySize: (-?\d+) valueSize: (-?\d+) "
    r"sequence: (-?\d+) headerKeys: \[(.*?)\](?: key: (.*?))?(?: payload: (.*))?"
)


class Node(apache.ApacheKafka):
    """One broker that can be stopped, killed and started again over the same data."""

    @property
    def data(self) -> Path:
        return Path(self._folder) / "data"

    def start(self) -> None:
        with open(os.path.join(self._folder, "output"), "ab") as output:
            self._process = subprocess.Popen(
                self._command,
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=output,
                cwd=self._folder,
                env=clean_environment() | QUICK_JVM,
                start_new_session=True,
                preexec_fn=die_with_parent,
            )

    def halt(self, number: signal.Signals) -> None:
        """End the process and nothing else: SIGTERM is a clean shutdown, SIGKILL a crash."""
        process, self._process = self._process, None
        assert process is not None
        process.send_signal(number)
        try:
            process.wait(STOP_S)
        finally:
            process.kill()
            process.wait()


class Record(NamedTuple):
    offset: int
    timestamp: int
    sequence: int
    header_keys: list[str]
    key: str | None
    payload: str | None


class Dumped(NamedTuple):
    """What the tool says of one file."""

    path: str
    lines: list[str]

    @property
    def batches(self) -> list[dict[str, str]]:
        return [dict(_PAIR.findall(line)) for line in self.lines if line.startswith("baseOffset: ")]

    @property
    def entries(self) -> list[dict[str, str]]:
        """Of an index or a snapshot."""
        heads = ("offset: ", "timestamp: ", "producerId: ")
        return [dict(_PAIR.findall(line)) for line in self.lines if line.startswith(heads)]

    @property
    def records(self) -> list[Record]:
        found = []
        for line in self.lines:
            if match := _RECORD.fullmatch(line):
                offset, _, timestamp, key_size, value_size, sequence, keys, key, payload = match.groups()
                found.append(
                    Record(
                        int(offset),
                        int(timestamp),
                        int(sequence),
                        keys.split(",") if keys else [],
                        None if key_size == "-1" else key,
                        None if value_size == "-1" else payload,
                    )
                )
        return found


def dump(files: list[Path], *options: str) -> Iterator[Dumped]:
    """Run DumpLogSegments once over all files."""
    names = ",".join(map(str, files))
    command = apache.java(_dump_class(), *options, "--files", names)
    done = subprocess.run(
        command, capture_output=True, text=True, timeout=DUMP_S, env=clean_environment() | QUICK_JVM
    )
    assert done.returncode == 0, done.stderr[-2000:]
    found: list[Dumped] = []
    for line in done.stdout.splitlines():
        if line.startswith("Dumping "):
            found.append(Dumped(line.removeprefix("Dumping "), []))
        elif found:
            found[-1].lines.append(line)
    # What it finds wrong with indexes it writes to the other stream, at the end.
    found[-1].lines.extend(line for line in done.stderr.splitlines() if not line.startswith(_CHATTER))
    assert [one.path for one in found] == [str(path) for path in files], done.stdout[-2000:]
    yield from found


def complaints(dumped: list[Dumped]) -> list[str]:
    """Lines that the tool writes only if something is wrong."""
    lines = [line for one in dumped for line in one.lines if not line.startswith("| ")]
    return [line for line in lines if _COMPLAINTS.search(line)]


def _dump_class() -> str:
    """Kafka 4.2 moved the tool from one package to the other."""
    libs = Path(apache._LIBS)
    for jar in (*libs.glob("kafka-tools-[0-9]*.jar"), *libs.glob("kafka_2*.jar")):
        names = set(zipfile.ZipFile(jar).namelist())
        for name in _DUMP:
            if f"{name}.class" in names:
                return name.replace("/", ".")
    raise AssertionError(f"no DumpLogSegments in {libs}")
