"""ApiVersions (key 18): which APIs and versions this broker serves, straight from the table.

A version this broker does not know is answered in version 0 with UNSUPPORTED_VERSION and the list, so that
any client can find common ground (KIP-511); `dispatch` sees to that. Produce is advertised from 0, because
older librdkafka takes its absence for a broker without compression (KAFKA-18659).

The features are the cluster's (`controller/features`). As in Kafka one at level 0 is not listed as finalized,
and v3 does not list what is supported from level 0 on, as older clients stumble over that (KAFKA-17492).

v1 throttle time · v3 flexible, client software, features · v4 features with a minimum of 0
"""

import re

from ottla.api.call import Call
from ottla.api.table import TABLE
from ottla.base.errors import ErrorCode
from ottla.controller.feature_levels import SUPPORTED
from ottla.wire.messages.api_versions import (
    ApiVersion,
    ApiVersionsRequest,
    ApiVersionsResponse,
    FinalizedFeatureKey,
    SupportedFeatureKey,
)

SOFTWARE_SINCE = 3
LEVEL_0_SINCE = 4
_SOFTWARE = re.compile(r"[a-zA-Z0-9](?:[a-zA-Z0-9\-.]*[a-zA-Z0-9])?\Z")


def api_versions(call: Call, request: ApiVersionsRequest) -> ApiVersionsResponse:
    if call.version >= SOFTWARE_SINCE and not (
        _SOFTWARE.match(request.client_software_name) and _SOFTWARE.match(request.client_software_version)
    ):
        return ApiVersionsResponse(error_code=ErrorCode.INVALID_REQUEST)
    image = call.broker.image
    return ApiVersionsResponse(
        api_keys=served(),
        supported_features=[
            SupportedFeatureKey(name=name, min_version=levels.lowest, max_version=levels.highest)
            for name, levels in SUPPORTED.items()
            if levels.lowest > 0 or call.version >= LEVEL_0_SINCE
        ],
        finalized_features_epoch=image.features_epoch,
        finalized_features=[
            FinalizedFeatureKey(name=name, max_version_level=level, min_version_level=level)
            for name, level in sorted(image.features.items())
            if level > 0
        ],
    )


def served() -> list[ApiVersion]:
    return [
        ApiVersion(api_key=api.key, min_version=api.advertised_min, max_version=api.versions[1])
        for api in sorted(TABLE.values(), key=lambda api: api.key)
    ]
