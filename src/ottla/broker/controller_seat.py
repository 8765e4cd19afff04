"""The controller's seat: who takes it, who leaves it. Every broker has one of these; one at a time has the
seat.

Rules
- The seat is taken when it is free, or its holder is suspected to be gone, in one write with the controller's
  next epoch, and left when the image says that somebody else has it. Nothing is assumed about being alone:
  every write of a controller checks the epoch (`controller_writes`).
- Nobody takes the seat twice from the same incarnation, nor back from one who took it, unless that one has
  answered since: so brokers that cannot reach each other do not pass it around for ever.
- A controller that is cut off from all the others leaves the seat to them (design note 008).
"""

import logging
from collections.abc import Callable
from functools import partial

from ottla.base.log_fields import fields
from ottla.broker.departure import Departure
from ottla.broker.liveness import Liveness
from ottla.broker.outbox import Outbox
from ottla.controller.image import Image
from ottla.controller.keeper import Outcome, Written
from ottla.controller.reachability import is_cut_off
from ottla.controller.registration import candidacy, resignation
from ottla.controller.znodes import UNKNOWN_EPOCH

log = logging.getLogger(__name__)


class Seat:
    """`on_taken` is called with the time when this broker has taken it."""

    def __init__(
        self,
        broker_id: int,
        image: Image,
        liveness: Liveness,
        departure: Departure,
        outbox: Outbox,
        on_taken: Callable[[int], None],
    ) -> None:
        self._broker_id = broker_id
        self._image = image
        self._liveness = liveness
        self._departure = departure
        self._outbox = outbox
        self._on_taken = on_taken
        self._is_seeking = False
        self._is_leaving = False
        self._had_it = False
        self._spared: dict[int, tuple[int, int]] = {}  # whose seat is not taken: epoch, and since when

    @property
    def is_active(self) -> bool:
        """Does this broker have the seat, as far as it knows?"""
        return self._image.controller_id == self._broker_id and self._broker_id in self._image.brokers

    def on_changes(self, now_ms: int) -> None:
        if self._had_it and self._broker_id in self._image.brokers and self._image.controller_id >= 0:
            self._spare(self._image.controller_id, now_ms)  # it could not reach us, and took the seat
        self._had_it = self.is_active
        self.seek(now_ms)

    def on_tick(self, now_ms: int) -> None:
        self._leave(now_ms)
        self.seek(now_ms)

    def seek(self, now_ms: int) -> None:
        image = self._image
        if self._is_seeking or self._broker_id not in image.brokers or not self._may_be_taken():
            return
        if self._departure.is_stopping and self._departure.others_stay:
            return
        if is_cut_off(image, self._broker_id, self._liveness.unreachable(now_ms)):
            return
        self._is_seeking = True
        self._outbox.write(candidacy(image, self._broker_id), partial(self._on_outcome, image.controller_id))

    def _may_be_taken(self) -> bool:
        """Is the seat free, or its holder suspected? Not while the two nodes of it are not of one time."""
        image, holder = self._image, self._image.controller_id
        if holder < 0:
            return True
        is_suspected = holder in self._liveness.suspected
        if not is_suspected or image.seat_epoch not in {UNKNOWN_EPOCH, image.controller_epoch}:
            return False
        peer, (epoch, since_ms) = self._liveness.peers[holder], self._spared.get(holder, (-1, 0))
        return peer.epoch != epoch or peer.answered_ms > since_ms

    def _spare(self, holder: int, now_ms: int) -> None:
        endpoint = self._image.brokers.get(holder)
        if endpoint is not None and holder != self._broker_id:
            self._spared[holder] = (endpoint.epoch, now_ms)

    def _on_outcome(self, holder: int, outcome: Outcome, now_ms: int) -> None:
        """Refused: somebody was faster, or the image is behind; both will show in it."""
        self._is_seeking = False
        if isinstance(outcome, Written):
            self._spare(holder, now_ms)
            epoch = self._image.controller_epoch
            extra = fields(epoch=epoch)
            log.info("broker %d is the controller in epoch %d", self._broker_id, epoch, extra=extra)
            self.seek(now_ms)
            self._on_taken(now_ms)

    def _leave(self, now_ms: int) -> None:
        unreachable = self._liveness.unreachable(now_ms) if self.is_active else {}
        if not unreachable or self._is_leaving or not is_cut_off(self._image, self._broker_id, unreachable):
            return
        log.warning(
            "broker %d reaches no other broker, and leaves the controller's seat to them", self._broker_id
        )
        self._is_leaving = True
        self._outbox.write(resignation(self._image), self._on_left)

    def _on_left(self, _outcome: Outcome, _now_ms: int) -> None:
        """Whatever came of it, the image shows; the next tick tries again if need be."""
        self._is_leaving = False
