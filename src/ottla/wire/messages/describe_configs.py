"""DescribeConfigs (key 32), versions 1 to 4.

Generated from kio's schemas by tools/generate_messages.py: change that, then run `make messages`.
"""

from dataclasses import field
from typing import Annotated

from ottla.wire.schema import i8, i16, i32, message, since, struct


@struct
class DescribeConfigsResource:
    resource_type: i8
    resource_name: str
    configuration_keys: list[str] | None = field(default_factory=list)


@message(key=32, versions=(1, 4), flexible=4)
class DescribeConfigsRequest:
    resources: list[DescribeConfigsResource] = field(default_factory=list)
    include_synonyms: bool = False
    include_documentation: Annotated[bool, since(3)] = False


@struct
class DescribeConfigsSynonym:
    name: str
    value: str | None = None
    source: i8


@struct
class DescribeConfigsResourceResult:
    name: str
    value: str | None = None
    read_only: bool
    config_source: i8 = -1
    is_sensitive: bool
    synonyms: list[DescribeConfigsSynonym] = field(default_factory=list)
    config_type: Annotated[i8, since(3)] = 0
    documentation: Annotated[str | None, since(3)] = None


@struct
class DescribeConfigsResult:
    error_code: i16 = 0
    error_message: str | None = None
    resource_type: i8
    resource_name: str
    configs: list[DescribeConfigsResourceResult] = field(default_factory=list)


@message(key=32, versions=(1, 4), flexible=4)
class DescribeConfigsResponse:
    throttle_time_ms: i32 = 0
    results: list[DescribeConfigsResult] = field(default_factory=list)
