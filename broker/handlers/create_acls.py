"""CreateAcls (30), versions 1–3: SECURITY_DISABLED for each, Kafka's answer without an authorizer."""

from oncelog.broker.request import RequestContext
from oncelog.protocol.errors import ErrorCode
from oncelog.protocol.generated.create_acls_request import CreateAclsRequest
from oncelog.protocol.generated.create_acls_response import AclCreationResult, CreateAclsResponse


def handle(_: RequestContext, request: CreateAclsRequest) -> CreateAclsResponse:
    refused = AclCreationResult(error_code=ErrorCode.SECURITY_DISABLED, error_message="No Authorizer is configured.")
    return CreateAclsResponse(results=[refused] * len(request.creations))
