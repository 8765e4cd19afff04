"""format("ottla"), and the official connector, against a broker with TLS and SASL."""

import contextlib
import io
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from pyspark.errors import PySparkException
from tests.spark.harness import close_clients
from tests.support.secured import SECRET, SecuredOttla, client_of, secured_ottla

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SecuredOttla]:
    with secured_ottla(tmp_path_factory.mktemp("secured")) as made:
        with client_of(made, "BOTH", "PLAIN") as client:
            client.create_topics(dict.fromkeys(("rows", "copies", "official"), 2))
        yield made
        close_clients()


def options(server: SecuredOttla, mechanism: str, listener: str = "BOTH") -> dict[str, str]:
    properties = {"bootstrap.servers": server.addresses[listener], **server.over("SASL_SSL", mechanism)}
    return {f"kafka.{name}": value for name, value in properties.items()}


def write(rows: "DataFrame", given: dict[str, str], topic: str, form: str = "ottla") -> None:
    rows.write.format(form).options(**given).option("topic", topic).mode("append").save()


def read(spark: "SparkSession", given: dict[str, str], topic: str, form: str = "ottla") -> "DataFrame":
    return spark.read.format(form).options(**given).option("subscribe", topic).load()


def numbers(spark: "SparkSession", count: int = 100) -> "DataFrame":
    return spark.range(0, count, 1, 2).selectExpr("cast(id as string) value")


@pytest.mark.parametrize("mechanism", ["SCRAM-SHA-512", "OAUTHBEARER"])
def test_rows_are_written_and_read(spark: "SparkSession", server: SecuredOttla, mechanism: str) -> None:
    given = options(server, mechanism)
    before = read(spark, given, "rows").count()
    write(numbers(spark), given, "rows")
    rows = read(spark, given, "rows")
    assert rows.count() == before + 100
    shown = io.StringIO()
    with contextlib.redirect_stdout(shown):
        rows.explain(True)
    assert SECRET not in shown.getvalue()


def test_a_file_says_how_to_get_in_and_a_stream_is_written_exactly_once(
    spark: "SparkSession", server: SecuredOttla, tmp_path: Path
) -> None:
    given = {"clientConfig": server.client_file("spark", "SASL_SSL", "SCRAM-SHA-256")}
    write(numbers(spark), given, "rows")
    there = read(spark, given, "rows").count()
    records = spark.readStream.format("ottla").options(**given).option("subscribe", "rows")
    query = (
        records.option("startingOffsets", "earliest")
        .load()
        .selectExpr("value")
        .writeStream.format("ottla")
        .options(**given, topic="copies", delivery="exactly-once", checkpointLocation=str(tmp_path / "c"))
        .trigger(availableNow=True)
        .start()
    )
    assert query.awaitTermination(300)
    assert read(spark, given, "copies").count() == there
    assert SECRET not in str(query.recentProgress)


def test_the_official_connector_gets_in_with_the_same_options(
    spark: "SparkSession", server: SecuredOttla
) -> None:
    given = options(server, "SCRAM-SHA-256")
    try:
        write(numbers(spark, 50), given, "official", "kafka")
    except PySparkException as error:
        if "KAFKA_DATA_SOURCE_NOT_ENABLED" in str(error):
            pytest.skip("needs the official connector, which could not be had")
        raise
    assert read(spark, given, "official", "kafka").count() == 50
    assert read(spark, given, "official").count() == 50


def test_a_wrong_password_is_said_and_not_shown(spark: "SparkSession", server: SecuredOttla) -> None:
    wrong = server.over("SASL_SSL") | server.credentials("PLAIN", "not-her-secret")
    given = {f"kafka.{name}": value for name, value in wrong.items()}
    given["kafka.bootstrap.servers"] = server.addresses["BOTH"]
    with pytest.raises(PySparkException, match="does not accept user 'alice' by SASL PLAIN") as caught:
        read(spark, given, "rows").count()
    assert "not-her-secret" not in str(caught.value)
