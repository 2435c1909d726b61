"""Requests and answers about delegation tokens: what a program passes and gets, whatever the broker's version."""

import pytest

from oncelog.client import ConfigError
from oncelog.client.admin.tokens import creation_request, described, description_request, renewal_request
from oncelog.protocol.generated.describe_delegation_token_response import (
    DescribedDelegationToken,
    DescribedDelegationTokenRenewer,
    DescribeDelegationTokenResponse,
)


def token(token_id: str, issued_ms: int, requester: str = "carol") -> DescribedDelegationToken:
    return DescribedDelegationToken(
        principal_type="User",
        principal_name="alice",
        token_requester_principal_type="User" if requester else "",
        token_requester_principal_name=requester,
        issue_timestamp=issued_ms,
        token_id=token_id,
        hmac=b"secret",
        renewers=[DescribedDelegationTokenRenewer("User", "bob")],
    )


def test_tokens_are_sorted_by_age_and_do_not_show_their_hmac() -> None:
    first, second = described(DescribeDelegationTokenResponse(tokens=[token("b", 2), token("a", 1)]))
    assert (first.token_id, second.token_id) == ("a", "b")
    assert (first.owner, first.requester, first.renewers) == ("User:alice", "User:carol", ("User:bob",))
    assert first.hmac == "c2VjcmV0"
    assert "c2VjcmV0" not in repr(first)


def test_a_broker_that_knows_no_requesters_means_the_owner() -> None:
    (found,) = described(DescribeDelegationTokenResponse(tokens=[token("a", 1, requester="")]))
    assert found.requester == "User:alice"


def test_no_owner_means_the_tokens_of_all() -> None:
    """An empty list would select none."""
    assert description_request(()).owners is None


@pytest.mark.parametrize("name", ["bob", "User:", ":bob", ""])
def test_what_is_no_principal_is_refused_with_the_form_it_has(name: str) -> None:
    with pytest.raises(ConfigError, match="is no principal"):
        creation_request(name, (), -1)
    with pytest.raises(ConfigError, match="is no principal"):
        creation_request(None, [name], -1)


def test_one_renewer_alone_is_no_list() -> None:
    with pytest.raises(ConfigError, match=r"renewers=\['User:bob'\]"):
        creation_request(None, "User:bob", -1)


@pytest.mark.parametrize("hmac", ["not base64!", "c2VjcmV", "sécret"])
def test_an_hmac_that_is_none_is_refused_and_not_shown(hmac: str) -> None:
    with pytest.raises(ConfigError, match="not base64") as caught:
        renewal_request(hmac, -1)
    assert hmac not in str(caught.value)
