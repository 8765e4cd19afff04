"""Brokers: the list with leaders and disks, one broker, its settings, and what moves between brokers."""

from markupsafe import Markup
from starlette.responses import Response

from ottla.base.command_error import CommandError
from ottla.console import figures
from ottla.console.charts import Line, bar, chart, partition_map
from ottla.console.cluster.log_dirs import LogDirectory
from ottla.console.cluster.measurement import BYTES_IN, BYTES_OUT
from ottla.console.cluster.reassignments import Reassignment, progress
from ottla.console.cluster.settings import BROKER
from ottla.console.cluster.snapshot import BrokerNode
from ottla.console.pages import settings_plan
from ottla.console.typed import whole_number
from ottla.console.visit import MissingError, Visit

MAP_PARTITIONS_MAX = 400


def show_all(visit: Visit) -> Response:
    view = visit.cluster
    snapshot, measured = view.snapshot(), view.measured()
    most = max(snapshot.leaders.values(), default=0)
    directories = measured.directories if measured else []
    moves, moves_problem = _moves(visit, directories)
    return visit.page(
        "brokers.html",
        snapshot=snapshot,
        measured=measured,
        rows=[
            (
                broker,
                bar(
                    snapshot.leaders[broker.id] / most if most else 0, f"leads {snapshot.leaders[broker.id]}"
                ),
                sum(directory.bytes for directory in directories if directory.broker == broker.id),
                measured.metrics.get(broker.id, {}) if measured else {},
            )
            for broker in snapshot.brokers.values()
        ],
        map=partition_map(snapshot) if snapshot.partition_count <= MAP_PARTITIONS_MAX else None,
        moves=moves,
        moves_problem=moves_problem,
    )


def _moves(
    visit: Visit, directories: list[LogDirectory]
) -> tuple[list[tuple[Reassignment, float | None, Markup]], str]:
    try:
        moves = visit.cluster.reassignments()
    except CommandError as error:
        return [], str(error)
    rows = []
    for move in moves:
        part = progress(move, directories)
        rows.append((move, part, bar(part, f"{part:.0%} copied" if part is not None else "")))
    return rows, ""


def show(visit: Visit) -> Response:
    broker = existing(visit)
    view = visit.cluster
    snapshot, measured, history = view.snapshot(), view.measured(), view.history
    lines = [
        Line("in", history.points((BYTES_IN, broker.id))),
        Line("out", history.points((BYTES_OUT, broker.id))),
    ]
    directories = [
        (directory, bar(directory.used_part, f"{directory.used_part or 0:.0%} full", _tone(directory)))
        for directory in (measured.directories if measured else [])
        if directory.broker == broker.id
    ]
    return visit.page(
        "broker.html",
        broker=broker,
        snapshot=snapshot,
        metrics=measured.metrics.get(broker.id, {}) if measured else {},
        directories=directories,
        silent=measured.silent.get(broker.id, "") if measured else "",
        measured=measured,
        throughput=chart(lines, figures.size_rate, f"Throughput of broker {broker.id}"),
    )


def _tone(directory: LogDirectory) -> str:
    return "gone" if (directory.used_part or 0) > 0.9 else "f1"


def show_settings(visit: Visit) -> Response:
    broker = existing(visit)
    settings = visit.cluster.settings(BROKER, str(broker.id))
    return visit.page("broker_settings.html", broker=broker, settings=settings)


def change_settings(visit: Visit) -> Response:
    broker = existing(visit)
    return settings_plan.change(visit, BROKER, str(broker.id), f"/brokers/{broker.id}/settings")


def existing(visit: Visit) -> BrokerNode:
    number, brokers = whole_number(visit.path("broker")), visit.cluster.snapshot().brokers
    if number is None or number not in brokers:
        raise MissingError(f"There is no broker {visit.path('broker'):.20} now.", ("/brokers", "Brokers"))
    return brokers[number]
