"""What must be known of producers to go on with a log: from their snapshots, and the batches behind these.

A snapshot named N has the state at offset N. What comes after it is replayed: to the end of the log, when it
is opened or cut (`restore_producers`); or through segments whose index of aborted transactions is lost or
makes no sense (`rebuild_transactions`), which need to know who had a transaction open where they begin.
"""

import os.path
from collections.abc import Callable, Iterable, Iterator, Sequence

from ottla.base.errors import ApiError
from ottla.base.files import Files
from ottla.log.index import RELATIVE_OFFSET_MAX
from ottla.log.producer_trail import ProducerTrail
from ottla.log.producers import Producers
from ottla.log.scan import TornError, find_batch
from ottla.log.segment import Segment, file_name
from ottla.log.snapshots import SNAPSHOT, SnapshotError, decode
from ottla.log.transaction_index import TransactionIndex
from ottla.records.batch import BatchHeader

_UNREAD = memoryview(b"")


def restore_producers(
    files: Files,
    directory: str,
    names: Iterable[str],
    segments: list[Segment],
    start: int,
    end: int,
    report: Callable[[str, str, str], None] = lambda _what, _path, _detail: None,
    trail: ProducerTrail | None = None,
) -> tuple[Producers, int]:
    """The producers at `end`, and the offset of the newest snapshot, of those among `names`, that can be
    read; what came after it is replayed, for as far as a `trail` does not know that already."""
    producers, snapshot_at = Producers(), -1
    producers.end_offset = start
    for offset in sorted(snapshot_offsets(names), reverse=True):
        path = os.path.join(directory, file_name(offset, SNAPSHOT))
        if start <= offset <= end:
            try:
                producers, snapshot_at = decode(files.read(path), offset), offset
                break
            except SnapshotError as problem:
                report("removed a producer snapshot", path, str(problem))
        if offset >= start:
            files.remove(path)
    try:
        if trail is None or trail.start is None:
            _replay(producers, segments, end)
        else:
            _replay(producers, segments, min(trail.start, end))
            trail.replay(producers)
    except (TornError, ApiError) as damage:
        # Old damage costs the memory of some producers; that is no reason not to open the log.
        report("could not restore all producers", directory, str(damage))
    producers.end_offset = end
    return producers, snapshot_at


def _replay(producers: Producers, segments: list[Segment], end: int) -> None:
    begin = producers.end_offset
    for at, segment in enumerate(segments):
        if at + 1 < len(segments) and segments[at + 1].base_offset <= begin:
            continue
        if begin < end and segment.size:
            for _, header, view in segment.batches_from(segment.locate(begin)):
                if header.base_offset >= end:
                    return
                producers.replay(header, view)


def snapshot_offsets(names: Iterable[str]) -> list[int]:
    stems = [name.removesuffix(SNAPSHOT) for name in names if name.endswith(SNAPSHOT)]
    return [int(stem) for stem in stems if stem.isdigit()]


def rebuild_transactions(
    files: Files, directory: str, segments: Sequence[Segment], lost: Sequence[Segment]
) -> None:
    """Build the indexes of aborted transactions of `lost` segments anew, in memory. `segments` are all there
    are, from the first on."""
    first, last = lost[0].base_offset, lost[-1].base_offset
    producers = last_snapshot(files, directory, first)
    for at, segment in enumerate(segments):
        is_before = at + 1 < len(segments) and segments[at + 1].base_offset <= producers.end_offset
        if is_before or segment.base_offset > last:
            continue
        index = TransactionIndex()
        for header, view in _ends(segment, producers.end_offset):
            try:
                aborted = producers.replay(header, view)
            except ApiError:
                continue  # a marker that nobody can read ends nothing
            if aborted is not None:
                index.append(aborted)
        if segment in lost:
            segment.set_transactions(index)


def last_snapshot(files: Files, directory: str, offset: int) -> Producers:
    """The producers at the last offset, not after this one, of which there is a snapshot that can be read."""
    for snapshot in sorted(snapshot_offsets(files.list(directory)), reverse=True):
        if snapshot <= offset:
            try:
                return decode(files.read(os.path.join(directory, file_name(snapshot, SNAPSHOT))), snapshot)
            except SnapshotError:
                continue
    return Producers()


def _ends(segment: Segment, start: int) -> Iterator[tuple[BatchHeader, memoryview]]:
    """The headers of a segment's batches from `start` on, with the whole batch if it may end a transaction.
    Damage is passed over: what comes after it counts."""
    position, next_offset = 0, segment.base_offset
    while position < segment.size:
        try:
            for at, header in segment.headers_from(position):
                position, next_offset = at + header.size, header.next_offset
                if header.last_offset >= start:
                    whole = memoryview(segment.read(at, header.size)) if header.is_control else _UNREAD
                    yield header, whole
        except TornError:
            offsets = range(next_offset, segment.base_offset + RELATIVE_OFFSET_MAX)
            sound = find_batch(segment.file, position + 1, segment.size, offsets)
            if sound is None:
                return
            position = sound
