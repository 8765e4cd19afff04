"""What the controller should write: the difference between the states and who is there.

Level-triggered: nothing is remembered from one look to the next, so a new controller finishes whatever the
last one began. `is_settled` is the quick look, at a topic that nothing happened to; `repair` the thorough
one.
"""

from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from collections.abc import Set as AbstractSet

from ottla.base.errors import ApiError, ErrorCode
from ottla.controller import reassignment
from ottla.controller.causes import Cause, Reason
from ottla.controller.draft import Draft
from ottla.controller.election import elect, in_sync, led_by, repaired
from ottla.controller.image import Image, Topic
from ottla.controller.znodes import NO_LEADER, State
from ottla.log.config import LogConfig

COUNTED_MAX = 5_000  # partitions, until others have their turn


def plan(image: Image, config_of: Callable[[str], LogConfig]) -> dict[str, dict[int, State]]:
    """Every state that should be another, by topic and partition."""
    states = {}
    for topic in image.topics.values():
        if is_settled(image, topic):
            continue
        draft = Draft(image, topic, config_of(topic.name))
        repair(draft)
        changed = {p: state for p, state in draft.states.items() if state != topic.states[p]}
        if changed:
            states[topic.name] = changed
    return states


def is_settled(image: Image, topic: Topic, suspected: AbstractSet[int] = frozenset()) -> bool:
    """Surely nothing to do: every in-sync replica is there as recorded, and stays."""
    if topic.adding or topic.removing:
        return False
    return next(_unsettled(image, topic.name, topic.states, suspected), None) is None


def _unsettled(
    image: Image, topic: str, states: Mapping[int, State], suspected: AbstractSet[int]
) -> Iterator[int]:
    """The partitions of which the quick look does not tell that nothing is to be done."""
    brokers = image.brokers
    offline = {broker: partitions for broker, partitions in image.offline.items() if partitions}
    for partition, state in states.items():
        isr = state.isr
        if state.leader == NO_LEADER or state.elr or state.leader not in isr:
            yield partition
            continue
        epochs = state.isr_epochs if len(state.isr_epochs) == len(isr) else in_sync(state).values()
        for member, epoch in zip(isr, epochs, strict=True):
            broker = brokers.get(member)
            if broker is None or broker.epoch != epoch or broker.is_stopping or member in suspected:
                yield partition
                break
            if offline and (topic, partition) in offline.get(member, ()):
                yield partition
                break


def repair(draft: Draft) -> None:
    """Elect where nobody can lead, take out of the ISRs who is gone, and finish reassignments. Where nothing
    is reassigned, only what is not settled is looked at: of a hundred partitions a broker has a few."""
    if draft.topic.state_version < 0:
        return  # the topic is known and its states are not yet
    is_moving = draft.adding or draft.removing or draft.is_reassigned
    unsettled = _unsettled(draft.image, draft.topic.name, draft.states, draft.suspected)
    for partition in sorted(draft.states if is_moving else unsettled):
        if partition not in draft.assignment:
            continue
        state, rule = repaired(draft.states[partition], draft.around(partition))
        draft.put(partition, state, rule=rule)
        if partition in draft.adding or partition in draft.removing:
            reassignment.finish(draft, partition)


# -- elections that are asked for --


def elect_preferred(draft: Draft, partition: int, reason: Reason = Reason.REQUESTED) -> None:
    """Let the first replica of the assignment lead."""
    state, around = draft.state(partition), draft.around(partition)
    wanted = around.replicas[0]
    if state.leader == wanted:
        raise ApiError(ErrorCode.ELECTION_NOT_NEEDED, f"Broker {wanted} leads already.")
    if not can_prefer(draft, partition):
        raise ApiError(
            ErrorCode.PREFERRED_LEADER_NOT_AVAILABLE,
            f"Broker {wanted} is not there, is about to stop, or is not in sync.",
        )
    draft.put(partition, led_by(state, around, wanted), Cause(reason, wanted))


def can_prefer(draft: Draft, partition: int) -> bool:
    state, around = draft.states[partition], draft.around(partition)
    wanted = around.there.get(around.replicas[0])
    return wanted is not None and not wanted.is_stopping and in_sync(state).get(wanted.id) == wanted.epoch


def elect_unclean(draft: Draft, partition: int) -> None:
    """An operator gives up what only missing replicas hold."""
    state, around = draft.state(partition), draft.around(partition, allows_unclean=True)
    if state.leader in around.there:
        raise ApiError(ErrorCode.ELECTION_NOT_NEEDED, f"Broker {state.leader} leads.")
    elected = elect(state, around)
    if elected is None:
        raise ApiError(ErrorCode.ELIGIBLE_LEADERS_NOT_AVAILABLE, "No replica is there.")
    leader, rule = elected
    draft.put(partition, led_by(state, around, leader, rule), Cause(Reason.REQUESTED, leader), rule)


# -- leaders where they belong --


def imbalanced(image: Image, percentage_max: int) -> Iterator[tuple[str, int] | None]:
    """The partitions of brokers of whose partitions others lead too large a share (`leader.imbalance.*`), in
    the order of their topics: what is asked for together is written together.

    There is a None between two parts of the work, so that others may have their turn. What has changed by
    then does no harm: `elect_preferred` decides on what it finds."""
    owned: dict[int, int] = {}
    away: list[tuple[int, str, int]] = []  # by whom it should be led
    counted = 0
    for topic in list(image.topics.values()):
        moving = topic.adding.keys() | topic.removing.keys()
        for partition, state in topic.states.items():
            replicas = topic.assignment.get(partition)
            if not replicas:
                continue
            owned[replicas[0]] = owned.get(replicas[0], 0) + 1
            if state.leader != replicas[0] and partition not in moving:
                away.append((replicas[0], topic.name, partition))
        counted += len(topic.states)
        if counted >= COUNTED_MAX:
            counted = 0
            yield None
    moved = {
        broker
        for broker, count in Counter(broker for broker, _, _ in away).items()
        if 100 * count > percentage_max * owned[broker]
        and (there := image.brokers.get(broker)) is not None
        and not there.is_stopping
    }
    yield from ((name, partition) for broker, name, partition in away if broker in moved)
