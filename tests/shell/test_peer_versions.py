"""Brokers of different releases talk in versions that both know."""

from ottla.api.api_versions import served
from ottla.api.table import TABLE
from ottla.shell.peer_versions import common_versions
from ottla.wire.messages.api_versions import ApiVersion

FETCH, METADATA = 1, 3


def test_a_peer_that_serves_the_same_is_asked_in_the_newest_version() -> None:
    assert common_versions(served()) == {key: api.versions[1] for key, api in TABLE.items()}


def test_the_older_of_two_brokers_says_which_version_is_used() -> None:
    low, high = TABLE[FETCH].versions
    older = ApiVersion(api_key=FETCH, min_version=low, max_version=high - 1)
    newer = ApiVersion(api_key=FETCH, min_version=low, max_version=high + 3)
    assert common_versions([older]) == {FETCH: high - 1}
    assert common_versions([newer]) == {FETCH: high}


def test_an_api_that_one_of_them_does_not_know_has_no_version() -> None:
    _, high = TABLE[METADATA].versions
    unknown = ApiVersion(api_key=9_999, min_version=0, max_version=1)
    too_new = ApiVersion(api_key=METADATA, min_version=high + 1, max_version=high + 2)
    assert common_versions([unknown, too_new]) == {}
