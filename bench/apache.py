"""Apache Kafka as a peer: one node, KRaft combined mode, from Maven Central by its coordinates.

The jars are fetched once into bench/.cache (delete it to fetch a newer release). The JVM flags are those
of Kafka's own start script. Storage is formatted once per run and copied for every start, so a start
does not pay for it.
"""

import base64
import os
import shutil
import subprocess
import tempfile
import uuid

from bench.servers import HOST, Peer, PeerError, free_port

FETCH_S = 300.0
FORMAT_S = 60.0
_CACHE = os.path.join(os.path.dirname(os.path.abspath(__file__)), ".cache")
_LIBS = os.path.join(_CACHE, "kafka")
_STREAMS_LIBS = os.path.join(_CACHE, "kafka-streams")
_ARTIFACTS = ("kafka_2.13", "kafka-tools")
_STREAMS = "kafka-streams"
_VERSIONS = "[4.0,5.0)"

_DEPENDENCY = """
    <dependency>
      <groupId>org.apache.kafka</groupId><artifactId>{}</artifactId><version>{}</version>
    </dependency>"""
_POM = """<project>
  <modelVersion>4.0.0</modelVersion>
  <groupId>bench</groupId><artifactId>bench</artifactId><version>1</version>
  <dependencies>{}
  </dependencies>
</project>
"""

_JVM = (
    "-Xmx1g",
    "-Xms1g",
    "-server",
    "-XX:+UseG1GC",
    "-XX:MaxGCPauseMillis=20",
    "-XX:InitiatingHeapOccupancyPercent=35",
    "-XX:+ExplicitGCInvokesConcurrent",
    "-Djava.awt.headless=true",
)


def _fetched_version(libs: str, artifact: str) -> str | None:
    """The release in the cache, or None. The folder appears whole or not at all."""
    if not os.path.isdir(libs):
        return None
    prefix = f"{artifact}-"
    jars = [name for name in os.listdir(libs) if name.startswith(prefix)]
    return jars[0].removeprefix(prefix).removesuffix(".jar") if jars else None


def fetch() -> str:
    """Make sure the jars are here; returns the version. PeerError says what is missing."""
    return _fetch(_LIBS, _ARTIFACTS, _VERSIONS)


def fetch_streams() -> str:
    """The jars of Kafka Streams, of the same version as the broker's; they are larger, and few need them."""
    return _fetch(_STREAMS_LIBS, (_STREAMS,), fetch())


def _fetch(libs: str, artifacts: tuple[str, ...], versions: str) -> str:
    if shutil.which("java") is None:
        raise PeerError("no java on this machine")
    version = _fetched_version(libs, artifacts[0])
    if version is not None:
        return version
    if shutil.which("mvn") is None:
        raise PeerError(f"no mvn on this machine, and no {artifacts[0]} in bench/.cache")
    os.makedirs(_CACHE, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=_CACHE) as folder:
        dependencies = "".join(_DEPENDENCY.format(name, versions) for name in artifacts)
        with open(os.path.join(folder, "pom.xml"), "w") as pom:
            pom.write(_POM.format(dependencies))
        copied = os.path.join(folder, "libs")
        goal = ["dependency:copy-dependencies", "-DincludeScope=runtime", f"-DoutputDirectory={copied}"]
        try:
            done = subprocess.run(
                ["mvn", "-B", "-q", *goal], cwd=folder, capture_output=True, timeout=FETCH_S
            )
        except subprocess.TimeoutExpired as error:
            raise PeerError(f"Maven did not fetch {artifacts[0]} in {FETCH_S:.0f} s") from error
        if done.returncode:
            raise PeerError(
                f"Maven could not fetch {artifacts[0]} (exit {done.returncode}); is Maven Central reachable?"
            )
        os.rename(copied, libs)
    version = _fetched_version(libs, artifacts[0])
    if version is None:
        raise PeerError(f"Maven fetched something that is not {artifacts[0]}")
    return version


def java(main: str, *arguments: str) -> list[str]:
    """How to run a class out of the jars, once `fetch` has brought them."""
    return ["java", *_JVM, "-cp", os.path.join(_LIBS, "*"), main, *arguments]


def new_cluster_id() -> str:
    """One for all nodes of a cluster."""
    return base64.urlsafe_b64encode(uuid.uuid4().bytes).decode().rstrip("=").replace("-", "A")


class ApacheKafka(Peer):
    """Use as a context manager, or `prepare`/`start`/`stop` many times, then `close`."""

    def __init__(self, properties: dict[str, str] | None = None, cluster_id: str = "", port: int = 0) -> None:
        super().__init__(port)
        self.name = f"Apache Kafka {fetch()}"
        self._properties = properties or {}
        self._cluster_id = cluster_id or new_cluster_id()
        self._template = ""

    def _write_properties(self, folder: str) -> str:
        controller = free_port()
        properties = {
            "process.roles": "broker,controller",
            "node.id": "1",
            "controller.quorum.voters": f"1@{HOST}:{controller}",
            "controller.listener.names": "CONTROLLER",
            "listeners": f"PLAINTEXT://{self.bootstrap},CONTROLLER://{HOST}:{controller}",
            "log.dirs": os.path.join(folder, "data"),
            "offsets.topic.replication.factor": "1",
            "transaction.state.log.replication.factor": "1",
            "transaction.state.log.min.isr": "1",
            # Give the disk of a deleted topic back soon: a run writes gigabytes.
            "log.segment.delete.delay.ms": "1000",
            **self._properties,
        }
        path = os.path.join(folder, "server.properties")
        with open(path, "w") as out:
            out.writelines(f"{key}={value}\n" for key, value in properties.items())
        return path

    def _format(self, folder: str) -> None:
        """Copy formatted storage into `folder`, formatting it first if this is the first time."""
        if not self._template:
            template = tempfile.mkdtemp(prefix="ottla-bench-")
            settings = self._write_properties(template)
            command = java("kafka.tools.StorageTool", "format", "-t", self._cluster_id, "-c", settings)
            try:
                done = subprocess.run(command, cwd=template, capture_output=True, timeout=FORMAT_S)
            except subprocess.TimeoutExpired as error:
                shutil.rmtree(template, ignore_errors=True)
                raise PeerError(f"formatting storage took more than {FORMAT_S:.0f} s") from error
            self._template = template
            if done.returncode:
                self.close()
                raise PeerError("Apache Kafka could not format its storage")
        shutil.copytree(os.path.join(self._template, "data"), os.path.join(folder, "data"))

    def command(self, folder: str) -> list[str]:
        self._format(folder)
        return java("kafka.Kafka", self._write_properties(folder))

    def close(self) -> None:
        if self._template:
            shutil.rmtree(self._template, ignore_errors=True)
            self._template = ""
