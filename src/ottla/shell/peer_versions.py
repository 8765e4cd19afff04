"""Which version of a request to send to a broker that may be older or newer than this one (ApiVersions)."""

from collections.abc import Iterable

from ottla.api.table import TABLE
from ottla.wire.messages.api_versions import ApiVersion, ApiVersionsRequest

QUESTION = ApiVersionsRequest()
QUESTION_VERSION = 0  # whatever else changes, every broker answers this one


def common_versions(served: Iterable[ApiVersion]) -> dict[int, int]:
    """By API, the newest version that the peer and this broker serve; without those that have none."""
    newest: dict[int, int] = {}
    for api in served:
        own = TABLE.get(api.api_key)
        if own is None:
            continue
        low, high = max(api.min_version, own.versions[0]), min(api.max_version, own.versions[1])
        if low <= high:
            newest[api.api_key] = high
    return newest
