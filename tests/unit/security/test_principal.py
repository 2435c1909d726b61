"""Principals are written and read as Kafka's."""

import pytest

from oncelog.broker.security.principal import ANONYMOUS, Principal, parse_principal


@pytest.mark.parametrize("name", ["alice", "CN=alice,OU=a:b", "ANONYMOUS"])
def test_what_is_written_is_read_again(name: str) -> None:
    assert parse_principal(str(Principal("User", name))) == Principal("User", name)


@pytest.mark.parametrize("text", ["", "alice", "User:", ":alice"])
def test_what_has_no_kind_or_no_name_is_refused(text: str) -> None:
    with pytest.raises(ValueError, match="of the form User:NAME"):
        parse_principal(text)


def test_a_client_without_a_login_is_kafkas_anonymous() -> None:
    assert str(ANONYMOUS) == "User:ANONYMOUS"
