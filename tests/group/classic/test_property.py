"""Clients that come, go, lapse, restart and retry, and a coordinator that crashes: what holds all the same.

The clients do what real ones do with the answers they get. An answer reaches its client only once what it
depends on is committed; a crash loses what was not. The checker knows nothing of the group but those answers.
"""

from dataclasses import dataclass
from random import Random

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule
from tests.group.classic.dialogue import Dialogue
from tests.support.groups import REBALANCE_MS, reading

from ottla.base.errors import ErrorCode
from ottla.coordinator.turn import Answer
from ottla.group.classic.states import GroupState
from ottla.group.config import GroupConfig
from ottla.wire.messages.join_group import JoinGroupResponse
from ottla.wire.messages.sync_group import SyncGroupResponse

PARTITIONS = 3
CLIENTS_MAX = 5
SETTLED_AFTER_MS = 10 * 60_000


@dataclass
class Client:
    name: str
    instance: str | None
    version: int
    member: str = ""
    generation: int = -1
    owned: bytes | None = None
    metadata: int = 0
    waiting: Answer | None = None


class Groups(RuleBasedStateMachine):
    def __init__(self) -> None:
        super().__init__()
        self.say = Dialogue(GroupConfig(initial_rebalance_delay_ms=1_000))
        self.clients: list[Client] = []
        self.names = 0
        self.claims: dict[str | None, str] = {}
        self.committed = 0
        self.owners: dict[tuple[int, int], str] = {}
        self.generation_seen = 0
        self.generation_now = 0

    # What clients do.

    def join(self, client: Client) -> None:
        client.generation, client.owned = -1, None
        if not client.member:
            self.claims[client.instance] = client.name
        client.waiting = self.say.join(
            client.member,
            client=client.name,
            instance=client.instance,
            version=client.version,
            protocols=reading(f"t{client.metadata}"),
        )

    def react(self, client: Client) -> None:
        """Read the answer if it is there; if there is nothing to read, be alive."""
        if client.waiting is None:
            if client.generation < 0:
                self.join(client)
            else:
                code = self.say.heartbeat(
                    client.member, generation=client.generation, instance=client.instance
                )
                self.on_code(client, code)
            return
        reply = client.waiting.reply
        if reply is None or client.waiting.after_offset > self.committed:
            return
        client.waiting = None
        if reply.error_code:
            self.on_code(client, ErrorCode(reply.error_code), reply)
        elif isinstance(reply, JoinGroupResponse):
            self.on_joined(client, reply)
        else:
            self.on_synced(client, reply)

    def on_code(self, client: Client, code: ErrorCode, reply: object = None) -> None:
        if code == ErrorCode.FENCED_INSTANCE_ID:
            assert self.claims.get(client.instance) != client.name, "fenced, but by nobody"
            self.clients.remove(client)
        elif code:
            if code == ErrorCode.UNKNOWN_MEMBER_ID:
                client.member = ""
            elif code == ErrorCode.MEMBER_ID_REQUIRED:
                assert isinstance(reply, JoinGroupResponse)
                client.member = reply.member_id
            else:
                assert code in (ErrorCode.REBALANCE_IN_PROGRESS, ErrorCode.ILLEGAL_GENERATION)
            self.join(client)

    def on_joined(self, client: Client, reply: JoinGroupResponse) -> None:
        client.member, client.generation = reply.member_id, reply.generation_id
        leads = reply.leader == reply.member_id and not reply.skip_assignment
        assert bool(reply.members) == (reply.leader == reply.member_id)
        members = [each.member_id for each in reply.members]
        shares = {
            member: bytes(range(at, PARTITIONS, len(members))) for at, member in enumerate(members) if leads
        }
        client.waiting = self.say.sync(
            client.member, shares, generation=client.generation, instance=client.instance
        )

    def on_synced(self, client: Client, reply: SyncGroupResponse) -> None:
        client.owned = reply.assignment
        for partition in reply.assignment:
            owner = self.owners.setdefault((client.generation, partition), client.instance or client.member)
            assert owner == (client.instance or client.member), "a partition has two owners"
        self.generation_seen = max(self.generation_seen, client.generation)

    # The noise.

    @initialize(instances=st.lists(st.sampled_from([None, "x", "y"]), max_size=CLIENTS_MAX))
    def some_are_there(self, instances: list[str | None]) -> None:
        for instance in instances:
            self.somebody_comes(instance, 9)
        for _ in range(8):
            self.most_go_on(Random(0), 1, 0)

    @precondition(lambda self: len(self.clients) < CLIENTS_MAX)
    @rule(instance=st.sampled_from([None, None, "x", "y"]), version=st.sampled_from([3, 8, 9]))
    def somebody_comes(self, instance: str | None, version: int) -> None:
        """With an instance id somebody else has, it is the restart of that one, or its double."""
        self.names += 1
        self.clients.append(Client(f"c{self.names}", instance, max(version, 5) if instance else version))
        self.react(self.clients[-1])

    @precondition(lambda self: self.clients)
    @rule(data=st.data(), times=st.integers(1, 3))
    def somebody_goes_on(self, data: st.DataObject, times: int) -> None:
        client = data.draw(st.sampled_from(self.clients))
        for _ in range(times):
            if client in self.clients:
                self.react(client)

    @precondition(lambda self: self.clients)
    @rule(order=st.randoms(use_true_random=False), rounds=st.integers(1, 4), idle=st.integers(0, 2))
    def most_go_on(self, order: Random, rounds: int, idle: int) -> None:
        for _ in range(rounds):
            self.committed = self.say.journal.end_offset
            for client in order.sample(self.clients, max(len(self.clients) - idle, 0)):
                self.react(client)
            self.say.advance(500)

    @precondition(lambda self: self.clients)
    @rule(data=st.data(), changes=st.booleans())
    def somebody_joins_again(self, data: st.DataObject, changes: bool) -> None:
        """Also while its last request is still being answered."""
        client = data.draw(st.sampled_from(self.clients))
        client.metadata += changes
        self.join(client)

    @precondition(lambda self: self.clients)
    @rule(data=st.data(), how=st.sampled_from(["leaves", "is removed", "dies"]))
    def somebody_goes(self, data: st.DataObject, how: str) -> None:
        client = data.draw(st.sampled_from(self.clients))
        if how == "leaves":
            self.say.leave((client.member, client.instance))
        elif how == "is removed" and client.instance:
            self.say.leave(("", client.instance))
        if how != "is removed":
            self.clients.remove(client)

    @rule(seconds=st.sampled_from([1, 2, 4, 9, 11]))
    def time_passes(self, seconds: int) -> None:
        self.say.advance(seconds * 1_000)

    @rule(how=st.sampled_from(["it takes long to rebalance", "all is committed", "crash", "crash"]))
    def the_coordinator_is_in_trouble(self, how: str) -> None:
        if how == "it takes long to rebalance":
            self.say.advance(REBALANCE_MS)
        elif how == "all is committed":
            self.committed = self.say.journal.end_offset
        else:
            self.crash()

    def crash(self) -> None:
        del self.say.journal.items[self.committed :]
        self.say.restart()
        self.generation_now = 0
        # Who takes an instance id over while members join is stored only with the assignment, as in Kafka.
        stored = {member.instance_id: member.member_id for member in self.say.group.members.values()}
        self.claims = {
            client.instance: client.name
            for client in self.clients
            if client.instance and stored.get(client.instance) == client.member
        }
        for client in self.clients:
            if client.waiting is not None:  # its request is lost: it begins again
                client.waiting, client.generation = None, -1

    # What holds.

    @invariant()
    def generations_only_grow(self) -> None:
        generation = self.say.group.generation.number
        assert generation >= self.generation_now
        assert generation >= self.generation_seen
        self.generation_now = generation

    def teardown(self) -> None:
        """The noise stops. Then everybody who is left gets its share, and nobody waits for an answer."""
        deadline_ms = self.say.now_ms + SETTLED_AFTER_MS
        while not self.is_settled():
            assert self.say.now_ms < deadline_ms, "it does not become stable"
            self.committed = self.say.journal.end_offset
            for client in list(self.clients):
                self.react(client)
            self.generations_only_grow()
            self.say.advance(1_500)
        assert not self.say.waiting
        if self.clients:
            owned = sorted(partition for client in self.clients for partition in client.owned or b"")
            assert owned == list(range(PARTITIONS))
            assert {client.generation for client in self.clients} == {self.say.group.generation.number}

    def is_settled(self) -> bool:
        wanted = GroupState.STABLE if self.clients else GroupState.EMPTY
        live = {client.member for client in self.clients}
        return (
            self.say.state is wanted
            and set(self.say.group.members) == live
            and not self.say.group.roster.pending
            and all(client.owned is not None and client.waiting is None for client in self.clients)
        )


TestGroups = Groups.TestCase
TestGroups.settings = settings(max_examples=200, stateful_step_count=50, report_multiple_bugs=False)
