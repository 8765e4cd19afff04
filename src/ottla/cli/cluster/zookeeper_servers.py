"""ZooKeeper servers on this machine: where their Java code is found, and how one is started.

PySpark brings ZooKeeper along; a distribution's package or the folder that $ZOOKEEPER_HOME names do as well.
"""

import importlib.util
import os
import shutil
import socket
import subprocess
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from ottla.base.command_error import CommandError

MAIN = "org.apache.zookeeper.server.quorum.QuorumPeerMain"
NEEDED = (
    "zookeeper-", "netty-", "slf4j-api", "log4j-", "metrics-core", "snappy-java", "commons-cli",
)  # fmt: skip
SYSTEM = "/usr/share/java"
ANSWER_S = 2.0
JAVA_OPTIONS = ("-Xmx256m", "-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1", "-Xshare:auto")


def java() -> str:
    home = os.environ.get("JAVA_HOME")
    path = shutil.which("java", path=os.path.join(home, "bin")) if home else None
    path = path or shutil.which("java")
    if path is None:
        raise CommandError(
            "ZooKeeper needs Java, and there is none: install one, or name a running ZooKeeper by --zookeeper"
        )
    return path


def class_path() -> str:
    """ZooKeeper's jars and what they need."""
    spec = importlib.util.find_spec("pyspark")
    for folder in (spec.submodule_search_locations if spec else None) or ():
        jars = sorted(str(jar) for jar in Path(folder, "jars").glob("*.jar") if jar.name.startswith(NEEDED))
        if any(Path(jar).name.startswith("zookeeper-") for jar in jars):
            return os.pathsep.join(jars)
    home = os.environ.get("ZOOKEEPER_HOME")
    for library in ([Path(home), Path(home, "lib")] if home else []) + [Path(SYSTEM)]:
        if any(library.glob("zookeeper*.jar")):
            return str(library / "*")
    raise CommandError(
        "there is no ZooKeeper on this machine: `pip install pyspark` brings one, $ZOOKEEPER_HOME names one, "
        "and --zookeeper uses one that runs elsewhere"
    )


@dataclass(frozen=True, slots=True)
class ZooKeeperServer:
    """One server of an ensemble: its number in it, its folder, and its three ports."""

    number: int
    folder: Path
    port: int
    quorum_port: int = 0
    election_port: int = 0
    host: str = "127.0.0.1"

    @property
    def address(self) -> str:
        return f"{self.host}:{self.port}"

    def write_config(self, ensemble: "Sequence[ZooKeeperServer]", tick_ms: int) -> Path:
        """The whole ensemble is named in it, unless this is all of it."""
        stored = self.folder / "data"
        stored.mkdir(parents=True, exist_ok=True)
        lines = [
            f"tickTime={tick_ms}", "initLimit=20", "syncLimit=5", f"dataDir={stored}",
            f"clientPort={self.port}", f"clientPortAddress={self.host}", "maxClientCnxns=0",
            "admin.enableServer=false", "4lw.commands.whitelist=srvr,ruok,mntr",
            "autopurge.purgeInterval=1", "autopurge.snapRetainCount=3",
        ]  # fmt: skip
        if len(ensemble) > 1:
            lines += [
                f"server.{server.number}={server.host}:{server.quorum_port}:{server.election_port}"
                for server in ensemble
            ]
            (stored / "myid").write_text(f"{self.number}\n")
        config = self.folder / "zoo.cfg"
        config.write_text("\n".join(lines) + "\n")
        return config

    def start(
        self,
        *,
        is_synced: bool = True,
        prepare: Callable[[], None] | None = None,
        environment: Mapping[str, str] | None = None,
    ) -> "subprocess.Popen[bytes]":
        """Detached from this terminal; what it says goes to a file."""
        options: dict[str, Any] = {} if prepare is None else {"preexec_fn": prepare}
        sync = () if is_synced else ("-Dzookeeper.forceSync=no",)
        command = [java(), *JAVA_OPTIONS, *sync, "-cp", class_path(), MAIN, str(self.folder / "zoo.cfg")]
        with open(self.folder / "zookeeper.log", "ab") as said:
            return subprocess.Popen(  # noqa: S603
                command, stdin=subprocess.DEVNULL, stdout=said, stderr=said, start_new_session=True,
                env={**os.environ, **(environment or {})}, **options,
            )  # fmt: skip

    def mode(self) -> str | None:
        """standalone, leader or follower; None while it does not serve."""
        try:
            with socket.create_connection((self.host, self.port), ANSWER_S) as channel:
                channel.settimeout(ANSWER_S)
                channel.sendall(b"srvr")
                said = b""
                while piece := channel.recv(4096):
                    said += piece
        except OSError:
            return None
        for line in said.decode(errors="replace").splitlines():
            if line.startswith("Mode: "):
                return line.removeprefix("Mode: ").strip()
        return None
