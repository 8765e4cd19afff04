"""UpdateFeatures (key 57): raise or lower what the cluster agreed on (KIP-584): `transaction.version`.

Any broker decides and writes; the write holds only if the levels are still those that it was decided on. All
updates of a request are made, or none: if one is wrong, each is answered with what is wrong with that one.
FEATURE_UPDATE_FAILED means that the keeper refused the write each time.

A level that a broker of the cluster does not know is refused: it names the brokers to upgrade first.

v1 upgrade type, validate_only · v2 one error for the whole request
"""

from collections.abc import Sequence

from ottla.api.call import Call
from ottla.api.writes import Item, Writes
from ottla.base.errors import ApiError, ErrorCode
from ottla.broker.long_work import Steps
from ottla.controller.feature_levels import UpgradeType
from ottla.controller.features import check_update, plan_update
from ottla.controller.keeper import Operation
from ottla.wire.lazy import lazily
from ottla.wire.messages.update_features import (
    FeatureUpdateKey,
    UpdatableFeatureResult,
    UpdateFeaturesRequest,
    UpdateFeaturesResponse,
)

UPGRADE_TYPE_SINCE = 1
ALL_OR_NOTHING_SINCE = 2


def update_features(call: Call, request: UpdateFeaturesRequest) -> Steps:
    image = call.broker.image
    updates = {update.feature: update for update in request.feature_updates}
    writes = Writes(call.broker, lambda: _respond(call.version, updates, item))

    def plan() -> Sequence[Operation]:
        levels = {name: update.max_version_level for name, update in updates.items()}
        if item.is_doubtful and not plan_update(image, levels):
            return []  # it is our own doing, most likely
        for name, update in updates.items():
            check_update(image, name, update.max_version_level, _upgrade_type(call.version, update))
        return [] if request.validate_only else plan_update(image, levels)

    item = writes.add(plan)
    return writes.answer(call, request.timeout_ms)


def _upgrade_type(version: int, update: FeatureUpdateKey) -> int:
    if version >= UPGRADE_TYPE_SINCE:
        return update.upgrade_type
    return UpgradeType.SAFE_DOWNGRADE if update.allow_downgrade else UpgradeType.UPGRADE


def _respond(version: int, updates: dict[str, FeatureUpdateKey], item: Item) -> UpdateFeaturesResponse:
    error = item.error
    if error is not None and error.code == ErrorCode.UNKNOWN_SERVER_ERROR:
        error = ApiError(ErrorCode.FEATURE_UPDATE_FAILED, str(error))
    code, message = (error.code, str(error)) if error is not None else (ErrorCode.NONE, None)
    if version >= ALL_OR_NOTHING_SINCE:
        return UpdateFeaturesResponse(error_code=code, error_message=message)
    return UpdateFeaturesResponse(
        results=lazily(
            lambda name: UpdatableFeatureResult(feature=name, error_code=code, error_message=message), updates
        )
    )
