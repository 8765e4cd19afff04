"""HTML out of templates. Whatever is put into them is escaped; a name that is not there is an error."""

from collections.abc import Mapping
from functools import cache
from typing import Any

from jinja2 import Environment, PackageLoader, StrictUndefined

from ottla.base.version import VERSION
from ottla.console import figures


@cache
def environment() -> Environment:
    made = Environment(
        loader=PackageLoader("ottla.console", "templates"),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
        auto_reload=False,
    )
    made.filters |= figures.FILTERS
    made.globals["version"] = VERSION
    return made


def compile_all() -> None:
    """So that the first person does not wait for it."""
    for name in environment().list_templates(extensions=["html"]):
        environment().get_template(name)


def render(name: str, values: Mapping[str, Any]) -> str:
    return environment().get_template(name).render(values)
