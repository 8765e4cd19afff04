"""Members of a group on one thread: a connection each, hand-made requests, one epoll for all of them.

A member does what a consumer does and nothing else. Classic: it joins, is told its id, joins with that, syncs
(the leader deals the partitions out evenly), and then sends a heartbeat every `HEARTBEAT_S`, joining again
when it is told to. New protocol: it sends heartbeats as often as the broker tells it to, and one at once when
its assignment has changed.
"""

import base64
import contextlib
import heapq
import os
import select
import time
from collections.abc import Callable

from bench import wire
from bench import wire_groups as groups
from bench.servers import HOST, Peer, PeerError

TIMEOUT_S = 60.0
HEARTBEAT_S = 0.1
RETRY_S = 0.02


class Link:
    """One connection with one request in flight; `on_reply` gets the frame."""

    def __init__(self, port: int) -> None:
        self.socket = wire.connect(HOST, port, TIMEOUT_S)
        self.on_reply: Callable[[bytes], None] = lambda _: None
        self._buffer = b""

    def send(self, request: bytes, on_reply: Callable[[bytes], None]) -> None:
        self.on_reply = on_reply
        self.socket.sendall(request)

    def call(self, request: bytes) -> bytes:
        self.socket.sendall(request)
        return wire.read_frame(self.socket)

    def on_readable(self) -> None:
        more = self.socket.recv(65536)
        if not more:
            raise ConnectionError("the broker closed the connection")
        self._buffer += more
        if len(self._buffer) >= 4 and len(self._buffer) >= 4 + int.from_bytes(self._buffer[:4], "big"):
            frame, self._buffer = self._buffer, b""
            self.on_reply(frame)


class Loop:
    def __init__(self) -> None:
        self.requests = 0
        self._poller = select.epoll()
        self._links: dict[int, Link] = {}
        self._timers: list[tuple[float, int, Callable[[], None]]] = []
        self._sequence = 0

    def add(self, link: Link) -> None:
        self._links[link.socket.fileno()] = link
        self._poller.register(link.socket.fileno(), select.EPOLLIN)

    def later(self, delay_s: float, action: Callable[[], None]) -> None:
        self._sequence += 1
        heapq.heappush(self._timers, (time.perf_counter() + delay_s, self._sequence, action))

    def run_until(self, is_over: Callable[[], bool]) -> None:
        deadline = time.perf_counter() + TIMEOUT_S
        while not is_over():
            now = time.perf_counter()
            if now > deadline:
                raise PeerError(f"the group was not stable in {TIMEOUT_S:.0f} s")
            while self._timers and self._timers[0][0] <= now:
                heapq.heappop(self._timers)[2]()
            wait_s = self._timers[0][0] - time.perf_counter() if self._timers else 1.0
            for fd, _ in self._poller.poll(max(min(wait_s, 1.0), 0)):
                self.requests += 1
                self._links[fd].on_readable()

    def close(self) -> None:
        self._poller.close()
        for link in self._links.values():
            link.socket.close()


class Classic:
    """`partitions` is None while it does not know."""

    def __init__(self, loop: Loop, link: Link, group: str, topic: str, count: int) -> None:
        self.loop, self.link, self.group, self.topic, self.count = loop, link, group, topic, count
        self.member, self.generation = "", -1
        self.partitions: list[int] | None = None

    def join(self) -> None:
        self.partitions = None
        self.link.send(groups.join(self.group, self.member, self.topic), self._on_joined)

    def _on_joined(self, frame: bytes) -> None:
        joined = groups.Joined(frame)
        if joined.error == groups.MEMBER_ID_REQUIRED:
            self.member = joined.member
            self.join()
        elif joined.error in groups.RETRIABLE or joined.error == groups.REBALANCE:
            self.loop.later(RETRY_S, self.join)
        elif joined.error == groups.UNKNOWN_MEMBER:
            self.member = ""
            self.join()
        elif joined.error:
            raise PeerError(f"JoinGroup was answered with error {joined.error}")
        else:
            self.member, self.generation = joined.member, joined.generation
            shares = {
                who: groups.share(self.topic, list(range(at, self.count, len(joined.members))))
                for at, who in enumerate(joined.members)
            }
            request = groups.sync(self.group, self.member, self.generation, shares)
            self.link.send(request, self._on_synced)

    def _on_synced(self, frame: bytes) -> None:
        error, partitions = groups.synced(frame)
        if error in (groups.REBALANCE, groups.ILLEGAL_GENERATION):
            self.join()
        elif error:
            raise PeerError(f"SyncGroup was answered with error {error}")
        else:
            self.partitions = partitions
            self.loop.later(HEARTBEAT_S, self._beat)

    def _beat(self) -> None:
        request = groups.heartbeat(self.group, self.member, self.generation)
        self.link.send(request, self._on_beat)

    def _on_beat(self, frame: bytes) -> None:
        error = groups.simple_error(frame)
        if error in (groups.REBALANCE, groups.ILLEGAL_GENERATION):
            self.join()
        elif error:
            raise PeerError(f"Heartbeat was answered with error {error}")
        else:
            self.loop.later(HEARTBEAT_S, self._beat)

    def goodbye(self) -> bytes:
        return groups.leave(self.group, [self.member])


class Modern:
    def __init__(self, loop: Loop, link: Link, group: str, topic: str, count: int) -> None:
        self.loop, self.link, self.group, self.topic, self.count = loop, link, group, topic, count
        self.member = base64.urlsafe_b64encode(os.urandom(16)).decode().rstrip("=")
        self.epoch = 0
        self.owned: dict[bytes, list[int]] = {}
        self._has_news = True

    @property
    def partitions(self) -> list[int] | None:
        return [each for numbers in self.owned.values() for each in numbers]

    def join(self) -> None:
        owned = self.owned if self._has_news or self.epoch == 0 else None
        self._has_news = False
        self.link.send(groups.modern(self.group, self.member, self.epoch, self.topic, owned), self._on_beat)

    def _on_beat(self, frame: bytes) -> None:
        beat = groups.Beat(frame)
        if beat.error in groups.RETRIABLE:
            self._has_news = True
            self.loop.later(RETRY_S, self.join)
            return
        if beat.error:
            raise PeerError(f"ConsumerGroupHeartbeat was answered with error {beat.error}")
        self.epoch = beat.epoch
        if beat.assignment is not None:
            self._has_news = True
            self.owned = beat.assignment
            self.join()  # tell it at once what it has now, as clients do
        else:
            self.loop.later(beat.interval_ms / 1e3, self.join)

    def goodbye(self) -> bytes:
        return groups.modern(self.group, self.member, -1, self.topic, None)


KINDS: dict[str, type[Classic] | type[Modern]] = {"classic": Classic, "consumer": Modern}


def time_to_stable(
    port: int, kind: str, group: str, topic: str, members: int, count: int
) -> tuple[float, int]:
    """Seconds from the first join sent to: every member has its share, no partition two owners or none, and
    ListGroups shows the group as Stable. And how many requests that took."""
    loop = Loop()
    try:
        everybody = [KINDS[kind](loop, Link(port), group, topic, count) for _ in range(members)]
        observer = Link(port)
        for member in everybody:
            loop.add(member.link)
        whole, least = list(range(count)), count // members

        def is_stable() -> bool:
            shares = [member.partitions for member in everybody]
            if any(share is None or len(share) < least for share in shares):
                return False
            if sorted(each for share in shares for each in share or []) != whole:
                return False
            return groups.is_listed(observer.call(groups.list_stable()), group)

        started = time.perf_counter()
        for member in everybody:
            member.join()
        loop.run_until(is_stable)
        taken_s = time.perf_counter() - started
        for member in everybody:
            with wire.connect(HOST, port, TIMEOUT_S) as sock:
                sock.sendall(member.goodbye())
                wire.read_frame(sock)
        observer.socket.close()
        return taken_s, loop.requests
    finally:
        loop.close()


def until_coordinated(peer: Peer, group: str) -> None:
    """Find the coordinator, which makes the offsets topic, and wait until it takes a JoinGroup."""
    deadline = time.perf_counter() + TIMEOUT_S
    with wire.connect(HOST, peer.port, TIMEOUT_S) as sock:
        for request in (groups.find_coordinator(group), groups.heartbeat(group, "nobody", 1)):
            while True:
                sock.sendall(request)
                code = groups.simple_error(wire.read_frame(sock))
                if code not in groups.RETRIABLE:
                    break
                if time.perf_counter() > deadline:
                    raise PeerError(f"{peer.name} has no group coordinator")
                time.sleep(RETRY_S)


def _is_to_come_again(joined: bytes) -> bool:
    """Coordinators may still be loading, one for each partition of the offsets topic."""
    return groups.Joined(joined).error in groups.RETRIABLE


def make_live(port: int, names: list[str], topic: str, partitions: int) -> None:
    """Groups with one member each, which has all partitions and has committed an offset in each of them. A
    step is sent for all of them before the next: a broker may take its time to answer a join."""
    with contextlib.ExitStack() as stack:
        sockets = {name: stack.enter_context(wire.connect(HOST, port, TIMEOUT_S)) for name in names}

        def step(requests: dict[str, bytes]) -> dict[str, bytes]:
            for name, request in requests.items():
                sockets[name].sendall(request)
            return {name: wire.read_frame(sockets[name]) for name in requests}

        asked = step({name: groups.join(name, "", topic) for name in names})
        deadline = time.perf_counter() + TIMEOUT_S
        while late := [name for name, frame in asked.items() if _is_to_come_again(frame)]:
            if time.perf_counter() > deadline:
                raise PeerError(f"{len(late)} groups have no coordinator after {TIMEOUT_S:.0f} s")
            time.sleep(RETRY_S)
            asked |= step({name: groups.join(name, "", topic) for name in late})
        again = {name: groups.join(name, groups.Joined(frame).member, topic) for name, frame in asked.items()}
        joined = {name: groups.Joined(frame) for name, frame in step(again).items()}
        all_of_it = groups.share(topic, list(range(partitions)))
        syncs = {
            name: groups.sync(name, one.member, one.generation, {one.member: all_of_it})
            for name, one in joined.items()
        }
        codes = [groups.synced(frame)[0] for frame in step(syncs).values()]
        commits = {
            name: groups.commit(name, one.member, one.generation, topic, range(partitions), 1)
            for name, one in joined.items()
        }
        at = groups.commit_error_offset(topic)
        codes += [wire.produce_error(frame, at) for frame in step(commits).values()]
        if any(codes):
            raise PeerError(f"groups could not be made: errors {sorted(set(codes))}")
