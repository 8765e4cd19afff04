"""The quotas that are set: of clients, which are users with a client id, and of addresses.

Where there are none, a request costs a look at `is_active`, and `usage`, which has the rest, is not loaded.
Other brokers have no quota: replication has a throttle of its own.
"""

from typing import TYPE_CHECKING

from ottla.broker.long_work import Slices
from ottla.broker.settings import Settings
from ottla.controller.image import Image
from ottla.controller.user_nodes import Entity

if TYPE_CHECKING:
    from ottla.broker.usage import Meters, Usage
    from ottla.security.quotas import Rate


class Quotas:
    def __init__(self, settings: Settings, image: Image, slices: Slices) -> None:
        self.is_active = False  # has any client a quota?
        self.limits_addresses = False
        self._settings = settings
        self._image = image
        self._slices = slices
        self._loaded: Meters | None = None

    def load(self) -> None:
        """Take up all quotas that are set."""
        for entity in self._image.entity_configs:
            self.on_changed(entity)

    def on_changed(self, entity: Entity) -> None:
        """Something was set for an entity, or no longer is. What was used so far still counts."""
        self._meters.on_changed(entity)
        self.is_active = self._meters.limits_clients
        self.limits_addresses = self._meters.limits_addresses

    @property
    def _meters(self) -> "Meters":
        if self._loaded is None:
            from ottla.broker.usage import Meters  # most brokers never see a quota

            self._loaded = Meters(self._settings.config, self._image, self._slices)
        return self._loaded

    def usage(self, user: str, client_id: str, now_ms: int) -> "Usage | None":
        """Of a request that has just come. None: there is nothing to count."""
        return self._meters.usage(user, client_id, now_ms)

    def connections_of(self, address: str, now_ms: int) -> "Rate | None":
        """What measures how fast connections come from an address, if there is a limit for it."""
        return self._meters.connections_of(address, now_ms) if self.limits_addresses else None

    def on_tick(self, now_ms: int) -> None:
        if self._loaded is not None:
            self._loaded.on_tick(now_ms)
