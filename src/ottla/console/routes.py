"""Which function answers which address. A page is one row here, a function in `pages/`, and a template.

A `change` is a POST: it is refused by a read-only console, and always carries the token of its session.
"""

from collections.abc import Callable
from typing import NamedTuple

from starlette.responses import Response

from ottla.console.pages import (
    access,
    brokers,
    find,
    groups,
    overview,
    pipelines,
    record_send,
    records,
    topic_changes,
    topics,
    transactions,
)
from ottla.console.visit import Visit

Handler = Callable[[Visit], Response]


class Route(NamedTuple):
    path: str
    handler: Handler
    is_change: bool = False


ROUTES = [
    Route("/", overview.show),
    Route("/find", find.show),
    Route("/topics", topics.show_all),
    Route("/new-topic", topic_changes.new),
    Route("/new-topic", topic_changes.create, is_change=True),
    Route("/topics/{topic}", topics.show),
    Route("/topics/{topic}/records", records.show),
    Route("/topics/{topic}/records/tail", records.stream_tail),
    Route("/topics/{topic}/records/search", records.stream_search),
    Route("/topics/{topic}/records/file", records.stream_file),
    Route("/topics/{topic}/records/new", record_send.ask),
    Route("/topics/{topic}/records/new", record_send.send_one, is_change=True),
    Route("/topics/{topic}/records/{partition}/{offset}", records.show_one),
    Route("/topics/{topic}/readers", topics.show_readers),
    Route("/topics/{topic}/settings", topics.show_settings),
    Route("/topics/{topic}/settings", topic_changes.change_settings, is_change=True),
    Route("/topics/{topic}/partitions", topic_changes.grow),
    Route("/topics/{topic}/partitions", topic_changes.add_partitions, is_change=True),
    Route("/topics/{topic}/empty", topic_changes.ask_emptying),
    Route("/topics/{topic}/empty", topic_changes.empty, is_change=True),
    Route("/topics/{topic}/delete", topic_changes.ask_deletion),
    Route("/topics/{topic}/delete", topic_changes.delete, is_change=True),
    Route("/groups", groups.show_all),
    Route("/groups/{group}", groups.show),
    Route("/groups/{group}/members", groups.show_members),
    Route("/groups/{group}/reset", groups.ask_reset),
    Route("/groups/{group}/reset", groups.reset, is_change=True),
    Route("/groups/{group}/delete", groups.ask_deletion),
    Route("/groups/{group}/delete", groups.delete, is_change=True),
    Route("/brokers", brokers.show_all),
    Route("/brokers/{broker}", brokers.show),
    Route("/brokers/{broker}/settings", brokers.show_settings),
    Route("/brokers/{broker}/settings", brokers.change_settings, is_change=True),
    Route("/transactions", transactions.show_all),
    Route("/pipelines", pipelines.show_all),
    Route("/pipelines/{pipeline}", pipelines.show),
    Route("/users", access.show_users),
    Route("/users", access.add_user, is_change=True),
    Route("/users/remove", access.remove_user, is_change=True),
    Route("/acls", access.show_acls),
    Route("/acls", access.add_acl, is_change=True),
    Route("/acls/remove", access.remove_acl, is_change=True),
    Route("/quotas", access.show_quotas),
    Route("/quotas", access.set_quota, is_change=True),
]
