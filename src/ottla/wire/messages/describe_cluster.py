"""DescribeCluster (key 60), versions 0 to 2.

Generated from kio's schemas by tools/generate_messages.py: change that, then run `make messages`.
"""

from dataclasses import field
from typing import Annotated

from ottla.wire.schema import i8, i16, i32, message, since, struct


@message(key=60, versions=(0, 2), flexible=0)
class DescribeClusterRequest:
    include_cluster_authorized_operations: bool
    endpoint_type: Annotated[i8, since(1)] = 1
    include_fenced_brokers: Annotated[bool, since(2)] = False


@struct
class DescribeClusterBroker:
    broker_id: i32
    host: str
    port: i32
    rack: str | None = None
    is_fenced: Annotated[bool, since(2)] = False


@message(key=60, versions=(0, 2), flexible=0)
class DescribeClusterResponse:
    throttle_time_ms: i32 = 0
    error_code: i16 = 0
    error_message: str | None = None
    endpoint_type: Annotated[i8, since(1)] = 1
    cluster_id: str
    controller_id: i32 = -1
    brokers: list[DescribeClusterBroker] = field(default_factory=list)
    cluster_authorized_operations: i32 = -2147483648
