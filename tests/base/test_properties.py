"""Java's properties format."""

import pytest

from ottla.base.command_error import CommandError
from ottla.base.properties import parse, read_file


@pytest.mark.parametrize(
    ("text", "properties"),
    [
        ("a=1\nb = 2\n", {"a": "1", "b": "2"}),
        ("a:1\nb : 2", {"a": "1", "b": "2"}),
        ("a 1\nb\t2", {"a": "1", "b": "2"}),
        ("# no\n! no\n\n  # no\na=1", {"a": "1"}),
        ("a=one\\\n   two\\\nthree", {"a": "onetwothree"}),
        ("a=ends with a backslash\\\\\nb=1", {"a": "ends with a backslash\\", "b": "1"}),
        ("a=x=y:z", {"a": "x=y:z"}),
        ("a\\=b=c", {"a=b": "c"}),
        ("a=\\u00e9\\t.", {"a": "é\t."}),
        ("a=1\na=2", {"a": "2"}),
        ("a=", {"a": ""}),
        ("a", {"a": ""}),
        ("a=1\\", {"a": "1"}),
        ("a=# not a comment", {"a": "# not a comment"}),
        ("listeners=PLAINTEXT://127.0.0.1:9092", {"listeners": "PLAINTEXT://127.0.0.1:9092"}),
    ],
)
def test_a_properties_file_is_read_as_java_reads_it(text: str, properties: dict[str, str]) -> None:
    assert parse(text) == properties


def test_a_file_that_is_not_there_or_not_text_is_one_line(tmp_path: object) -> None:
    with pytest.raises(CommandError, match="cannot read the config file /nowhere: No such file"):
        read_file("/nowhere")
    path = f"{tmp_path}/x"
    with open(path, "wb") as file:
        file.write(b"\xff\xfe\xff")
    with pytest.raises(CommandError, match="not UTF-8"):
        read_file(path)
