"""Regular expressions over topic names: what they match, what is refused, and that none takes for ever."""

import re

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ottla.base.errors import ApiError, ErrorCode
from ottla.broker.long_work import finished
from ottla.group.consumer import regex
from ottla.group.consumer.regex import PATTERN_LENGTH_MAX, SLICE_LENGTH, Budget, compile_pattern, resolve

examples = settings(max_examples=300)


@pytest.mark.parametrize(
    ("pattern", "names"),
    [
        ("orders", "orders"),
        ("^orders$", "orders"),
        (r"\Aorders\z", "orders"),
        ("orders.*", "orders orders-2 orders.eu"),
        (r"orders\..*", "orders.eu"),
        ("(orders|users)", "orders users"),
        ("^orders$|^users$", "orders users"),
        ("(^orders|users$)", "orders users"),
        ("(?:u|o)[a-z]+", "orders users"),
        ("(?P<what>users)", "users"),
        ("(?<what>users)", "users"),
        (r"\w+-\d", "orders-2"),
        (r"\D+", "orders users orders.eu x_y"),
        (r"\S+", "orders users orders-2 orders.eu x_y"),
        (r"\w+\W\w+", "orders-2 orders.eu"),
        (r"orders[\-\.].{1,2}", "orders-2 orders.eu"),
        (r"[a-z]+[_.-][[:alpha:]]+", "orders.eu x_y"),
        ("[^._-]+", "orders users"),
        ("[[:lower:]]+_?[[:lower:]]*", "orders users x_y"),
        ("[]x_y]+", "x_y"),
        ("[^]x]+", "orders users orders-2 orders.eu"),
        ("(?i)ORDERS", "orders"),
        ("(?i)[O-R]r.+", "orders orders-2 orders.eu"),
        ("(?i)[^O]S.*", "users"),
        (".{5}", "users"),
        (".{6,}", "orders orders-2 orders.eu"),
        (".{0,5}?", "users x_y"),
        ("(us|er|s){2,3}", "users"),
        ("(a*)*(orders)?(b*)+", "orders"),
        (r"\s*users", "users"),
        ("", ""),
        ("()", ""),
        ("-", ""),
    ],
)
def test_it_matches_whole_names(pattern, names):
    topics = ["orders", "users", "orders-2", "orders.eu", "x_y"]
    assert resolve(pattern, topics, Budget()) == frozenset(names.split())


def test_a_name_of_no_characters():
    assert compile_pattern("(a|b*)").matches("")
    assert not compile_pattern("a+").matches("")


@pytest.mark.parametrize(
    "pattern",
    [
        "(", ")", "a)", "(a", "[", "[a", "[]", "[z-a]", r"[\d-z]", "[a-", "[[:magic:]]", "[[:",
        "a{", "a{x}", "a{2,1}", "a{1001}", "a{1,99999}", "a{²}", "{1}", "*", "+a", "?", "a**", "a+*",
        "a{2}{3}",
        "\\", r"\1", r"\bx", r"\Qx\E", r"\pL", "(?=a)", "(?!a)", "(?<=a)", "(?<!a)", "(?>a)", "(?P=a)",
        "(?#a)", "(?i:a)", "(?<a", "a^b", "a$b", "(^a)*", "x*^b", "(.{500}){3}", "((){1000}){1000}",
        "(" * 60 + ")" * 60, "a" * (PATTERN_LENGTH_MAX + 1),
    ],
)  # fmt: skip
def test_what_is_refused(pattern):
    with pytest.raises(ApiError) as error:
        compile_pattern(pattern)
    assert error.value.code == ErrorCode.INVALID_REGULAR_EXPRESSION


@pytest.mark.parametrize("pattern", ["(a+)+b", "(a|a)*b", "(a|aa)+b", ".*.*.*.*.*.*.*.*b", "(.*a){20}b"])
def test_what_makes_others_try_for_ever_takes_no_time(pattern):
    assert not compile_pattern(pattern).matches("a" * 249)


def test_a_pattern_of_many_positions_is_matched_in_no_time():
    names = [f"{number:b}".replace("0", "a").replace("1", "b") for number in range(1 << 10)]
    assert len(resolve("(a|b)*a(a|b){8}", names, Budget()) or ()) == 1 << 8
    assert resolve("(.?){400}", names, Budget(10**9)) == frozenset(names)


@pytest.mark.parametrize(
    "pattern", ["(.?){999}b", "(.?){499}(.?){499}b", "(.*){900}", "(a*){999}", "(.?.?){499}"]
)
def test_a_pattern_whose_parts_can_follow_each_other_in_too_many_ways_is_refused(pattern):
    with pytest.raises(ApiError, match="too many of its parts") as error:
        compile_pattern(pattern)
    assert error.value.code == ErrorCode.INVALID_REGULAR_EXPRESSION


@pytest.mark.parametrize("pattern", ["(.?){440}b", ".*x.*y.{0,200}", "(.{0,30}x){30}", "([a-m]?[a-z]?){200}"])
def test_many_names_are_matched_in_slices_of_bounded_work(pattern):
    names = ["".join(chr(97 + (n * 7 + at * at) % 26) for at in range(249)) for n in range(40)]
    compile_pattern.cache_clear()
    slices = 0
    while (found := resolve(pattern, names, budget := Budget(5_000))) is None:
        slices += 1
        assert slices < 10_000
        assert budget.left > -250 * regex.POSITIONS_MAX, "no more than the last name's work over the budget"
    assert found == {name for name in names if compile_pattern(pattern).matches(name)}
    assert slices > 0


def test_a_name_is_matched_once_and_a_new_one_alone():
    names = [f"orders-{number}" for number in range(1000)]
    compile_pattern.cache_clear()
    assert len(resolve("orders-.*5", names, first := Budget()) or ()) == 100
    assert resolve("orders-.*5", [*names[1:], "orders-x5"], second := Budget()) is not None
    assert regex.WORK_MAX - second.left < (regex.WORK_MAX - first.left) / 20
    assert resolve("orders-.*5", ["orders-5", "users"], Budget()) == {"orders-5"}
    assert len(compile_pattern("orders-.*5").seen) == 2, "names that are gone are forgotten"


def test_what_follows_a_prefix_is_not_looked_at():
    compile_pattern.cache_clear()
    names = [f"orders-{number}" + "x" * 200 for number in range(1000)]
    assert len(resolve("orders.*", names, budget := Budget()) or ()) == 1000
    assert regex.WORK_MAX - budget.left < 10_000


def test_what_is_remembered_has_a_bound(monkeypatch):
    monkeypatch.setattr(regex, "STEPS_KEPT_MAX", 3)
    pattern = compile_pattern("[a-z]+y?x")
    assert pattern.matches("abcdefghijklmx")
    assert len(pattern.steps) <= 3


atoms = st.sampled_from(["a", "b", ".", "[ab]", "[^a]", r"\.", r"\w", "c-"])


def larger(inner):
    return st.one_of(
        st.tuples(inner, st.sampled_from(["*", "+", "?", "{2}", "{1,2}", "{0,}", "*?"])).map(
            lambda pair: f"(?:{pair[0]}){pair[1]}"
        ),
        st.lists(inner, min_size=1, max_size=3).map("".join),
        st.lists(inner, min_size=1, max_size=3).map(lambda parts: "(" + "|".join(parts) + ")"),
    )


@examples
@given(st.recursive(atoms, larger, max_leaves=8), st.text("abc-.", max_size=7))
def test_it_agrees_with_python(pattern, name):
    assert compile_pattern(pattern).matches(name) == (re.fullmatch(pattern, name) is not None)


@pytest.mark.parametrize("name", ["ab" * 150, "b" * 300, "ab" * 50, "abc" * 100, "a", ""])
def test_a_long_name_is_walked_in_slices_with_the_same_result(name):
    pattern = compile_pattern("(a|b)*a(a|b){200}")
    assert finished(pattern.matches_in_slices(name)) is pattern.matches(name)
    assert sum(1 for _ in pattern.matches_in_slices(name)) <= len(name) // SLICE_LENGTH
