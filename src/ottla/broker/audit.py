"""The audit log: who did which administrative thing, and what was refused to whom. One line of JSON each, in
the logger `ottla.audit`.

    {"at": "access", "principal": "User:alice", "host": "10.0.0.1", "listener": "CLIENTS", "client": "cli",
     "api": "CreateTopics", "on": {"topics.name": ["orders"]}, "allowed": false,
     "checks": [["CREATE", "TOPIC", "orders", false]]}

Every administrative request has a line, at INFO, whether it was allowed or not. A refusal of any other
request has one as well, but so many in a second at most: a consumer that may not read tries again at once.
How many were left out is in the next line. JSON escapes what a client may have put into a name, so that a
line stays a line. Values of settings and credentials are in none. Where all lines are JSON, these are the
fields of the line.
"""

import json
import logging
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, TypeAlias

from ottla.base.log_fields import UNLIMITED, fields
from ottla.security.principals import Principal
from ottla.security.resources import Operation, ResourceType

LOGGER = "ottla.audit"
log = logging.getLogger(LOGGER)

REFUSALS_PER_SECOND = 10
CHECKS_MAX = 100  # in one line
NAME_MAX = 300  # characters
SECOND_MS = 1_000

Check: TypeAlias = tuple[Operation, ResourceType, str, bool]


@dataclass(frozen=True, slots=True)
class Asker:
    principal: Principal
    host: str
    listener: str
    client_id: str
    api: str


class Audit:
    def __init__(self) -> None:
        self._second_ms = 0
        self._written = 0
        self._left_out = 0

    def on_administration(
        self, asker: Asker, targets: Mapping[str, Sequence[str]], checks: Sequence[Check]
    ) -> None:
        if log.isEnabledFor(logging.INFO):
            on = {path: [name[:NAME_MAX] for name in names[:CHECKS_MAX]] for path, names in targets.items()}
            self._write(asker, checks, on=on)

    def on_refusal(self, asker: Asker, check: Check, now_ms: int) -> None:
        if not log.isEnabledFor(logging.INFO):
            return
        if now_ms - self._second_ms >= SECOND_MS:
            self._second_ms, self._written = now_ms, 0
        if self._written >= REFUSALS_PER_SECOND:
            self._left_out += 1
            return
        self._written += 1
        left_out, self._left_out = self._left_out, 0
        self._write(asker, [check], **({"left_out": left_out} if left_out else {}))

    def _write(self, asker: Asker, checks: Sequence[Check], **more: Any) -> None:
        if len(checks) > CHECKS_MAX:
            more["more_checks"] = len(checks) - CHECKS_MAX
        line = {
            "at": "access",
            "principal": str(asker.principal)[:NAME_MAX],
            "host": asker.host,
            "listener": asker.listener,
            "client": asker.client_id[:NAME_MAX],
            "api": asker.api,
            **more,
            "allowed": all(is_allowed for *_, is_allowed in checks),
            "checks": [
                (operation.name, resource_type.name, name[:NAME_MAX], is_allowed)
                for operation, resource_type, name, is_allowed in checks[:CHECKS_MAX]
            ],
        }
        sentence = (
            f"{line['principal']} asked for {asker.api}, which is {'' if line['allowed'] else 'not '}allowed"
        )
        log.info(
            "%s",
            json.dumps(line, ensure_ascii=True),
            extra={"sentence": sentence} | fields(**line) | UNLIMITED,
        )
