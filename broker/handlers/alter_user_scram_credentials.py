"""AlterUserScramCredentials (51), version 0: there are none to delete, and none can be created (KIP-554).

Kafka stores credentials. Here SECURITY_DISABLED says that no listener would ever use them; what Kafka would reject gets
Kafka's error. One result per user, deletions before upsertions.
"""

from collections import Counter

from oncelog.broker.request import RequestContext
from oncelog.protocol.errors import ErrorCode
from oncelog.protocol.generated.alter_user_scram_credentials_request import (
    AlterUserScramCredentialsRequest,
    ScramCredentialUpsertion,
)
from oncelog.protocol.generated.alter_user_scram_credentials_response import (
    AlterUserScramCredentialsResponse,
    AlterUserScramCredentialsResult,
)

_MECHANISMS = (1, 2)
"""SCRAM-SHA-256 and SCRAM-SHA-512."""
_LEAST_ITERATIONS, _MOST_ITERATIONS = 4096, 16_384

Verdict = tuple[ErrorCode, str]


def handle(_: RequestContext, request: AlterUserScramCredentialsRequest) -> AlterUserScramCredentialsResponse:
    counts = Counter(upsertion.name for upsertion in request.upsertions)
    verdicts: dict[str, Verdict] = {}
    for upsertion in request.upsertions:
        verdicts[upsertion.name] = _of_upsertion(upsertion, counts[upsertion.name])
    for deletion in request.deletions:
        missing = (ErrorCode.RESOURCE_NOT_FOUND, "Attempt to delete a user credential that does not exist")
        verdicts[deletion.name] = _of_either(deletion.name, deletion.mechanism) or missing
    return AlterUserScramCredentialsResponse(
        results=[
            AlterUserScramCredentialsResult(user=name, error_code=error, error_message=text)
            for name, (error, text) in verdicts.items()
        ]
    )


def _of_either(name: str, mechanism: int) -> Verdict | None:
    if not name:
        return ErrorCode.UNACCEPTABLE_CREDENTIAL, "Username must not be empty"
    if mechanism not in _MECHANISMS:
        return ErrorCode.UNSUPPORTED_SASL_MECHANISM, "Unknown SCRAM mechanism"
    return None


def _of_upsertion(upsertion: ScramCredentialUpsertion, count: int) -> Verdict:
    refusal = _of_either(upsertion.name, upsertion.mechanism)
    if refusal is not None:
        return refusal
    if upsertion.iterations < _LEAST_ITERATIONS:
        return ErrorCode.UNACCEPTABLE_CREDENTIAL, "Too few iterations"
    if upsertion.iterations > _MOST_ITERATIONS:
        return ErrorCode.UNACCEPTABLE_CREDENTIAL, "Too many iterations"
    if count > 1:
        return ErrorCode.DUPLICATE_RESOURCE, "A user credential cannot be altered twice in the same request"
    return ErrorCode.SECURITY_DISABLED, "This broker has no SASL listener: credentials would never be used."
