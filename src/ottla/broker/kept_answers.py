"""Answers that hold until the image changes, encoded: whoever asks the same as somebody before gets the same.
And topics, which hold for longer: of a large cluster little changes at a time, and the next answer is joined
of what is as it was.

A key of an answer says who asks on which listener, and for what, to the byte. That of a topic says what its
bytes depend on besides the image: the version, the listener, and what whoever asks may do with it.

A topic that is kept holds while neither it nor any broker has changed. What only this broker knows is in
nothing that is kept, and nothing is kept or given while there is such: a replica of its own that is lost with
its directory, leadership in doubt.
"""

from collections.abc import Hashable, Mapping
from typing import TypeAlias

from ottla.base.ids import TopicPartition
from ottla.broker.leadership_proofs import Proofs
from ottla.controller.image import Image, Topic
from ottla.wire.lazy import Encoded

KEPT_ANSWERS_MAX = 256
KEPT_ANSWERS_BYTES_MAX = 32 * 1024 * 1024
KEPT_TOPICS_BYTES_MAX = 32 * 1024 * 1024
ENTRY_BYTES = 512  # that an entry takes besides its body

KeptAnswers: TypeAlias = dict[tuple[Hashable, ...], Encoded]
Basis: TypeAlias = tuple[int, int, int]  # revisions of topic and brokers, doubts: it never comes again


def keep_answer(
    answers: KeptAnswers, proofs: Proofs, key: tuple[Hashable, ...], doubts: int, answer: Encoded
) -> None:
    """For whoever asks the same, until the image changes: `answers` is then no longer the broker's. Nothing
    is kept that was made while this broker waited for proof, or was in doubt, that it leads."""
    if proofs.is_awaited or proofs.doubts != doubts:
        return
    kept_bytes = sum(len(kept.body) for kept in answers.values())
    if len(answers) >= KEPT_ANSWERS_MAX or kept_bytes + len(answer.body) > KEPT_ANSWERS_BYTES_MAX:
        answers.clear()
    answers[key] = answer


class KeptTopics:
    def __init__(self, image: Image, lost: Mapping[TopicPartition, str], proofs: Proofs) -> None:
        self._image = image
        self._lost = lost
        self._proofs = proofs
        self._kept: dict[tuple[str, Hashable], tuple[Basis, Encoded]] = {}
        self._bytes = 0

    def __len__(self) -> int:
        return len(self._kept)

    def basis(self, topic: Topic) -> Basis | None:
        """What a description of this topic rests on. None: on something that only this broker knows."""
        if self._lost or self._proofs.in_doubt:
            return None
        return topic.revision, self._image.brokers_revision, self._proofs.doubts

    def get(self, topic: Topic, key: Hashable) -> Encoded | None:
        kept = self._kept.get((topic.name, key))
        return kept[1] if kept is not None and kept[0] == self.basis(topic) else None

    def put(self, topic: Topic, key: Hashable, basis: Basis | None, encoded: Encoded) -> None:
        """`basis`: as it was when `encoded` was begun. What has changed meanwhile may be in half of it."""
        if basis is None or basis != self.basis(topic):
            return
        before = self._kept.pop((topic.name, key), None)
        self._bytes += _size(encoded) - (_size(before[1]) if before is not None else 0)
        if self._bytes <= KEPT_TOPICS_BYTES_MAX:
            self._kept[topic.name, key] = basis, encoded
        else:
            self._kept.clear()
            self._bytes = 0


def _size(encoded: Encoded) -> int:
    return len(encoded.body) + ENTRY_BYTES
