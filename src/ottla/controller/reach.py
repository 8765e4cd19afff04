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
    others = [id for id in sorted(image.brokers) if id != broker]
    if len(others) < 2 or any(id not in unreachable or not is_reported(image, broker, id) for id in others):
        return False
    return any(
        not is_reported(image, one, other) and not is_reported(image, other, one)
        for one, other in combinations(others, 2)
    )
