"""Whether brokers have nothing left of transactions that is open, half done or pending, and replicas agree on
what they know of producers: looked at from outside, when the faults are over."""

from tests.sim.invariants import Invariants


def unsettled_brokers(invariants: Invariants, group: str) -> str | None:
    return None
