"""Changes of settings, of a topic or a broker: the first time what would change, the second time the deed."""

from starlette.responses import Response

from ottla.console.actions import topics as actions
from ottla.console.cluster.settings import KINDS
from ottla.console.figures import plural
from ottla.console.visit import Visit


def change(visit: Visit, kind: int, name: str, address: str) -> Response:
    """Fields `set:KEY` have values, `drop` the keys that go back to what they inherit."""
    dropped, whose = visit.fields.get("drop", []), f"{KINDS[kind]} {name}"
    new = {
        field.removeprefix("set:"): values[-1].strip()
        for field, values in visit.fields.items()
        if field.startswith("set:") and field.removeprefix("set:") not in dropped
    }
    changes = actions.config_plan(visit.cluster, kind, name, new, dropped)
    if not changes:
        return visit.to(address, "Nothing was changed: that is how it is set.")
    if not visit.form("confirmed"):
        return visit.page("settings_plan.html", whose=whose, changes=changes, address=address)
    with visit.change(actions.config_doing(changes, kind, name)):
        actions.change_configs(visit.cluster, KINDS[kind], name, new, dropped)
    return visit.to(address, f"{plural(len(changes), 'setting')} of {whose} changed.")
