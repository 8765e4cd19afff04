"""Names and ids: topic names, topic ids, partitions.

A Kafka uuid travels as 16 bytes and is written for people as 22 characters of URL-safe base64.
"""

import base64
import binascii
import re
from typing import NamedTuple

from ottla.base.errors import ApiError, ErrorCode

ZERO_UUID = bytes(16)
TOPIC_NAME_MAX = 249
_TOPIC_NAME = re.compile(r"[a-zA-Z0-9._-]+\Z")
OFFSETS_TOPIC = "__consumer_offsets"
TRANSACTIONS_TOPIC = "__transaction_state"
KRAFT_TOPIC = "__cluster_metadata"  # the log of KRaft controllers: no topic for clients
INTERNAL_TOPICS = frozenset({OFFSETS_TOPIC, TRANSACTIONS_TOPIC, "__share_group_state"})
ADMIN_CLIENT_ID = "__admin_client"  # the only client that Kafka lets write to internal topics


class TopicPartition(NamedTuple):
    topic: str
    partition: int

    def __str__(self) -> str:
        return f"{self.topic}-{self.partition}"


def uuid_text(uuid: bytes) -> str:
    return base64.urlsafe_b64encode(uuid).rstrip(b"=").decode()


def uuid_from_text(text: str) -> bytes:
    try:
        uuid = base64.urlsafe_b64decode(text + "==")
    except (binascii.Error, ValueError):
        raise ValueError(f"{text!r} is not a uuid") from None
    if len(uuid) != 16:
        raise ValueError(f"{text!r} is not a uuid")
    return uuid


def check_topic_name(name: str) -> None:
    """Kafka's rules for a name that also becomes a folder."""
    problem = _topic_name_problem(name)
    if problem:
        raise ApiError(ErrorCode.INVALID_TOPIC_EXCEPTION, f"Topic name {name!r} is not legal: {problem}.")


def is_topic_name(name: str) -> bool:
    return _topic_name_problem(name) is None


def _topic_name_problem(name: str) -> str | None:
    if not name:
        return "it is empty"
    if name in {".", ".."}:
        return "it must not be '.' or '..'"
    if len(name) > TOPIC_NAME_MAX:
        return f"it is longer than {TOPIC_NAME_MAX} characters"
    if not _TOPIC_NAME.match(name):
        return "only ASCII letters, digits, '.', '_' and '-' are allowed"
    return None


def collision_key(name: str) -> str:
    """Topics whose names differ only in '.' and '_' would share a metric name, so the second is refused."""
    return name.replace(".", "_")
