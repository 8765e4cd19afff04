"""Groups: list, show with lag and members, reset, delete."""

from dataclasses import dataclass
from typing import Annotated, Literal

from ottla.console.actions import groups as actions
from ottla.console.api.endpoints import NAME_MAX, Asked, naming
from ottla.console.api.shapes import Rule
from ottla.console.api.topics import MEASURED_S, after_name, next_link
from ottla.console.figures import plural
from ottla.console.pages.groups import existing


@dataclass(frozen=True)
class GroupSummary:
    name: str
    state: Annotated[str, Rule("As Kafka writes it.", example="Stable")]
    type: str
    lag: Annotated[int | None, Rule("As it was measured last.")]
    members: int | None


@dataclass(frozen=True)
class Groups:
    groups: list[GroupSummary]
    next: Annotated[str | None, Rule("The address of what comes after these; null at the end.")]


@dataclass(frozen=True)
class GroupPosition:
    topic: str
    partition: int
    committed: int | None
    end: int | None
    lag: int | None
    member: Annotated[str | None, Rule("The id of the member that reads it.")]


@dataclass(frozen=True)
class GroupMember:
    id: str
    instance_id: str | None
    client_id: str
    host: str


@dataclass(frozen=True)
class GroupDetail:
    name: str
    state: str
    type: str
    assignor: str | None
    coordinator: Annotated[int, Rule("The id of a broker.")]
    lag: int | None
    members: list[GroupMember]
    positions: list[GroupPosition]


@dataclass(frozen=True)
class Reset:
    to: Annotated[
        Literal["earliest", "latest", "offset", "time", "shift"],
        Rule("Where to; three of them take a value."),
    ]
    value: Annotated[
        str, Rule("An offset, a time such as 2026-01-31T12:00:00Z or 2h, or by how many records.", most=64)
    ] = ""
    topic: Annotated[str | None, Rule("null: everything that the group has committed.", most=NAME_MAX)] = None
    partition: Annotated[int | None, Rule("Only this one, of `topic`.", 0, (1 << 31) - 1)] = None
    dry_run: Annotated[bool, Rule("Only say what would move.")] = False


@dataclass(frozen=True)
class Move:
    topic: str
    partition: int
    before: int | None
    after: int


@dataclass(frozen=True)
class ResetPlan:
    moves: list[Move]
    read_again: Annotated[int, Rule("Records that members will get a second time.")]
    skipped: Annotated[int, Rule("Records that nobody in the group will get.")]
    remarks: list[str]
    done: Annotated[bool, Rule("false after a dry run.")]


def list_all(asked: Asked) -> Groups:
    measured = asked.visit.cluster.measured(wait_s=MEASURED_S)
    rows = {}
    for listed in measured.listed if measured else []:
        group = measured.groups.get(listed.id) if measured else None
        rows[listed.id] = GroupSummary(
            listed.id, listed.state, listed.type, group and group.lag, len(group.members) if group else None
        )
    chosen, after = after_name(rows, asked.query)
    return Groups(chosen, next_link("groups", asked.query, after))


def show(asked: Asked) -> GroupDetail:
    group = existing(asked.visit)
    return GroupDetail(
        group.id,
        group.state,
        group.type,
        group.assignor,
        group.coordinator[0],
        group.lag,
        [
            GroupMember(member.id, member.instance_id, member.client_id, member.host)
            for member in group.members
        ],
        [
            GroupPosition(
                position.topic,
                position.partition,
                position.committed,
                position.end,
                position.lag,
                position.member.id if position.member else None,
            )
            for position in group.positions
        ],
    )


def reset(asked: Asked) -> ResetPlan:
    group, wanted = existing(asked.visit), asked.body
    with naming("partition"):
        chosen = actions.chosen_of(wanted.topic, wanted.partition)
    with naming("value"):
        goal = actions.goal_of(wanted.to, wanted.value)
    plan = actions.reset_plan(asked.visit.cluster, group.id, chosen, goal)
    if not wanted.dry_run:
        count = plural(len(plan.moves), "partition")
        with asked.visit.change(f"resets group {group.id} ({wanted.to} {wanted.value}) in {count}"):
            actions.reset(asked.visit.cluster, group.id, plan)
    return ResetPlan(
        [Move(move.topic, move.partition, move.committed, move.new) for move in plan.moves],
        plan.read_again,
        plan.skipped,
        plan.remarks,
        done=not wanted.dry_run,
    )


def delete(asked: Asked) -> None:
    group = existing(asked.visit)
    with asked.visit.change(f"deletes group {group.id}"):
        actions.delete(asked.visit.cluster, group.id)
