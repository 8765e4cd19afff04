"""Answers that wait until this broker surely led what they speak of when it was asked
(`broker/leadership_proofs`).

In nearly all cases that is known at once, and nothing waits. What cannot be proven in time is refused,
partition by partition, with an error after which clients look for the leader and try again. Where a
partition is in doubt nothing waits: the refusal comes at once, and is the last answer on its connection.
Clients ask whom they are connected to, and so turn to a broker that may know better.
"""

from collections.abc import Callable, Iterable
from typing import TypeVar

from ottla.api.call import Call, LastAnswer
from ottla.base.errors import ApiError, ErrorCode
from ottla.broker.broker import Broker
from ottla.broker.leadership_proofs import Proof
from ottla.broker.long_work import Steps
from ottla.broker.parked import Key, Parked
from ottla.replication.partition import Partition

WAIT_MS = 2_000
SENT_AWAY = "nothing confirms that this broker leads what it was asked about; another one may know better"

R = TypeVar("R")


def check_led(broker: Broker, partition: Partition, asked_ms: int, now_ms: int) -> None:
    """Refuse to speak of a partition that others may have led since."""
    if not broker.proofs.led_at(partition, asked_ms, now_ms):
        raise ApiError(
            ErrorCode.NOT_LEADER_OR_FOLLOWER,
            f"Neither the keeper nor the followers confirm that broker {broker.id} leads "
            f"{partition.topic_partition}.",
        )


def check_no_doubt(broker: Broker, partition: Partition, now_ms: int) -> None:
    """Refuse to work for a partition that others have probably led for some time."""
    in_doubt = broker.proofs.in_doubt
    if in_doubt and partition.topic_partition in in_doubt:
        check_led(broker, partition, now_ms, now_ms)


def last_if_in_doubt(call: Call, steps: Steps) -> Steps:
    """What steps lead to: the last answer on its connection, if this broker may have been replaced, or may be
    found to have been while the answer is made."""
    answer = yield from steps
    if isinstance(answer, Parked):
        return answer
    proofs = call.broker.proofs
    is_in_doubt = bool(proofs.in_doubt)
    return LastAnswer(answer, SENT_AWAY, lambda: is_in_doubt or bool(proofs.in_doubt))


def proven(
    call: Call,
    partitions: Iterable[Partition],
    respond: Callable[[int], R],
    *,
    settled: bool = False,
) -> R | Parked | LastAnswer:
    """What `respond` answers at its time, or Parked until that is proven, or the time is up; it refuses what
    is not proven itself. `settled`: wait, too, until partitions know all that was committed before them."""
    broker, asked_ms = call.broker, call.now_ms

    def is_open(partition: Partition, now_ms: int) -> bool:
        if not partition.is_leader:
            return False
        return not broker.proofs.led_at(partition, asked_ms, now_ms) or (settled and not partition.is_settled)

    def ask(unproven: list[Partition], now_ms: int) -> None:
        for partition in unproven:
            if not broker.proofs.led_at(partition, asked_ms, now_ms):
                broker.proofs.ask_for(partition, asked_ms, now_ms)

    waits_for = [partition for partition in partitions if is_open(partition, asked_ms)]
    if not waits_for:
        return respond(asked_ms)
    if any(partition.topic_partition in broker.proofs.in_doubt for partition in waits_for):
        ask(waits_for, asked_ms)
        return LastAnswer(respond(asked_ms), SENT_AWAY)

    def ready(_key: Key, now_ms: int) -> R | None:
        still = [partition for partition in waits_for if is_open(partition, now_ms)]
        ask(still, now_ms)
        return None if still else respond(now_ms)

    ask(waits_for, asked_ms)
    return Parked(
        keys=tuple(
            key
            for partition in waits_for
            for key in (Proof(partition.topic_partition), partition.topic_partition)
        ),
        deadline_ms=asked_ms + WAIT_MS,
        ready=ready,
        expire=respond,
    )
