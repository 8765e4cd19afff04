"""Agents from Debian's packages: into a topic, and through the matching pipeline into its tables.

The packages are unpacked, not installed: rsyslog and syslog-ng exclude each other, and nothing is started.
"""

import os
import socket
import subprocess
from contextlib import AbstractContextManager
from pathlib import Path

import pyarrow.parquet as parquet
import pytest
from tests.compat import card, toolchains
from tests.compat.background import running, tail
from tests.compat.card import Program
from tests.compat.watched_topic import WatchedTopic
from tests.kafka_clients.harness import BrokerProcess
from tests.support.ports import free_ports
from tests.support.waiting import wait_for

pytestmark = pytest.mark.timeout(1_200)
LIBRARIES = ("usr/lib/x86_64-linux-gnu", "lib/x86_64-linux-gnu", "usr/lib/syslog-ng", "usr/lib")
WITHIN_S = 90.0
PIPELINE_S = 500.0
LINE = "<11>1 2026-01-01T00:00:00Z web nginx 7 - - upstream {} failed"


def program(name: str, *packages: str) -> Program:
    return Program(
        name, toolchains.debian_version(packages[0]), card.AGENTS, f"Debian: {', '.join(packages)}"
    )


def agent(root: Path, folder: Path, *command: str) -> AbstractContextManager[None]:
    paths = ":".join(str(root / path) for path in LIBRARIES)
    words = [str(root / command[0]), *command[1:]]
    return running(words, folder / "log", os.environ | {"LD_LIBRARY_PATH": paths})


def send_lines(port: int, numbers: range, folder: Path) -> None:
    def is_sent() -> bool:
        try:
            with socket.create_connection(("127.0.0.1", port), timeout=10) as connection:
                connection.sendall("".join(f"{LINE.format(n)}\n" for n in numbers).encode())
        except OSError:
            return False
        return True

    wait_for(is_sent, WITHIN_S, lambda: tail(folder / "log"))


def pipeline(template: str, broker: BrokerProcess, folder: Path) -> Path:
    """Run once; the folder of its tables."""
    target = folder / template
    environment = os.environ | {"OTTLA_BOOTSTRAP": broker.bootstrap}
    for command in (["init", "--template", template, str(target)], ["run", str(target), "--once"]):
        done = subprocess.run(
            ["ottla", "pipeline", *command], env=environment | {"PATH": toolchains.path()},
            capture_output=True, text=True, timeout=PIPELINE_S,
        )  # fmt: skip
        assert done.returncode == 0, done.stdout[-1000:] + done.stderr[-2000:]
    return target / "tables"


def ships_lines(broker: BrokerProcess, port: int, folder: Path) -> None:
    """Lines before and after a restart of the broker, and all of them are in the archive."""

    def failed() -> str:
        return f"{len(seen.values)} {tail(folder / 'log')}"

    with WatchedTopic(broker.bootstrap, "logs") as seen:
        send_lines(port, range(100), folder)
        wait_for(lambda: len(set(seen.values)) == 100, WITHIN_S, failed)
        broker.kill()
        broker.start()
        send_lines(port, range(100, 200), folder)
        wait_for(lambda: len(set(seen.values)) == 200, WITHIN_S, failed)
    archive = parquet.read_table(pipeline("logs", broker, folder) / "archive").to_pylist()
    assert {(row["level"], row["host"], row["app"]) for row in archive} == {("ERROR", "web", "nginx")}
    assert {row["message"] for row in archive} == {f"upstream {n} failed" for n in range(200)}


class TestRsyslog:
    PROGRAM = program("rsyslog", "rsyslog-kafka", "rsyslog")

    def test_logs(self, broker: BrokerProcess, tmp_path: Path) -> None:
        """omkafka into a topic (the broker killed in between), and the template logs into its archive."""
        root = toolchains.debian(
            "rsyslog", "rsyslog", "rsyslog-kafka", "libestr0", "libfastjson4", "liblognorm5", "librdkafka1"
        )
        broker.create_topic("logs")
        (port,) = free_ports(1)
        (tmp_path / "rsyslog.conf").write_text(f"""
global(workDirectory="{tmp_path}")
module(load="imtcp")
module(load="omkafka")
input(type="imtcp" address="127.0.0.1" port="{port}")
action(type="omkafka" broker=["{broker.bootstrap}"] topic="logs" template="RSYSLOG_SyslogProtocol23Format"
       confParam=["compression.codec=lz4"] resubmitOnFailure="on" keepFailedMessages="on"
       failedMsgFile="{tmp_path}/failed" action.resumeRetryCount="-1")
""")
        modules = root / "usr/lib/x86_64-linux-gnu/rsyslog"
        files = {"-f": tmp_path / "rsyslog.conf", "-i": tmp_path / "pid", "-M": modules}
        options = [str(word) for pair in files.items() for word in pair]
        with agent(root, tmp_path, "usr/sbin/rsyslogd", "-n", *options):
            ships_lines(broker, port, tmp_path)


class TestSyslogNg:
    PROGRAM = program("syslog-ng", "syslog-ng-mod-rdkafka", "syslog-ng-core")

    def test_logs(self, broker: BrokerProcess, tmp_path: Path) -> None:
        """kafka-c() into a topic (the broker killed in between), and the template logs into its archive."""
        libraries = ("libivykis0", "libnet1", "libpcre3", "libwrap0", "librdkafka1")
        root = toolchains.debian("syslog-ng", "syslog-ng-core", "syslog-ng-mod-rdkafka", *libraries)
        broker.create_topic("logs")
        (port,) = free_ports(1)
        (tmp_path / "syslog-ng.conf").write_text(f"""
@version: 3.38
@module "syslogformat"
@module "afsocket"
@module "kafka"
options {{ keep-hostname(yes); }};
source s {{ network(ip("127.0.0.1") port({port}) transport("tcp") flags(syslog-protocol)); }};
destination d {{
  kafka-c(bootstrap-servers("{broker.bootstrap}") topic("logs")
          message("<$PRI>1 $ISODATE $HOST $PROGRAM $PID - - $MSG") config(linger.ms(5)));
}};
log {{ source(s); destination(d); }};
""")
        (modules,) = (root / "usr/lib/syslog-ng").glob("3.*")
        files = [f"--{name}={tmp_path / name}" for name in ("persist-file", "pidfile", "control")]
        options = ["-F", "--no-caps", f"--cfgfile={tmp_path / 'syslog-ng.conf'}", f"--module-path={modules}"]
        with agent(root, tmp_path, "usr/sbin/syslog-ng", *options, *files):
            ships_lines(broker, port, tmp_path)


class TestCollectd:
    PROGRAM = program("collectd", "collectd-core")

    def test_metrics(self, broker: BrokerProcess, tmp_path: Path) -> None:
        """write_kafka into a topic (the broker killed in between), and the template metrics into tables."""
        root = toolchains.debian("collectd", "collectd-core", "librdkafka1")
        broker.create_topic("metrics")
        (tmp_path / "collectd.conf").write_text(f"""
Hostname "web"
Interval 0.5
BaseDir "{tmp_path}"
PIDFile "{tmp_path}/pid"
PluginDir "{root}/usr/lib/collectd"
TypesDB "{root}/usr/share/collectd/types.db"
LoadPlugin load
LoadPlugin memory
LoadPlugin write_kafka
<Plugin write_kafka>
  Property "metadata.broker.list" "{broker.bootstrap}"
  <Topic "metrics">
    Format JSON
  </Topic>
</Plugin>
""")
        options = ("-f", "-C", str(tmp_path / "collectd.conf"))
        daemon = agent(root, tmp_path, "usr/sbin/collectd", *options)
        with WatchedTopic(broker.bootstrap, "metrics") as seen, daemon:
            wait_for(lambda: len(seen.values) >= 20, WITHIN_S, lambda: tail(tmp_path / "log"))
            broker.kill()
            broker.start()
            count = len(seen.values)
            wait_for(lambda: len(seen.values) >= count + 20, WITHIN_S, lambda: tail(tmp_path / "log"))
        tables = pipeline("metrics", broker, tmp_path)
        rows = parquet.read_table(tables / "measurements").to_pylist()
        assert {row["host"] for row in rows} == {"web"}
        assert {"load.shortterm", "memory"} <= {row["metric"] for row in rows}
        assert parquet.read_table(tables / "malformed").num_rows == 0
