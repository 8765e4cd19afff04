"""The driver of a declarative pipeline: `ottla pipeline run` starts it as a process of its own.

It does what `spark-pipelines run` does, with PySpark's own functions, and five things more: a run can be
repeated in one session, so that following a topic does not pay for a start of Spark each time; what happens
is told as one JSON object a line, on a pipe of its own, since everybody writes to stdout; a mistake is told
with its file and line; batches are told, with rows and lag; and it ends with whoever started it, because it
reads the other end of its stdin.

A run is a triggered one: every flow processes what is there (Trigger.AvailableNow) and stops. Declarative
pipelines of Spark 4 have no other kind.
"""

import argparse
import contextlib
import json
import os
import re
import signal
import sys
import threading
import time
import traceback
import warnings
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ottla.pipelines.client_file import REMOTE
from ottla.pipelines.dataflow import check_tables
from ottla.pipelines.mistakes import Mistake, as_json, first_line, in_short, of_event, reason_of

if TYPE_CHECKING:
    from ottla.pipelines.definitions import Definitions

# A server of our own: on this host only, and on a port that nobody else has.
OWN_SERVER = {"spark.connect.grpc.binding.address": "127.0.0.1", "spark.connect.grpc.binding.port": "0"}


class Events:
    """What happens, one JSON object a line."""

    def __init__(self, descriptor: int) -> None:
        self._file = os.fdopen(descriptor, "w", buffering=1, encoding="utf-8")
        self._lock = threading.Lock()  # batches are told by a thread of their own

    def tell(self, kind: str, **more: Any) -> None:
        with self._lock, contextlib.suppress(BrokenPipeError):
            self._file.write(json.dumps({"kind": kind, **more}) + "\n")


def main() -> None:
    parser = argparse.ArgumentParser(description="Runs a pipeline; see `ottla pipeline run`.")
    parser.add_argument("--spec", required=True)
    parser.add_argument("--events", type=int, required=True)
    parser.add_argument("--master", default="local[*]")
    parser.add_argument("--interval", type=float, default=0.0)
    parser.add_argument("--once", action="store_true")
    parser.add_argument("--dry", action="store_true")
    parser.add_argument("--full-refresh-all", action="store_true")
    parser.add_argument("--full-refresh", action="append", default=[])
    parser.add_argument("--refresh", action="append", default=[])
    parser.add_argument("--set", action="append", default=[])
    given = parser.parse_args()
    events = Events(given.events)
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # a terminal sends it to all; whoever started us decides
    signal.signal(signal.SIGTERM, _interrupt)
    threading.Thread(target=_end_with_parent, daemon=True).start()
    try:
        _run(given, events)
    except KeyboardInterrupt:
        events.tell("stopped")
    except Exception as error:  # noqa: BLE001  # whatever Spark or the pipeline raises is the answer
        traceback.print_exc()
        events.tell("failed", reason=reason_of(error), mistakes=as_json(getattr(error, "mistakes", [])))
        sys.exit(1)
    finally:
        _leave_nobody()


def _leave_nobody() -> None:
    """A Java that was interrupted while it started does not notice that nobody wants it any more."""
    if os.getpgrp() == os.getpid():
        signal.signal(signal.SIGTERM, signal.SIG_IGN)
        os.killpg(0, signal.SIGTERM)


def _interrupt(*_: Any) -> None:
    signal.signal(signal.SIGTERM, signal.SIG_IGN)
    raise KeyboardInterrupt


def _end_with_parent() -> None:
    while os.read(0, 1024):
        pass
    os.kill(os.getpid(), signal.SIGTERM)


def _run(given: argparse.Namespace, events: Events) -> None:
    from pyspark.pipelines.cli import load_pipeline_spec

    from ottla.pipelines.archive import remove_files
    from ottla.pipelines.batches import told_to

    path = Path(given.spec).resolve()
    spec = load_pipeline_spec(path)
    own = dict(setting.split("=", 1) for setting in given.set)
    # A flow sets the pipeline's configuration again in its own session, where nothing static may be in it.
    settings = {name: own.get(name, value) for name, value in spec.configuration.items()}
    selection = {
        "full_refresh": given.full_refresh,
        "full_refresh_all": given.full_refresh_all,
        "refresh": given.refresh,
    }
    with _session(given.master, {**settings, **own}) as spark:
        events.tell("session", version=spark.version)
        batches = None if given.master.startswith(REMOTE) else told_to(events.tell)
        number = 0
        while True:
            number += 1
            began_s = time.monotonic()
            events.tell("round", number=number)
            if selection["full_refresh_all"] and not given.dry:
                # Spark empties its own tables, and nothing else; first see that something new will come.
                checked = _round(spark, path, spec, settings, events, selection, dry=True)
                for address in checked.archives.values():
                    remove_files(address)
            _round(spark, path, spec, settings, events, selection, dry=given.dry)
            if batches is not None:
                batches.settled()
            events.tell("completed", number=number, took_s=round(time.monotonic() - began_s, 3))
            if given.once or given.dry:
                return
            selection = selection_after(selection)
            pause_s = max(0.0, given.interval - (time.monotonic() - began_s))
            events.tell("waiting", pause_s=pause_s)
            time.sleep(pause_s)


@contextlib.contextmanager
def _session(master: str, settings: dict[str, str]) -> Iterator[Any]:
    """A Spark Connect session, as pipelines need it, on a server of our own or on the one at sc://..."""
    from pyspark.sql import SparkSession

    builder = SparkSession.builder
    if master.startswith(REMOTE):
        builder = builder.remote(master)
    else:
        _find_own_server()
        settings = {**OWN_SERVER, **settings}
        builder = builder.config("spark.api.mode", "connect").master(master)
    for name, value in settings.items():
        builder = builder.config(name, value)
    with warnings.catch_warnings():
        # Once the server runs, PySpark tries to set all of it again, and warns of what cannot change.
        warnings.simplefilter("ignore")
        spark = builder.getOrCreate()
    try:
        yield spark
    finally:
        spark.stop()


def _find_own_server() -> None:
    """PySpark takes the server that it has started for one at port 15002, except in its own tests."""
    from pyspark.sql import SparkSession
    from pyspark.sql.connect.client import DefaultChannelBuilder

    def port() -> int:
        session: Any = SparkSession._instantiatedSession
        service = getattr(session._jvm, "org.apache.spark.sql.connect.service.SparkConnectService$")
        return int(getattr(service, "MODULE$").localPort())

    DefaultChannelBuilder.default_port = staticmethod(port)  # type: ignore[method-assign]


def _round(
    spark: Any,
    path: Path,
    spec: Any,
    settings: dict[str, str],
    events: Events,
    selection: dict[str, Any],
    *,
    dry: bool,
) -> "Definitions":
    """One run, in a graph of its own: Spark takes no second run of the same."""
    from pyspark.pipelines.spark_connect_pipeline import create_dataflow_graph, start_run

    from ottla.pipelines.definitions import Definitions

    graph = create_dataflow_graph(spark, spec.catalog, spec.database, settings)
    definitions = Definitions(spark, graph, path.parent)
    definitions.load(path, spec, spark, graph)
    dataflow = definitions.dataflow()
    events.tell("dataflow", **dataflow.as_json())
    tables = [name for name in dataflow.names("table") if name not in definitions.archives]
    check_tables([*selection["full_refresh"], *selection["refresh"]], tables)
    _follow(start_run(spark, graph, **selection, dry=dry, storage=spec.storage), definitions, events)
    return definitions


def selection_after(selection: dict[str, Any]) -> dict[str, Any]:
    """Of the runs that follow: the same tables, and none of them is thrown away again."""
    return {
        "full_refresh": [],
        "full_refresh_all": False,
        "refresh": [*selection["refresh"], *selection["full_refresh"]],
    }


def _follow(results: Iterator[dict[str, Any]], definitions: "Definitions", events: Events) -> None:
    """Tell what a run does. If flows failed, that is the reason why it has, and not that some did."""
    from ottla.pipelines.definitions import MistakesError

    failures: dict[str, Mistake] = {}
    try:
        for result in results:
            if "pipeline_event_result" in result:
                message = result["pipeline_event_result"].event.message
                sys.stdout.write(message + "\n")
                mistake = of_event(message, definitions.origins)
                if mistake is not None:
                    failures[mistake.flow] = mistake
                events.tell("event", **flow_of(message))
    except Exception as error:
        if not failures:
            raise
        raise MistakesError(list(failures.values())) from error


def flow_of(message: str) -> dict[str, str]:
    """Spark's events are sentences: Flow spark_catalog.default.orders is RUNNING. Of an error, one line."""
    message, _, error = message.partition("\nError: ")
    message = " ".join([first_line(message), *([f"Error: {in_short(error)}"] if error else [])])
    match = re.match(r"(?:Flow '?(?P<flow>.+?)'? |Run )(?:is|has) (?P<state>[A-Z]+)", message)
    if not match:
        return {"message": message}
    flow = (match["flow"] or "").rsplit(".", 1)[-1]
    return {"flow": flow, "state": match["state"], "message": message}


if __name__ == "__main__":
    main()
