"""ListGroups (key 16): the groups this broker coordinates.

While some of them are being loaded, the others are listed, with COORDINATOR_LOAD_IN_PROGRESS for the whole. A
coordinator that may not know all that was committed, or may have been replaced, lists nothing, with the same
error. One that was elected and has not heard of it lists none of its groups, as in Kafka; nor are groups
listed that cannot be loaded, or that whoever asks may not describe.

v3 flexible · v4 filter by state (KIP-518) · v5 filter by type (KIP-848)
"""

from ottla.api.call import Call, LastAnswer
from ottla.api.leadership_proof import proven
from ottla.api.needs import CLUSTER, DESCRIBE, GROUP
from ottla.base.errors import ErrorCode
from ottla.base.ids import OFFSETS_TOPIC, TopicPartition
from ottla.broker.long_work import LARGE, Steps
from ottla.broker.parked import Parked
from ottla.replication.partition import Partition
from ottla.wire.lazy import lazily
from ottla.wire.messages.list_groups import ListedGroup, ListGroupsRequest, ListGroupsResponse

MANY = 1_000  # groups: the list of them waits for its turn


def list_groups(call: Call, request: ListGroupsRequest) -> Steps | Parked | LastAnswer:
    broker, groups = call.broker, call.broker.coordinators.groups

    def partitions() -> list[Partition]:
        return [broker.partitions[TopicPartition(OFFSETS_TOPIC, index)] for index, _ in groups.shards()]

    asked = partitions()

    def respond(now_ms: int) -> Steps:
        yield LARGE if sum(len(shard.groups) for _, shard in groups.shards()) > MANY else None
        if not all(
            partition.is_settled and broker.proofs.led_at(partition, call.now_ms, now_ms)
            for partition in [*asked, *partitions()]  # some may have been loaded since
        ):
            return ListGroupsResponse(error_code=ErrorCode.COORDINATOR_LOAD_IN_PROGRESS)
        return (yield from _listed(call, request))

    return proven(call, asked, respond, settled=True)


def _listed(call: Call, request: ListGroupsRequest) -> Steps:
    # Both as they are now: a shard that is loaded in the middle is not in the list.
    shards = list(call.broker.coordinators.groups.shards())
    is_loading = bool(call.broker.coordinators.groups.runtime.loading)
    states = {state.lower() for state in request.states_filter}
    types = {kind.lower() for kind in request.types_filter}
    listed = []
    sees_all = call.allows(DESCRIBE, CLUSTER, is_asked=False)
    for _, shard in shards:
        for group in shard.listed():
            yield
            if not (sees_all or call.allows(DESCRIBE, GROUP, group.group_id, is_asked=False)):
                continue
            if (not states or group.state.lower() in states) and (not types or group.type.lower() in types):
                listed.append(group)
    return ListGroupsResponse(
        error_code=ErrorCode.COORDINATOR_LOAD_IN_PROGRESS if is_loading else ErrorCode.NONE,
        groups=lazily(
            lambda group: ListedGroup(
                group_id=group.group_id,
                protocol_type=group.protocol_type,
                group_state=group.state,
                group_type=group.type,
            ),
            listed,
        ),
    )
