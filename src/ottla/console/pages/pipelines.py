"""Pipelines: flows as a graph, tables, the last run, and what was rejected."""

from starlette.responses import Response

from ottla.console.graphs import flow_graph
from ottla.console.pipelines import Pipeline
from ottla.console.visit import MissingError, Visit

TONES = {"running": "fine", "completed": "fine", "stopped": "", "failed": "bad", "killed": "bad"}


def show_all(visit: Visit) -> Response:
    return visit.page("pipelines.html", pipelines=_pipelines(visit), tones=TONES)


def show(visit: Visit) -> Response:
    name = visit.path("pipeline")
    pipeline = next((pipeline for pipeline in _pipelines(visit) if pipeline.name == name), None)
    if pipeline is None:
        raise MissingError(f"There is no pipeline {name!r} here.", ("/pipelines", "Pipelines"))
    measured = visit.cluster.measured()
    topics = visit.cluster.snapshot().topics
    rejected = [
        (
            topic,
            sum(measured.records(topic, partition.number) or 0 for partition in topics[topic].partitions)
            if measured
            else None,
        )
        for topic in pipeline.rejecting
        if topic in topics
    ]
    return visit.page(
        "pipeline.html", pipeline=pipeline, tones=TONES, graph=flow_graph(pipeline), rejected=rejected
    )


def _pipelines(visit: Visit) -> list[Pipeline]:
    read = visit.settings.pipelines
    return visit.cluster.kept("pipelines", 2.0, lambda: read(visit.cluster.admin)) if read else []
