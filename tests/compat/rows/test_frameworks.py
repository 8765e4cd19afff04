"""Python frameworks: the first application of their tutorials, in an environment of its own for each."""

import os
from pathlib import Path

from tests.compat import card, toolchains
from tests.compat.background import running, tail
from tests.compat.card import Program
from tests.compat.watched_topic import WatchedTopic, produce
from tests.support.waiting import wait_for
from tests.transactions.servers import Brokers

SOURCE = Path(__file__).parents[1] / "frameworks"
WITHIN_S = 90.0


def program(name: str, version: str, package: str) -> Program:
    return Program(name, version, card.FRAMEWORKS, f"PyPI: {package}")


def answers(number: int) -> set[str]:
    return {f"GREETING {n}" for n in range(number)}


def works_over_a_restart(command: list[str], brokers: Brokers, folder: Path, **more: str) -> list[str]:
    """What came out, with a broker killed in the middle; what follows the second word is the program's."""
    for topic in ("in", "out"):
        brokers.create_topic(topic)
    greetings = [f"greeting {n}" for n in range(200)]
    produce(brokers.bootstrap, "in", greetings[:100], keys=["key"] * 100)

    def said() -> set[str]:
        return {" ".join(value.split()[:2]) for value in seen.values}

    def failed() -> str:
        return f"{len(said())} answers\n{tail(folder / 'log')}"

    log, environment = folder / "log", {"BOOTSTRAP": brokers.bootstrap, "STATE": str(folder), **more}
    program = running(command, log, os.environ | environment | {"PYTHONUNBUFFERED": "1"}, SOURCE)
    with program, WatchedTopic(brokers.bootstrap, "out") as seen:
        wait_for(lambda: said() == answers(100), WITHIN_S, failed)
        brokers.restart_leader("in")
        produce(brokers.bootstrap, "in", greetings[100:], keys=["key"] * 100)
        wait_for(lambda: said() == answers(200), WITHIN_S, failed)
    return seen.values


class TestFastStream:
    PROGRAM = program("FastStream", "0.7.8", "faststream[kafka,cli]")

    def test_topic_to_topic(self, brokers: Brokers, tmp_path: Path) -> None:
        """From topic to topic, with a broker killed (-9) in between: nothing lost."""
        packages = toolchains.environment("faststream", "faststream[kafka,cli]==0.7.8")
        works_over_a_restart([str(packages / "faststream"), "run", "fast:app"], brokers, tmp_path)


class TestQuixStreams:
    PROGRAM = program("Quix Streams", "3.28.1", "quixstreams")

    def test_state(self, brokers: Brokers, tmp_path: Path) -> None:
        """Counts in a state store (a changelog topic), with a broker killed (-9) in between."""
        packages = toolchains.environment("quixstreams", "quixstreams==3.28.1")
        works_over_a_restart([str(packages / "python"), "quix.py"], brokers, tmp_path)

    def test_exactly_once(self, brokers: Brokers, tmp_path: Path) -> None:
        """The same with processing_guarantee="exactly-once": each is counted once."""
        packages = toolchains.environment("quixstreams", "quixstreams==3.28.1")
        command = [str(packages / "python"), "quix.py"]
        values = works_over_a_restart(command, brokers, tmp_path, GUARANTEE="exactly-once")
        assert sorted(int(value.split()[2]) for value in values) == list(range(1, 201))


class TestFaust:
    PROGRAM = program("Faust", "0.15.3", "faust-streaming")

    def test_agent_and_table(self, brokers: Brokers, tmp_path: Path) -> None:
        """An agent and a table (a changelog topic), with a broker killed (-9) in between: nothing lost."""
        packages = toolchains.environment("faust", "faust-streaming==0.15.3")
        command = [str(packages / "faust"), "-A", "hello_faust", "worker", "-l", "info", "--without-web"]
        works_over_a_restart(command, brokers, tmp_path)


class TestBytewax:
    PROGRAM = program("Bytewax", "0.21.1", "bytewax[kafka]")

    def test_topic_to_topic(self, brokers: Brokers, tmp_path: Path) -> None:
        """From topic to topic, with a broker killed (-9) in between: nothing lost."""
        packages = toolchains.environment("bytewax", "bytewax[kafka]==0.21.1")
        works_over_a_restart([str(packages / "python"), "-m", "bytewax.run", "wax"], brokers, tmp_path)
