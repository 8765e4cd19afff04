"""What recovery saw of producers while it checked a log, so that the log need not be read a second time.

Of a producer's ordinary batches the last few are all that will be remembered anyway, and with which sequence
it began; what belongs to transactions is kept whole. If that becomes too much, there is no trail, and the log
is read again.
"""

from collections import deque

from ottla.log.producers import BATCHES_KEPT, Producers
from ottla.records.batch import BatchHeader

PRODUCERS_NOTED_MAX = 20_000
TRANSACTIONAL_MAX = 50_000


class ProducerTrail:
    """Covers everything from `start` on, if that is not None."""

    __slots__ = ("_first", "_is_lost", "_plain", "_transactional", "start")

    def __init__(self) -> None:
        self.start: int | None = None
        self._is_lost = False
        self._plain: dict[int, deque[BatchHeader]] = {}
        self._first: dict[int, tuple[int, int]] = {}  # the last epoch, and the first sequence in it
        self._transactional: list[tuple[BatchHeader, bytes]] = []

    def note(self, header: BatchHeader, view: memoryview) -> None:
        """The next batch of the log."""
        if self._is_lost:
            return
        if self.start is None:
            self.start = header.base_offset
        if header.producer_id < 0:
            return
        if header.is_control or header.is_transactional:
            self._transactional.append((header, bytes(view) if header.is_control else b""))
            if len(self._transactional) > TRANSACTIONAL_MAX:
                self._lose()
            return
        kept = self._plain.get(header.producer_id)
        if kept is None:
            kept = self._plain[header.producer_id] = deque(maxlen=BATCHES_KEPT)
        if not kept or kept[-1].producer_epoch != header.producer_epoch:
            self._first[header.producer_id] = (header.producer_epoch, header.base_sequence)
        kept.append(header)
        if len(self._plain) > PRODUCERS_NOTED_MAX:
            self._lose()

    def _lose(self) -> None:
        self.start, self._is_lost = None, True
        self._plain, self._first, self._transactional = {}, {}, []

    def replay(self, producers: Producers) -> None:
        """Take `producers`, which have come to `start` or further, to the end."""
        begun = {
            producer_id: first_sequence
            for producer_id, (epoch, first_sequence) in self._first.items()
            if producers.epoch_of(producer_id) != epoch
        }
        plain = [(header, b"") for kept in self._plain.values() for header in kept]
        for header, view in sorted(plain + self._transactional, key=lambda entry: entry[0].base_offset):
            if header.last_offset >= producers.end_offset:  # the log may start in the middle of a batch
                producers.replay(header, memoryview(view))
        for producer_id, first_sequence in begun.items():
            producer = producers.by_id.get(producer_id)
            if producer is not None and producer.epoch == self._first[producer_id][0]:
                producer.is_whole = first_sequence == 0
