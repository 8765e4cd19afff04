"""ElectLeaders (key 43): the controller elects preferred leaders, or unclean ones where nobody else is left.

No list of partitions means all of them; then those that need no election are left out of the answer. An
unclean election (v1) gives up what only missing replicas hold, whatever `unclean.leader.election.enable`
says.

v0 preferred only, no error of the whole · v1 election type (KIP-460) · v2 flexible
"""

from collections.abc import Callable
from functools import partial

from ottla.api.call import Call
from ottla.api.named_partitions import unknown_partition
from ottla.base.errors import ErrorCode
from ottla.broker.controller_writes import Asks, Item
from ottla.broker.long_work import Steps
from ottla.controller.draft import Draft
from ottla.controller.plan import elect_preferred, elect_unclean
from ottla.wire.messages.elect_leaders import (
    ElectLeadersRequest,
    ElectLeadersResponse,
    PartitionResult,
    ReplicaElectionResult,
)

TYPED_SINCE = 1
_ELECTIONS: dict[int, Callable[..., None]] = {0: elect_preferred, 1: elect_unclean}


def elect_leaders(call: Call, request: ElectLeadersRequest) -> Steps:
    broker, image = call.broker, call.broker.image
    wanted = _wanted(call, request)
    election = _ELECTIONS.get(request.election_type)
    if election is None or not broker.seat.is_active:
        code = ErrorCode.NOT_CONTROLLER if election else ErrorCode.INVALID_REQUEST
        return _refuse(call.version, wanted, code)
    is_all = request.topic_partitions is None
    asks: Asks[tuple[str, PartitionResult]] = Asks(
        broker.controller_writes, broker.waiting, lambda items: _respond(items, is_all=is_all)
    )
    for name, partitions in wanted.items():
        for index in partitions:
            yield
            result = name, PartitionResult(partition_id=index)
            topic = image.topics.get(name)
            if topic is not None and index in topic.states:
                asks.add(result, name, partial(_elect, election, index))
            else:
                asks.refuse(result, unknown_partition(topic, name, index))
    return asks.answer(request.timeout_ms, call.now_ms)


def _elect(election: Callable[..., None], partition: int, draft: Draft) -> None:
    election(draft, partition)


def _wanted(call: Call, request: ElectLeadersRequest) -> dict[str, list[int]]:
    if request.topic_partitions is None:
        return {topic.name: sorted(topic.states) for topic in call.broker.image.topics.values()}
    wanted: dict[str, list[int]] = {}
    for asked in request.topic_partitions:
        wanted.setdefault(asked.topic, []).extend(asked.partitions)
    return {name: list(dict.fromkeys(partitions)) for name, partitions in wanted.items()}


def _refuse(version: int, wanted: dict[str, list[int]], code: ErrorCode) -> ElectLeadersResponse:
    if version >= TYPED_SINCE:
        return ElectLeadersResponse(error_code=code)
    results = [
        ReplicaElectionResult(
            topic=name,
            partition_result=[PartitionResult(partition_id=index, error_code=code) for index in partitions],
        )
        for name, partitions in wanted.items()
    ]
    return ElectLeadersResponse(replica_election_results=results)


def _respond(items: list[Item[tuple[str, PartitionResult]]], *, is_all: bool) -> ElectLeadersResponse:
    topics: dict[str, ReplicaElectionResult] = {}
    for item in items:
        name, result = item.result
        if item.error is not None:
            result.error_code, result.error_message = item.error.code, str(item.error)
        if is_all and result.error_code == ErrorCode.ELECTION_NOT_NEEDED:
            continue
        topics.setdefault(name, ReplicaElectionResult(topic=name)).partition_result.append(result)
    return ElectLeadersResponse(replica_election_results=list(topics.values()))
