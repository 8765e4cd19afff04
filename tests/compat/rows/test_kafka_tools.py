"""Kafka's command-line tools on a cluster of three: what an operator does with them."""

import json
from pathlib import Path

from tests.cluster.real import RealCluster
from tests.compat import card, java_programs
from tests.compat.card import Program
from tests.compat.watched_topic import committed, produce
from tests.support.waiting import wait_for

TOOLS = "org.apache.kafka.tools"
WITHIN_S = 60.0


class TestOperatorsTools:
    PROGRAM = Program(
        "Kafka's command-line tools on a cluster", java_programs.VERSION, card.TOOLS, "Maven: kafka-tools"
    )

    @staticmethod
    def tool(cluster: RealCluster, name: str, *arguments: str, given: str = "") -> str:
        server = ("--bootstrap-server", cluster.bootstrap)
        return java_programs.tool(f"{TOOLS}.{name}", *server, *arguments, given=given)

    def test_topics(self, cluster: RealCluster) -> None:
        """kafka-topics: created, described, grown, listed, deleted; -broker-api-versions, -cluster."""
        create = ("--create", "--topic", "made", "--partitions", "2", "--replication-factor", "3")
        self.tool(cluster, "TopicCommand", *create, "--config", "retention.ms=7200000")
        self.tool(cluster, "TopicCommand", "--alter", "--topic", "made", "--partitions", "4")
        said = self.tool(cluster, "TopicCommand", "--describe", "--topic", "made")
        assert "PartitionCount: 4" in said
        assert "retention.ms=7200000" in said
        self.tool(cluster, "TopicCommand", "--delete", "--topic", "made")
        wait_for(
            lambda: "made" not in self.tool(cluster, "TopicCommand", "--list").split(), WITHIN_S, "deleted"
        )
        assert "Fetch(1): " in self.tool(cluster, "BrokerApiVersionsCommand")
        assert "Cluster ID: " in java_programs.tool(
            f"{TOOLS}.ClusterTool", "cluster-id", "--bootstrap-server", cluster.bootstrap
        )

    def test_console(self, cluster: RealCluster) -> None:
        """The console producer and consumer; kafka-get-offsets, -delete-records, -log-dirs."""
        topic = cluster.create_topic("console", 1)
        self.tool(cluster, "ConsoleProducer", "--topic", topic, given="one\ntwo\nthree\n")
        reading = ("--topic", topic, "--from-beginning", "--max-messages", "3", "--group", "console")
        assert self.tool(cluster, "consumer.ConsoleConsumer", *reading).split() == ["one", "two", "three"]
        assert self.tool(cluster, "GetOffsetShell", "--topic", topic).strip() == f"{topic}:0:3"
        deletion = {"partitions": [{"topic": topic, "partition": 0, "offset": 2}], "version": 1}
        path = cluster.folder / "delete.json"
        path.write_text(json.dumps(deletion))
        said = self.tool(cluster, "DeleteRecordsCommand", "--offset-json-file", str(path))
        assert "low_watermark: 2" in said
        earliest = self.tool(cluster, "GetOffsetShell", "--topic", topic, "--time", "earliest")
        assert earliest.strip() == f"{topic}:0:2"
        said = self.tool(cluster, "LogDirsCommand", "--describe", "--topic-list", topic)
        dirs = json.loads(next(line for line in said.splitlines() if line.startswith("{")))
        assert len(dirs["brokers"]) == 3

    def test_groups(self, cluster: RealCluster) -> None:
        """kafka-consumer-groups: listed, described, reset to an offset and to a time, deleted."""
        topic = cluster.create_topic("grouped", 1)
        produce(cluster.bootstrap, topic, [str(n) for n in range(10)], timestamps=range(1_000, 11_000, 1_000))
        reading = ("--topic", topic, "--from-beginning", "--max-messages", "10", "--group", "readers")
        self.tool(cluster, "consumer.ConsoleConsumer", *reading)
        groups = "consumer.group.ConsumerGroupCommand"
        assert "readers" in self.tool(cluster, groups, "--list").split()
        assert topic in self.tool(cluster, groups, "--describe", "--group", "readers")
        reset = ("--group", "readers", "--topic", topic, "--reset-offsets", "--execute")
        self.tool(cluster, groups, *reset, "--to-offset", "3")
        assert committed(cluster.bootstrap, "readers", topic) == 3
        self.tool(cluster, groups, *reset, "--to-datetime", "1970-01-01T00:00:05.500")
        assert committed(cluster.bootstrap, "readers", topic) == 5
        self.tool(cluster, groups, "--delete", "--group", "readers")
        assert "readers" not in self.tool(cluster, groups, "--list").split()

    def test_moves(self, cluster: RealCluster, tmp_path: Path) -> None:
        """kafka-reassign-partitions (executed and verified) and kafka-leader-election after it."""
        topic = cluster.create_topic("moved", 1, replicas=2)
        produce(cluster.bootstrap, topic, [str(n) for n in range(1_000)])
        replicas = [3, 1] if cluster.leader(topic) != 3 else [1, 2]
        plan = {"version": 1, "partitions": [{"topic": topic, "partition": 0, "replicas": replicas}]}
        path = tmp_path / "plan.json"
        path.write_text(json.dumps(plan))
        reassign = ("reassign.ReassignPartitionsCommand", "--reassignment-json-file", str(path))
        self.tool(cluster, *reassign, "--execute")
        wait_for(lambda: "is completed" in self.tool(cluster, *reassign, "--verify"), WITHIN_S, "the move")
        election = ("--election-type", "preferred", "--topic", topic, "--partition", "0")
        self.tool(cluster, "LeaderElectionCommand", *election)
        assert cluster.leader(topic) == replicas[0]

    def test_performance(self, cluster: RealCluster) -> None:
        """kafka-producer-perf-test and kafka-consumer-perf-test: 50,000 records of 100 bytes."""
        topic = cluster.create_topic("fast", 3)
        amount = ("--num-records", "50000")
        server = ("--bootstrap-server", cluster.bootstrap)
        said = java_programs.tool(
            f"{TOOLS}.ProducerPerformance", "--topic", topic, *amount, "--record-size", "100",
            "--throughput", "-1", *server, "--command-property", "acks=all",
        )  # fmt: skip
        assert "50000 records sent" in said
        said = java_programs.tool(f"{TOOLS}.ConsumerPerformance", "--topic", topic, *amount, *server)
        assert len(said.splitlines()) == 2, said
