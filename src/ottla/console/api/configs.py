"""Settings of topics and brokers: show them, change them."""

from dataclasses import dataclass, field
from typing import Annotated

from ottla.console.actions import topics as actions
from ottla.console.api.endpoints import Asked, naming
from ottla.console.api.shapes import Rule, ShapeError
from ottla.console.api.topics import CONFIGS_MAX, VALUE_MAX
from ottla.console.cluster import settings
from ottla.console.cluster.settings import BROKER, KINDS, TOPIC
from ottla.console.pages import brokers, topics


@dataclass(frozen=True)
class Config:
    name: str
    value: Annotated[str | None, Rule("null if it is secret, or not set.")]
    source: Annotated[str, Rule("Who says so.", example="default")]
    own: Annotated[bool, Rule("Set for this very topic or broker.")]
    read_only: bool
    sensitive: bool
    type: str
    documentation: str
    inherited: Annotated[str | None, Rule("What it would be, were it not set here.")]


@dataclass(frozen=True)
class Configs:
    configs: list[Config]


@dataclass(frozen=True)
class ConfigChanges:
    set: Annotated[
        dict[str, Annotated[str, Rule("", most=VALUE_MAX)]], Rule("New values.", most=CONFIGS_MAX)
    ] = field(default_factory=dict)
    reset: Annotated[list[str], Rule("Names that go back to what they inherit.", most=CONFIGS_MAX)] = field(
        default_factory=list
    )
    dry_run: Annotated[bool, Rule("Only say what would change.")] = False


@dataclass(frozen=True)
class ConfigChange:
    name: str
    before: str | None
    after: Annotated[str | None, Rule("null: back to what it inherits.")]
    remark: Annotated[str, Rule("A consequence that may surprise.")]


@dataclass(frozen=True)
class ChangedConfigs:
    changes: Annotated[list[ConfigChange], Rule("Without those that are set like that already.")]
    done: Annotated[bool, Rule("false after a dry run.")]


def show_of_topic(asked: Asked) -> Configs:
    return _shown(asked, TOPIC, topics.existing(asked.visit)[0].name)


def show_of_broker(asked: Asked) -> Configs:
    return _shown(asked, BROKER, str(brokers.existing(asked.visit).id))


def change_of_topic(asked: Asked) -> ChangedConfigs:
    return _changed(asked, TOPIC, topics.existing(asked.visit)[0].name)


def change_of_broker(asked: Asked) -> ChangedConfigs:
    return _changed(asked, BROKER, str(brokers.existing(asked.visit).id))


def _shown(asked: Asked, kind: int, name: str) -> Configs:
    return Configs([_config(setting) for setting in asked.visit.cluster.settings(kind, name)])


def _config(setting: settings.Setting) -> Config:
    return Config(
        setting.name,
        setting.value,
        setting.source,
        setting.is_own,
        setting.is_read_only,
        setting.is_sensitive,
        setting.type,
        setting.documentation,
        setting.inherited,
    )


def _changed(asked: Asked, kind: int, name: str) -> ChangedConfigs:
    visit, given = asked.visit, asked.body
    both = sorted(set(given.set) & set(given.reset))
    if both:
        raise ShapeError("reset", f"{both[0]} is in `set` as well")
    dropped = list(dict.fromkeys(given.reset))
    with naming("set, reset"):
        plan = actions.config_plan(visit.cluster, kind, name, given.set, dropped)
    changes = [ConfigChange(change.name, change.before, change.after, change.remark) for change in plan]
    if changes and not given.dry_run:
        with visit.change(actions.config_doing(plan, kind, name)):
            actions.change_configs(visit.cluster, KINDS[kind], name, given.set, dropped)
    return ChangedConfigs(changes, done=not given.dry_run)
