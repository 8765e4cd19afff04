"""Clients of both protocols that come, go, lapse, restart and change protocol; a coordinator that crashes:
what holds all the same.

Everything comes from one seed. The checkers go by what clients were told, not by what the groups think; of a
group they look only at its kind and at who is in it. A group has *eras*: one ends when the group changes its
kind or has nobody in it, since epochs may begin anew then.

- classic era: no partition is told to two members in one generation;
- consumer era: no partition is owned by two members at any time;
- the last commit the log has below the watermark is the one that is answered, and none that was acknowledged
  is lost with a crash;
- who was told that its epoch is over cannot commit with it;
- once the noise stops, every group is stable and everything is read.

A seed that fails: `World(seed).live()`.
"""

import random
from typing import Any

import pytest
from tests.group.room import Room
from tests.group.test_property_clients import ClassicClient, Client, ConsumerClient, Partition
from tests.support.groups import Topics

from ottla.base.errors import ErrorCode
from ottla.coordinator.turn import Answer, Turn
from ottla.group.classic.group import ClassicGroup
from ottla.group.classic.roster import Roster
from ottla.group.classic.states import GroupState
from ottla.group.config import GroupConfig
from ottla.group.consumer import reconciliation
from ottla.group.consumer.group import ConsumerGroup
from ottla.group.consumer.state import ConsumerState
from ottla.group.offsets import Offsets
from ottla.group.shard import GroupShard

SEEDS = 400
STEPS = 150
PLANTED_SEEDS = 60
CLIENTS_MAX = 6
GROUPS = ("g1", "g2")
SETTLED_AFTER_MS = 15 * 60_000
ROUND_MS = 2_000


class Broken(AssertionError):  # noqa: N818
    """An invariant does not hold."""


class World:
    def __init__(self, seed: int) -> None:
        self.random = random.Random(seed)
        self.room = Room(GroupConfig(), Topics(t=3, u=2), checks=False)
        self.room.journal.waits = True
        self.clients: list[Client] = []
        self.names = 0
        self.cooperative = {group: self.random.random() < 0.5 for group in GROUPS}
        self.classic_share = {group: self.random.choice((0.0, 0.5, 1.0)) for group in GROUPS}
        self.eras = dict.fromkeys(GROUPS, 0)
        self.kinds: dict[str, type | None] = dict.fromkeys(GROUPS)
        self.eras_of: dict[Answer, dict[str, int]] = {}
        self.told: dict[tuple[str, int, int, Partition], str] = {}
        self.over: list[tuple[str, int, str, int]] = []
        self.commits: dict[tuple[str, Partition], list[tuple[int, int]]] = {}
        self.acknowledging: list[tuple[Answer, tuple[str, Partition], int]] = []
        self.acknowledged: dict[tuple[str, Partition], int] = {}
        self.value = 0
        given = self.room.given

        def on_answered(answer: Answer, _now_ms: int) -> None:
            given.clear()
            self.observe()
            self.eras_of[answer] = dict(self.eras)

        self.room.runtime.on_answered = on_answered

    def partitions(self) -> list[Partition]:
        counts = self.room.topics.counts
        return [(topic, number) for topic in sorted(counts) for number in range(counts[topic])]

    # Eras

    def observe(self) -> None:
        for group_id in GROUPS:
            group = self.room.shard.groups.get(group_id)
            kind = type(group) if group is not None and group.members else None
            for client in self.of(group_id):
                if group is None or client.member not in group.members:
                    client.era, client.is_lapsed = -1, True
            if kind is self.kinds[group_id] and kind is not None:
                continue
            was, self.kinds[group_id] = self.kinds[group_id], kind
            self.eras[group_id] += 1
            if was is ClassicGroup and isinstance(group, ConsumerGroup):
                for client in self.of(group_id):
                    member = group.members.get(client.member)
                    if member is not None and member.epoch == client.epoch:
                        client.era = self.eras[group_id]

    def era_of(self, answer: Answer, group_id: str) -> int:
        """The era an answer was given in."""
        return self.eras_of.pop(answer)[group_id]

    def of(self, group_id: str) -> list[Client]:
        return [client for client in self.clients if client.group == group_id]

    # What clients report

    def assigned_to(self, client: Client) -> None:
        is_classic = isinstance(client, ClassicClient) and self.kinds[client.group] is not ConsumerGroup
        if not is_classic or client.is_lapsed:
            return
        for partition in sorted(client.owned):
            key = (client.group, client.era, client.epoch, partition)
            owner = self.told.setdefault(key, client.instance or client.member)
            if owner != (client.instance or client.member):
                raise Broken(f"{partition} is told to {owner} and to {client.member} in one generation")

    def advanced(self, client: Client, member: str, epoch: int, era: int) -> None:
        """It is told an epoch; the one before is over."""
        if member == client.member and 0 <= client.epoch < epoch and client.told_in == era:
            self.over.append((client.group, era, member, client.epoch))
        client.told_in = era

    def fenced(self, client: Client) -> None:
        """It was refused. That does not wait for what it rests on, which a crash may undo."""
        journal = self.room.journal
        if client.epoch >= 0 and journal.committed == journal.end_offset:
            self.over.append((client.group, client.told_in, client.member, client.epoch))

    def is_over_for_good(self, group: str, era: int, _member: str, epoch: int) -> bool:
        """Of a classic group only complete generations are stored: a crash brings the last of them back, with
        all who were in it."""
        if self.kinds[group] is ConsumerGroup:
            return True
        return any(told[:2] == (group, era) and told[2] > epoch for told in self.told)

    # The noise

    def live(self, steps: int = STEPS) -> None:
        events = [
            (self.somebody_goes_on, 30),
            (self.everybody_goes_on, 25),
            (self.somebody_comes, 9),
            (self.somebody_goes, 3),
            (self.somebody_changes_protocol, 3),
            (self.somebody_restarts, 3),
            (self.time_passes, 10),
            (self.what_is_written_is_committed, 20),
            (self.the_coordinator_crashes, 3),
            (self.a_topic_grows, 1),
            (self.somebody_commits, 25),
            (self.somebody_commits_whose_time_is_over, 15),
        ]
        happen, weights = zip(*events, strict=True)
        for _ in range(steps):
            self.random.choices(happen, weights)[0]()
            self.check()
        self.settle()

    def step(self, client: Client, loss: float = 0.0) -> None:
        if client in self.clients:
            client.step(loss)
            self.observe()

    def somebody(self) -> Client | None:
        return self.random.choice(self.clients) if self.clients else None

    def somebody_goes_on(self) -> None:
        client = self.somebody()
        if client is not None:
            for _ in range(self.random.randint(1, 3)):
                self.step(client, loss=0.1)

    def everybody_goes_on(self) -> None:
        self.what_is_written_is_committed()
        for client in list(self.clients):
            self.step(client, loss=0.05)

    def somebody_comes(self) -> None:
        if len(self.clients) < CLIENTS_MAX:
            self.names += 1
            instance = f"i{self.names}" if self.random.random() < 0.3 else None
            group = self.random.choice(GROUPS)
            self.come(group, self.random.random() < self.classic_share[group], instance)

    def come(self, group: str, is_classic: bool, instance: str | None) -> None:
        self.names += 1
        if is_classic:
            client: Client = ClassicClient(
                self, group, f"c{self.names}", instance, is_cooperative=self.cooperative[group]
            )
        else:
            client = ConsumerClient(self, group, f"n{self.names}", instance, member=f"n{self.names}")
        self.clients.append(client)
        self.step(client)

    def leave(self, client: Client) -> None:
        client.leave()
        self.clients.remove(client)
        self.observe()

    def somebody_goes(self) -> None:
        client = self.somebody()
        if client is not None:
            if self.random.random() < 0.6:
                self.leave(client)
            else:
                self.clients.remove(client)  # it dies, and nobody is told

    def somebody_changes_protocol(self) -> None:
        client = self.somebody()
        if client is not None and self.classic_share[client.group] == 0.5:
            self.leave(client)
            self.come(client.group, isinstance(client, ConsumerClient), client.instance)

    def somebody_restarts(self) -> None:
        """A static member is back under a new member id; with either protocol."""
        static = [client for client in self.clients if client.instance]
        if not static:
            return
        client = self.random.choice(static)
        if isinstance(client, ConsumerClient):
            client.leave(for_a_while=True)
        self.clients.remove(client)
        is_classic = isinstance(client, ClassicClient)
        if self.classic_share[client.group] == 0.5 and self.random.random() < 0.3:
            is_classic = not is_classic
        self.come(client.group, is_classic, client.instance)

    def time_passes(self) -> None:
        self.room.advance(1_000 * self.random.choice((1, 1, 1, 3, 3, 3, 4, 4, 9, 11, 31, 46, 61)))
        self.observe()

    def what_is_written_is_committed(self) -> None:
        journal = self.room.journal
        journal.committed = journal.end_offset
        self.room.runtime.on_committed(0, journal.committed, self.room.now_ms)

    def the_coordinator_crashes(self) -> None:
        journal = self.room.journal
        del journal.items[journal.committed :]
        for log in self.commits.values():
            while log and log[-1][0] >= journal.committed:
                log.pop()
        self.acknowledging = [one for one in self.acknowledging if one[0].after_offset <= journal.committed]
        self.room.restart()
        self.observe()
        self.over = [one for one in self.over if self.is_over_for_good(*one)]
        for client in list(self.clients):
            client.on_disconnected()

    def a_topic_grows(self) -> None:
        topic = self.random.choice(("t", "u"))
        self.room.topics.set(topic, self.room.topics.counts[topic] + 1)

    # Commits

    def somebody_commits(self) -> None:
        client = self.somebody()
        if client is None or client.epoch <= 0 or not client.owned:
            return
        partition = self.random.choice(sorted(client.owned))
        self.commit(client.group, client.member, client.epoch, partition, client.instance)

    def somebody_commits_whose_time_is_over(self) -> None:
        self.over = [one for one in self.over if one[1] == self.eras[one[0]]]
        if self.over:
            group, _, member, epoch = self.random.choice(self.over)
            code = self.commit(group, member, epoch, self.random.choice(self.partitions()), None)
            if code == ErrorCode.NONE:
                raise Broken(f"{member} of {group} commits with epoch {epoch}, which is over")

    def commit(
        self, group: str, member: str, epoch: int, partition: Partition, instance: str | None
    ) -> ErrorCode:
        self.value += 1
        topic, number = partition
        at = self.room.journal.end_offset
        answer = self.room.committing(
            self.value, member, epoch, group=group, topic=topic, partition=number, instance=instance
        )
        if isinstance(answer.reply, ErrorCode):
            return answer.reply
        self.commits.setdefault((group, partition), []).append((at, self.value))
        self.acknowledging.append((answer, (group, partition), self.value))
        return ErrorCode.NONE

    # What holds

    def check(self) -> None:
        self.check_commits()
        for group_id in GROUPS:
            self.check_owners(group_id)
        if self.random.random() < 0.05:
            self.room.checks = True
            self.room.check()
            self.room.checks = False

    def check_commits(self) -> None:
        committed = self.room.journal.committed_offset
        still = []
        for answer, key, value in self.acknowledging:
            if answer.after_offset <= committed:
                self.acknowledged[key] = max(value, self.acknowledged.get(key, 0))
            else:
                still.append((answer, key, value))
        self.acknowledging = still
        for (group, partition), log in self.commits.items():
            expected = next((value for at, value in reversed(log) if at < committed), None)
            found = self.room.offset(group, *partition)
            if found != expected:
                raise Broken(f"{group} has {found} for {partition}; committed was {expected}")
            if (expected or 0) < self.acknowledged.get((group, partition), 0):
                raise Broken(f"{group} has lost an acknowledged commit for {partition}")

    def check_owners(self, group_id: str) -> None:
        group = self.room.shard.groups.get(group_id)
        if not isinstance(group, ConsumerGroup):
            return
        owners: dict[Partition, str] = {}
        for client in self.of(group_id):
            if client.member in group.members and client.era == self.eras[group_id]:
                for partition in client.owned:
                    if partition in owners:
                        raise Broken(f"{partition} is owned by {owners[partition]} and {client.member}")
                    owners[partition] = client.member

    def settle(self) -> None:
        """The noise stops: everybody goes on, everything is committed, and soon all is well."""
        deadline_ms = self.room.now_ms + SETTLED_AFTER_MS
        while not all(self.is_settled(group_id) for group_id in GROUPS):
            if self.room.now_ms > deadline_ms:
                raise Broken(f"not stable: {[self.room.shard.groups.get(group) for group in GROUPS]}")
            for _ in range(2):
                for client in list(self.clients):
                    self.what_is_written_is_committed()
                    self.step(client)
                self.check()
            self.room.advance(ROUND_MS)
            self.observe()
        self.what_is_written_is_committed()
        self.check()
        self.room.checks = True
        self.room.check()

    def is_settled(self, group_id: str) -> bool:
        group = self.room.shard.groups.get(group_id)
        clients = self.of(group_id)
        if not clients:
            return group is None or not group.members
        if group is None or set(group.members) != {client.member for client in clients}:
            return False
        state = group.state if isinstance(group, ClassicGroup) else group.state_name
        owned = sorted(partition for client in clients for partition in client.owned)
        is_done = not any(isinstance(one, ConsumerClient) and one.owned != one.wanted for one in clients)
        if isinstance(group, ClassicGroup):
            if state is GroupState.STABLE and len(owned) < len(self.partitions()):
                self.notice_new_partitions(group, clients)
            return state is GroupState.STABLE and owned == self.partitions()
        return state == "Stable" and is_done and owned == self.partitions()

    def notice_new_partitions(self, group: ClassicGroup, clients: list[Client]) -> None:
        """A classic leader learns of new partitions from the metadata, and joins again."""
        if all(one.waiting is None or one.asked == "beaten" for one in clients):
            for client in clients:
                if client.member == group.roster.leader:
                    assert isinstance(client, ClassicClient)
                    client.join()


@pytest.mark.parametrize("first", range(0, SEEDS, 50))
def test_partitions_have_one_owner_commits_last_and_groups_settle(first: int) -> None:
    for seed in range(first, first + 50):
        try:
            World(seed).live()
        except AssertionError as error:
            raise AssertionError(f"World({seed}).live(): {error}") from error


def test_a_seed_replays_everything() -> None:
    def journal(seed: int) -> Any:
        world = World(seed)
        world.live()
        return world.room.journal.records

    assert journal(11) == journal(11)
    assert journal(11) != journal(12)


# The checkers see the bugs they are for


def first_complaint() -> str:
    for seed in range(PLANTED_SEEDS):
        try:
            World(seed).live()
        except Broken as broken:
            return str(broken)
    return "nothing"


def test_a_partition_given_away_before_it_is_given_up_is_seen(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(reconciliation, "overlaps", lambda owned, revoked: False)
    assert "is owned by" in first_complaint()


def test_a_partition_given_to_whoever_asks_is_seen(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(ConsumerState, "owner", lambda self, topic_id, partition: None)
    assert "is owned by" in first_complaint()


def test_a_classic_member_told_what_is_another_s_is_seen(monkeypatch: pytest.MonkeyPatch) -> None:
    def assign(self: Roster, assignments: dict[str, bytes]) -> None:
        honest(self, dict.fromkeys(self.members, next(iter(assignments.values()), b"")))

    honest = Roster.assign
    monkeypatch.setattr(Roster, "assign", assign)
    complaint = first_complaint()
    assert "in one generation" in complaint or "is owned by" in complaint


@pytest.mark.parametrize("kind", [ClassicGroup, ConsumerGroup])
def test_a_commit_in_an_epoch_that_is_over_is_seen(kind: type, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(kind, "check_commit", lambda self, commit: None)
    assert "which is over" in first_complaint()


def test_offsets_dropped_on_a_restart_are_missed(monkeypatch: pytest.MonkeyPatch) -> None:
    def on_loaded(self: GroupShard, turn: Turn) -> None:
        self.offsets = Offsets()
        honest(self, turn)

    honest = GroupShard.on_loaded
    monkeypatch.setattr(GroupShard, "on_loaded", on_loaded)
    assert "has None for" in first_complaint()


def test_an_answer_that_does_not_wait_for_its_records_is_seen(monkeypatch: pytest.MonkeyPatch) -> None:
    class Hasty:
        """After a crash, the answer has told of something that never was."""

        def __set__(self, answer: Answer, offset: int) -> None:
            """It waits for nothing."""

        def __get__(self, answer: Answer, kind: type) -> int:
            return 0

    monkeypatch.setattr(Answer, "after_offset", Hasty())
    assert "has lost an acknowledged commit" in first_complaint()


def test_a_member_that_is_never_removed_is_seen(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(ConsumerGroup, "on_timer", lambda self, turn, key: self)
    assert "not stable" in first_complaint()
