"""Groups: the list, one group with its lag and members, and the forms that change it."""

from starlette.responses import Response

from ottla.base.command_error import CommandError
from ottla.client.admin.groups import DEAD, EMPTY, Group, Listed
from ottla.console import figures
from ottla.console.actions import groups as actions
from ottla.console.actions.groups import GOALS
from ottla.console.charts import WIDE, Line, chart, spark
from ottla.console.cluster.sampler import LAG
from ottla.console.figures import part, plural
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
        trend=chart(
            [Line("lag", history.points((LAG, group.id)))], figures.short, f"Lag of {group.id}", WIDE
        ),
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
        raise MissingError(f"There is no group {name!r}.")
    return group


# -- reset ---------------------------------------------------------------------------------------------------


def ask_reset(visit: Visit) -> Response:
    return _reset_form(visit, existing(visit))


def reset(visit: Visit) -> Response:
    """The first time it shows the plan; the second time it is made again, and carried out."""
    group = existing(visit)
    topic, number, kind = visit.form("topic"), visit.form("partition"), visit.form("goal")
    value = visit.form(f"value-{kind}")
    try:
        chosen = actions.chosen_of(topic, int(number) if topic and number.isdecimal() else None)
        goal = actions.goal_of(kind, value)
        plan = actions.reset_plan(visit.cluster, group.id, chosen, goal)
        if not visit.form("confirmed"):
            return visit.page("group_reset_plan.html", group=group, plan=plan, fields=_fields(visit))
        with visit.change(
            f"resets group {group.id} ({kind} {value}) in {plural(len(plan.moves), 'partition')}"
        ):
            actions.reset(visit.cluster, group.id, plan)
    except CommandError as error:
        return _reset_form(visit, group, str(error), status_of(error))
    return visit.to(
        f"/groups/{part(group.id)}", f"Group {group.id} is reset: {plural(len(plan.moves), 'partition')}."
    )


def _fields(visit: Visit) -> dict[str, str]:
    names = ("topic", "partition", "goal", *(f"value-{goal}" for goal in GOALS))
    return {name: visit.form(name) for name in names}


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
