"""CreateAcls (30), versions 1–3: new access control entries, each with its own result (KIP-140, KIP-290).

- An entry that exists already is a success and is not written again. All others are one batch of the metadata log, and
  in force in the turn in which it is appended; the response is sent once it is durable.
- INVALID_REQUEST for what is no entry: a cluster of another name, no name, no colon in the principal, a code of a later
  Kafka, a pattern, operation or permission that only a filter can have (where Kafka fails with UNKNOWN_SERVER_ERROR).
- More than 10,000 in one request: POLICY_VIOLATION for all of them.
"""

from oncelog.broker.handlers.shared.acl_requests import MOST_CHANGES, NO_AUTHORIZER, entry_of
from oncelog.broker.requests.context import RequestContext
from oncelog.broker.security.access_rules import entry_record
from oncelog.broker.turns.slices import Sliced, each
from oncelog.protocol.acls import CLUSTER_NAME, Acl, AclOperation, PatternType, Permission, ResourceType
from oncelog.protocol.errors import ErrorCode, KafkaError
from oncelog.protocol.generated.create_acls_request import CreateAclsRequest
from oncelog.protocol.generated.create_acls_response import AclCreationResult, CreateAclsResponse


def handle(context: RequestContext, request: CreateAclsRequest) -> Sliced[CreateAclsResponse]:
    authorizer = context.broker.authorizer
    if authorizer is None:
        return _refuse_all(request, KafkaError(NO_AUTHORIZER, "No Authorizer is configured."))
    if len(request.creations) > MOST_CHANGES:
        text = f"More than {MOST_CHANGES:,} access control entries in one request"
        return _refuse_all(request, KafkaError(ErrorCode.POLICY_VIOLATION, text))
    asked = yield from each(request.creations, entry_of)
    results = yield from each(asked, _judge)
    response = CreateAclsResponse(results=results)
    new = {
        acl: None
        for acl, result in zip(asked, results, strict=True)
        if not result.error_code and acl not in authorizer.rules
    }
    broker = context.broker
    written = broker.metadata.durable()  # one that exists already may be about to be
    if new:
        written = broker.metadata.write([entry_record(broker.entropy.uuid(), acl) for acl in new])
    yield written
    return _refuse_all(request, written.error) if isinstance(written.error, KafkaError) else response


def _refuse_all(request: CreateAclsRequest, error: KafkaError) -> CreateAclsResponse:
    refusal = AclCreationResult(error_code=error.code, error_message=error.message)
    return CreateAclsResponse(results=[refusal] * len(request.creations))


def _judge(acl: Acl) -> AclCreationResult:
    try:
        _check(acl)
    except KafkaError as error:
        return AclCreationResult(error_code=error.code, error_message=error.message)
    return AclCreationResult(error_message=None)


def _check(acl: Acl) -> None:
    """Make Kafka's checks, in its order. Raises KafkaError."""
    if acl.resource_type == ResourceType.CLUSTER and acl.resource_name != CLUSTER_NAME:
        raise _invalid(f"The only valid name for the CLUSTER resource is {CLUSTER_NAME}")
    if not acl.resource_name:
        raise _invalid("Invalid empty resource name")
    if acl.resource_type in (ResourceType.UNKNOWN, ResourceType.ANY):
        raise _invalid(f"Invalid resourceType {ResourceType(acl.resource_type).name}")
    if acl.pattern_type not in (PatternType.LITERAL, PatternType.PREFIXED):
        raise _invalid(f"Invalid patternType {PatternType(acl.pattern_type).name}")
    if acl.operation in (AclOperation.UNKNOWN, AclOperation.ANY):
        raise _invalid(f"Invalid operation {AclOperation(acl.operation).name}")
    if acl.permission not in (Permission.DENY, Permission.ALLOW):
        raise _invalid(f"Invalid permissionType {Permission(acl.permission).name}")
    if ":" not in acl.principal:
        raise _invalid(
            f"Could not parse principal from `{acl.principal[:300]}` (no colon is present separating the principal"
            " type from the principal name)"
        )


def _invalid(message: str) -> KafkaError:
    return KafkaError(ErrorCode.INVALID_REQUEST, message)
