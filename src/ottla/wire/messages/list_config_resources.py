"""ListConfigResources (key 74), versions 0 to 1.

Generated from kio's schemas by tools/generate_messages.py: change that, then run `make messages`.
"""

from dataclasses import field
from typing import Annotated

from ottla.wire.schema import i8, i16, i32, message, since, struct


@message(key=74, versions=(0, 1), flexible=0)
class ListConfigResourcesRequest:
    resource_types: Annotated[list[i8], since(1)] = field(default_factory=list)


@struct
class ConfigResource:
    resource_name: str
    resource_type: Annotated[i8, since(1)] = 16


@message(key=74, versions=(0, 1), flexible=0)
class ListConfigResourcesResponse:
    throttle_time_ms: i32 = 0
    error_code: i16 = 0
    config_resources: list[ConfigResource] = field(default_factory=list)
