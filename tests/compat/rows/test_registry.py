"""Apicurio Registry with its storage in topics (KafkaSQL), and confluent-kafka's serializers with it."""

import json
import os
import tarfile
import urllib.error
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from tests.compat import card, java_programs, toolchains
from tests.compat.background import running, tail
from tests.compat.card import Program
from tests.support.ports import free_ports
from tests.support.waiting import wait_for
from tests.transactions.servers import Brokers

pytestmark = pytest.mark.timeout(1_800)  # it is fetched, installed and started, and so is Spark
SOURCE = Path(__file__).parents[1] / "frameworks"
SPARK_AVRO = "4.1.1"  # the newest that Maven has
VERSION = "3.0.9"  # later ones are compiled for Java 21
PACKAGE = "confluent-kafka[avro,json,protobuf,schemaregistry]==2.15.0"
WITHIN_S = 300.0


@pytest.fixture(scope="module")
def jar() -> Path:
    toolchains.need("java", "mvn")
    folder = toolchains.CACHE / f"apicurio-{VERSION}"
    jar = folder / f"apicurio-registry-app-{VERSION}-runner.jar"
    if not jar.exists():
        folder.mkdir(parents=True, exist_ok=True)
        artifact = f"-Dartifact=io.apicurio:apicurio-registry-app:{VERSION}:tar.gz:all"
        toolchains.run(
            ["mvn", "-B", "-q", "dependency:copy", artifact, f"-DoutputDirectory={folder}"], folder
        )
        (archive,) = folder.glob("*.tar.gz")
        with tarfile.open(archive) as packed:
            packed.extractall(folder, filter="data")
    return jar


@contextmanager
def registry(jar: Path, bootstrap: str, folder: Path) -> Iterator[str]:
    """The address of its API that is compatible with Confluent's."""
    (port,) = free_ports(1)
    settings = {
        "APICURIO_STORAGE_KIND": "kafkasql",
        "APICURIO_KAFKASQL_BOOTSTRAP_SERVERS": bootstrap,
        "QUARKUS_HTTP_HOST": "127.0.0.1",
        "QUARKUS_HTTP_PORT": str(port),
    }
    command = ["java", *java_programs.FLAGS, "-jar", str(jar)]
    address = f"http://127.0.0.1:{port}/apis/ccompat/v7"
    with running(command, folder / "log", os.environ | settings):
        wait_for(lambda: _subjects(address) is not None, WITHIN_S, lambda: tail(folder / "log"))
        yield address


def _subjects(address: str) -> list[str] | None:
    try:
        with urllib.request.urlopen(f"{address}/subjects", timeout=20) as answer:
            found: list[str] = json.load(answer)
            return found
    except (urllib.error.URLError, ConnectionError, TimeoutError):
        return None


def letters(bootstrap: str, address: str) -> list[dict[str, object]]:
    """What Spark reads from the topic `avro`."""
    jars = toolchains.jars("spark-avro", f"org.apache.spark:spark-avro_2.13:{SPARK_AVRO}")
    command = [
        "spark-submit", "--master", "local[1]", "--conf", "spark.ui.enabled=false", "--conf",
        "spark.driver.bindAddress=127.0.0.1", "--jars", ",".join(map(str, jars.glob("*.jar"))),
        "letters.py", bootstrap, address,
    ]  # fmt: skip
    said = toolchains.run(command, SOURCE, {"PATH": toolchains.path(), "SPARK_LOCAL_IP": "127.0.0.1"})
    return [json.loads(line) for line in said.splitlines() if line.startswith("{")]


class TestApicurio:
    PROGRAM = Program(
        "Apicurio Registry", VERSION, card.REGISTRIES, "Maven: io.apicurio:apicurio-registry-app"
    )

    def test_serializers(self, jar: Path, brokers: Brokers, tmp_path: Path) -> None:
        """Avro, JSON Schema, Protobuf (confluent-kafka), from_avro in Spark; registry and a broker killed."""
        python = toolchains.environment("serializers", PACKAGE) / "python"

        def run(address: str, step: str) -> None:
            toolchains.run([str(python), "serializers.py", brokers.bootstrap, address, step], SOURCE)

        for topic in ("avro", "json", "protobuf"):
            brokers.create_topic(topic)
        with registry(jar, brokers.bootstrap, tmp_path) as address:
            run(address, "produce")
        brokers.restart_leader("kafkasql-journal")
        with registry(jar, brokers.bootstrap, tmp_path) as address:
            # It serves while it still reads its journal.
            wanted = {"avro-value", "json-value", "protobuf-value"}
            wait_for(lambda: wanted <= set(_subjects(address) or ()), WITHIN_S, "all subjects")
            run(address, "consume")
            assert letters(brokers.bootstrap, address) == [{"sender": "Ottla", "page": 7}]
