"""A simulated machine's disk: `tests/log/simdisk`, with the ways in which machines stop.

killed        kill -9: the page cache stays, every write is there
power_lost    what no sync covered may be gone: of each file a part of its unsynced tail survives, sometimes
              with zeros where its last bytes were; of names that no sync of their folder covered, some
replaced      another, empty disk is in its place
"""

from random import Random

from tests.log.simdisk import SimDisk, page_cache

ZEROED = 0.1


class MachineDisk(SimDisk):
    total_bytes, usable_bytes = 1 << 40, 1 << 39

    def space(self, directory: str) -> tuple[int, int]:
        return self.total_bytes, self.usable_bytes

    def is_broken(self, directory: str) -> bool:
        return directory in self._broken

    @property
    def is_whole(self) -> bool:
        return not self._broken

    def killed(self) -> None:
        self.crash(page_cache)

    def power_lost(self, random: Random) -> None:
        luck = random.random()
        self.nodes = dict(self.durable)
        for change in self.unsynced_names:
            if random.random() < luck:
                self._replay(*change)
        zeroed: dict[str, int] = {}

        def keep(path: str, synced: int, size: int) -> int:
            if size == synced or random.random() >= luck:
                return synced
            kept = synced + int((size - synced) * random.random())
            if random.random() < ZEROED:
                zeroed[path] = size - kept
            return kept

        self.crash(keep)
        for path, count in zeroed.items():  # the file's length got to the disk, its blocks did not
            self.nodes[path].data += bytes(count)
            self.nodes[path].synced += count

    def replaced(self) -> None:
        self.crash(page_cache)
        self.nodes.clear()
        self.durable.clear()
        self.folders.clear()
