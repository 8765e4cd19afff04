"""subscribePattern is a Java regular expression, or an error."""

import pytest

from ottla.spark.errors import OptionError
from ottla.spark.java_regex import translate


@pytest.mark.parametrize(
    ("pattern", "yes", "no"),
    [
        ("orders", ["orders"], ["orders2", "my-orders"]),
        ("orders.*", ["orders", "orders.eu"], ["x-orders"]),
        (r"\Qa.b\E-\d+", ["a.b-12"], ["axb-1"]),
        (r"\p{Alpha}+_\p{Digit}{2}", ["abc_12"], ["abc_1", "1_12"]),
        (r"[\p{Lower}_]+", ["a_b"], ["A"]),
        (r"\P{Upper}*", ["abc-1"], ["aBc"]),
        (r"(?<env>dev|prod)-\k<env>", ["dev-dev"], ["dev-prod"]),
        (r"(?i)ORDERS", ["orders"], ["order"]),
        (r"a(?i:B)c", ["abc", "aBc"], ["Abc"]),
        (r"a++b", ["aab"], ["b"]),
        (r"(?>a|ab)c", ["ac"], ["abc"]),
        (r"^t-\w+$", ["t-1"], ["t-"]),
        (r"[^.]+\.[a-z-]+", ["x.a-b"], ["x.y.z"]),
        (r"\x61\u0062", ["ab"], ["a"]),
        (r"(?:a|b){2,3}?", ["ab", "aba"], ["a"]),
        (r"\Qa", ["a"], ["b"]),
    ],
)
def test_what_both_languages_have_means_the_same(pattern: str, yes: list[str], no: list[str]) -> None:
    found = translate(pattern)
    assert [name for name in (*yes, *no) if found.fullmatch(name)] == yes


@pytest.mark.parametrize(
    ("pattern", "named"),
    [
        ("[a-z&&[^b]]", "intersection"),
        ("[a[bc]]", "a class inside a class"),
        (r"\p{IsGreek}", r"\p{IsGreek}"),
        (r"[\P{Alpha}]", r"\P{Alpha} inside a class"),
        (r"a(?i)b", "after the beginning"),
        (r"(?d)a", "the flag"),
        (r"(?-i)a", "the flag"),
        (r"\Ga", r"\G"),
        (r"\R", r"\R"),
        (r"\x{61}", r"\x{"),
        ("[ab", "does not end"),
        ("(ab", "not a regular expression"),
        ("a\\", "ends with a backslash"),
    ],
)
def test_what_python_cannot_say_is_refused_by_name(pattern: str, named: str) -> None:
    with pytest.raises(OptionError) as caught:
        translate(pattern)
    assert "option subscribePattern" in str(caught.value)
    assert named in str(caught.value)
