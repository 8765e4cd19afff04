"""Why a partition has another leader or another ISR, for logs and for counters.

A cause is a reason, of which there are few, and the broker that it is about.
"""

from dataclasses import dataclass
from enum import Enum


class Reason(Enum):
    """Named as the label of a metric, with the sentence for a log."""

    GONE = "broker_gone", "broker {broker} is gone"
    SUSPECTED = "broker_suspected", "broker {broker} refuses connections and is taken to be gone"
    STOPPING = "broker_stopping", "broker {broker} is about to stop"
    RESTARTED = "broker_restarted", "broker {broker} was restarted"
    OFFLINE = "directory_offline", "broker {broker} has lost the log directory"
    RETURNED = "broker_returned", "broker {broker} is back"
    PREFERRED = "preferred", "broker {broker} is the preferred leader"
    REQUESTED = "requested", "an operator asked for it"
    REASSIGNED = "reassigned", "the partition was reassigned"
    LATE = "late", "its leader, broker {broker}, finds it late"

    def __init__(self, label: str, sentence: str) -> None:
        self.label = label
        self.sentence = sentence


@dataclass(frozen=True, slots=True)
class Cause:
    reason: Reason
    broker: int = -1

    def __str__(self) -> str:
        return self.reason.sentence.format(broker=self.broker)
