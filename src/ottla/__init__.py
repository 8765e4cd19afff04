"""Ottla: a Kafka-compatible distributed log in Python. Every Kafka client talks to it unchanged.

`from ottla import Broker` gives a real broker inside the process, `from ottla import Cluster` several that
replicate to each other; they are loaded when first asked for, so that importing the package costs next to
nothing.
"""

from typing import TYPE_CHECKING, Any

from ottla.base.version import VERSION

if TYPE_CHECKING:
    from ottla.testing.cluster import Cluster
    from ottla.testing.embedded import Broker

__all__ = ["Broker", "Cluster", "__version__"]
__version__ = VERSION


def __getattr__(name: str) -> Any:
    if name == "Broker":
        from ottla.testing.embedded import Broker

        return Broker
    if name == "Cluster":
        from ottla.testing.cluster import Cluster

        return Cluster
    raise AttributeError(f"module 'ottla' has no attribute {name!r}")
