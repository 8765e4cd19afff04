"""Changes of settings, of a topic or a broker: the first time what would change, the second time the deed."""

from starlette.responses import Response

from ottla.base.command_error import CommandError
from ottla.base.times import parse_duration_ms
from ottla.console.actions import topics as actions
from ottla.console.cluster.settings import KINDS
from ottla.console.figures import plural
from ottla.console.visit import Visit, status_of


def change(visit: Visit, kind: int, name: str, address: str) -> Response:
    """Fields `set:KEY` have values, `drop` the keys that go back to what they inherit."""
    dropped, whose = visit.fields.get("drop", []), f"{KINDS[kind]} {name}"
    new = {
        field.removeprefix("set:"): values[-1].strip()
        for field, values in visit.fields.items()
        if field.startswith("set:") and field.removeprefix("set:") not in dropped
    }
    new = {key: in_milliseconds(key, value) for key, value in new.items()}
    changes = actions.config_plan(visit.cluster, kind, name, new, dropped)
    if not changes:
        return visit.to(address, "Nothing was changed: that is how it is set.")
    if not visit.form("confirmed"):
        return visit.page("settings_plan.html", whose=whose, changes=changes, address=address, problem="")
    try:
        with visit.change(actions.config_doing(changes, kind, name)):
            actions.change_configs(visit.cluster, KINDS[kind], name, new, dropped)
    except CommandError as error:
        return visit.page(
            "settings_plan.html",
            status_of(error),
            whose=whose,
            changes=changes,
            address=address,
            problem=str(error),
        )
    return visit.to(address, f"{plural(len(changes), 'setting')} of {whose} changed.")


def in_milliseconds(key: str, value: str) -> str:
    """A length of time may be typed with its unit: 2h."""
    if not key.endswith(".ms") or not value[:1].isdecimal() or value.isdecimal():
        return value
    return str(parse_duration_ms(value, key))
