"""Forms that change topics: first what it would mean, then the deed."""

from starlette.responses import Response

from ottla.base.command_error import USAGE, CommandError
from ottla.console.actions import topics as actions
from ottla.console.actions.topics import NewTopic
from ottla.console.cluster.settings import TOPIC
from ottla.console.figures import part
from ottla.console.pages import settings_plan
from ottla.console.pages.topics import existing
from ottla.console.typed import whole_number
from ottla.console.visit import Visit, status_of

POLICIES = ("delete", "compact", "compact,delete")


def new(visit: Visit) -> Response:
    return _form(visit)


def create(visit: Visit) -> Response:
    """The first time it is asked whether the cluster would take it; the second time it is made."""
    try:
        topic = _wanted(visit)
        if not visit.form("confirmed"):
            actions.create(visit.cluster, topic, validate_only=True)
            snapshot = visit.cluster.snapshot()
            return visit.page("topic_create.html", topic=topic, snapshot=snapshot)
        with visit.change(f"creates topic {topic.name}"):
            actions.create(visit.cluster, topic)
    except CommandError as error:
        return _form(visit, str(error), status_of(error))
    return visit.to(f"/topics/{part(topic.name)}", f"Topic {topic.name} is created.")


def _form(visit: Visit, problem: str = "", status: int = 200) -> Response:
    return visit.page("topic_new.html", status, problem=problem, policies=POLICIES)


def _wanted(visit: Visit) -> NewTopic:
    configs = {}
    if visit.form("policy") in POLICIES and visit.form("policy") != "delete":
        configs["cleanup.policy"] = visit.form("policy")
    if visit.form("retention"):
        configs["retention.ms"] = _retention_ms(visit.form("retention"))
    for line in visit.form("configs").splitlines():
        name, equals, value = line.partition("=")
        if line.strip() and not equals:
            raise CommandError(f"a config is written KEY=VALUE, not {line.strip()!r}", USAGE)
        if name.strip():
            configs[name.strip()] = value.strip()
    return NewTopic(
        visit.form("name"),
        _number(visit.form("partitions"), "partitions"),
        _number(visit.form("replicas"), "replicas"),
        configs,
    )


def _retention_ms(text: str) -> str:
    from ottla.base.times import parse_duration_ms

    if text in {"-1", "for ever"}:
        return "-1"
    return str(parse_duration_ms(text, "Keep records for"))


def _number(text: str, what: str) -> int:
    if not text:
        return 0
    number = whole_number(text)
    if number is None or not 0 < number <= actions.PARTITIONS_MAX:
        raise CommandError(f"{text!r:.40} is no number of {what}", USAGE)
    return number


# -- partitions ----------------------------------------------------------------------------------------------


def grow(visit: Visit) -> Response:
    topic, _ = existing(visit)
    return visit.page("topic_grow.html", topic=topic, problem="")


def add_partitions(visit: Visit) -> Response:
    topic, _ = existing(visit)
    try:
        wanted = _number(visit.form("partitions"), "partitions")
        actions.check_growth(topic, wanted)
        with visit.change(f"gives topic {topic.name} {wanted} partitions"):
            actions.add_partitions(visit.cluster, topic.name, wanted)
    except CommandError as error:
        return visit.page("topic_grow.html", status_of(error), topic=topic, problem=str(error))
    return visit.to(f"/topics/{part(topic.name)}", f"Topic {topic.name} has {wanted} partitions.")


# -- settings ------------------------------------------------------------------------------------------------


def change_settings(visit: Visit) -> Response:
    topic, _ = existing(visit)
    return settings_plan.change(visit, TOPIC, topic.name, f"/topics/{part(topic.name)}/settings")


# -- ends ----------------------------------------------------------------------------------------------------


def ask_deletion(visit: Visit) -> Response:
    return _deletion(visit)


def delete(visit: Visit) -> Response:
    topic, _ = existing(visit)
    if visit.form("name") != topic.name:
        return _deletion(visit, "That is not the name of the topic. Nothing was deleted.")
    with visit.change(f"deletes topic {topic.name}"):
        actions.delete(visit.cluster, topic.name)
    return visit.to("/topics", f"Topic {topic.name} is deleted.")


def _deletion(visit: Visit, problem: str = "") -> Response:
    topic, _ = existing(visit)
    loss = actions.deletion_plan(visit.cluster, topic.name)
    return visit.page("topic_delete.html", 400 if problem else 200, topic=topic, loss=loss, problem=problem)


def ask_emptying(visit: Visit) -> Response:
    topic, _ = existing(visit)
    return visit.page("topic_empty.html", topic=topic, loss=actions.deletion_plan(visit.cluster, topic.name))


def empty(visit: Visit) -> Response:
    topic, _ = existing(visit)
    with visit.change(f"deletes all records of topic {topic.name}"):
        actions.empty(visit.cluster, topic.name)
    return visit.to(f"/topics/{part(topic.name)}", f"All records of {topic.name} are deleted.")
