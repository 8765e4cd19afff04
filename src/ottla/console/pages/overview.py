"""The first page: how the cluster is, what is wrong with it, and what to do about it."""

from starlette.responses import Response

from ottla.console import figures
from ottla.console.charts import Line, chart, partition_map
from ottla.console.cluster.measurement import BYTES_IN, BYTES_OUT
from ottla.console.cluster.sampler import RECORDS
from ottla.console.cluster.snapshot import is_internal
from ottla.console.problems import problems
from ottla.console.visit import Visit

MAP_PARTITIONS_MAX = 120
BUSY_MAX = 8


def show(visit: Visit) -> Response:
    view = visit.cluster
    snapshot, measured, history = view.snapshot(), view.measured(), view.history
    has_bytes = history.last(BYTES_IN) is not None
    if has_bytes:
        lines = [Line("in", history.points(BYTES_IN)), Line("out", history.points(BYTES_OUT))]
        throughput = chart(lines, figures.size_rate, "Throughput in bytes")
    else:
        lines = []
        throughput = chart([Line("records", history.points(RECORDS))], figures.rate, "Records written")
    busy = sorted(
        (
            (rate, name)
            for name, rate in (measured.rates if measured else {}).items()
            if rate and not is_internal(name)
        ),
        reverse=True,
    )
    lags = sorted(
        ((group.lag, group) for group in (measured.groups if measured else {}).values() if group.lag),
        key=lambda pair: -pair[0],
    )
    return visit.page(
        "overview.html",
        snapshot=snapshot,
        measured=measured,
        problems=problems(snapshot, measured, history),
        throughput=throughput,
        has_bytes=has_bytes,
        bytes_in=history.last(BYTES_IN),
        bytes_out=history.last(BYTES_OUT),
        records_in=history.last(RECORDS),
        busy=busy[:BUSY_MAX],
        lags=lags[:BUSY_MAX],
        map=partition_map(snapshot) if snapshot.partition_count <= MAP_PARTITIONS_MAX else None,
    )
