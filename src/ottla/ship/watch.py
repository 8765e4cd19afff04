"""The files a shipper follows, found by name and known by inode: renamed, copied and cut, removed, replaced.

    renamed, a new one in its place   both are followed; the old one until it has been still for STILL_S
    renamed, and nothing new          followed until it has been still for ALONE_S
    cut (copytruncate)                the rest is looked for in a copy beside it, then the file begins anew
    removed                           read for STILL_S more: the open descriptor still has it
    back after a restart              found by inode, in its folder if its name has changed

A name is only where a file was first seen: its records keep it when the file is renamed.
"""

import fnmatch
import glob
import os
import stat
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from typing import NamedTuple

from ottla.base.command_error import USAGE, CommandError
from ottla.ship.files import Followed, fingerprint, is_beginning_of
from ottla.ship.state import Position

COMPRESSED = (".gz", ".bz2", ".xz", ".zst", ".zip")
STILL_S = 60.0  # a writer may go on with a renamed file until it is told to open the new one
ALONE_S = 3600.0  # not for ever: each file that is followed takes a descriptor
COPY_S = 2.0

Identity = tuple[int, int]


class Sent(NamedTuple):
    """The last record of a file that the topic has."""

    path: str
    offset: int
    next: int
    value: bytes

    @property
    def is_inside_after(self) -> bool:
        return self.next == self.offset + len(self.value)


@dataclass(slots=True)
class Watch:
    """`sent` is what the topic has of files, by the name in its headers. `remarks` are for the person."""

    patterns: list[str]
    sent: dict[str, Sent] = field(default_factory=dict)
    files: dict[Identity, Followed] = field(default_factory=dict)
    generations: dict[Identity, int] = field(default_factory=dict)
    waiting: dict[Identity, tuple[int, float]] = field(default_factory=dict)
    remarks: list[str] = field(default_factory=list)

    def resume(self, positions: Iterable[Position]) -> None:
        """Take up files of an earlier run, wherever they are now, and however much more of them has gone."""
        saved: dict[Identity, int] = {}  # the generation that the state knows
        for position in positions:
            identity = (position.device, position.inode)
            saved[identity] = position.generation
            self._note(position)
            descriptor = _found(position.path, identity)
            if descriptor is None:
                self._look_for_copy(position)
            elif (file := Followed(position, descriptor)).is_same():
                self._catch_up(position, descriptor)
                self.files[identity] = file
            else:
                self._look_for_copy(position)
                os.close(descriptor)
        for name, sent in sorted(self.sent.items()):
            device, inode, generation = map(int, name.split("-"))
            position = Position(sent.path, device, inode, generation)
            self._note(position)
            descriptor = None if (device, inode) in self.files else _found(sent.path, (device, inode))
            if descriptor is not None and self._catch_up(position, descriptor):
                self.files[device, inode] = Followed(position, descriptor)
            elif descriptor is not None:
                os.close(descriptor)
                if generation > saved.get((device, inode), -1):
                    self._look_for_sent(position, sent)

    def scan(self, now_s: float) -> None:
        """Find new files, and see what became of the others."""
        names = dict(self._matching())
        for path, identity in names.items():
            if identity not in self.files:
                self._begin(path, identity, now_s)
        there = set(names.values())
        for file in list(self.files.values()):
            if not file.is_same():
                self._begin_anew(file)
            file.is_gone = (file.position.device, file.position.inode) not in there
            file.is_replaced = file.is_gone and file.position.path in names

    def finished(self, now_s: float) -> list[Followed]:
        """Files without a name of ours that nobody has written to, or renamed, for a while."""
        return [file for file in self.files.values() if file.is_gone and _is_over(file, now_s)]

    def positions(self) -> list[Position]:
        for file in self.files.values():
            file.position.print = file.fingerprint()
        return [file.position for file in self.files.values()]

    def forget(self, file: Followed) -> None:
        """Its descriptor is closed. A file with a name of its own is kept in mind, or it would go again."""
        file.close()
        del self.files[file.position.device, file.position.inode]

    def close(self) -> None:
        for file in self.files.values():
            file.close()

    def is_matching(self) -> bool:
        return any(True for _ in self._matching())

    def is_meant(self, position: Position) -> bool:
        """Whether a file that was there once had one of the names."""
        return any(fnmatch.fnmatch(position.path, os.path.abspath(pattern)) for pattern in self.patterns)

    def check(self) -> None:
        """CommandError: a name is that of a folder."""
        for pattern in self.patterns:
            if os.path.isdir(pattern):
                files = os.path.join(pattern, "*.log")
                raise CommandError(f"{pattern} is a directory; name its files, such as '{files}'", USAGE)

    def _matching(self) -> Iterator[tuple[str, Identity]]:
        for pattern in self.patterns:
            paths = [pattern]
            if glob.has_magic(pattern):  # what logrotate has compressed is meant by no pattern
                paths = sorted(glob.glob(pattern, recursive=True))
                paths = [path for path in paths if not path.endswith(COMPRESSED)]
            for path in paths:
                try:
                    status = os.stat(path)
                except OSError:
                    continue
                if stat.S_ISREG(status.st_mode):
                    yield os.path.abspath(path), (status.st_dev, status.st_ino)

    def _note(self, position: Position) -> None:
        """A file of this inode that begins anew is the next generation."""
        identity = (position.device, position.inode)
        self.generations[identity] = max(self.generations.get(identity, 0), position.generation + 1)

    def _fresh(self, path: str, identity: Identity) -> Position:
        position = Position(path, *identity, self.generations.get(identity, 0))
        self._note(position)
        return position

    def _begin(self, path: str, identity: Identity, now_s: float) -> None:
        descriptor = _opened(path, identity)
        if descriptor is None:
            return
        size, position = os.fstat(descriptor).st_size, self._fresh(path, identity)
        for other in self.files.values():
            offset = other.position.offset
            fingerprint_before = other.position.print or other.fingerprint()
            if offset and size >= offset and fingerprint(descriptor, offset) == fingerprint_before:
                position.offset, position.is_inside, position.print = (
                    offset,
                    other.position.is_inside,
                    fingerprint_before,
                )
                break
            if size < offset and is_beginning_of(descriptor, size, other.descriptor):
                before, since_s = self.waiting.get(identity, (-1, now_s))
                self.waiting[identity] = (size, now_s if size != before else since_s)
                if size != before or now_s - since_s < COPY_S:
                    os.close(descriptor)
                    return
        self.waiting.pop(identity, None)
        self.files[identity] = Followed(position, descriptor)

    def _begin_anew(self, file: Followed) -> None:
        """What has been read is not there any more: the file was cut."""
        before = file.position
        self._look_for_copy(before)
        file.position = self._fresh(before.path, (before.device, before.inode))

    def _catch_up(self, position: Position, descriptor: int, name: str | None = None) -> bool:
        """Go on behind what the topic has of this file, if the file still has it too."""
        sent = self.sent.get(name or position.file)
        if sent is None or sent.next <= position.offset:
            return False
        if os.fstat(descriptor).st_size < sent.next:
            return False
        if os.pread(descriptor, len(sent.value), sent.offset) != sent.value:
            return False
        position.offset, position.is_inside = sent.next, sent.is_inside_after
        position.print = fingerprint(descriptor, sent.next)
        return True

    def _look_for_sent(self, position: Position, sent: Sent) -> None:
        """The rest of a file that was cut before it was ever in the state: in a copy beside it that has the
        last record which the topic has, at its place. Of several the newest."""
        copies = []
        for path in _beside(position.path):
            descriptor = _opened(path) if path.startswith(position.path) and sent.value else None
            if descriptor is None:
                continue
            status = os.fstat(descriptor)
            identity = (status.st_dev, status.st_ino)
            rest = Position(position.path, *identity, self.generations.get(identity, 0))
            if identity in self.files or not self._catch_up(rest, descriptor, position.file):
                os.close(descriptor)
            else:
                copies.append((status.st_mtime_ns, descriptor, identity, rest))
        copies.sort()
        for _, descriptor, _, _ in copies[:-1]:
            os.close(descriptor)
        for _, descriptor, identity, rest in copies[-1:]:
            self._note(rest)
            self._catch_up(rest, descriptor)
            self.files[identity] = Followed(rest, descriptor)

    def _look_for_copy(self, position: Position) -> None:
        """The rest of a file that was cut, or that is not there any more, in a copy beside it."""
        if not position.offset:
            return
        for path in _beside(position.path):
            descriptor = _opened(path)
            if descriptor is None:
                continue
            status = os.fstat(descriptor)
            identity = (status.st_dev, status.st_ino)
            is_copy = bool(position.print) and fingerprint(descriptor, position.offset) == position.print
            if is_copy and identity not in self.files:
                rest = self._fresh(position.path, identity)
                rest.offset, rest.is_inside, rest.print = position.offset, position.is_inside, position.print
                self._catch_up(rest, descriptor, position.file)
                self._catch_up(rest, descriptor, f"{status.st_dev}-{status.st_ino}-{rest.generation}")
                self.files[identity] = Followed(rest, descriptor)
                return
            os.close(descriptor)
            if is_copy:
                return  # it is followed already
        self.remarks.append(f"{position.path}: what came after byte {position.offset} is not there any more")


def _is_over(file: Followed, now_s: float) -> bool:
    """Renaming and removing change the file's status: a log that was quiet before is waited for as well."""
    status = file.stat()
    still_s = now_s - max(status.st_mtime, status.st_ctime)
    is_final = file.is_replaced or not status.st_nlink
    return still_s >= (STILL_S if is_final else ALONE_S)


def _found(path: str, identity: Identity) -> int | None:
    """A file under its name, or under another one in the same folder."""
    for candidate in (path, *_beside(path)):
        descriptor = _opened(candidate, identity)
        if descriptor is not None:
            return descriptor
    return None


def _beside(path: str) -> list[str]:
    """The files in the same folder, those with a longer form of the name first."""
    folder, name = os.path.split(path)
    try:
        names = [entry.name for entry in os.scandir(folder or ".") if entry.is_file()]
    except OSError:
        return []
    names.sort(key=lambda other: (not other.startswith(name), other))
    return [os.path.join(folder, other) for other in names]


def _opened(path: str, identity: Identity | None = None) -> int | None:
    """A regular file that can be read, if it is the one that is meant."""
    try:
        descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC | os.O_NONBLOCK)
    except OSError:
        return None
    status = os.fstat(descriptor)
    if stat.S_ISREG(status.st_mode) and identity in (None, (status.st_dev, status.st_ino)):
        return descriptor
    os.close(descriptor)
    return None
