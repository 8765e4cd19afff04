"""A disk in memory that can crash: the `Files` port for tests and for the simulator.

Every file has its content (the page cache) and what a sync made durable of it; every folder likewise has
names that are there, and names that a sync of the folder made durable. `crash` throws away what was not
durable, as much of it as the test wants:

    crash()                        kill -9: the page cache survives, open files are dead
    crash(keep=power_loss)         only synced bytes and synced names survive
    crash(keep=lambda path, synced, size: n)   the first n bytes of each file survive: a torn write
    crash(keep=power_loss, names=which)   of the changes of names that no sync covered, those survive that
                                          `which(number, count)` picks: a disk may write them in any order

`fail` plants an `OSError` in an operation, `break_down` in all on a folder, `crash_after` stops the machine
between two operations. Time of modification
is `now_ms`, which the test sets.

`drop_caches` empties the page cache: whoever opens or reads a file then waits for the disk, which `waits`
tells; until somebody has warmed it. What is written stays in memory.
"""

import os
import os.path
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field

from ottla.base.files import FOLDER, Buffer, Bytes, File, Syncable

PAGE_BYTES = 64
INODE = -1  # what is needed to open a file, among its pages

Keep = Callable[[str, int, int], int]


class Crashed(BaseException):
    """The machine stopped here; nothing in the code under test may catch this."""


def page_cache(path: str, synced: int, size: int) -> int:
    return size


def power_loss(path: str, synced: int, size: int) -> int:
    return synced


@dataclass(eq=False)
class Node:
    data: bytearray = field(default_factory=bytearray)
    synced: int = 0
    modified_ms: int = 0
    cold: set[int] = field(default_factory=set)  # pages that are not in memory

    def pages(self, at: int, count: int) -> range:
        return range(at // PAGE_BYTES, -(-min(at + count, len(self.data)) // PAGE_BYTES))


class SimFile:
    def __init__(self, disk: "SimDisk", path: str, node: Node) -> None:
        self.disk = disk
        self.path = path
        self.node = node
        self.generation = disk.generation
        self.closed = False

    @property
    def size(self) -> int:
        return len(self.node.data)

    def append(self, data: Buffer) -> None:
        self._use("append")
        self.node.data += data
        self.node.modified_ms = self.disk.now_ms

    def read(self, at: int, count: int) -> bytes:
        self._use("read")
        self.disk.reads += 1
        self.disk.touch(self.path, self.node, self.node.pages(at, count))
        return bytes(self.node.data[at : at + count])

    def read_now(self, at: int, count: int) -> Bytes | None:
        if not self.node.cold.isdisjoint(self.node.pages(at, count)):
            self._use("read")
            return None
        return bytearray(self.read(at, count))

    def truncate(self, size: int) -> None:
        self._use("truncate")
        del self.node.data[size:]
        self.node.data += bytes(size - len(self.node.data))
        self.node.synced = min(self.node.synced, size)

    def sync(self) -> None:
        self._use("sync")
        self.disk.syncs.append(self.path)
        self.node.synced = len(self.node.data)

    def rename(self, path: str) -> None:
        self._use("rename")
        self.disk.rename(self.path, path)
        self.path = path

    def close(self) -> None:
        assert not self.closed, f"{self.path} closed twice"
        self.closed = True
        self.disk.open_files.remove(self)

    def _use(self, operation: str) -> None:
        assert not self.closed, f"{operation} on {self.path}, which is closed"
        assert self.generation == self.disk.generation, f"{operation} on {self.path} from before the crash"
        self.disk.check(operation, self.path)


class SimPath:
    def __init__(self, disk: "SimDisk", path: str) -> None:
        self.disk = disk
        self.path = path

    def sync(self) -> None:
        self.disk.check("sync", self.path)
        self.disk.syncs.append(self.path)
        if self.path in self.disk.nodes:
            node = self.disk.nodes[self.path]
            node.synced = len(node.data)
        self.disk.sync_names(self.path)


class SimDisk:
    def __init__(self) -> None:
        self.nodes: dict[str, Node] = {}
        self.durable: dict[str, Node] = {}
        self.folders: set[str] = set()
        self.open_files: list[SimFile] = []
        self.syncs: list[str] = []
        self.reads = 0
        self.waits: list[str] = []  # for the disk, by whoever did not ask first
        self.now_ms = 0
        self.generation = 0
        self._failures: list[tuple[str, str, OSError]] = []
        self._broken: dict[str, int] = {}
        self._changes_left: int | None = None
        self.unsynced_names: list[tuple[str, str | None, Node]] = []  # from, to (None: removed), what

    # Faults

    def crash(self, keep: Keep = page_cache, names: Callable[[int, int], bool] | None = None) -> None:
        """Stop the machine, or only the process; what survives is what `keep` leaves."""
        if keep is power_loss:
            self.nodes = dict(self.durable)
            for number, change in enumerate(self.unsynced_names):
                if names is not None and names(number, len(self.unsynced_names)):
                    self._replay(*change)
        for path, node in self.nodes.items():
            del node.data[keep(path, node.synced, len(node.data)) :]
            node.synced = len(node.data)
        self.durable = dict(self.nodes)
        self.unsynced_names.clear()
        self._changes_left = None
        self.open_files.clear()
        self.generation += 1

    def _replay(self, path: str, new: str | None, node: Node) -> None:
        if path in self.nodes:
            del self.nodes[path]
        if new is not None:
            self.nodes[new] = node

    def fail(self, operation: str, error: int, path: str = "") -> None:
        """Let the next `operation` on a path that contains `path` fail with an errno."""
        self._failures.append((operation, path, OSError(error, os.strerror(error))))

    def break_down(self, folder: str, error: int) -> None:
        """Let everything in a folder fail until `repair`, except that files can be closed."""
        self._broken[folder] = error

    def repair(self) -> None:
        self._broken.clear()

    def crash_after(self, changes: int | None) -> None:
        """Let that many more operations change the disk; the next one is where the machine stops."""
        self._changes_left = changes

    def check(self, operation: str, path: str) -> None:
        if self._changes_left is not None and operation not in ("read", "list"):
            if not self._changes_left:
                raise Crashed(f"{operation} {path}")
            self._changes_left -= 1
        self._check_broken(path)
        for failure in self._failures:
            if failure[0] == operation and failure[1] in path:
                self._failures.remove(failure)
                raise failure[2]

    def _check_broken(self, path: str) -> None:
        for folder, error in self._broken.items():
            if (path + "/").startswith(folder + "/"):
                raise OSError(error, os.strerror(error))

    def drop_caches(self) -> None:
        for node in self.nodes.values():
            node.cold = {INODE, *node.pages(0, len(node.data))}

    def touch(self, path: str, node: Node, pages: Iterable[int]) -> None:
        """Somebody needs these pages, and waits for those that are not in memory."""
        missing = node.cold.intersection(pages)
        if missing:
            self.waits.append(path)
            node.cold -= missing

    def flip(self, path: str, at: int) -> None:
        self.nodes[path].data[at] ^= 0x55

    # The port

    def open(self, path: str) -> File:
        self.check("open", path)
        if os.path.dirname(path) not in self.folders:
            raise FileNotFoundError(path)
        if path not in self.nodes:
            self._name(path, path, Node(modified_ms=self.now_ms))
        node = self.nodes[path]
        self.touch(path, node, (INODE,))
        file = SimFile(self, path, node)
        self.open_files.append(file)
        return file

    def exists(self, path: str) -> bool:
        return path in self.nodes or path in self.folders

    def size(self, path: str) -> int:
        return len(self._node(path).data)

    def modified_ms(self, path: str) -> int:
        return self._node(path).modified_ms

    def list(self, directory: str) -> list[str]:
        self.check("list", directory)
        if directory not in self.folders:
            raise FileNotFoundError(directory)
        prefix = directory + "/"
        paths = [*self.nodes, *self.folders]
        return sorted(path[len(prefix) :] for path in paths if os.path.dirname(path) == directory)

    def kinds(self, directory: str) -> dict[str, str]:
        return {os.path.basename(path): FOLDER for path in self.folders if os.path.dirname(path) == directory}

    def make_directory(self, directory: str) -> bool:
        self._check_broken(directory)
        is_new = directory not in self.folders
        while directory not in self.folders and directory not in ("", "/"):
            self.folders.add(directory)
            directory = os.path.dirname(directory)
        return is_new

    def read(self, path: str, most: int | None = None) -> bytes:
        self.check("read", path)
        self.reads += 1
        node = self._node(path)
        self.touch(path, node, (INODE, *node.pages(0, len(node.data))))
        return bytes(node.data[:most])

    def warm(self, path: str, at: int, count: int) -> None:
        self.check("warm", path)
        node = self._node(path)
        node.cold.difference_update((INODE, *node.pages(at, count)))

    def write_atomic(self, path: str, data: bytes, *, sync: bool = True) -> None:
        self.check("write_atomic", path)
        self._name(path, path, Node(bytearray(data), len(data) if sync else 0, self.now_ms))
        if sync:
            self.syncs.append(path)
            self.durable[path] = self.nodes[path]
            self.unsynced_names = [change for change in self.unsynced_names if path not in change[:2]]

    def rename(self, old: str, new: str, *, sync: bool = True) -> None:
        self.check("rename", old)
        if old in self.folders:
            self.folders.remove(old)
            self.folders.add(new)
            for table in (self.nodes, self.durable):
                for path in [path for path in table if path.startswith(old + "/")]:
                    table[new + path[len(old) :]] = table.pop(path)
            return
        self._name(old, new, self.nodes[old])
        if sync:
            self.sync_names(os.path.dirname(new))

    def remove(self, path: str) -> None:
        self.check("remove", path)
        self._name(path, None, self._node(path))

    def remove_tree(self, directory: str) -> None:
        self._check_broken(directory)
        self.folders = {path for path in self.folders if not (path + "/").startswith(directory + "/")}
        for table in (self.nodes, self.durable):
            for path in [path for path in table if path.startswith(directory + "/")]:
                del table[path]

    def syncable(self, path: str) -> Syncable:
        return SimPath(self, path)

    def _name(self, old: str, new: str | None, node: Node) -> None:
        self.unsynced_names.append((old, new, node))
        self._replay(old, new, node)

    def sync_names(self, directory: str) -> None:
        """What is in a folder now is what a crash leaves in it."""
        for path in [path for path in self.durable if os.path.dirname(path) == directory]:
            del self.durable[path]
        self.unsynced_names = [one for one in self.unsynced_names if os.path.dirname(one[0]) != directory]
        self.durable |= {
            path: node for path, node in self.nodes.items() if os.path.dirname(path) == directory
        }

    def _node(self, path: str) -> Node:
        if path not in self.nodes:
            raise FileNotFoundError(path)
        return self.nodes[path]
