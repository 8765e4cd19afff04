"""What connections hold in memory, all together: requests that are not finished, and answers nobody reads.

Over a budget somebody is closed, with a line that says why (`notices`). Of unfinished requests
(`queued.max.request.bytes`) it is who holds most for longest, strangers that have not authenticated before
all others, and other brokers excepted; of answers
(`ottla.unsent.max.bytes`) who has left most unread for longest. What a connection has unsent is counted when
it gets much, and of all of them in every sweep.
"""

from contextlib import suppress

from ottla.broker.allowance import Allowance
from ottla.broker.identities import Identities
from ottla.broker.settings import Settings
from ottla.shell.connection import Connection
from ottla.shell.notices import Notices

TRIM_BYTES = 64 * 1024 * 1024
LINGER_MS = 5_000  # that the last answers of a connection wait for a client which does not read


class Budgets:
    def __init__(
        self,
        settings: Settings,
        identities: Identities,
        allowance: Allowance,
        connections: dict[int, Connection],
    ) -> None:
        self._settings = settings
        self._identities = identities
        self._allowance = allowance
        self._connections = connections
        self.closings = Notices("closed")
        self._held: dict[int, tuple[int, int]] = {}  # bytes, and since when it has held any
        self._given_back = 0  # since memory was last handed back to the system

    @property
    def held_bytes(self) -> int:
        """Of unfinished requests, all together."""
        return self._allowance.held_bytes

    def on_held(self, connection: Connection, now_ms: int) -> None:
        """A connection holds more or less of unfinished requests than before."""
        held = connection.held_bytes
        before, since_ms = self._held.get(connection.number, (0, now_ms))
        if held == before:
            return
        if held:
            self._held[connection.number] = held, since_ms
        else:
            del self._held[connection.number]
        self._count(held - before)
        if held > before:
            self._close_greatest(now_ms)

    def _close_greatest(self, now_ms: int) -> None:
        limit = self._settings.config.queued_request_bytes_max
        if not 0 < limit < self.held_bytes:
            return
        greatest = sorted(
            (number for number in self._held if not self._identities.is_broker(number)),
            key=lambda number: (
                self._connections[number].is_stranger,
                self._held[number][0] * (now_ms - self._held[number][1] + 1),
            ),
        )
        while greatest and limit < self.held_bytes:
            reason = f"unfinished requests hold {self.held_bytes} bytes (queued.max.request.bytes)"
            number = greatest.pop()
            self._count(-self._held.pop(number)[0])
            self._connections[number].close(reason, over_limit=True)

    def forget(self, connection: Connection) -> None:
        self._count(-self._held.pop(connection.number, (0, 0))[0])
        self._given_back += connection.unsent_bytes

    def _count(self, held: int) -> None:
        self._allowance.held_bytes += held
        self._given_back += max(-held, 0)

    def on_unsent(self, now_ms: int) -> None:
        """There is more that clients have not read."""
        limit = self._settings.config.unsent_bytes_max
        if self._allowance.unsent_bytes <= limit:
            return
        readers = [connection for connection in self._connections.values() if connection.unsent_bytes]
        for reader in readers:
            reader.count_unsent(now_ms)
        readers.sort(key=lambda reader: reader.unsent_bytes * (now_ms - reader.unsent_ms + 1))
        while readers and self._allowance.unsent_bytes > limit:
            slowest = readers.pop()
            unread, since_ms = slowest.unsent_bytes, now_ms - slowest.unsent_ms
            slowest.close(
                f"it has left {unread} bytes unread for {since_ms} ms, and clients together "
                f"{self._allowance.unsent_bytes} (ottla.unsent.max.bytes)",
                over_limit=True,
            )
            slowest.count_unsent(now_ms)
            self._given_back += unread

    def sweep(self, now_ms: int) -> None:
        """Count what is too little to be counted as it comes, and hand back what was much."""
        for connection in list(self._connections.values()):
            connection.count_unsent(now_ms)
            if connection.is_closing and now_ms - connection.unsent_ms > LINGER_MS:
                connection.close(f"it has left the last {connection.unsent_bytes} bytes unread")
        self.on_unsent(now_ms)
        self.closings.sweep(now_ms)
        if self._given_back > TRIM_BYTES:
            self._given_back = 0
            _trim()


def _trim() -> None:
    """Have the C library give free memory back to the system. Where it has no such call, it stays."""
    import ctypes  # a start has no use for it

    with suppress(OSError, AttributeError):
        ctypes.CDLL(None).malloc_trim(0)
