"""UpdateFeatures (key 57): finalized feature levels (KIP-584). This broker has none that can be changed.

Every feature named is therefore unknown, which is what Kafka answers for a feature it does not have.

v1 upgrade type, validate_only · v2 one error for the whole request
"""

from ottla.api.call import Call
from ottla.base.errors import ErrorCode
from ottla.wire.lazy import lazily
from ottla.wire.messages.update_features import (
    UpdatableFeatureResult,
    UpdateFeaturesRequest,
    UpdateFeaturesResponse,
)

ALL_OR_NOTHING_SINCE = 2


def update_features(call: Call, request: UpdateFeaturesRequest) -> UpdateFeaturesResponse:
    features = {update.feature: None for update in request.feature_updates}
    response = UpdateFeaturesResponse(results=lazily(_refused, features))
    if features and call.version >= ALL_OR_NOTHING_SINCE:
        first = _refused(next(iter(features)))
        response.error_code, response.error_message = first.error_code, first.error_message
    return response


def _refused(feature: str) -> UpdatableFeatureResult:
    return UpdatableFeatureResult(
        feature=feature,
        error_code=ErrorCode.INVALID_UPDATE_VERSION,
        error_message=f"The feature '{feature}' is not supported by this cluster.",
    )
