"""Pipelines for `ottla console`: read from their folders, each time that somebody looks."""

import os
from collections.abc import Sequence
from typing import TYPE_CHECKING

from ottla.base.command_error import USAGE, CommandError
from ottla.console.pipelines import Edge, Node, Pipeline, Pipelines, Source, Table
from ottla.pipelines import dataflow, status
from ottla.pipelines.folder import SPECIFICATIONS, TOPICS, PipelineFolder
from ottla.pipelines.progress import RUNNING
from ottla.pipelines.run import DATAFLOW

if TYPE_CHECKING:
    from confluent_kafka.admin import AdminClient


def pipelines_in(folders: Sequence[str]) -> Pipelines | None:
    """Those folders that are pipelines, and those one level below the others."""
    for folder in folders:
        if not os.path.isdir(folder):
            raise CommandError(f"--pipelines {folder}: there is no such folder", USAGE)
    if not folders:
        return None

    def read(client: "AdminClient") -> list[Pipeline]:
        return [_pipeline(path, client) for path in _paths(folders)]

    return read


def _paths(folders: Sequence[str]) -> list[str]:
    paths: list[str] = []
    for folder in folders:
        below = sorted(entry.path for entry in os.scandir(folder) if entry.is_dir())
        paths += [folder] if _is_pipeline(folder) else [path for path in below if _is_pipeline(path)]
    return list(dict.fromkeys(map(os.path.abspath, paths)))


def _is_pipeline(folder: str) -> bool:
    return any(os.path.isfile(os.path.join(folder, name)) for name in SPECIFICATIONS)


def _pipeline(path: str, client: "AdminClient") -> Pipeline:
    name = os.path.basename(path)
    try:
        folder = PipelineFolder(path)
        configuration = folder.read().get("configuration", {})
    except CommandError as error:
        return Pipeline(name, path, str(error))
    except ImportError as error:
        return Pipeline(name, path, f"It is read with {error.name}: pip install 'ottla[spark]'.")
    topics = tuple(word.partition(":")[0] for word in str(configuration.get(TOPICS, "")).split())
    last = folder.last_run()
    if last is None:
        return Pipeline(name, path, "It has not been run yet.", topics=topics)
    try:
        tables = tuple(Table(*table) for table in status.tables(last["tables"] or ""))
    except ImportError as error:
        return Pipeline(name, path, f"Its tables are read with {error.name}: pip install 'ottla[spark]'.")
    is_killed = last["state"] == RUNNING and not folder.is_running()
    return Pipeline(
        name,
        path,
        state="killed" if is_killed else last["state"],
        reason=" ".join((last["reason"] or "").split()),
        master=last["master"],
        rounds=last["rounds"],
        started_ms=last["started_ms"],
        ended_ms=last["ended_ms"],
        flows=tuple(sorted(last["flows"].items())),
        tables=tables,
        sources=tuple(
            Source(source.flow, source.topic, source.position, source.lag)
            for source in status.sources(last["storage"] or "", client)
        ),
        topics=topics,
        edges=_edges(folder),
    )


def _edges(folder: PipelineFolder) -> tuple[Edge, ...]:
    flowing = dataflow.stored(folder.own(DATAFLOW))
    return tuple((Node(*begin), Node(*end)) for begin, end in flowing.edges) if flowing else ()
