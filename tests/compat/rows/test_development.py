"""Programs that `make test` runs anyway, as they are development dependencies: their tests, once more."""

from importlib.metadata import version

from tests.compat import card, java_programs, toolchains
from tests.compat.card import Program
from tests.compat.own_tests import kafka_version, passes


def python_client(package: str) -> Program:
    return Program(package, version(package), card.CLIENTS, f"PyPI: {package}")


GROUPS = "tests/kafka_clients"


class TestConfluentKafka:
    PROGRAM = python_client("confluent-kafka")

    def test_contract(self) -> None:
        """Every codec, headers, tombstones, acks, limits, offsets by time."""
        passes("tests/kafka_clients/test_confluent.py")

    def test_groups(self) -> None:
        """Groups of both protocols: rebalances, offsets, patterns, the broker killed (-9)."""
        passes(GROUPS, "-k", "groups and (classic or modern)")

    def test_crashes(self) -> None:
        """The broker killed (-9) under producers: what was acknowledged is there once and in order."""
        passes("tests/kafka_clients/test_crash.py", "-k", "acknowledged or waits")

    def test_admin(self) -> None:
        """Admin: topics, configs, records, groups, ACLs, quotas."""
        passes(*(f"tests/kafka_clients/test_{name}.py" for name in ("admin", "acls", "quotas")))

    def test_security(self) -> None:
        """SASL_SSL with PLAIN, SCRAM and OAuth tokens (aiokafka and kafka-python, too)."""
        passes(*(f"tests/kafka_clients/test_{name}.py" for name in ("sasl", "oauthbearer")))

    def test_transactions(self) -> None:
        """Topics copied in transactions (by aiokafka, too) while clients and brokers are killed."""
        passes("tests/transactions/test_copies.py")


class TestAioKafka:
    PROGRAM = python_client("aiokafka")

    def test_contract(self) -> None:
        """Every codec, headers, tombstones, acks, limits, offsets by time, admin."""
        passes("tests/kafka_clients/test_aiokafka.py")

    def test_groups(self) -> None:
        """Groups: rebalances, offsets, the broker killed (-9)."""
        passes(GROUPS, "-k", "groups and aio")


class TestKafkaPython:
    PROGRAM = python_client("kafka-python")

    def test_contract(self) -> None:
        """Every codec, headers, tombstones, acks, limits, offsets by time, admin."""
        passes("tests/kafka_clients/test_kafka_python.py")

    def test_groups(self) -> None:
        """Groups: rebalances, offsets, the broker killed (-9)."""
        passes(GROUPS, "-k", "groups and python")


class TestKcat:
    PROGRAM = Program("kcat", toolchains.debian_version("kcat"), card.CLIENTS, "Debian: kcat")

    def test_contract(self) -> None:
        """Every codec, headers, tombstones, offsets by time, metadata, SASL."""
        toolchains.need("kcat")
        passes("tests/kafka_clients/test_kcat.py")


class TestSpark:
    PROGRAM = Program("PySpark, format ottla", version("pyspark"), card.PROCESSORS, "PyPI: pyspark")

    def test_source_and_sink(self) -> None:
        """Read and written in batches and streams, exactly once, over restarts."""
        passes(
            *(f"tests/spark/test_{name}.py" for name in ("reading", "streaming", "writing", "exactly_once"))
        )


class TestSparkConnector:
    PROGRAM = Program(
        "Spark's own Kafka connector", version("pyspark"), card.PROCESSORS, "Maven: spark-sql-kafka-0-10"
    )

    def test_source_and_sink(self) -> None:
        """Read and written in batches and streams, beside format ottla."""
        passes("tests/compat/spark")


class TestKafkaTools:
    PROGRAM = Program(
        "Kafka's command-line tools", java_programs.VERSION, card.TOOLS, "Maven: org.apache.kafka:kafka-tools"
    )

    def test_configs_and_features(self) -> None:
        """kafka-configs, -features, -metadata-quorum, -transactions, -dump-log, quotas, broker loggers."""
        assert kafka_version() == self.PROGRAM.version
        passes("tests/compat/test_tools.py", "tests/compat/test_kafka_configs.py")

    def test_security(self) -> None:
        """kafka-acls, -configs for users, all over SASL_SSL."""
        passes("tests/compat/test_security_tools.py", "tests/compat/test_secure_tools.py")


class TestDataFolders:
    PROGRAM = Program(
        "Apache Kafka, its folders", java_programs.VERSION, card.TOOLS, "Maven: org.apache.kafka:kafka_2.13"
    )

    def test_folders(self) -> None:
        """Ottla opens the folder of a Kafka broker, and Kafka reads the segments that Ottla wrote."""
        assert kafka_version() == self.PROGRAM.version
        passes(*(f"tests/compat/test_{name}.py" for name in ("ottla_opens_kafka", "kafka_reads_ottla")))
