"""The first page: how the cluster is."""

from starlette.responses import Response

from ottla.console.visit import Visit


def show(visit: Visit) -> Response:
    return visit.page("overview.html", snapshot=visit.cluster.snapshot())
