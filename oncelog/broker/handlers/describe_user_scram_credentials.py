"""DescribeUserScramCredentials (50), version 0: which users have credentials, by which mechanism, with how many
iterations (KIP-554). Never keys or salts.

No users, or null: all of them. A user without credentials: RESOURCE_NOT_FOUND; one named twice: DUPLICATE_RESOURCE.
"""

from collections import Counter
from collections.abc import Mapping

from oncelog.broker.cluster.security_state import SecurityState
from oncelog.broker.requests.context import RequestContext
from oncelog.protocol.errors import ErrorCode
from oncelog.protocol.generated.describe_user_scram_credentials_request import DescribeUserScramCredentialsRequest
from oncelog.protocol.generated.describe_user_scram_credentials_response import (
    CredentialInfo,
    DescribeUserScramCredentialsResponse,
    DescribeUserScramCredentialsResult,
)


def handle(
    context: RequestContext, request: DescribeUserScramCredentialsRequest
) -> DescribeUserScramCredentialsResponse:
    security: SecurityState = context.broker.metadata.state.security
    known: dict[str, list[CredentialInfo]] = {}
    for (name, mechanism), credential in sorted(security.scram_credentials.items()):
        info = CredentialInfo(mechanism=mechanism, iterations=credential.iterations)
        known.setdefault(name, []).append(info)
    counts = Counter([user.name for user in request.users or ()] or list(known))
    return DescribeUserScramCredentialsResponse(
        error_message="", results=[_result(name, count, known) for name, count in counts.items()]
    )


def _result(name: str, count: int, known: Mapping[str, list[CredentialInfo]]) -> DescribeUserScramCredentialsResult:
    error, text = ErrorCode.NONE, None
    if count > 1:
        error = ErrorCode.DUPLICATE_RESOURCE
        text = f"Cannot describe SCRAM credentials for the same user twice in a single request: {name}"
    elif name not in known:
        error = ErrorCode.RESOURCE_NOT_FOUND
        text = f"Attempt to describe a user credential that does not exist: {name}"
    return DescribeUserScramCredentialsResult(
        user=name,
        error_code=error,
        # The name is in the response twice: a string of the protocol has at most 32,767 bytes.
        error_message=None if text is None else text[:300],
        credential_infos=known.get(name, ()) if error is ErrorCode.NONE else (),
    )
