"""`ssl.principal.mapping.rules` decides as in Kafka which user a certificate stands for."""

import pytest

from oncelog.broker.security.principal_rules import parse_principal_rules, user_of

ALICE = "CN=Alice,OU=ServiceUsers,O=Unknown,C=DE"


# The rules of KIP-371 and of Kafka's documentation, and what they give there.
@pytest.mark.parametrize(
    ("rules", "name", "user"),
    [
        ("DEFAULT", ALICE, ALICE),
        ("", ALICE, ALICE),
        ("RULE:^CN=(.*?),OU=ServiceUsers.*$/$1/", ALICE, "Alice"),
        ("RULE:^CN=(.*?),OU=ServiceUsers.*$/$1/L", ALICE, "alice"),
        ("RULE:^CN=(.*?),OU=(.*?),O=(.*?),C=(.*?)$/$1@$2/U , DEFAULT", ALICE, "ALICE@SERVICEUSERS"),
        ("RULE:^.*[Cc][Nn]=([a-zA-Z0-9.]*).*$/$1/L,DEFAULT", "OU=x", "OU=x"),
        ("RULE:^CN=(.*?),OU=nobody$/$1/, RULE:^CN=(.*?),.*$/\\/$1/", ALICE, "/Alice"),
        ("RULE:CN=(.*?),OU=ServiceUsers/$1/", ALICE, None),
        ("RULE:^CN=Bob.*$/bob/", ALICE, None),
    ],
)
def test_the_first_rule_that_matches_the_whole_name_decides(rules: str, name: str, user: str | None) -> None:
    assert user_of(parse_principal_rules(rules), name) == user


@pytest.mark.parametrize(
    "rules",
    [
        "default",
        "DEFAULT/L",
        "RULE:",
        "RULE:CN=(.*/$1",
        "RULE:CN=((.*/$1/",
        "RULE:CN=.*/$1/",
        "RULE:a/b/X",
        "DEFAULT,x",
    ],
)
def test_what_is_no_rule_is_refused(rules: str) -> None:
    with pytest.raises(ValueError, match="Invalid rule"):
        parse_principal_rules(rules)
