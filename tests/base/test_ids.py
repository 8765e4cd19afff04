"""Names and ids, and the errors that answer a request."""

import pytest

from ottla.base.errors import ApiError, ErrorCode
from ottla.base.ids import TopicPartition, check_topic_name, collision_key, uuid_from_text, uuid_text


def test_a_partition_is_written_as_its_folder() -> None:
    assert str(TopicPartition("a-b", 7)) == "a-b-7"


@pytest.mark.parametrize("uuid", [bytes(16), bytes(range(16)), b"\xff" * 16])
def test_a_uuid_is_22_characters_and_back(uuid: bytes) -> None:
    assert len(uuid_text(uuid)) == 22
    assert uuid_from_text(uuid_text(uuid)) == uuid


@pytest.mark.parametrize("text", ["", "short", "x" * 23, "A" * 24, "A" * 21, "é" * 22])
def test_what_is_no_uuid_is_refused(text: str) -> None:
    with pytest.raises(ValueError, match="is not a uuid"):
        uuid_from_text(text)


@pytest.mark.parametrize("name", ["t", "a.b_c-D9", "x" * 249, "...", "__x"])
def test_legal_names(name: str) -> None:
    check_topic_name(name)


@pytest.mark.parametrize(
    ("name", "problem"),
    [
        ("", "empty"),
        (".", "must not be"),
        ("..", "must not be"),
        ("x" * 250, "longer than 249"),
        ("a b", "only ASCII letters"),
        ("a/b", "only ASCII letters"),
        ("ä", "only ASCII letters"),
        ("a\n", "only ASCII letters"),
        ("a\0", "only ASCII letters"),
    ],
)
def test_names_that_are_not_legal_say_why(name: str, problem: str) -> None:
    with pytest.raises(ApiError, match=problem) as refused:
        check_topic_name(name)
    assert refused.value.code == ErrorCode.INVALID_TOPIC_EXCEPTION


def test_dots_and_underscores_collide() -> None:
    assert collision_key("a.b_c") == collision_key("a_b.c")


def test_an_error_says_its_code_or_its_message() -> None:
    assert str(ApiError(ErrorCode.INVALID_REQUEST)) == "INVALID_REQUEST"
    error = ApiError(ErrorCode.INVALID_REQUEST, "too much")
    assert (str(error), error.message, error.code) == ("too much", "too much", 42)


def test_codes_are_kafkas_without_a_hole() -> None:
    assert sorted(ErrorCode) == list(range(-1, max(ErrorCode) + 1))
    assert (ErrorCode.KAFKA_STORAGE_ERROR, ErrorCode.UNKNOWN_TOPIC_ID) == (56, 100)
