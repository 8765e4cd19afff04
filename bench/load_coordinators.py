"""Coordinators with much to remember: `fill` writes it, `until_loaded` waits until all of it is there again.

Groups commit all partitions of a topic again and again, and transactional producers begin again and again:
what is stored grows, while what it amounts to stays small.
"""

import os
import socket
import time
from collections.abc import Callable, Iterator

from bench import wire, wire_groups
from bench.servers import HOST, Peer, PeerError

TOPIC = "committed"
PARTITIONS = 500
GROUPS = tuple(f"group-{number}" for number in range(20))
WRITERS = tuple(f"writer-{number}" for number in range(1_000))
INTERNAL = ("__consumer_offsets", "__transaction_state")
ASKED = 20
IN_FLIGHT = 20
PATIENCE_S = 300.0
RETRY_S = 0.02
_CODE_AT = 4 + 4 + 4  # behind the size, the correlation id and the throttle time


def _code(frame: bytes, at: int) -> int:
    return int.from_bytes(frame[at : at + 2], "big", signed=True)


def fill(peer: Peer, records: int) -> None:
    """About so many records of groups, and a tenth of that of transactions."""
    peer.create_topic(TOPIC, partitions=PARTITIONS)
    with wire.connect(HOST, peer.port, PATIENCE_S) as sock:
        for group in GROUPS:
            _until(sock, wire_groups.find_coordinator(group), _CODE_AT)
        at = wire_groups.commit_error_offset(TOPIC)
        commits = [wire_groups.commit(group, "", -1, TOPIC, range(PARTITIONS), 1) for group in GROUPS]
        for commit in commits:
            _until(sock, commit, at)
        rounds = records // PARTITIONS // len(GROUPS)
        _send(sock, (commit for _ in range(rounds) for commit in commits), at)
        _until(sock, wire_groups.find_transaction_coordinator(WRITERS[0]), _CODE_AT)
        begins = [wire_groups.init_producer_id(writer) for writer in WRITERS]
        for begin in begins:
            _until(sock, begin, _CODE_AT)
        _send(sock, (begin for _ in range(records // 10 // len(WRITERS)) for begin in begins), _CODE_AT)


def until_loaded(peer: Peer) -> None:
    with wire.connect(HOST, peer.port, PATIENCE_S) as sock:
        for group in GROUPS:
            _until(sock, wire_groups.heartbeat(group, "nobody", 1), _CODE_AT, {wire_groups.UNKNOWN_MEMBER})
        for writer in WRITERS[:: len(WRITERS) // ASKED]:
            _until(sock, wire_groups.init_producer_id(writer), _CODE_AT)


def forget_stored(peer: Peer, forget: Callable[[str], None]) -> None:
    """Have nothing of it in the page cache; the broker is down."""
    for folder, _, names in os.walk(peer.folder):
        if os.path.basename(folder).startswith(INTERNAL):
            for name in names:
                forget(os.path.join(folder, name))


def _until(
    sock: socket.socket, request: bytes, at: int, good: frozenset[int] | set[int] = frozenset()
) -> None:
    """Ask until there is a coordinator that has loaded what it needs for it."""
    deadline = time.perf_counter() + PATIENCE_S
    while time.perf_counter() < deadline:
        sock.sendall(request)
        code = _code(wire.read_frame(sock), at)
        if not code or code in good:
            return
        if code not in wire_groups.RETRIABLE | {wire_groups.CONCURRENT_TRANSACTIONS}:
            raise PeerError(f"a coordinator answered with error {code}")
        time.sleep(RETRY_S)
    raise PeerError(f"a coordinator was not there in {PATIENCE_S:.0f} s")


def _send(sock: socket.socket, requests: Iterator[bytes], at: int) -> None:
    """Some at a time; each answer begins with the size of what follows."""
    while chunk := b"".join(
        batch := [request for request, _ in zip(requests, range(IN_FLIGHT), strict=False)]
    ):
        sock.sendall(chunk)
        buffer = b""
        for _ in batch:
            while len(buffer) < 4 or len(buffer) < 4 + int.from_bytes(buffer[:4], "big"):
                more = sock.recv(1 << 16)
                if not more:
                    raise PeerError("a coordinator closed the connection")
                buffer += more
            if code := _code(buffer, at):
                raise PeerError(f"a coordinator answered with error {code}")
            buffer = buffer[4 + int.from_bytes(buffer[:4], "big") :]
