"""Topics in rows: partitions, replicas, records, size, and how fast they grow."""

from ottla.cli import output
from ottla.cli.output import Cell
from ottla.cli.topics.replicas import Trouble
from ottla.client.snapshots import Snapshot

COLUMNS = ("name", "partitions", "replication", "records", "bytes", "records_per_second")


def show(
    now: Snapshot,
    before: Snapshot | None,
    names: list[str],
    trouble: Trouble,
    *,
    json: bool,
    is_watched: bool,
) -> None:
    rows = [_row(now, before, name) for name in names if name in now.topics]
    columns = COLUMNS if is_watched else COLUMNS[:-1]
    if json:
        data = [dict(zip(columns, row, strict=False)) for row in rows]
        print(output.json_text(data)) if is_watched else output.show_json(data)
    elif rows:
        titles = ("topic", "partitions", "replication", "records", "size", "records/s")[: len(columns)]
        shown = [(*row[:4], output.size_text(row[4]), row[5])[: len(columns)] for row in rows]
        output.show_table(titles, shown)
    elif any(trouble):
        output.say(f"no topic has a partition that is {trouble}")
    else:
        output.say("there are no topics; create one with `ottla topics create NAME`")


def _row(
    now: Snapshot, before: Snapshot | None, name: str
) -> tuple[Cell, Cell, Cell, Cell, int | None, float | None]:
    partitions = now.topics[name]
    rate = now.rate(before, now.partitions(name))
    return (
        name,
        len(partitions),
        max((len(partition.replica_nodes) for partition in partitions), default=0),
        now.records(name),
        now.size(name),
        None if rate is None else round(rate, 1),
    )
