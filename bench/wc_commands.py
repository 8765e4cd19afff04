"""WC: the command line beside kcat, on one broker: lines in and out, and how long a command takes at all.

Both send the same file and print the same topic, in turns; a turn is a process, from its start to its end.
What was printed is compared with what was sent.
"""

import filecmp
import os
import resource
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from itertools import count

from bench.report import Column, Figures, Outcome, paired_ratio
from bench.servers import Peer, PeerError
from bench.targets import COMMAND_TIME, LINES_AGAINST_KCAT, Verdict
from bench.workload import LOAD_TIMEOUT_S, Contender, Scale, take_turns, up

COLUMNS = (
    Column("seconds", "s", 2),
    Column("lines_per_s", "k lines/s", 0, 1e-3),
    Column("cpu_s", "CPU-s", 2),
)
OTTLA, KCAT = "ottla", "kcat"
IN, OUT, ONE, HELP, LIST = "lines in", "lines out", "one record", "--help", "topics list"
LINES = b"%09d a line of the file that is sent, about as long as a line of a log is, a hundred bytes or so\n"
TOPIC = "lines"

_topics = count()


def _file(folder: str, lines: int) -> str:
    path = os.path.join(folder, "lines")
    with open(path, "wb") as file:
        file.writelines(LINES % number for number in range(lines))
    return path


def _run(command: list[str], lines: int = 1, *, given: bytes | None = None, to: str = os.devnull) -> Figures:
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    began = time.perf_counter()
    with open(to, "wb") as out:
        ended = subprocess.run(
            command, input=given, stdout=out, stderr=subprocess.PIPE, timeout=LOAD_TIMEOUT_S, check=False
        )
    taken_s = time.perf_counter() - began
    if ended.returncode:
        raise PeerError(f"{command[0]}: {ended.stderr.decode(errors='replace').strip()[-200:]}")
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    used_s = after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
    return {"seconds": taken_s, "lines_per_s": lines / taken_s, "cpu_s": used_s}


def _commands(peer: Peer) -> tuple[list[str], list[str]]:
    return [os.path.join(os.path.dirname(sys.executable), "ottla")], ["kcat", "-b", peer.bootstrap, "-q"]


def _cases(peer: Peer, folder: str, lines: int) -> dict[str, dict[str, Callable[[], Figures]]]:
    path, out = _file(folder, lines), os.path.join(folder, "out")
    ottla, kcat = _commands(peer)
    there = ["-b", peer.bootstrap]

    def sent(command: list[str], *after: str) -> Figures:
        topic = f"{TOPIC}-{next(_topics)}"
        peer.create_topic(topic)
        try:
            return _run([*command, topic, *after], lines)
        finally:
            peer.delete_topic(topic)

    def printed(command: list[str]) -> Figures:
        figures = _run(command, lines, to=out)
        if not filecmp.cmp(path, out, shallow=False):
            raise PeerError(f"{command[0]} printed something else than was sent")
        return figures

    return {
        IN: {
            OTTLA: lambda: sent([*ottla, "produce", *there], path),
            KCAT: lambda: sent([*kcat, "-P", "-l", path, "-t"]),
        },
        OUT: {
            OTTLA: lambda: printed([*ottla, "consume", *there, TOPIC]),
            KCAT: lambda: printed([*kcat, "-C", "-e", "-t", TOPIC]),
        },
        ONE: {
            OTTLA: lambda: _run([*ottla, "produce", *there, "single"], given=b"hello\n"),
            KCAT: lambda: _run([*kcat, "-P", "-t", "single"], given=b"hello\n"),
        },
        HELP: {OTTLA: lambda: _run([*ottla, "--help"])},
        LIST: {
            OTTLA: lambda: _run([*ottla, "topics", "list", *there]),
            KCAT: lambda: _run([*kcat, "-L"]),
        },
    }


def _judge(outcome: Outcome) -> None:
    rows = {(row.case, row.peer): row for row in outcome.rows}
    for case in (IN, OUT):
        if (case, OTTLA) in rows and (case, KCAT) in rows:
            times = paired_ratio(rows[case, OTTLA], rows[case, KCAT], "seconds")
            outcome.verdicts.append(Verdict(LINES_AGAINST_KCAT, times, case))
    for case in (ONE, HELP, LIST):
        outcome.verdicts.append(Verdict(COMMAND_TIME, outcome.figure(case, OTTLA, "seconds"), case))


def run(brokers: list[Peer], scale: Scale) -> Outcome:
    lines = 2 * scale.bulk_records[1024]
    outcome = Outcome("WC", f"the command line beside kcat, {lines:,} lines of 100 B", COLUMNS)
    has_kcat = shutil.which("kcat") is not None
    with up([peer for peer in brokers if peer.name == "Ottla"], outcome, scale) as running:
        for peer in running:
            with tempfile.TemporaryDirectory() as folder:
                cases = _cases(peer, folder, lines)
                peer.create_topic(TOPIC)
                peer.create_topic("single")
                ottla, _ = _commands(peer)
                _run([*ottla, "produce", "-b", peer.bootstrap, TOPIC, os.path.join(folder, "lines")])
                for case, measures in cases.items():
                    contenders = [
                        Contender(name, measure)
                        for name, measure in measures.items()
                        if has_kcat or name == OTTLA
                    ]
                    take_turns(case, contenders, outcome, scale.single_rounds, scale.say)
    _judge(outcome)
    return outcome
