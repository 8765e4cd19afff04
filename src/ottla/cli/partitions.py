"""Partitions as people write them: TOPIC for all of a topic, TOPIC:0,2 for some, and back again."""

from collections.abc import Iterable, Mapping
from itertools import groupby

from ottla.base.command_error import USAGE, CommandError

Chosen = dict[str, set[int] | None]  # None is the whole topic


def parse_partitions(given: Iterable[str], option: str) -> Chosen:
    chosen: Chosen = {}
    for text in given:
        topic, colon, numbers = text.partition(":")
        parts = [part.strip() for part in numbers.split(",")] if colon else []
        if not topic or not all(part.isascii() and part.isdigit() for part in parts):
            raise CommandError(f"{option} takes TOPIC or TOPIC:0,2, not {text!r}", USAGE)
        before = chosen.get(topic, set())
        chosen[topic] = before | set(map(int, parts)) if parts and before is not None else None
    return chosen


def is_chosen(chosen: Mapping[str, set[int] | None], topic: str, partition: int) -> bool:
    if topic not in chosen:
        return False
    wanted = chosen[topic]
    return wanted is None or partition in wanted


def show_partitions(topic_partitions: Iterable[tuple[str, int]]) -> str:
    topics = groupby(sorted(topic_partitions), key=lambda topic_partition: topic_partition[0])
    return " ".join(
        f"{topic}:{','.join(str(number) for _, number in partitions)}" for topic, partitions in topics
    )
