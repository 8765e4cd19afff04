"""A topic is copied in transactions while clients and brokers are killed with -9, at moments from a seed.

In the end the copy, read committed, holds every record of the input once, in the order of its partition; no
last stable offset has rested for longer than the transaction timeout and ten seconds. An offset of an aborted
transaction that counted would make a copier skip records, so that is seen as well.

The long form (row 24 of design note 015), `--help` for all it takes:

    python -m tests.transactions.copies --client confluent --brokers 3 --records 100000 --seed 7
"""

import argparse
import contextlib
import random
import shutil
import sys
import tempfile
import threading
import time
import uuid
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from confluent_kafka import KafkaException
from tests.support.waiting import wait_for
from tests.transactions import servers
from tests.transactions.copiers import CLIENTS, Copier, Task
from tests.transactions.reading import COMMITTED, UNCOMMITTED, Offsets, fill, read
from tests.transactions.servers import Brokers
from tests.transactions.stability import StabilityWatch

SLACK_S = 10.0  # what the last stable offset may rest beyond the transaction timeout
PATIENCE_S = 120.0
# A JVM may take longer than ten seconds to start again. Kafka 4.3 was seen to leave transactions hanging that
# had timed out by then (docs/exactly-once.md).
TIMEOUT_MS = {"ottla": 10_000, "apache": 60_000}
AWAY_S_MAX = 1.0  # a killed broker is away for up to so long before it is started again
FAULTS = {1: ("client", "broker"), 3: ("client", "leader", "coordinator", "group coordinator")}


@dataclass(frozen=True)
class Plan:
    """`records` are those of all partitions together."""

    client: str
    seed: int
    records: int = 3_000
    value_bytes: int = 60
    partitions: int = 4
    copiers: int = 2
    transaction_size: int = 50
    transaction_timeout_ms: int = TIMEOUT_MS[servers.CHOSEN]
    kills: int = 4
    call_s: float = 5.0  # the timeout of a client's calls: one that hangs costs a little more
    are_members: bool = False

    @property
    def records_per_partition(self) -> int:
        return self.records // self.partitions

    def faults(self, chance: random.Random, brokers: int) -> list[str]:
        """At least one of each kind, in any order."""
        kinds = list(FAULTS[1 if brokers == 1 else 3])
        drawn = [*kinds, *chance.choices(kinds, k=max(0, self.kills - len(kinds)))]
        chance.shuffle(drawn)
        return drawn


@dataclass(frozen=True)
class Copied:
    """What became of it. `faults` tells which came too late: a JVM cannot be given its work in parts."""

    plan: Plan
    seconds: float
    committed: list[list[str]]
    uncommitted: list[list[str]]
    rest_s: float
    looks: int
    faults: list[str]
    starts: int
    hangs: int = 0

    def __str__(self) -> str:
        plan, extra = self.plan, sum(map(len, self.uncommitted)) - sum(map(len, self.committed))
        return (
            f"{plan.client}: seed {plan.seed}, {sum(map(len, self.committed))} records copied in "
            f"{self.seconds:.1f} s, {extra} more were aborted; killed: {', '.join(self.faults)}; copiers "
            f"were started {self.starts} times, {self.hangs} of them as a call of the client hung; "
            f"the last stable offset rested {self.rest_s:.1f} s at most"
        )


def value_of(partition: int, number: int, size: int) -> str:
    return f"{partition}:{number}:".ljust(size, ".")


def check(copied: Copied) -> list[str]:
    """A sentence for everything that must not be. It knows nothing of brokers."""
    plan, wrong = copied.plan, []
    for partition, values in enumerate(copied.committed):
        expected = range(plan.records_per_partition)
        numbers = [int(value.split(":")[1]) for value in values]
        twice = len(numbers) - len(set(numbers))
        if missing := set(expected) - set(numbers):
            wrong.append(f"partition {partition}: {len(missing)} are missing, the first is {min(missing)}")
        if twice:
            wrong.append(f"partition {partition}: {twice} are there more than once")
        if numbers != sorted(numbers):
            wrong.append(f"partition {partition} is out of order")
        if any(value != value_of(partition, int(value.split(":")[1]), plan.value_bytes) for value in values):
            wrong.append(f"partition {partition} holds something that was not sent to it")
        if not set(values) <= set(copied.uncommitted[partition]):
            wrong.append(f"partition {partition}: read_uncommitted sees less than read_committed")
    allowed_s = plan.transaction_timeout_ms / 1000 + SLACK_S
    if copied.rest_s > allowed_s:
        wrong.append(f"a last stable offset rested for {copied.rest_s:.1f} s, {allowed_s:.0f} are allowed")
    if not copied.looks:
        wrong.append("nobody looked at the last stable offset of a partition")
    return wrong


def coordinator_partition(key: str, partitions: int) -> int:
    """Kafka's rule: the hash of a Java string, without its sign."""
    hashed = 0
    for char in key:
        hashed = (31 * hashed + ord(char)) & 0xFFFFFFFF
    return (hashed & 0x7FFFFFFF) % partitions


class Copy:
    """One run of a plan against brokers."""

    def __init__(self, brokers: Brokers, plan: Plan, folder: Path) -> None:
        self.brokers, self.plan = brokers, plan
        self.chance = random.Random(plan.seed)
        stem = f"{plan.client}-{uuid.uuid4().hex[:6]}"
        self.input, self.output, self.group = f"{stem}-input", f"{stem}-output", f"{stem}-group"
        self.task = Task(
            plan.client, brokers.bootstrap, self.input, self.output, self.group, plan.partitions,
            plan.copiers, plan.transaction_size, plan.transaction_timeout_ms, plan.seed,
            plan.call_s, plan.are_members,
        )  # fmt: skip
        count = plan.partitions if plan.client == "java" else plan.copiers
        self.copiers = [Copier(self.task, number, folder / f"{stem}-{number}.log") for number in range(count)]
        self.faults: list[str] = []
        self.filled = 0  # records in each partition of the input
        self._offsets = Offsets(brokers.bootstrap, self.group)

    def run(self) -> Copied:
        plan, brokers = self.plan, self.brokers
        for topic in (self.input, self.output):
            brokers.create_topic(topic, plan.partitions)
        if plan.client == "java":  # it ends when it has copied what was there when it was started
            self._fill_up_to(plan.records_per_partition)
        began = time.monotonic()
        with StabilityWatch(brokers.bootstrap, self.output, plan.partitions) as watch, self._copying():
            self._disturb()
            self._fill_up_to(plan.records_per_partition)
            wait_for(lambda: self._done() == plan.records, PATIENCE_S, "the rest is copied")
            seconds = time.monotonic() - began
        within_s = plan.transaction_timeout_ms / 1000 + SLACK_S + 20
        wait_for(lambda: self._offsets.is_stable(self.output, plan.partitions), within_s, "nothing is open")
        self._offsets.close()
        return Copied(
            plan,
            seconds,
            read(brokers.bootstrap, self.output, COMMITTED, plan.partitions),
            read(brokers.bootstrap, self.output, UNCOMMITTED, plan.partitions),
            watch.longest_s,
            watch.looks,
            self.faults,
            sum(copier.starts for copier in self.copiers),
            sum(copier.hangs for copier in self.copiers),
        )

    def __str__(self) -> str:
        said = [f"--- copier {copier.number}\n{copier.log[-3000:]}" for copier in self.copiers]
        state = f"seed {self.plan.seed}, killed {self.faults}, committed {self._done()}, "
        return f"{state}{[(copier.starts, copier.is_over) for copier in self.copiers]}\n" + "\n".join(said)

    @contextlib.contextmanager
    def _copying(self) -> Iterator[None]:
        try:
            for copier in self.copiers:
                copier.start()
            yield
        except AssertionError:
            print(self, file=sys.stderr)
            raise
        finally:
            for copier in self.copiers:
                copier.kill()

    def _done(self) -> int:
        """How many records are copied and committed. Asked all the time, so it also keeps copiers going."""
        for copier in self.copiers:
            if copier.is_over and not copier.has_finished:
                copier.start()
        try:
            offsets = self._offsets.committed(self.input, self.plan.partitions)
        except KafkaException:  # the broker is away
            return 0
        return sum(max(0, offset) for offset in offsets)

    def _fill_up_to(self, count: int) -> None:
        plan = self.plan
        values = {
            partition: [value_of(partition, number, plan.value_bytes) for number in range(self.filled, count)]
            for partition in range(plan.partitions)
        }
        fill(self.brokers.bootstrap, self.input, values)
        self.filled = count

    def _disturb(self) -> None:
        """Each fault comes in the midst of a part of the input that was written for it, so that all of them
        meet work: in a cluster the copiers go on while a broker is away, and would soon have copied all."""
        plan, faults = self.plan, self.plan.faults(self.chance, len(self.brokers.ids))
        step = plan.records // (len(faults) + 1)
        for number, fault in enumerate(faults):
            victim = 0 if fault == "client" else self._victim(fault)  # asked now, as a kill must not wait
            if plan.client != "java":
                self._fill_up_to(plan.records_per_partition * (number + 1) // (len(faults) + 1))
            goal = number * step + self.chance.randrange(step // 8, step // 2)
            wait_for(lambda goal=goal: self._done() >= goal, PATIENCE_S, f"{goal} are copied")
            threading.Event().wait(self.chance.random() * 0.05)
            is_in_time = self._done() < self.filled * plan.partitions
            if fault == "client":
                self._kill_client()
            else:
                self._kill_broker(victim)
            self.faults.append(fault if is_in_time else f"{fault} (too late)")

    def _kill_client(self) -> None:
        working = [copier for copier in self.copiers if not copier.is_over]
        if working:
            self.chance.choice(working).kill()  # `_done` starts it again

    def _kill_broker(self, victim: int) -> None:
        """It is started again by this very thread: a broker dies with the thread that started it."""
        away_s = self.chance.random() * AWAY_S_MAX
        self.brokers.kill(victim)
        threading.Event().wait(away_s)
        self.brokers.start_again(victim)

    def _victim(self, fault: str) -> int:
        brokers, copier = self.brokers, self.chance.choice(self.copiers)
        if len(brokers.ids) == 1:
            return brokers.ids[0]
        if fault == "leader":
            return brokers.leader(self.output, self.chance.randrange(self.plan.partitions))
        topic, key = {
            "coordinator": ("__transaction_state", f"{self.group}-{copier.number}"),
            "group coordinator": ("__consumer_offsets", self.group),
        }[fault]
        return brokers.leader(topic, coordinator_partition(key, brokers.partitions(topic)))


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser("tests.transactions.copies", description=__doc__.split("\n\n")[0])
    parser.add_argument("--client", choices=(*CLIENTS, "all"), default="all")
    parser.add_argument("--server", choices=("ottla", "apache"), default=servers.CHOSEN)
    parser.add_argument("--brokers", type=int, choices=(1, 3), default=1)
    parser.add_argument("--records", type=int, default=100_000)
    parser.add_argument("--bytes", type=int, default=750, dest="value_bytes")
    parser.add_argument("--partitions", type=int, default=4)
    parser.add_argument("--transaction-size", type=int, default=200)
    parser.add_argument("--kills", type=int, default=20)
    parser.add_argument("--members", action="store_true", help="copiers are members of a group (confluent)")
    parser.add_argument("--folder", type=Path, help="where logs and data of failed runs stay")
    parser.add_argument("--seed", type=int, default=random.randrange(1 << 30))
    parser.add_argument("--runs", type=int, default=1, help="with the seeds that follow")
    arguments = parser.parse_args()
    if arguments.members and arguments.client != "confluent":
        parser.error("--members needs --client confluent: no other copier here follows rebalances")
    return arguments


def _run(arguments: argparse.Namespace, plan: Plan, folder: Path) -> list[str]:
    """What was wrong. It prints the outcome."""
    settings = {"kind": arguments.server, "count": arguments.brokers}
    try:
        with servers.serving(folder / "brokers", **settings) as brokers:
            copied = Copy(brokers, plan, folder).run()
    except AssertionError as error:
        outcome, wrong = f"{plan.client}: seed {plan.seed}", [str(error)]
    else:
        outcome, wrong = str(copied), check(copied)
    print(f"{arguments.server}, {arguments.brokers} broker(s), {outcome}", *wrong, sep="\n  ", flush=True)
    return wrong


def main() -> int:
    arguments = _arguments()
    failed = 0
    for seed in range(arguments.seed, arguments.seed + arguments.runs):
        for client in CLIENTS if arguments.client == "all" else (arguments.client,):
            plan = Plan(
                client, seed, arguments.records, arguments.value_bytes, arguments.partitions,
                transaction_size=arguments.transaction_size, kills=arguments.kills,
                transaction_timeout_ms=TIMEOUT_MS[arguments.server], are_members=arguments.members,
            )  # fmt: skip
            with tempfile.TemporaryDirectory() as temporary:
                folder = Path(temporary)
                if _run(arguments, plan, folder):
                    failed += 1
                    if arguments.folder is not None:
                        shutil.copytree(folder, arguments.folder / f"{client}-{seed}", dirs_exist_ok=True)
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
