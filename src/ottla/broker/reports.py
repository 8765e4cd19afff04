"""What this broker tells the cluster by way of the keeper, where it cannot say it to whom it concerns: whom
it cannot reach, and what its leaders propose to a controller that does not answer (design note 008).

It is in this broker's node below /brokers/reports, which goes with its session. Most brokers never have one:
it is made when there is something to say, and written when that changes, one write at a time.
"""

from dataclasses import dataclass
from typing import TYPE_CHECKING

from ottla.controller import znodes
from ottla.controller.keeper import ANY, Check, Create, Operation, Outcome, Put
from ottla.controller.znodes import Report

if TYPE_CHECKING:
    from ottla.broker.broker import Broker


@dataclass(slots=True)
class OwnReport:
    """The write is refused in a session in which this broker is not registered, and says which incarnation it
    is from: a node of an earlier session is nothing to anybody."""

    broker: "Broker"
    is_sent: bool = False

    def pump(self, now_ms: int) -> None:
        broker = self.broker
        if self.is_sent or broker.epoch <= 0:
            return
        said = broker.image.reports.get(broker.id)
        report = Report(broker.epoch, broker.liveness.unreachable(now_ms), broker.isr.unanswered(now_ms))
        if report == said or (said is None and report == Report(broker.epoch)):
            return
        path, node = znodes.REPORTS + str(broker.id), znodes.report_node(report)
        told: Operation = Create(path, node, ephemeral=True) if said is None else Put(path, node, ANY)
        self.is_sent = True
        broker.write([Check(znodes.BROKERS + str(broker.id), ANY), told], self._on_outcome)

    def _on_outcome(self, _outcome: Outcome, _now_ms: int) -> None:
        """Whatever came of it, the image shows; the next tick tries again if need be."""
        self.is_sent = False
