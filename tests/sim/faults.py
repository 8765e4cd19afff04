"""What goes wrong, and when. Every seed has its own choice of faults, and its own rate of them.

The budget, which `docs/simulator.md` explains: a replica that loses records it held (a power cut, a new disk)
loses them alone. Until it is back in sync everywhere, no other broker stops uncleanly; and a broker loses
records only when all that stopped uncleanly before are back in sync. Where every record is synced before it
is acknowledged, a power cut loses nothing, and may meet all brokers at once, as everything else may at any
time: kills, stops, pauses, cuts, lost sessions, a keeper that is away.
"""

import errno
from collections.abc import Callable

from tests.sim.cluster import Cluster
from tests.sim.keeper_client import KEEPER

from ottla.base.ids import TRANSACTIONS_TOPIC

LATE_MS = 1_500  # longer than a leader may count on what its followers said
ESTRANGED_MS_MAX = 9_000  # as long as all the noise
DEPOSED_OF, DEPOSED_AT = 5, 1  # in these seeds a leader is deposed: one in five, and none of seeds.txt
DEPOSED_MS = (2_000, 4_000)  # its successor waits for a second before it commits (design note 007)
WITNESS_MS = 60
FORGET_MS = 300  # the longest time until another machine has nothing in its page cache


class Faults:
    def __init__(self, cluster: Cluster, end_ms: int) -> None:
        self.cluster, self.world, self.network = cluster, cluster.world, cluster.network
        self.end_ms = end_ms
        self.unclean: dict[int, bool] = {}  # not yet back in sync; did it lose records?
        self.healing: list[Callable[[], None]] = []
        names = ["kill", "power", "stop", "disk", "pause", "cut", "split", "cut_keeper", "keeper", "expire",
                 "loss", "slow", "clock", "refuse", "estrange", "deafen",
                 "late_news"]  # fmt: skip
        self.kinds = [name for name in names if self.world.chance(0.45)] or ["kill"]
        if self.world.has_disks:
            self.kinds.append("directory")
        if self.world.has_transactions:
            self.kinds += ["ambush"] * (1 + len(self.kinds) // 3)
        if self.world.has_slow_disks:
            self.world.after(self.world.draw(0, FORGET_MS), self._forget)
        self.pace_ms = self.world.draw(300, 2_500)

    def start(self) -> None:
        self.world.note("faults:", *self.kinds, f"every {self.pace_ms} ms")
        self.world.after(self.world.draw(0, self.pace_ms), self._next)
        if self.world.seed % DEPOSED_OF == DEPOSED_AT:
            latest_ms = max(self.end_ms - self.world.now_ms - DEPOSED_MS[0], 0)
            self.world.after(self.world.draw(0, latest_ms), self._depose)

    def _next(self) -> None:
        if self.world.now_ms >= self.end_ms:
            return
        self._forgive()
        kind = self.kinds[self.world.draw(0, len(self.kinds) - 1)]
        getattr(self, "_" + kind)()
        self.world.after(self.world.draw(1, 2 * self.pace_ms), self._next)

    def end(self) -> None:
        """Everything is mended, and everybody is there."""
        self.world.note("the faults end")
        healing, self.healing = self.healing, []
        for heal in healing:
            heal()
        for id, machine in self.cluster.machines.items():
            if machine.running is None:
                machine.start()
            elif machine.running.is_paused:
                machine.running.resume()
            broken = [*self.network.cuts, *self.network.refusals]
            assert not any(id in link for link in broken), "every cut was mended"
        self.network.loss = self.network.slow = 0

    def _for_a_while(self, heal: Callable[[], None], longest_ms: int = 5_000, shortest_ms: int = 50) -> None:
        self.healing.append(heal)

        def due() -> None:
            if heal in self.healing:
                self.healing.remove(heal)
                heal()

        self.world.after(self.world.draw(shortest_ms, longest_ms), due)

    def _any(self) -> int:
        """A broker; the controller and leaders more often than others."""
        brokers = list(self.cluster.machines)
        if self.world.has_transactions and self.world.chance(0.3):
            brokers = self.cluster.leaders(TRANSACTIONS_TOPIC) or brokers
        elif self.world.chance(0.3):
            brokers = [self.cluster.controller() or brokers[0]]
        elif self.world.chance(0.4):
            brokers = self.cluster.leaders() or brokers
        return brokers[self.world.draw(0, len(brokers) - 1)]

    # Processes and machines

    def _forgive(self) -> None:
        self.unclean = {
            broker: lost
            for broker, lost in self.unclean.items()
            if not (self.cluster.is_in_sync(broker) and self.cluster.machines[broker].disk.is_whole)
        }

    def _restart_later(self, broker: int) -> None:
        machine = self.cluster.machines[broker]
        self._for_a_while(lambda: None if machine.running else machine.start())

    def _kill(self, broker: int | None = None) -> None:
        broker = self._any() if broker is None else broker
        machine = self.cluster.machines[broker]
        if machine.running is None or any(lost for other, lost in self.unclean.items() if other != broker):
            return
        self.unclean[broker] = self.unclean.get(broker, False)
        machine.kill()
        self._restart_later(broker)

    def _ambush(self) -> None:
        """Whoever is next to be told that a transaction ends: it is killed while it sees to that, or nobody
        else hears of it, because it is replaced before its followers have fetched anything more."""

        def strike(broker: int) -> None:
            self.world.on_end = None
            if self.world.chance(0.5):
                self.world.after(self.world.draw(1, 30), lambda: self._kill(broker))
                return
            others = [other for other in self.cluster.machines if other != broker]
            self._cut_links(f"b{broker} hears no broker", [(other, broker) for other in others])
            self.world.after(self.world.draw(1, 100), lambda: self._expire(broker))

        self.world.on_end = strike
        self._for_a_while(lambda: setattr(self.world, "on_end", None))

    def _forget(self) -> None:
        """Nothing is left in the page cache of a machine: from now on it reads from its disk, if it must."""
        self.cluster.machines[self._any()].disk.drop_caches()
        if self.world.now_ms < self.end_ms:
            self.world.after(self.world.draw(1, FORGET_MS), self._forget)

    def _may_lose(self, broker: int) -> bool:
        others = [other for other in self.unclean if other != broker]
        return self.cluster.may_lose and not others

    def _power(self) -> None:
        broker = self._any()
        machine = self.cluster.machines[broker]
        if machine.running is None:
            return
        if self.cluster.is_synced:
            self.unclean[broker] = False
        elif self._may_lose(broker):
            self.unclean[broker] = True
        else:
            return
        machine.lose_power()
        if self.world.chance(0.3):
            self._flap(broker)
        else:
            self._restart_later(broker)

    def _flap(self, broker: int) -> None:
        """It comes back, stops cleanly as soon as it is there, and comes again: the second start is a clean
        one, and still the records are gone."""
        machine = self.cluster.machines[broker]

        def stop_when_serving() -> None:
            if self.world.now_ms >= self.end_ms or machine.running is not first or first.is_paused:
                return
            if first.is_serving:
                first.stop_now()
                self._restart_later(broker)
                self.world.after(self.world.draw(1, 20), lambda: machine.running or machine.start())
            else:
                self.world.after(1, stop_when_serving)

        machine.start()
        first = machine.running
        stop_when_serving()

    def _stop(self) -> None:
        broker = self._any()
        machine = self.cluster.machines[broker]
        if machine.running is None or not machine.running.is_serving or machine.running.is_paused:
            return
        machine.stop(lambda: self._restart_later(broker))

    def _disk(self) -> None:
        """A broker that is down comes back with an empty disk."""
        down = [id for id, machine in self.cluster.machines.items() if machine.running is None]
        if not down or self.cluster.is_synced or not self._may_lose(down[0]):
            self._kill()
            return
        self.unclean[down[0]] = True
        self.cluster.machines[down[0]].replace_disk()

    def _directory(self) -> None:
        """One of a broker's directories fails; later it is mended, and the broker starts again."""
        broker = self._any()
        machine = self.cluster.machines[broker]
        if not machine.disk.is_whole or any(lost for other, lost in self.unclean.items() if other != broker):
            return
        self.unclean[broker] = self.unclean.get(broker, False)
        directory = machine.directories[self.world.draw(0, len(machine.directories) - 1)]
        self.world.note(f"b{broker}: {directory} fails")
        machine.disk.break_down(directory, errno.EIO)
        if machine.running is not None and self.world.chance(0.4):
            machine.kill()  # and the directory is offline from the next start
            self.world.after(self.world.draw(1, 500), lambda: machine.running or machine.start())

        def mend() -> None:
            self.world.note(f"b{broker}: {directory} is mended")
            machine.disk.repair()
            if machine.running is not None:
                machine.kill()
                self._restart_later(broker)

        self._for_a_while(mend)

    def _pause(self) -> None:
        broker = self._any()
        process = self.cluster.machines[broker].running
        if process is None or process.is_paused:
            return
        self.world.note(f"b{broker} is paused")
        process.pause()

        def resume() -> None:
            self.world.note(f"b{broker} goes on")
            if not process.is_dead:
                process.resume()

        self._for_a_while(resume)

    def _clock(self) -> None:
        clock = self.cluster.machines[self._any()].clock
        clock.wall_offset_ms = self.world.draw(-3_600_000, 3_600_000)

    # The network

    def _cut_links(
        self, what: str, links: list[tuple[object, object]], longest_ms: int = 5_000, shortest_ms: int = 50
    ) -> None:
        self.world.note("cut:", what)
        for source, target in links:
            self.network.cut(source, target)

        def mend() -> None:
            self.world.note("mended:", what)
            for source, target in links:
                self.network.mend(source, target)

        self._for_a_while(mend, longest_ms, shortest_ms)

    def _strangers(self) -> list[tuple[object, object]]:
        """The controller and a broker, a leader more often than not; one way or both."""
        controller = self.cluster.controller()
        others = [other for other in self.cluster.machines if other != controller]
        others = [other for other in self.cluster.leaders() if other != controller] or others
        if controller is None or not others:
            return []
        other = others[self.world.draw(0, len(others) - 1)]
        both: list[tuple[object, object]] = [(controller, other), (other, controller)]
        return [both[:1], both[1:], both][self.world.draw(0, 2)]

    def _refuse(self) -> None:
        """The controller alone cannot reach a broker, or is not reached by it: what it hears is a refusal."""
        links = self._strangers()
        self.world.note("refused:", links)
        for source, target in links:
            self.network.refuse(source, target)

        def admit() -> None:
            self.world.note("no longer refused:", links)
            for source, target in links:
                self.network.admit(source, target)

        self._for_a_while(admit, ESTRANGED_MS_MAX)

    def _estrange(self) -> None:
        links = self._strangers()
        self._cut_links(f"the controller and one other, {links}", links, ESTRANGED_MS_MAX)

    def _deafen(self) -> None:
        """The controller hears no other broker; the keeper and the clients reach it."""
        controller = self.cluster.controller()
        others = [other for other in self.cluster.machines if other != controller]
        links: list[tuple[object, object]] = [(other, controller) for other in others]
        if controller is not None:
            self._cut_links(f"b{controller} hears no broker", links, ESTRANGED_MS_MAX)

    def _cut(self) -> None:
        """One broker from the others, one way or both; or from the clients, too."""
        broker = self._any()
        others: list[object] = [other for other in self.cluster.machines if other != broker]
        if self.world.chance(0.3):
            others += [client.name for client in self.cluster.clients]
        away = [(broker, other) for other in others]
        back = [(other, broker) for other in others]
        way = self.world.draw(0, 2)
        self._cut_links(
            f"b{broker} {('from', 'to', 'from and to')[way]} {len(others)}", (away, back, away + back)[way]
        )

    def _split(self) -> None:
        """The brokers in two halves; the keeper and the clients see both."""
        brokers = list(self.cluster.machines)
        self.world.random.shuffle(brokers)
        at = self.world.draw(1, max(len(brokers) - 1, 1))
        links = [(a, b) for a in brokers[:at] for b in brokers[at:]]
        self._cut_links(f"{brokers[:at]} | {brokers[at:]}", links + [(b, a) for a, b in links])

    def _cut_keeper(self) -> None:
        broker = self._any()
        both = [(broker, KEEPER), (KEEPER, broker)]
        way = self.world.draw(0, 2)
        self._cut_links(f"b{broker} and the keeper ({way})", [both[:1], both[1:], both][way])

    def _depose(self) -> None:
        """A leader loses its session, cannot hear of it, and is reached by clients all the while: its
        successors take writes that it knows nothing of, and somebody goes on asking it."""
        if self.world.now_ms >= self.end_ms:
            return
        led = self.cluster.replaceable()
        running = {id: self.cluster.machines[id].running for id in sorted(led)}
        candidates = [id for id, process in running.items() if process is not None and not process.is_paused]
        if not candidates or not self.cluster.keeper.is_up:
            self.world.after(50, self._depose)
            return
        broker = candidates[self.world.draw(0, len(candidates) - 1)]
        others: list[object] = [KEEPER]
        if self.world.chance(0.5):
            others += [other for other in self.cluster.machines if other != broker]
        links = [link for other in others for link in ((broker, other), (other, broker))]
        self._cut_links(f"b{broker} from {others}, to be replaced", links, DEPOSED_MS[1], DEPOSED_MS[0])
        self.cluster.keeper.close_session(running[broker].keeper.session, "expired early")
        self.cluster.add_witnesses(broker, led[broker], WITNESS_MS)

    def _late_news(self) -> None:
        """A broker hears late of what is written to the keeper, while its session lives; most often of its
        replacement by a controller that is refused its connections."""
        broker, controller = self._any(), self.cluster.controller()
        process = self.cluster.machines[broker].running
        if process is None:
            return
        self.world.note(f"b{broker} hears late of news")
        process.keeper.late_ms = LATE_MS
        self._for_a_while(lambda: setattr(process.keeper, "late_ms", 0))
        if controller is not None and controller != broker and self.world.chance(0.7):
            self.world.note(f"refused: ({controller}, {broker})")
            self.network.refuse(controller, broker)
            self._for_a_while(lambda: self.network.admit(controller, broker))

    def _loss(self) -> None:
        self.network.loss = self.world.draw(1, 8) / 100
        self.world.note("loss of", self.network.loss)
        self._for_a_while(lambda: setattr(self.network, "loss", 0.0))

    def _slow(self) -> None:
        self.network.slow = self.world.draw(2, 40) / 100
        self.world.note("slow:", self.network.slow)
        self._for_a_while(lambda: setattr(self.network, "slow", 0.0))

    # The keeper

    def _keeper(self) -> None:
        keeper = self.cluster.keeper
        if keeper.is_up:
            keeper.stop()
            self._for_a_while(keeper.resume)

    def _expire(self, broker: int | None = None) -> None:
        process = self.cluster.machines[self._any() if broker is None else broker].running
        if process is not None and self.cluster.keeper.is_up:
            self.cluster.keeper.close_session(process.keeper.session, "expired early")
