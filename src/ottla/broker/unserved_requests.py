"""APIs and versions that clients asked for and did not get: counted, and logged once for each client.

A client may ask for whatever it likes, under as many names as it likes, so both have a limit. What is asked
for beyond it counts as one; of the clients, those that were logged longest ago are forgotten.
"""

import logging

from ottla.base.log_fields import fields

log = logging.getLogger(__name__)

KINDS_MAX = 100
LOGGED_MAX = 1_000
NAME_MAX = 100  # characters of a client id that are kept and logged: it may have 32,767
OTHERS = ("(others)", "")


class UnservedRequests:
    def __init__(self) -> None:
        self.counts: dict[tuple[str, str], int] = {}  # by API and version
        self._logged: dict[tuple[str, int, int], None] = {}

    def on_asked(self, key: int, version: int, title: str | None, client_id: str, host: str) -> None:
        """`title` None: there is no such API here, in any version."""
        kind = (title or f"API {key}", str(version))
        if kind not in self.counts and len(self.counts) >= KINDS_MAX:
            kind = OTHERS
        self.counts[kind] = self.counts.get(kind, 0) + 1
        client_id = client_id[:NAME_MAX]
        client = (client_id, key, version)
        if client in self._logged:
            return
        if len(self._logged) >= LOGGED_MAX:
            del self._logged[next(iter(self._logged))]
        self._logged[client] = None
        host, api = host.removeprefix("/"), title or f"API {key}"
        log.info(
            "client %r at %s asked for %s v%d, which is not served (docs/reference/apis.md says what is)",
            client_id, host, api, version,
            extra=fields(client=client_id, host=host, api=api, version=version),
        )  # fmt: skip
