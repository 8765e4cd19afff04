"""What a run has made: rows of tables, records that were rejected, and how far behind its sources it is."""

from collections.abc import Collection
from typing import TYPE_CHECKING, NamedTuple

from ottla.pipelines import status
from ottla.pipelines.status import Rejected, Source, Table

if TYPE_CHECKING:
    from confluent_kafka.admin import AdminClient


class Report(NamedTuple):
    """`new` has the rows that came with the run, by table; of a view that is written anew, the difference."""

    tables: list[Table]
    new: dict[str, int]
    rejected: list[Rejected]
    new_rejected: dict[str, int]
    sources: list[Source]

    @property
    def lag(self) -> int | None:
        lags = [source.lag for source in self.sources if source.lag is not None]
        return sum(lags) if lags else None

    def sentence(self) -> str:
        """What is different from the run before; the lag always."""
        rows = [
            f"{table.name} {table.rows:,} ({self.new[table.name]:+,})"
            for table in self.tables
            if self.new[table.name]
        ]
        refused = [
            f"{item.records:,} in {item.name} ({self.new_rejected[item.name]:+,})"
            for item in self.rejected
            if item.records and self.new_rejected.get(item.name)
        ]
        lag = "unknown" if self.lag is None else f"{self.lag:,}"
        parts = [
            f"rows: {', '.join(rows)}" if rows else "no new rows",
            *([f"rejected: {', '.join(refused)}"] if refused else []),
            *([f"lag: {lag}"] if self.sources else []),
        ]
        return "; ".join(parts)


class Reporter:
    """Remembers what was there at the last look, so that it can say what is new."""

    def __init__(
        self, warehouse: str | None, storage: str | None, topics: list[str], client: "AdminClient | None"
    ) -> None:
        self._warehouse, self._storage, self._topics = warehouse or "", storage or "", topics
        self._client = client
        self._counted: dict[str, tuple[int, int]] = {}
        self._rows: dict[str, int] = {}
        self._rejected: dict[str, int] = {}
        self.look()

    def forget(self, tables: Collection[str]) -> None:
        """What is in these tables, or in all if none is named, is thrown away: all of their rows are new."""
        for name in [name for name in self._rows if name in tables or not tables]:
            del self._rows[name]
            self._rejected.pop(name, None)

    def look(self) -> Report:
        tables = status.tables(self._warehouse, self._counted)
        rejected = status.rejected(tables, self._topics, self._client)
        new = {table.name: table.rows - self._rows.get(table.name, 0) for table in tables}
        new_rejected = {
            item.name: item.records - self._rejected.get(item.name, 0)
            for item in rejected
            if item.records is not None
        }
        self._rows = {table.name: table.rows for table in tables}
        self._rejected |= {item.name: item.records for item in rejected if item.records is not None}
        return Report(tables, new, rejected, new_rejected, status.sources(self._storage, self._client))
