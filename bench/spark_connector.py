"""The official Kafka connector of Spark, from Maven Central: the peer of `format("ottla")`, in benchmarks
and in tests.

It is looked for in the version of the installed PySpark, then in older ones, newest first: a mirror may lag
behind. The same goes for its token provider, a small jar with the connector's own settings. The jars are
kept in bench/.cache.
"""

import os
import re
import tempfile
import urllib.error
import urllib.request
from dataclasses import dataclass

from bench.servers import PeerError

CENTRAL = "https://repo1.maven.org/maven2"
FETCH_S = 60.0
SCALA = "2.13"
_CACHE = os.path.join(os.path.dirname(os.path.abspath(__file__)), ".cache")
_CONNECTOR = f"org/apache/spark/spark-sql-kafka-0-10_{SCALA}"
_TOKENS = f"org/apache/spark/spark-token-provider-kafka-0-10_{SCALA}"
_OTHERS = {"org/apache/kafka/kafka-clients": "3.9.2", "org/apache/commons/commons-pool2": "2.13.1"}


@dataclass(frozen=True)
class Connector:
    version: str
    jars: tuple[str, ...]

    @property
    def name(self) -> str:
        """With what is not of the same version as the rest."""
        tokens = next(_version_of(jar) for jar in self.jars if "token-provider" in jar)
        return self.version if tokens == self.version else f"{self.version}, its token provider {tokens}"

    def settings(self) -> dict[str, str]:
        return {"spark.jars": ",".join(self.jars)}


def fetch(spark_version: str) -> Connector:
    """The newest that can be had for this Spark. PeerError says why there is none."""
    folder = os.path.join(_CACHE, f"spark-connector-{spark_version}")
    if not os.path.isdir(folder):
        _fetch(spark_version, folder)
    jars = tuple(sorted(os.path.join(folder, name) for name in os.listdir(folder)))
    return Connector(next(_version_of(jar) for jar in jars if "sql-kafka" in jar), jars)


def _fetch(spark_version: str, folder: str) -> None:
    os.makedirs(_CACHE, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=_CACHE) as made:
        whole = os.path.join(made, "jars")
        os.mkdir(whole)
        for artifact in (_CONNECTOR, _TOKENS):
            _first(artifact, _published(artifact, spark_version), whole)
        for artifact, version in _OTHERS.items():
            _first(artifact, [version], whole)
        os.rename(whole, folder)


def _published(artifact: str, spark_version: str) -> list[str]:
    """Releases of the same major version, not newer than Spark, newest first."""
    newest = _numbers(spark_version)
    text = _get(f"{artifact}/maven-metadata.xml").decode()
    found = {*re.findall(r"<version>(\d+\.\d+\.\d+)</version>", text), spark_version}
    fitting = [each for each in found if _numbers(each) <= newest and _numbers(each)[0] == newest[0]]
    return sorted(fitting, key=_numbers, reverse=True)


def _first(artifact: str, versions: list[str], folder: str) -> None:
    name = artifact.rsplit("/", 1)[1]
    for version in versions:
        try:
            jar = _get(f"{artifact}/{version}/{name}-{version}.jar")
        except urllib.error.HTTPError:
            continue
        with open(os.path.join(folder, f"{name}-{version}.jar"), "wb") as out:
            out.write(jar)
        return
    raise PeerError(f"Maven Central has no {name} for this Spark (tried {', '.join(versions)})")


def _get(path: str) -> bytes:
    try:
        with urllib.request.urlopen(f"{CENTRAL}/{path}", timeout=FETCH_S) as answer:
            content: bytes = answer.read()
            return content
    except urllib.error.HTTPError:
        raise
    except OSError as error:
        raise PeerError(f"Maven Central cannot be reached: {error}") from error


def _numbers(version: str) -> tuple[int, ...]:
    return tuple(int(part) for part in re.findall(r"\d+", version)[:3])


def _version_of(jar: str) -> str:
    return jar.rsplit("-", 1)[1].removesuffix(".jar")
