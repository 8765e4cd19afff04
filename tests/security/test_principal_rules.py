"""`ssl.principal.mapping.rules`, with the examples of Kafka's own tests."""

import pytest

from ottla.security.principal_rules import NoMatchError, check_rules, mapped_name, rules_of

RULES = """
    RULE:^CN=(.*?),OU=ServiceUsers.*$/$1/L,
    RULE:^CN=(.*?),OU=(.*?),O=(.*?),L=(.*?),ST=(.*?),C=(.*?)$/$1@$2/L,
    RULE:^cn=(.*?),ou=(.*?),dc=(.*?),dc=(.*?)$/$1@$2/U,
    RULE:^.*[Cc][Nn]=([a-zA-Z0-9.]*).*$/$1/U,
    DEFAULT
"""


@pytest.mark.parametrize(
    ("name", "mapped"),
    [
        ("CN=Duke,OU=ServiceUsers,O=Org,C=US", "duke"),
        ("CN=Duke,OU=SME,O=mycp,L=Fulton,ST=MD,C=US", "duke@sme"),
        ("cn=duke,ou=sme,dc=mycp,dc=com", "DUKE@SME"),
        ("cN=duke,OU=JavaSoft,O=Sun Microsystems", "DUKE"),
        ("OU=JavaSoft,O=Sun Microsystems,C=US", "OU=JavaSoft,O=Sun Microsystems,C=US"),
    ],
)
def test_the_first_rule_that_matches_the_whole_name_maps_it(name: str, mapped: str) -> None:
    assert mapped_name(RULES, name) == mapped


def test_a_name_that_no_rule_matches_is_nobodys() -> None:
    with pytest.raises(NoMatchError, match="CN=x"):
        mapped_name("RULE:^CN=Duke$/duke/", "CN=x")


def test_by_default_a_name_stays_as_it_is() -> None:
    assert mapped_name("DEFAULT", "CN=Duke,C=US") == "CN=Duke,C=US"


def test_a_comma_with_a_space_may_be_in_a_name() -> None:
    rules = r"RULE:^CN=((\\, *|\w)+)(,.*|$)/$1/,DEFAULT"
    assert mapped_name(rules, r"CN=Tkac\, Adam,OU=ITZ,DC=geodis,DC=cz") == r"Tkac\, Adam"


@pytest.mark.parametrize(
    ("replacement", "mapped"),
    [
        ("$1@$2", "a@b"),
        ("$2$1", "ba"),
        ("$12", "a2"),
        ("$3", "$3"),
        (r"\$1", "$1"),
        (r"x\/y", "x/y"),
        ("$0", "CN=a,OU=b"),
        (r"\\1", r"\1"),
    ],
)
def test_a_replacement_names_groups_as_in_java(replacement: str, mapped: str) -> None:
    assert mapped_name(f"RULE:^CN=(.*?),OU=(.*?)$/{replacement}/", "CN=a,OU=b") == mapped


@pytest.mark.parametrize(
    "rules",
    [
        "DEFAULT",
        "RULE:^CN=(.*?),OU=ServiceUsers.*$/$1/",
        "RULE:^CN=(.*?),OU=ServiceUsers.*$/$1/L, DEFAULT",
        "RULE:^CN=(.*?),OU=(.*?),O=(.*?),L=(.*?),ST=(.*?),C=(.*?)$/$1@$2/",
        "RULE:^.*[Cc][Nn]=([a-zA-Z0-9.]*).*$/$1/L",
        "RULE:^cn=(.?),ou=(.?),dc=(.?),dc=(.?)$/$1@$2/U",
        "RULE:^CN=([^,ADEFLTU,]+)(,.*|$)/$1/",
        "RULE:^CN=([^,DEFAULT,]+)(,.*|$)/$1/",
    ],
)
def test_rules_that_kafka_takes_are_taken(rules: str) -> None:
    assert check_rules(rules) is None


@pytest.mark.parametrize(
    "rules",
    [
        "default",
        "DEFAUL",
        "DEFAULT/L",
        "DEFAULT/U",
        "RULE:CN=(.*?),OU=ServiceUsers.*/$1",
        "rule:^CN=(.*?),OU=ServiceUsers.*$/$1/",
        "RULE:^CN=(.*?),OU=ServiceUsers.*$/$1/L/U",
        "RULE:^CN=(.*?),OU=ServiceUsers.*$/L",
        "RULE:^CN=(.*?),OU=ServiceUsers.*$/U",
        "RULE:^CN=(.*?),OU=ServiceUsers.*$/LU",
        "RULE:^CN=(/x/",
    ],
)
def test_rules_that_kafka_refuses_are_refused(rules: str) -> None:
    assert str(check_rules(rules)).startswith("must be RULE:PATTERN/REPLACEMENT/[LU] or DEFAULT")


@pytest.mark.parametrize(
    ("text", "split"),
    [
        ("", []),
        ("RULE://", [("", "", "")]),
        ("RULE:/.*/", [("", ".*", "")]),
        ("RULE:/.*/L", [("", ".*", "L")]),
        ("  RULE:// ,  DEFAULT  ", [("", "", ""), None]),
        ("  RULE:   /     / ,  DEFAULT  ", [("   ", "     ", ""), None]),
        ("  RULE:  /     /U   ,DEFAULT  ", [("  ", "     ", "U"), None]),
        ("  RULE:([A-Z]*)/$1/U   ,RULE:([a-z]+)/$1/,   DEFAULT  ",
         [("([A-Z]*)", "$1", "U"), ("([a-z]+)", "$1", ""), None]),
        (",   , , ,      , , ,   ", []),
        (",,RULE://,,,DEFAULT,,", [("", "", ""), None]),
        ("     ,  , RULE:   /  /U    ,,  ,DEFAULT, ,", [("   ", "  ", "U"), None]),
        (r"RULE:\/\\\(\)\n\t/\/\//", [(r"\/\\\(\)\n\t", r"\/\/", "")]),
        (r"RULE:\**\/+/*/L,RULE:\/*\**/**/", [(r"\**\/+", "*", "L"), (r"\/*\**", "**", "")]),
        (r"RULE:,RULE:,/,RULE:,\//U,RULE:,/RULE:,/,RULE:,RULE:,/L,RULE:,/L,RULE:, DEFAULT, /DEFAULT/,DEFAULT",
         [(",RULE:,", r",RULE:,\/", "U"), (",", "RULE:,", ""), (",RULE:,", "L,RULE:,", "L"),
          (", DEFAULT, ", "DEFAULT", ""), None]),
    ],
)  # fmt: skip
def test_rules_are_told_apart(text: str, split: list[tuple[str, str, str] | None]) -> None:
    assert [
        None if rule.pattern is None else (rule.pattern.pattern, rule.replacement, rule.case)
        for rule in rules_of(text)
    ] == split


def test_a_name_that_no_rule_matches_is_said_in_one_line_whatever_it_has() -> None:
    with pytest.raises(NoMatchError) as refused:
        mapped_name("RULE:CN=admin/$0/", "CN=x\n2026-01-01 INFO admin has logged in" + "y" * 10_000)
    assert "\n" not in str(refused.value)
    assert len(str(refused.value)) < 500
