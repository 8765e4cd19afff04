"""ApiVersions (key 18), versions 0 to 4.

Generated from kio's schemas by tools/generate_messages.py: change that, then run `make messages`.
"""

from dataclasses import field
from typing import Annotated

from ottla.wire.schema import i16, i32, i64, message, since, struct, tag


@message(key=18, versions=(0, 4), flexible=3)
class ApiVersionsRequest:
    client_software_name: Annotated[str, since(3)] = ""
    client_software_version: Annotated[str, since(3)] = ""


@struct
class ApiVersion:
    api_key: i16
    min_version: i16
    max_version: i16


@struct
class SupportedFeatureKey:
    name: str
    min_version: i16
    max_version: i16


@struct
class FinalizedFeatureKey:
    name: str
    max_version_level: i16
    min_version_level: i16


@message(key=18, versions=(0, 4), flexible=3)
class ApiVersionsResponse:
    error_code: i16 = 0
    api_keys: list[ApiVersion] = field(default_factory=list)
    throttle_time_ms: Annotated[i32, since(1)] = 0
    supported_features: Annotated[list[SupportedFeatureKey], since(3), tag(0)] = field(default_factory=list)
    finalized_features_epoch: Annotated[i64, since(3), tag(1)] = -1
    finalized_features: Annotated[list[FinalizedFeatureKey], since(3), tag(2)] = field(default_factory=list)
    zk_migration_ready: Annotated[bool, since(3), tag(3)] = False
