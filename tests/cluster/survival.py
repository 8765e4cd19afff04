"""A fault in the midst of load, and the check of what was promised and seen (design note 015, part 4)."""

import os
import uuid
from collections.abc import Callable

from tests.cluster.load import Load, check
from tests.cluster.real import RealCluster
from tests.support.waiting import wait_for

PARTITIONS = 3
WARM_UP = 1_000  # records
IS_SLOW = bool(os.environ.get("OTTLA_SLOW_MACHINE"))
SLACK_S = 12.0 if IS_SLOW else 2.0


def survive(
    cluster: RealCluster, name: str, fault: Callable[[str, Load], object], silence_s_max: float
) -> None:
    """Load, the fault in the midst of it, load again, and the check of the whole history."""
    topic = cluster.create_topic(f"{name}-{uuid.uuid4().hex[:6]}", PARTITIONS)
    with Load(cluster.bootstrap, topic, PARTITIONS) as load:
        wait_for(lambda: load.acked > WARM_UP, 60, "the load is acknowledged")
        fault(topic, load)
        flows_again(load)
    history = load.finish()
    silence_s = history.longest_silence()
    print(f"\n{name}: {len(history.acked)} acknowledged, longest time without a leader {silence_s:.2f} s")
    assert check(history)[:5] == []
    assert history.refused == []
    assert len(history.acked) == load.sent
    assert silence_s <= silence_s_max


def flows_again(load: Load) -> None:
    """Everything sent until now is acknowledged, and more."""
    goal = load.sent + WARM_UP
    wait_for(lambda: load.acked >= goal, 60, "writes flow again")
