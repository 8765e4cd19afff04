"""Groups: move what they have committed, delete them; and what that would mean."""

from collections.abc import Mapping
from typing import NamedTuple

from ottla.base.command_error import USAGE, CommandError
from ottla.client.admin import group_reset
from ottla.client.admin.group_reset import Goal, Move
from ottla.client.librdkafka.errors import REQUEST_S, errors_explained
from ottla.console.cluster.view import ClusterView
from ottla.console.typed import time_of

OFFSET_MAX = (1 << 63) - 1
GOALS = ("earliest", "latest", "offset", "time", "shift")


class Plan(NamedTuple):
    moves: list[Move]
    remarks: list[str]

    @property
    def read_again(self) -> int:
        """Records that members will get a second time."""
        return sum(
            move.committed - move.new for move in self.moves if move.committed and move.new < move.committed
        )

    @property
    def skipped(self) -> int:
        """Records that nobody in the group will get."""
        return sum(
            move.new - move.committed
            for move in self.moves
            if move.committed is not None and move.new > move.committed
        )


def chosen_of(topic: str | None, partition: int | None) -> dict[str, set[int] | None]:
    """One partition, one topic, or all that is committed."""
    if not topic:
        if partition is not None:
            raise CommandError("a partition is one of a topic: say of which", USAGE)
        return {}
    return {topic: None if partition is None else {partition}}


def goal_of(kind: str, value: str) -> Goal:
    """earliest, latest, offset N, time T, shift N."""
    if kind not in GOALS:
        raise CommandError(f"say where to: {', '.join(GOALS)}", USAGE)
    number: int | None = None
    time_ms: int | None = None
    try:
        if kind in {"offset", "shift"}:
            number = int(value)
            if abs(number) > OFFSET_MAX:
                raise ValueError
    except ValueError:
        raise CommandError(f"{value!r:.40} is no number", USAGE) from None
    if kind == "time":
        time_ms = time_of(value)
        if time_ms is None:
            raise CommandError("say since when: 2h for that long ago, or 2030-01-31T12:00Z", USAGE)
    return Goal(
        kind == "earliest",
        kind == "latest",
        number if kind == "offset" else None,
        time_ms,
        number if kind == "shift" else None,
    )


def reset_plan(view: ClusterView, name: str, chosen: Mapping[str, set[int] | None], goal: Goal) -> Plan:
    """What would move. Nothing `chosen` is everything that the group has committed."""
    (group,) = view.groups([name])
    group_reset.check_idle(group)
    if not chosen and not group.positions:
        raise CommandError(f"group {name} has no committed offsets: say which topic", USAGE)
    remarks: list[str] = []
    targets = group_reset.targets(view.admin, group, chosen, remarks.append)
    committed = {
        (position.topic, position.partition) for position in group.positions if position.committed is not None
    }
    if goal.shift_by is not None and (without := [target for target in targets if target not in committed]):
        raise CommandError(f"{without[0][0]} {without[0][1]} has no committed offset to shift", USAGE)
    moves = group_reset.plan(view.admin, group, targets, goal, remarks.append)
    return Plan(moves, [remark.removeprefix("warning: ") for remark in remarks])


def reset(view: ClusterView, name: str, plan: Plan) -> None:
    group_reset.execute(view.admin, name, plan.moves)


def delete(view: ClusterView, name: str) -> None:
    with errors_explained(f"group {name}"):
        view.admin.delete_consumer_groups([name], request_timeout=REQUEST_S)[name].result(REQUEST_S)
