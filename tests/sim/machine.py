"""A machine: a disk, a clock, and at times a broker that runs on it."""

from collections.abc import Callable
from random import Random

from tests.sim.disk import MachineDisk
from tests.sim.keeper import SimKeeper
from tests.sim.network import Network
from tests.sim.process import Clock, Process
from tests.sim.world import World


class Machine:
    def __init__(
        self, world: World, network: Network, keeper: SimKeeper, id: int, properties: dict[str, str]
    ) -> None:
        self.world, self.network, self.keeper, self.id = world, network, keeper, id
        self.directories = ("/data", "/more") if world.has_disks else ("/data",)
        self.properties = {"broker.id": str(id), "log.dirs": ",".join(self.directories), **properties}
        self.disk = MachineDisk()
        self.clock = Clock(world, world.draw(-3_000, 3_000), 1 + world.draw(-3, 3) / 1_000)
        self.process: Process | None = None
        self.starts = 0
        self.knows_last = False  # does its disk say with which word the last process was registered?

    @property
    def running(self) -> Process | None:
        return self.process if self.process is not None and not self.process.is_dead else None

    def start(self) -> None:
        assert self.running is None
        self.world.note(f"b{self.id} starts")
        self.disk.now_ms = self.clock.now_ms()
        self.starts += 1
        self.process = Process(
            self.world, self.network, self.keeper, self.clock, self.disk, dict(self.properties),
            Random(self.world.draw(0, 1 << 40)), is_successor=self.knows_last,
        )  # fmt: skip
        self.knows_last = True

    def kill(self) -> None:
        """kill -9."""
        assert self.running is not None
        self.world.note(f"b{self.id} is killed")
        self.running.end()
        self.disk.killed()

    def stop(self, then: Callable[[], None]) -> None:
        """SIGTERM: the broker hands over what it leads, then stops."""
        assert self.running is not None
        self.world.note(f"b{self.id} is told to stop")
        self.running.begin_stop(then)

    def lose_power(self) -> None:
        assert self.running is not None
        self.world.note(f"b{self.id} loses power")
        self.running.end(is_silent=True)
        self.disk.power_lost(self.world.random)
        self.knows_last = self.world.chance(0.5)

    def replace_disk(self) -> None:
        assert self.running is None
        self.world.note(f"b{self.id} gets an empty disk")
        self.disk.replaced()
        self.knows_last = False
