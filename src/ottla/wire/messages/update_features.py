"""UpdateFeatures (key 57), versions 0 to 2.

Generated from kio's schemas by tools/generate_messages.py: change that, then run `make messages`.
"""

from dataclasses import field
from typing import Annotated

from ottla.wire.schema import i8, i16, i32, message, since, struct, until


@struct
class FeatureUpdateKey:
    feature: str
    max_version_level: i16
    allow_downgrade: Annotated[bool, until(0)] = False
    upgrade_type: Annotated[i8, since(1)] = 1


@message(key=57, versions=(0, 2), flexible=0)
class UpdateFeaturesRequest:
    timeout_ms: i32 = 60000
    feature_updates: list[FeatureUpdateKey] = field(default_factory=list)
    validate_only: Annotated[bool, since(1)] = False


@struct
class UpdatableFeatureResult:
    feature: str
    error_code: i16 = 0
    error_message: str | None = None


@message(key=57, versions=(0, 2), flexible=0)
class UpdateFeaturesResponse:
    throttle_time_ms: i32 = 0
    error_code: i16 = 0
    error_message: str | None = None
    results: Annotated[list[UpdatableFeatureResult], until(1)] = field(default_factory=list)
