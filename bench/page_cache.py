"""What of a broker's files is in memory.

Nobody has to be root for this: `posix_fadvise` drops the clean pages of any file that one may open (what is
dirty is synced first), where /proc/sys/vm/drop_caches is root's, and takes everybody's. What the machine
under a virtual one keeps in its memory nobody here can drop.
"""

import ctypes
import mmap
import os
from collections.abc import Iterator

_PIECE_BYTES = 1 << 20
_LIBC = ctypes.CDLL(None, use_errno=True)


def log_files(data: str, topic: str) -> list[str]:
    """The segments of partition 0 of a topic, in the order of their offsets, then what stands beside them."""
    folder = os.path.join(data, f"{topic}-0")
    return sorted(
        (os.path.join(folder, name) for name in os.listdir(folder)),
        key=lambda path: (not path.endswith(".log"), path),
    )


def forget(path: str) -> None:
    """Have nothing of a file in the page cache."""
    with open(path, "rb") as file:
        os.fsync(file.fileno())
        os.posix_fadvise(file.fileno(), 0, 0, os.POSIX_FADV_DONTNEED)


def bring_in(path: str) -> None:
    """Have all of it there."""
    piece = bytearray(_PIECE_BYTES)
    with open(path, "rb", buffering=0) as file:
        while file.readinto(piece):
            pass


def share_in_memory(paths: list[str]) -> float:
    """How much of these files is in the page cache, from 0 to 1."""
    pages = [resident for path in paths for resident in _residence(path)]
    return sum(pages) / len(pages) if pages else 0.0


def _residence(path: str) -> Iterator[int]:
    size = os.path.getsize(path)
    if not size:
        return
    with open(path, "rb") as file, mmap.mmap(file.fileno(), size, mmap.MAP_PRIVATE) as mapped:
        count = -(-size // mmap.PAGESIZE)
        found = (ctypes.c_ubyte * count)()
        whole = (ctypes.c_char * size).from_buffer(mapped)
        failed = _LIBC.mincore(ctypes.byref(whole), ctypes.c_size_t(size), found)
        del whole
        if failed:
            raise OSError(ctypes.get_errno(), "mincore", path)
        yield from (page & 1 for page in found)
