"""AlterUserScramCredentials (51), version 0: users of SCRAM, made, changed and deleted (KIP-554).

- One result per user, as in Kafka those without errors first. A second change of a user, deletions first, is
  DUPLICATE_RESOURCE for both, unless the first is impossible: then that is said.
- 4,096 to 16,384 iterations, else UNACCEPTABLE_CREDENTIAL; no such credential to delete: RESOURCE_NOT_FOUND.
- The client sends the salted password; the broker keeps the two keys made of it, in the metadata log, as Kafka. They
  count from the next login on; the response is sent once they are durable.
"""

from collections.abc import Mapping
from typing import Any

from oncelog.broker.cluster.security_state import SecurityState
from oncelog.broker.requests.context import RequestContext
from oncelog.broker.security.scram import MAX_ITERATIONS, MIN_ITERATIONS, SCRAM_MECHANISMS, keys_of
from oncelog.broker.turns.completion import Completion
from oncelog.protocol.errors import ErrorCode
from oncelog.protocol.generated.alter_user_scram_credentials_request import (
    AlterUserScramCredentialsRequest,
    ScramCredentialDeletion,
    ScramCredentialUpsertion,
)
from oncelog.protocol.generated.alter_user_scram_credentials_response import (
    AlterUserScramCredentialsResponse,
    AlterUserScramCredentialsResult,
)
from oncelog.protocol.generated.remove_user_scram_credential_record import RemoveUserScramCredentialRecord
from oncelog.protocol.generated.user_scram_credential_record import UserScramCredentialRecord

_BY_NUMBER = {mechanism.number: mechanism for mechanism in SCRAM_MECHANISMS.values()}

_Change = ScramCredentialDeletion | ScramCredentialUpsertion
Verdict = tuple[ErrorCode, str | None]
_ACCEPTED: Verdict = (ErrorCode.NONE, None)
_TWICE: Verdict = (
    ErrorCode.DUPLICATE_RESOURCE,
    "A user credential cannot be altered twice in the same request",
)


def handle(
    context: RequestContext, request: AlterUserScramCredentialsRequest
) -> AlterUserScramCredentialsResponse | Completion[AlterUserScramCredentialsResponse]:
    metadata = context.broker.metadata
    security: SecurityState = metadata.state.security
    known = security.scram_credentials
    verdicts: dict[str, Verdict] = {}
    records: dict[str, Any] = {}
    changes: list[_Change] = [*request.deletions, *request.upsertions]
    for change in changes:
        name = change.name
        if verdicts.get(name, _ACCEPTED) != _ACCEPTED:
            continue
        if name in verdicts:
            verdict = _TWICE
        elif isinstance(change, ScramCredentialDeletion):
            verdict = _of_deletion(change, (name, change.mechanism) in known)
        else:
            verdict = _of_upsertion(change)
        verdicts[name] = verdict
        if verdict == _ACCEPTED:
            records[name] = _record(change)
        else:
            records.pop(name, None)
    if not records:
        return _response(verdicts)
    return metadata.write(list(records.values())).map(
        lambda _: _response(verdicts),
        lambda error: _response(verdicts | dict.fromkeys(records, (error.code, error.message))),
    )


def _response(verdicts: Mapping[str, Verdict]) -> AlterUserScramCredentialsResponse:
    return AlterUserScramCredentialsResponse(
        results=[
            AlterUserScramCredentialsResult(user=name, error_code=error, error_message=text)
            for name, (error, text) in sorted(verdicts.items(), key=lambda each: each[1] != _ACCEPTED)
        ]
    )


def _of_either(name: str, mechanism: int) -> Verdict | None:
    if not name:
        return ErrorCode.UNACCEPTABLE_CREDENTIAL, "Username must not be empty"
    if mechanism not in _BY_NUMBER:
        return ErrorCode.UNSUPPORTED_SASL_MECHANISM, "Unknown SCRAM mechanism"
    return None


def _of_deletion(deletion: ScramCredentialDeletion, exists: bool) -> Verdict:
    missing = (ErrorCode.RESOURCE_NOT_FOUND, "Attempt to delete a user credential that does not exist")
    return _of_either(deletion.name, deletion.mechanism) or (_ACCEPTED if exists else missing)


def _of_upsertion(upsertion: ScramCredentialUpsertion) -> Verdict:
    refusal = _of_either(upsertion.name, upsertion.mechanism)
    if refusal is not None:
        return refusal
    if upsertion.iterations < MIN_ITERATIONS:
        return ErrorCode.UNACCEPTABLE_CREDENTIAL, "Too few iterations"
    if upsertion.iterations > MAX_ITERATIONS:
        return ErrorCode.UNACCEPTABLE_CREDENTIAL, "Too many iterations"
    return _ACCEPTED


def _record(change: _Change) -> Any:
    if isinstance(change, ScramCredentialDeletion):
        return RemoveUserScramCredentialRecord(name=change.name, mechanism=change.mechanism)
    keys = keys_of(_BY_NUMBER[change.mechanism], bytes(change.salted_password))
    return UserScramCredentialRecord(
        name=change.name,
        mechanism=change.mechanism,
        salt=bytes(change.salt),
        stored_key=keys.stored_key,
        server_key=keys.server_key,
        iterations=change.iterations,
    )
