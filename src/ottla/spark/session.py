"""A Spark session in which `format("ottla")` is found, and what such a session needs of its environment.

Spark runs the Python half of a data source in processes of its own, with the interpreter that
PYSPARK_PYTHON names, and otherwise with whatever `python3` is on the PATH. From a virtual environment that
is not activated that is another Python, without Ottla, and the query ends in DATA_SOURCE_NOT_FOUND. Java
reads the variable once, when it starts: it has to be set before the first session.

Not obvious: PySpark is imported late, as commands that may run Spark, or not, look in here.
"""

import atexit
import contextlib
import functools
import importlib.util
import os
import shutil
import sys
import tempfile
from collections.abc import Mapping
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

# Without a progress bar between the lines of the program, and with the faster way to the Python workers.
SETTINGS = {
    "spark.ui.showConsoleProgress": "false",
    "spark.python.unix.domain.socket.enabled": "true",
}
LOOPBACK = "127.0.0.1"


def spark_session(
    name: str = "ottla", *, master: str = "local[*]", settings: Mapping[str, str] | None = None
) -> "SparkSession":
    """Like `SparkSession.builder`, from any virtual environment; the session that there is, if there is one.

    `settings` are properties of Spark. PYSPARK_PYTHON and SPARK_HOME are taken from the environment where
    they are set. A `local` Spark listens on the loopback interface only.
    """
    from pyspark.sql import SparkSession

    for variable, value in {**this_python(), **on_loopback(master)}.items():
        os.environ.setdefault(variable, value)
    if "SPARK_HOME" not in os.environ:
        os.environ["SPARK_HOME"] = _temporary_home()
    builder = SparkSession.builder.master(master).appName(name)
    for key, value in {**SETTINGS, **(settings or {})}.items():
        builder = builder.config(key, value)
    return builder.getOrCreate()


def this_python() -> dict[str, str]:
    """The environment variables by which Spark runs this interpreter, and no other."""
    return {"PYSPARK_PYTHON": sys.executable, "PYSPARK_DRIVER_PYTHON": sys.executable}


def on_loopback(master: str) -> dict[str, str]:
    """The environment variable by which a `local` Spark listens on the loopback interface only."""
    return {"SPARK_LOCAL_IP": LOOPBACK} if master.startswith("local") else {}


def installed() -> str:
    """The folder of the Spark that comes with PySpark."""
    spec = importlib.util.find_spec("pyspark")
    assert spec is not None
    assert spec.origin is not None
    return os.path.dirname(spec.origin)


def linked(folder: str) -> str:
    """A Spark home that is all links, without Spark's archive of its own Python code.

    Workers that import from that archive compile it anew at every start, which takes more than a second of
    processor time each, of the ten that Spark allows. Without it they take the modules that are installed.
    """
    os.makedirs(folder, exist_ok=True)
    for name in os.listdir(source := installed()):
        path, target = os.path.join(folder, name), os.path.join(source, name)
        if name != "python" and (not os.path.islink(path) or os.readlink(path) != target):
            with contextlib.suppress(FileNotFoundError):
                os.unlink(path)
            os.symlink(target, path)
    return folder


@functools.cache
def _temporary_home() -> str:
    folder = tempfile.mkdtemp(prefix="ottla-spark-home-")
    atexit.register(shutil.rmtree, folder, ignore_errors=True)
    return linked(folder)
