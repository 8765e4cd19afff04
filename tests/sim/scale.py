"""What a cluster larger than this machine costs its controller, its brokers and ZooKeeper (docs/scale.md).

    python -m tests.sim.scale --brokers 100 --partitions 100000
    make scale BROKERS=100 PARTITIONS=100000

Seats, controller, image and keeper are the real ones, for all brokers, without logs (`population`). One more
broker, which is whole and has no replicas, opens with the tree and answers Metadata for all topics. Times are
processor time of this thread, so they hold on a machine that does other things as well.
"""

import argparse
import gc
import platform
import random
import sys
import time
import tracemalloc
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import TypeVar

from tests.api.harness import Disk
from tests.sim.population import Costs, Population
from tests.support.frames import encode_request
from tests.support.interpreter import Interpreter

from ottla.api.call import Silence
from ottla.api.dispatch import on_request
from ottla.base.files import Buffer
from ottla.broker.broker import Broker
from ottla.broker.effects import Probe, Send
from ottla.controller.image import Image
from ottla.controller.topics import NewTopic, plan_topic
from ottla.log.config import LogConfig
from ottla.shell.garbage_collection import spare_survivors
from ottla.wire.messages.metadata import MetadataRequest

RESTART_MS = 30_000  # from one broker to the next
LOOK_MS = 6_000
BALANCE_MS = 301_000
LARGE_TOPIC = 1_000
METADATA_VERSION = 12
T = TypeVar("T")

STRANGER = 100_000  # a broker without replicas

HEAD = (
    f"{'':24} {'controller':>10} {'each':>8} {'longest':>8} {'':14} {'writes':>7} {'operations':>10} "
    f"{'MB written':>10} {'reads':>9} {'MB read':>9}\n"
    f"{'':24} {'CPU s':>10} {'CPU s':>8} {'step ms':>8} {'in':14} {'':29} {'by all':>9} {'by all':>9}"
)


@dataclass(frozen=True)
class Phase:
    name: str
    costs: Costs

    def __str__(self) -> str:
        costs = self.costs
        return (
            f"{self.name:24} {costs.decided_s:10.2f} {costs.seen_s:8.2f} {costs.step_ms:8.1f} "
            f"{costs.longest:14} {costs.writes:7,} {costs.operations:10,} {costs.written_bytes / 1e6:10.2f} "
            f"{costs.reads:9,} {costs.read_bytes / 1e6:9.1f}"
        )


class Stranger(Interpreter):
    """A whole broker in the same cluster, which has no replicas and no network."""

    def __init__(self, population: Population) -> None:
        properties = {"broker.id": str(STRANGER), "log.dirs": "/data"}
        self.broker = Broker(Disk(), random.Random(1), properties)
        self.keeper, self.now_ms = population.tree, population.now_ms
        self.answer = b""
        self.broker.open(self.keeper.load(), self.now_ms)

    def clock_ms(self) -> int:
        return self.now_ms

    def reply(self, _connection: int, chunks: list[Buffer]) -> None:
        self.answer = b"".join(chunks)

    def send(self, effect: Send) -> None:
        """To nobody."""

    def probe(self, effect: Probe) -> None:
        """Likewise."""

    def metadata(self) -> Iterator[None]:
        """All topics; after each step that the loop would make."""
        frame = bytearray(encode_request(MetadataRequest(topics=None), METADATA_VERSION, 1, "a client"))
        broker = self.broker
        broker.allowance.begin_round(self.now_ms)
        answer = on_request(broker, 1, memoryview(frame), self.now_ms)
        if not isinstance(answer, Silence):
            self.answer = b"".join(answer)
        yield
        while not self.answer:
            self.now_ms += 1
            broker.allowance.begin_round(self.now_ms)
            broker.on_deadline(self.now_ms)
            self.carry_out_effects()
            yield


def measured(population: Population, restarts: int) -> Iterator[Phase]:
    """One phase after another; the population is whole again after each pair."""

    def phase(name: str, *what: Callable[[], None]) -> Phase:
        population.costs = Costs()
        for action in what:
            action()
        return Phase(name, population.costs)

    yield phase("a look at everything", lambda: population.tick(LOOK_MS))
    victim = max(population.members)
    yield phase("a broker dies", lambda: population.die(victim))
    yield phase("it comes back", lambda: population.come(victim, is_clean=False))
    yield phase("its leaders come back", lambda: population.tick(BALANCE_MS))
    controller = population.image.controller_id
    yield phase("the controller dies", lambda: population.die(controller))
    yield phase("it comes back", lambda: population.come(controller, is_clean=False))
    numbers = sorted(population.members)[:restarts]
    steps = [step for number in numbers for step in _restart(population, number)]
    yield phase(f"rolling restart of {len(numbers)}", *steps)
    yield phase("leaders come back", lambda: population.tick(BALANCE_MS))


def _restart(population: Population, number: int) -> tuple[Callable[[], None], Callable[[], None]]:
    return lambda: population.restart(number), lambda: population.tick(RESTART_MS)


def still(population: Population) -> Iterator[str]:
    """What is there, and what it costs to read and to tell."""
    brokers, tree = len(population.members), population.tree
    nodes = tree.load()
    yield (
        f"ZooKeeper: {len(nodes):,} nodes, {population.tree_bytes / 1e6:.1f} MB; "
        f"{population.watches:,} watches of each broker, {population.watches * brokers:,} of all"
    )
    took_s, image = _timed(lambda: _image(population))
    assert image == population.image, "what a broker reads at its start is what others know"
    tracemalloc.start()
    kept = _image(population)
    memory = tracemalloc.get_traced_memory()[0]
    tracemalloc.stop()
    yield f"image: {memory / 1e6:.0f} MB, read in {took_s:.2f} s"
    del kept
    took_s, stranger = _timed(lambda: Stranger(population))
    yield f"a broker without replicas opens in {took_s:.2f} s"
    new = NewTopic(name="large", partitions=LARGE_TOPIC, replication_factor=min(3, brokers))
    took_s, _ = _timed(
        lambda: plan_topic(population.image, new, bytes(16), LogConfig(), partitions=1, replication=1)
    )
    yield f"placing a topic of {LARGE_TOPIC:,} partitions: {took_s * 1e3:.0f} ms"
    yield _metadata(stranger, "first")
    stranger.answer = b""
    yield _metadata(stranger, "again, nothing changed")
    del stranger, image, nodes
    gc.collect()  # what was made here is no part of what comes now
    gc.freeze()


def _metadata(stranger: Stranger, when: str) -> str:
    steps, began_s = [], time.thread_time()
    for _ in stranger.metadata():
        now_s = time.thread_time()
        steps.append(now_s - began_s)
        began_s = now_s
    return (
        f"Metadata of all topics, {when}: {sum(steps):.2f} s, {len(stranger.answer) / 1e6:.1f} MB, "
        f"{len(steps):,} steps, the longest {max(steps) * 1e3:.1f} ms"
    )


def _image(population: Population) -> Image:
    image = Image()
    for node in population.tree.load():
        image.apply(node)
    image.revision = population.image.revision
    image.seen = population.image.seen
    return image


def _timed(action: Callable[[], T]) -> tuple[float, T]:
    began_s = time.thread_time()
    result = action()
    return time.thread_time() - began_s, result


def main() -> None:
    parser = argparse.ArgumentParser("tests.sim.scale", description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--brokers", type=int, default=100)
    parser.add_argument("--partitions", type=int, default=100_000, help="of all topics, three replicas each")
    parser.add_argument("--per-topic", type=int, default=100, help="partitions of a topic")
    parser.add_argument("--restarts", type=int, help="how many brokers are restarted in turn; default all")
    asked = parser.parse_args()
    spare_survivors()
    topics = max(asked.partitions // asked.per_topic, 1)
    say = sys.stdout.write
    python = platform.python_version()
    say(f"{asked.brokers} brokers, {topics:,} topics of {asked.per_topic}, Python {python}\n")
    population = Population(asked.brokers, topics, asked.per_topic)
    for line in still(population):
        say(line + "\n")
    say(HEAD + "\n")
    for phase in measured(population, asked.restarts or asked.brokers):
        say(f"{phase}\n")
        sys.stdout.flush()
    if population.out_of_sync():
        sys.exit(f"{population.out_of_sync()} partitions lack a leader or a replica in sync")


if __name__ == "__main__":
    main()
