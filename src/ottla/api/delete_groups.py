"""DeleteGroups (key 42): groups without members go, with their offsets.

v2 flexible
"""

from dataclasses import dataclass, field
from functools import partial

from ottla.api.call import Call
from ottla.api.coordinated import coordinated
from ottla.api.needs import DELETE
from ottla.base.errors import ErrorCode
from ottla.broker.long_work import TO_BE_FINISHED, Steps
from ottla.broker.parked import Key, Parked
from ottla.group.shard import GroupShard
from ottla.wire.messages.delete_groups import DeletableGroupResult, DeleteGroupsRequest, DeleteGroupsResponse


@dataclass(slots=True)
class _Deletion:
    """Each group may have another shard, and so another answer to wait for."""

    response: DeleteGroupsResponse = field(default_factory=DeleteGroupsResponse)
    waiting: list[tuple[DeletableGroupResult, Parked]] = field(default_factory=list)

    def ready(self, key: Key, now_ms: int) -> DeleteGroupsResponse | None:
        still = []
        for result, parked in self.waiting:
            code = parked.ready(key, now_ms)
            if code is None:
                still.append((result, parked))
            else:
                result.error_code = code
        self.waiting = still
        return None if still else self.response

    def expire(self, now_ms: int) -> DeleteGroupsResponse:
        for result, parked in self.waiting:
            result.error_code = parked.expire(now_ms)
        return self.response


def delete_groups(call: Call, request: DeleteGroupsRequest) -> Steps:
    yield TO_BE_FINISHED
    deletion = _Deletion()
    timeout_ms = call.broker.coordinators.groups.config.commit_timeout_ms
    for group_id in dict.fromkeys(request.groups_names):
        yield
        result = DeletableGroupResult(group_id=group_id)
        deletion.response.results.append(result)
        code = coordinated(
            call,
            group_id,
            partial(GroupShard.delete_group, group_id=group_id),
            lambda error: error.code,
            needs=DELETE,
            timeout_ms=timeout_ms,
        )
        if isinstance(code, Parked):
            deletion.waiting.append((result, code))
        else:
            assert isinstance(code, ErrorCode), "a deletion is answered with a code"
            result.error_code = code
    if not deletion.waiting:
        return deletion.response
    return Parked(
        keys=tuple(dict.fromkeys(key for _, parked in deletion.waiting for key in parked.keys)),
        deadline_ms=call.now_ms + timeout_ms,
        ready=deletion.ready,
        expire=deletion.expire,
    )
