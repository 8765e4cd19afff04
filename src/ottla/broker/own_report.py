"""What this broker tells the cluster by way of the keeper, where it cannot say it to whom it concerns: whom
it cannot reach, and what its leaders propose to a controller that does not answer (design note 008).

It is in this broker's node below /brokers/reports, which goes with its session. Most brokers never have one:
it is made when there is something to say, and written when that changes, one write at a time.
"""

from collections.abc import Callable

from ottla.broker.liveness import Liveness
from ottla.broker.outbox import Outbox
from ottla.controller import znodes
from ottla.controller.image import Image
from ottla.controller.keeper import ANY, Check, Create, Operation, Outcome, Put
from ottla.controller.znodes import Proposed, Report


class OwnReport:
    """The write is refused in a session in which this broker is not registered, and says which incarnation it
    is from: a node of an earlier session is nothing to anybody. `unanswered` is what was proposed in vain."""

    def __init__(
        self,
        broker_id: int,
        image: Image,
        liveness: Liveness,
        unanswered: Callable[[int], tuple[Proposed, ...]],
        outbox: Outbox,
    ) -> None:
        self._broker_id = broker_id
        self._image = image
        self._liveness = liveness
        self._unanswered = unanswered
        self._outbox = outbox
        self._is_sent = False

    def pump(self, now_ms: int) -> None:
        image, own_id = self._image, self._broker_id
        epoch = image.epoch_of(own_id)
        if self._is_sent or epoch <= 0:
            return
        said = image.reports.get(own_id)
        report = Report(epoch, self._liveness.unreachable(now_ms), self._unanswered(now_ms))
        if report == said or (said is None and report == Report(epoch)):
            return
        path, node = znodes.REPORTS + str(own_id), znodes.report_node(report)
        told: Operation = Create(path, node, ephemeral=True) if said is None else Put(path, node, ANY)
        self._is_sent = True
        self._outbox.write([Check(znodes.BROKERS + str(own_id), ANY), told], self._on_outcome)

    def _on_outcome(self, _outcome: Outcome, _now_ms: int) -> None:
        """Whatever came of it, the image shows; the next tick tries again if need be."""
        self._is_sent = False
