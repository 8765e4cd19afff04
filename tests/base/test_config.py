"""A configuration key is one row; everything else follows from it."""

from dataclasses import dataclass

import pytest

from ottla.base.config import (
    ConfigError,
    ConfigType,
    at_least,
    between,
    key,
    load,
    lookup,
    names_of,
    one_of,
    override,
    rows,
    rows_by_topic_key,
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Example:
    size: int = key("log.size", 10, "How large.", check=at_least(1), topic="size", dynamic=True)
    age_ms: int = key(
        "log.age.ms", 5_000, "How old.", type=ConfigType.LONG, topic="age.ms",
        synonyms=(("log.age.minutes", 60_000), ("log.age.hours", 3_600_000)),
    )  # fmt: skip
    ratio: float = key("log.ratio", 0.5, "How much.", check=between(0, 1), topic="ratio")
    policy: tuple[str, ...] = key("log.policy", ("a",), "What.", check=one_of("a", "b"), topic="policy")
    mode: str = key("log.mode", "x", "Which.", check=one_of("x", "y"))
    folders: tuple[str, ...] = key("folders", ("data",), "Where.", synonyms=(("folder", 1),))
    enabled: bool = key("enabled", False, "Whether.")
    count: int = key("count", 1, "How many.", type=ConfigType.SHORT)


ROWS = {row.name: row for row in rows(Example)}


def test_a_row_knows_its_name_type_default_and_documentation() -> None:
    row = ROWS["log.size"]
    assert (row.attribute, row.type, row.default, row.doc) == ("size", ConfigType.INT, 10, "How large.")
    assert (row.topic, row.dynamic) == ("size", True)
    assert (ROWS["enabled"].topic, ROWS["enabled"].dynamic) == (None, False)
    assert [row.type for row in rows(Example)] == [
        ConfigType.INT,
        ConfigType.LONG,
        ConfigType.DOUBLE,
        ConfigType.LIST,
        ConfigType.STRING,
        ConfigType.LIST,
        ConfigType.BOOLEAN,
        ConfigType.SHORT,
    ]
    assert rows(Example) is rows(Example)


def test_what_is_not_given_has_its_default() -> None:
    assert load(Example, {"another.key": "1"}) == Example()


@pytest.mark.parametrize(
    ("name", "text", "value"),
    [
        ("log.size", " 7 ", 7),
        ("log.age.ms", str((1 << 63) - 1), (1 << 63) - 1),
        ("log.ratio", "0.25", 0.25),
        ("log.policy", "a, b,", ("a", "b")),
        ("log.mode", "y", "y"),
        ("enabled", "TRUE", True),
        ("enabled", "false", False),
        ("count", "-32768", -32768),
    ],
)
def test_a_value_is_parsed_by_its_type(name: str, text: str, value: object) -> None:
    assert getattr(load(Example, {name: text}), ROWS[name].attribute) == value


@pytest.mark.parametrize(
    ("name", "text", "problem"),
    [
        ("log.size", "many", "log.size: 'many' is not a valid int"),
        ("log.size", "", "is not a valid int"),
        ("log.size", "1.5", "is not a valid int"),
        ("log.size", "2147483648", "is not a valid int"),
        ("log.size", "1_000", "is not a valid int"),
        ("log.size", "٣", "is not a valid int"),
        ("log.size", "0", "log.size: must be at least 1, got '0'"),
        ("log.age.ms", str(1 << 63), "is not a valid long"),
        ("log.ratio", "1.5", "must be between 0 and 1"),
        ("log.ratio", "nan", "must be between 0 and 1"),
        ("log.ratio", "half", "is not a valid double"),
        ("log.policy", "a,c", "must be one of a, b"),
        ("log.policy", "", "must be one of a, b"),
        ("log.mode", "z", "must be one of x, y"),
        ("enabled", "yes", "is not a valid boolean"),
        ("count", "32768", "is not a valid short"),
    ],
)
def test_a_wrong_value_names_its_key(name: str, text: str, problem: str) -> None:
    with pytest.raises(ConfigError, match=problem):
        load(Example, {name: text})


@pytest.mark.parametrize(
    ("properties", "found"),
    [
        ({"log.age.hours": "2"}, ("log.age.hours", 7_200_000)),
        ({"log.age.hours": "2", "log.age.minutes": "3"}, ("log.age.minutes", 180_000)),
        ({"log.age.hours": "2", "log.age.ms": "4"}, ("log.age.ms", 4)),
        ({"log.age.hours": "-1"}, ("log.age.hours", -1)),
        ({"log.age.hours": "0"}, ("log.age.hours", 0)),
        ({}, None),
    ],
)
def test_the_finest_unit_wins_and_minus_one_stays_minus_one(
    properties: dict[str, str], found: tuple[str, int] | None
) -> None:
    assert lookup(ROWS["log.age.ms"], properties) == found


def test_another_name_for_the_same_list() -> None:
    assert load(Example, {"folder": "/one"}).folders == ("/one",)


def test_a_topic_lays_its_keys_over_the_brokers() -> None:
    broker = load(Example, {"log.size": "7", "log.mode": "y"})
    topic = override(broker, {"age.ms": "9", "policy": "b"})
    assert (topic.size, topic.mode, topic.age_ms, topic.policy) == (7, "y", 9, ("b",))
    assert override(broker, {}) == broker


@pytest.mark.parametrize(
    ("properties", "problem"),
    [
        ({"no.such": "1"}, "unknown topic config name: no.such"),
        ({"log.size": "1"}, "unknown topic config name: log.size"),
        ({"age": "1"}, r"unknown topic config name: age; did you mean age\.ms\?"),
        ({"age.ms" * 99: "1"}, r"unknown topic config name: (age\.ms)+$"),
        ({"size": "0"}, "size: must be at least 1"),
    ],
)
def test_a_topic_may_only_set_what_topics_have(properties: dict[str, str], problem: str) -> None:
    with pytest.raises(ConfigError, match=problem):
        override(Example(), properties)


def test_a_value_is_written_as_an_operator_would() -> None:
    row = ROWS["log.size"]
    assert [row.text(value) for value in (True, False, ("a", "b"), (), 7, 0.5, "x")] == [
        "true",
        "false",
        "a,b",
        "",
        "7",
        "0.5",
        "x",
    ]


def test_names_are_known_with_their_synonyms() -> None:
    names = [name for row in rows(Example) for name in names_of(row)]
    assert {"log.age.ms", "log.age.hours", "folder", "count"} <= set(names)
    assert "size" not in names
    assert set(rows_by_topic_key(Example)) == {"size", "age.ms", "ratio", "policy"}
