"""Transactions: the ids that coordinators know, and what is open since when."""

import time

from starlette.responses import Response

from ottla.base.command_error import CommandError
from ottla.client import transaction_states
from ottla.client.errors import ClientError
from ottla.client.librdkafka.errors import REQUEST_S
from ottla.client.retry import Deadline
from ottla.client.transaction_states import Described, Filters
from ottla.console.cluster.view import ClusterView
from ottla.console.visit import Visit

DESCRIBED_MAX = 500
LATE_MS = 15 * 60_000


def show_all(visit: Visit) -> Response:
    reason, rows = "", list[Described]()
    try:
        rows = transactions(visit.cluster)
    except CommandError as error:
        reason = str(error)
    return visit.page(
        "transactions.html",
        rows=sorted(rows, key=lambda row: (not row.is_open, row.started_ms or 0)),
        reason=reason,
        now_ms=int(time.time() * 1000),
        late_ms=LATE_MS,
        most=DESCRIBED_MAX,
    )


def transactions(view: ClusterView) -> list[Described]:
    """Those that this user may see, of brokers that answer."""
    deadline = Deadline(REQUEST_S)
    try:
        with view.cluster.lent() as brokers:
            brokers.refresh([], deadline)
            names = [
                listed.transactional_id
                for node in sorted(brokers.brokers)
                for listed in transaction_states.listed(brokers, node, Filters(), deadline)
            ]
            described = [
                transaction_states.described(brokers, name, deadline) for name in names[:DESCRIBED_MAX]
            ]
    except (ClientError, OSError) as error:
        raise CommandError(str(error)) from None
    return [transaction for transaction in described if transaction is not None]
