"""Groups: the list, one group with its lag and members, and the forms that change it."""

from starlette.responses import Response

from ottla.base.command_error import USAGE, CommandError
from ottla.base.times import show_ms
from ottla.client.admin.group_reset import Goal
from ottla.client.admin.groups import DEAD, EMPTY, Group, Listed
from ottla.console import figures
from ottla.console.actions import groups as actions
from ottla.console.actions.groups import GOALS
from ottla.console.charts import Line, spark, wide_chart
from ottla.console.cluster.sampler import LAG
from ottla.console.figures import part, plural
from ottla.console.typed import whole_number
from ottla.console.visit import MissingError, Visit, status_of

TONES = {"Stable": "fine", EMPTY: "", DEAD: ""}
SPARKS_MAX = 100


def show_all(visit: Visit) -> Response:
    measured = visit.cluster.measured(wait_s=2.0)
    history = visit.cluster.history
    rows: list[tuple[Listed, Group | None, str, str]] = []
    for listed in measured.listed if measured else []:
        group = measured.groups.get(listed.id) if measured else None
        trend = (
            spark(history.points((LAG, listed.id)), f"Lag of {listed.id}") if len(rows) < SPARKS_MAX else ""
        )
        rows.append((listed, group, TONES.get(listed.state, "warn"), trend))
    return visit.page("groups.html", rows=rows, measured=measured)


def show(visit: Visit) -> Response:
    group = existing(visit)
    history = visit.cluster.history
    visit.cluster.measured()
    return visit.page(
        "group.html",
        group=group,
        tone=TONES.get(group.state, "warn"),
        trend=wide_chart([Line("lag", history.points((LAG, group.id)))], figures.short, f"Lag of {group.id}"),
        sparks={
            (position.topic, position.partition): spark(
                history.points((LAG, group.id, position.topic, position.partition)),
                f"Lag of {position.topic} {position.partition}",
            )
            for position in group.positions[:SPARKS_MAX]
        },
        topics=sorted({position.topic for position in group.positions}),
    )


def show_members(visit: Visit) -> Response:
    group = existing(visit)
    return visit.page("group_members.html", group=group, tone=TONES.get(group.state, "warn"))


def existing(visit: Visit) -> Group:
    name = visit.path("group")
    (group,) = visit.cluster.groups([name])
    if not group.is_there:
        raise MissingError(f"There is no group {name!r}.", ("/groups", "Groups"))
    return group


# -- reset ---------------------------------------------------------------------------------------------------


def ask_reset(visit: Visit) -> Response:
    return _reset_form(visit, existing(visit))


def reset(visit: Visit) -> Response:
    """The first time it shows the plan; the second time it is made again, and carried out."""
    group = existing(visit)
    kind = visit.form("goal")
    value = visit.form(f"value-{kind}")
    try:
        goal = actions.goal_of(kind, value)
        plan = actions.reset_plan(visit.cluster, group.id, _chosen(visit), goal)
        if not visit.form("confirmed"):
            return visit.page("group_reset_plan.html", group=group, plan=plan, fields=_fields(visit, goal))
        with visit.change(
            f"resets group {group.id} ({kind} {value}) in {plural(len(plan.moves), 'partition')}"
        ):
            actions.reset(visit.cluster, group.id, plan)
    except CommandError as error:
        return _reset_form(visit, group, str(error), status_of(error))
    return visit.to(
        f"/groups/{part(group.id)}", f"Group {group.id} is reset: {plural(len(plan.moves), 'partition')}."
    )


def _chosen(visit: Visit) -> dict[str, set[int] | None]:
    """What to reset; nothing is all that the group has committed, which nobody gets by a slip."""
    topic, partition = visit.form("topic"), visit.form("partition")
    if not partition:
        return {topic: None} if topic else {}
    number = whole_number(partition)
    if number is None:
        raise CommandError(f"{partition!r:.40} is no partition: write its number, or nothing for all", USAGE)
    if not topic:
        raise CommandError(f"choose the topic whose partition {number} is to be reset", USAGE)
    return {topic: {number}}


def _fields(visit: Visit, goal: Goal) -> dict[str, str]:
    """The same plan once more: two hours ago stays the moment that the plan was made for."""
    names = ("topic", "partition", "goal", *(f"value-{kind}" for kind in GOALS))
    fields = {name: visit.form(name) for name in names}
    return fields if goal.to_time_ms is None else fields | {"value-time": show_ms(goal.to_time_ms)}


def _reset_form(visit: Visit, group: Group, problem: str = "", status: int = 200) -> Response:
    topics = sorted({position.topic for position in group.positions})
    return visit.page("group_reset.html", status, group=group, topics=topics, problem=problem)


# -- deletion ------------------------------------------------------------------------------------------------


def ask_deletion(visit: Visit) -> Response:
    return visit.page("group_delete.html", group=existing(visit))


def delete(visit: Visit) -> Response:
    group = existing(visit)
    with visit.change(f"deletes group {group.id}"):
        actions.delete(visit.cluster, group.id)
    return visit.to("/groups", f"Group {group.id} is deleted.")
