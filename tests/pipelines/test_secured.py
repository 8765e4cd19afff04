"""A pipeline over TLS and SASL, without a secret in its folder."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka import Producer
from tests.pipelines.conftest import Pipeline
from tests.support.secured import SECRET, SecuredOttla, client_of, secured_ottla

from ottla import Broker
from ottla.base.command_error import CommandError
from ottla.client import TopicPartition
from ottla.client.properties import ClientProperties, client_properties
from ottla.pipelines import client_file
from ottla.pipelines.folder import PipelineFolder


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SecuredOttla]:
    with secured_ottla(tmp_path_factory.mktemp("secured")) as made:
        yield made


SMALL = """
@dp.table
def texts() -> DataFrame:
    records = spark.readStream.format("ottla").options(**CLUSTER).option("subscribe", "metrics")
    return records.option("startingOffsets", "earliest").load().selectExpr("cast(value AS string) text")


dp.create_sink("copies", "ottla", {**CLUSTER, "topic": "metrics.alerts"})


@dp.append_flow(target="copies")
def copied() -> DataFrame:
    return spark.readStream.table("texts").selectExpr("text AS value")
"""


def make_small(transformations: Path) -> None:
    """How the template connects, without most of what it computes."""
    template = transformations / "measurements.py"
    text = template.read_text()
    template.write_text(text[: text.index("ALERTS = ")] + SMALL)
    (transformations / "windows.sql").unlink()


def secrets_in(folder: Path) -> list[Path]:
    files = [path for path in folder.rglob("*") if path.is_file() and ".ottla/spark/" not in str(path)]
    return [path for path in files if SECRET.encode() in path.read_bytes()]


def test_a_pipeline_reads_and_writes_a_secured_cluster(
    spark_is_there: None, tmp_path: Path, broker: Broker, server: SecuredOttla
) -> None:
    pipeline = Pipeline(tmp_path / "pipeline", broker)
    try:
        pipeline.init("metrics")
        make_small(pipeline.folder / "transformations")
        producer = Producer({"bootstrap.servers": server.addresses["PLAINTEXT"]})
        producer.produce("metrics", "hello")
        assert producer.flush(30) == 0
        file = server.client_file("pipeline", "SASL_SSL", "SCRAM-SHA-256")
        pipeline.run("--once", "--client-config", file, "-b", server.addresses["BOTH"])
        assert pipeline.table("texts", ("text",)) == [("hello",)]
        shown, _ = pipeline.done("pipeline", "status", str(pipeline.folder), "--client-config", file)
        assert "metrics" in shown
        assert secrets_in(pipeline.folder) == []
        with client_of(server, "BOTH", "PLAIN") as client:
            assert client.ends([TopicPartition("metrics.alerts", 0)]) == {("metrics.alerts", 0): 1}
    finally:
        pipeline.end()


@pytest.fixture
def folder(run: Any, tmp_path: Path) -> PipelineFolder:
    made = tmp_path / "pipeline"
    assert run("pipeline", "init", "--template", "stream", str(made)).code == 0
    return PipelineFolder(str(made))


def test_what_is_given_is_above_the_file_that_the_folder_names(
    folder: PipelineFolder, tmp_path: Path
) -> None:
    (tmp_path / "client.properties").write_text("client.id=file\nsecurity.protocol=SSL\n")
    given = client_properties({"client.id": "typed", "bootstrap.servers": "a:1"})
    named = "../client.properties"  # seen from the folder
    assert client_file.properties_of(folder, given, named) == {
        "client.id": "typed",
        "security.protocol": "SSL",
    }
    assert client_file.properties_of(folder, ClientProperties("a:1"), None) == {}


def test_the_file_of_a_run_is_its_owners_alone_and_goes_with_it(folder: PipelineFolder) -> None:
    properties = {"sasl.password": " back\\slash = and space", "ssl.ca.pem": "a\nb"}
    path = Path(folder.own(client_file.NAME))
    with folder.locked(), client_file.written(folder, properties):
        assert path.stat().st_mode & 0o777 == 0o600
        assert client_file.read_file(str(path)) == properties
    assert not path.exists()


def test_a_driver_elsewhere_is_given_no_secret(folder: PipelineFolder) -> None:
    secret = client_properties({"security.protocol": "SSL"})
    with pytest.raises(CommandError, match=r"name it in spark-pipeline\.yml: spark\.ottla\.client\.config"):
        client_file.check_master("sc://host:15002", secret, None)
    client_file.check_master("sc://host:15002", secret, "/there.properties")
    client_file.check_master("local[2]", secret, None)
