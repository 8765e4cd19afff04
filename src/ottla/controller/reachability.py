"""Who reaches whom, by what brokers report of each other in the keeper: pure functions of the image.

A report says whom a broker has not reached for a while. Whoever says nothing of another reaches it, as far as
is known. (Design note 008.)
"""

from collections.abc import Collection
from itertools import combinations

from ottla.controller.image import Image


def is_reported(image: Image, broker: int, by: int) -> bool:
    """Does one broker say that it cannot reach this incarnation of another?"""
    report = image.report(by)
    return report is not None and report.unreachable.get(broker) == image.brokers[broker].epoch


def is_cut_off(image: Image, broker: int, unreachable: Collection[int]) -> bool:
    """Is this broker, which itself does not reach these, apart from all others, and are they better off
    without it? It takes two others who reach each other: of two brokers alone, neither is known to be."""
    others = [peer for peer in sorted(image.brokers) if peer != broker]
    if len(others) < 2 or any(
        peer not in unreachable or not is_reported(image, broker, peer) for peer in others
    ):
        return False
    return any(
        not is_reported(image, first, second) and not is_reported(image, second, first)
        for first, second in combinations(others, 2)
    )
