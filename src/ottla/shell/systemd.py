"""What systemd is told of a service that it started with Type=notify: ready, stopping, still alive.

It names a socket in $NOTIFY_SOCKET, and in $WATCHDOG_USEC how often it wants to hear from us; without a sign
of life for so long it kills the process. A sign is given by the loop, twice in that time, from the very
beginning: a loop that does not turn gives none. Without a socket nobody wants to hear anything.
"""

import asyncio
import logging
import os
import socket
from collections.abc import Mapping

log = logging.getLogger(__name__)

ADDRESS, WATCHDOG_US, WATCHDOG_PID = "NOTIFY_SOCKET", "WATCHDOG_USEC", "WATCHDOG_PID"


class Systemd:
    def __init__(self, environment: Mapping[str, str]) -> None:
        address = environment.get(ADDRESS, "")
        # One that begins with @ is in no folder (an abstract socket); the kernel wants a zero there.
        self._address = f"\0{address[1:]}" if address.startswith("@") else address
        self._interval_s = _watchdog_s(environment) / 2
        self._timer: asyncio.TimerHandle | None = None

    def on_begun(self) -> None:
        """From now on there are signs of life, if they are wanted."""
        if self._address and self._interval_s:
            self._tell("WATCHDOG=1")
            self._timer = asyncio.get_running_loop().call_later(self._interval_s, self.on_begun)

    def on_ready(self, status: str) -> None:
        self._tell(f"READY=1\nSTATUS={status}")

    def on_stopping(self) -> None:
        """Nothing more is wanted of the watchdog then: to close logs may keep the loop busy."""
        self._tell("STOPPING=1")
        if self._timer is not None:
            self._timer.cancel()

    def _tell(self, state: str) -> None:
        if not self._address:
            return
        try:
            with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM | socket.SOCK_NONBLOCK) as channel:
                channel.sendto(state.encode(), self._address)
        except OSError as error:
            log.warning("systemd cannot be told %s: %s", state.partition("\n")[0], error)


def _watchdog_s(environment: Mapping[str, str]) -> float:
    """0: no signs of life are wanted, or not from this process."""
    interval_us = environment.get(WATCHDOG_US, "")
    is_for_us = environment.get(WATCHDOG_PID, str(os.getpid())) == str(os.getpid())
    return int(interval_us) / 1e6 if is_for_us and interval_us.isdecimal() else 0.0
