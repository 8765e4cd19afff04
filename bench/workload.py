"""What the workloads share: how much to do, peers that are up together, rounds that take turns."""

import contextlib
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

from bench.report import Figures, Outcome, Row, medians
from bench.servers import Peer, PeerError

LOAD_TIMEOUT_S = 90.0


@dataclass(frozen=True)
class Scale:
    """Sizes of a run. `bulk_records` goes by bytes in a record; `only` names the cases that are wanted, of a
    workload that can do without the others; `is_busy`: others use the machine; `say` shows progress."""

    bulk_rounds: int
    bulk_records: dict[int, int]
    single_rounds: int
    warm_s: float
    single_s: float
    starts: int
    idle_s: float
    recovery_rounds: int
    recovery_bytes: int
    partitions: int
    cold_bytes: int
    catch_up_bytes: int
    connections: int
    only: tuple[str, ...]
    is_busy: bool
    say: Callable[[str], None]


@dataclass(frozen=True)
class Contender:
    """Someone whose turn comes once a round: `measure` returns the figures of one turn."""

    peer: str
    measure: Callable[[], Figures]


@contextlib.contextmanager
def up(peers: Sequence[Peer], outcome: Outcome, scale: Scale) -> Iterator[list[Peer]]:
    """The peers that start. One that does not becomes a row with the reason."""
    with contextlib.ExitStack() as stack:
        running: list[Peer] = []
        for peer in peers:
            scale.say(f"{outcome.workload}: starting {peer.name}")
            try:
                running.append(stack.enter_context(peer))
            except PeerError as error:
                outcome.rows.append(Row("start", peer.name, {}, f"not run: {error}"))
        yield running


def take_turns(
    case: str, contenders: Sequence[Contender], outcome: Outcome, rounds: int, say: Callable[[str], None]
) -> None:
    """Add one row per contender: medians over the rounds. Each round begins with another contender."""
    seen: dict[str, list[Figures]] = {each.peer: [] for each in contenders}
    failed: dict[str, str] = {}
    for turn in range(rounds):
        first = turn % max(1, len(contenders))
        for each in (*contenders[first:], *contenders[:first]):
            if each.peer in failed:
                continue
            say(f"{outcome.workload}: {case}, round {turn + 1} of {rounds}, {each.peer}")
            try:
                seen[each.peer].append(each.measure())
            except PeerError as error:
                failed[each.peer] = f"failed: {error}"
    for each in contenders:
        # Figures of the rounds before a failure would look like a result.
        taken = () if each.peer in failed else tuple(seen[each.peer])
        outcome.rows.append(Row(case, each.peer, medians(taken), failed.get(each.peer, ""), taken))
