"""Apache Flink through its Java API, in its local cluster, with its Kafka connector."""

import re
from pathlib import Path

from tests.compat import card, java_programs, toolchains
from tests.compat.background import running, tail
from tests.compat.card import Program
from tests.compat.watched_topic import WatchedTopic, produce
from tests.support.waiting import wait_for
from tests.transactions.servers import Brokers

SOURCE = Path(__file__).parents[1] / "flink"
WITHIN_S = 180.0
(VERSION,) = re.findall("<flink.version>(.+)</flink.version>", (SOURCE / "pom.xml").read_text())
# As Flink's own start script has them.
_OPEN = ("java.lang", "java.net", "java.io", "java.nio", "java.text", "java.time", "java.util")
OPENS = [word for name in _OPEN for word in ("--add-opens", f"java.base/{name}=ALL-UNNAMED")]


class TestFlink:
    PROGRAM = Program(
        "Apache Flink", VERSION, card.PROCESSORS, "Maven: flink-clients, flink-connector-kafka 5.0.0-2.2"
    )

    def test_exactly_once(self, brokers: Brokers, tmp_path: Path) -> None:
        """From topic to topic with EXACTLY_ONCE, a broker killed (-9) in between: each record once."""
        folder = toolchains.maven(SOURCE, "process-classes")
        for topic in ("in", "out"):
            brokers.create_topic(topic)
        values = [f"value {n}" for n in range(400)]
        wanted = [value.upper() for value in values]
        path = f"{folder}/target/classes:{folder}/target/libs/*"
        arguments = (brokers.bootstrap, str(tmp_path / "checkpoints"))
        command = ["java", *java_programs.FLAGS, *OPENS, "-cp", path, "Upper", *arguments]
        produce(brokers.bootstrap, "in", values[:200])

        def failed() -> str:
            return f"{len(seen.values)}\n{tail(tmp_path / 'log')}"

        job = running(command, tmp_path / "log")
        with job, WatchedTopic(brokers.bootstrap, "out") as seen:
            wait_for(lambda: sorted(seen.values) == sorted(wanted[:200]), WITHIN_S, failed)
            brokers.restart_leader("in")
            produce(brokers.bootstrap, "in", values[200:])
            wait_for(lambda: sorted(seen.values) == sorted(wanted), WITHIN_S, failed)
