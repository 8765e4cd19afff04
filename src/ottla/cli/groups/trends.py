"""How the lag of groups changes from one look to the next."""

from collections.abc import Iterable
from typing import Any

from ottla.client.admin.groups import Group, Position

Key = tuple[str, str, int]


class Trends:
    """Records a second by which a lag grows, or shrinks if it is negative; None until there are two looks."""

    def __init__(self) -> None:
        self._lags: dict[Key, int] = {}
        self._rates: dict[Key, float] = {}
        self._looked_s: float | None = None

    def look(self, groups: Iterable[Group], now_s: float) -> None:
        lags = {
            (group.id, position.topic, position.partition): position.lag
            for group in groups
            for position in group.positions
            if position.lag is not None
        }
        taken_s = now_s - self._looked_s if self._looked_s is not None else 0.0
        self._rates = {
            key: round((lag - self._lags[key]) / taken_s, 1)
            for key, lag in lags.items()
            if key in self._lags and taken_s > 0
        }
        self._lags, self._looked_s = lags, now_s

    def of(self, group: Group, position: Position) -> float | None:
        return self._rates.get((group.id, position.topic, position.partition))

    def json_of(self, group: Group) -> dict[str, Any]:
        rates = [rate for (name, _, _), rate in self._rates.items() if name == group.id]
        return {"lag_per_second": round(sum(rates), 1) if rates else None}
