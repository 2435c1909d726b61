"""DescribeUserScramCredentials (50), version 0: no user has credentials (KIP-554)."""

from collections import Counter

from oncelog.broker.request import RequestContext
from oncelog.protocol.errors import ErrorCode
from oncelog.protocol.generated.describe_user_scram_credentials_request import DescribeUserScramCredentialsRequest
from oncelog.protocol.generated.describe_user_scram_credentials_response import (
    DescribeUserScramCredentialsResponse,
    DescribeUserScramCredentialsResult,
)


def handle(_: RequestContext, request: DescribeUserScramCredentialsRequest) -> DescribeUserScramCredentialsResponse:
    counts = Counter(user.name for user in request.users or ())
    return DescribeUserScramCredentialsResponse(
        error_message="", results=[_result(name, count) for name, count in counts.items()]
    )


def _result(name: str, count: int) -> DescribeUserScramCredentialsResult:
    error = ErrorCode.RESOURCE_NOT_FOUND
    text = f"Attempt to describe a user credential that does not exist: {name}"
    if count > 1:
        error = ErrorCode.DUPLICATE_RESOURCE
        text = f"Cannot describe SCRAM credentials for the same user twice in a single request: {name}"
    # The name is in the response twice: a string of the protocol has at most 32,767 bytes.
    return DescribeUserScramCredentialsResult(user=name, error_code=error, error_message=text[:300])
